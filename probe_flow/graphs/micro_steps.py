"""Micro steps of a graph: what the dump records of them, else by position: each is a forward and a backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from probe_flow.records import CallFacts, Node
from probe_flow.records.model_graph import GRAPH_ROOT, NO_PARTNER, GraphKind, GraphLayout, ModelGraph


def micro_steps(
    names: Sequence[str],
    kinds: Sequence[GraphKind],
    calls: Sequence[Node | None],
    children: Mapping[int, Sequence[int]],
    layout: GraphLayout,
) -> tuple[Sequence[int | None], int]:
    """Return the micro step of each node of a graph, and how many there are.

    Args:
        names, kinds, calls: of the nodes, the root first.
        children: of each node that has some.
        layout: by whose rules. Version 1.2.1 of msprobe knows no recorded ones, and numbers what lies below the root.
    """
    found: list[int | None] = [None] * len(names)
    if layout is not GraphLayout.MSPROBE_VIS:
        recorded = [_recorded(call) for call in calls]
        if recorded.count(None) < len(recorded):
            for number in range(1, len(names)):
                if kinds[number] is GraphKind.COLLECTION:
                    found[number] = recorded[children[number][0]] or 0
                elif ".parameters_grad" not in names[number]:
                    found[number] = recorded[number] or 0
            if layout is GraphLayout.OWN:
                _spread(found, children)
            return found, 1 + max(each for each in recorded if each is not None)
    step, is_backward = 0, False
    for number in children[GRAPH_ROOT]:
        if kinds[number] is GraphKind.MODULE:
            if ".forward." not in names[number]:
                is_backward = True
            elif is_backward:
                step, is_backward = step + 1, False
        found[number] = step
    if layout is not GraphLayout.MSPROBE_VIS:
        _spread(found, children)
    return found, step + 1


def with_steps_of(golden: ModelGraph, target: ModelGraph, partners: Sequence[int], layout: GraphLayout) -> ModelGraph:
    """Return the golden graph with the micro steps of the target's, so that a viewer shows partners on one page.

    What lies below the root without a partner gets the number that its name ends in, 0 where that is none.

    Args:
        golden, target: the graphs.
        partners: golden node of each target node.
        layout: by whose rules.
    """
    is_deep = layout is not GraphLayout.MSPROBE_VIS
    found: list[int | None] = [_recorded(node.call) if is_deep else None for node in golden.nodes]
    if found.count(None) < len(found):
        found = [node.micro_step for node in golden.nodes]
    if not (is_deep and any(_recorded(node.call) is not None for node in target.nodes)):
        for number in target.children[GRAPH_ROOT]:
            if partners[number] != NO_PARTNER:
                found[partners[number]] = target.nodes[number].micro_step
        for number in golden.children[GRAPH_ROOT]:
            if found[number] is None:
                last = golden.nodes[number].name.rpartition(".")[2]
                found[number] = int(last) if last.isascii() and last.isdecimal() else 0
        if is_deep:
            _spread(found, dict(enumerate(golden.children)))
    nodes = [
        node if node.micro_step == step else replace(node, micro_step=step)
        for node, step in zip(golden.nodes, found, strict=True)
    ]
    return replace(golden, nodes=nodes)


def _recorded(call: Node | None) -> int | None:
    return call.facts.micro_step if call is not None and isinstance(call.facts, CallFacts) else None


def _spread(steps: list[int | None], children: Mapping[int, Sequence[int]]) -> None:
    """Give every node without a micro step that of the node around it."""
    due = [GRAPH_ROOT]
    while due:
        number = due.pop()
        step = steps[number]
        inside = children.get(number, ())
        if step is not None:
            for each in inside:
                if steps[each] is None:
                    steps[each] = step
        due += inside
