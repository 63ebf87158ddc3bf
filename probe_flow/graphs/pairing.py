"""Which golden node is the partner of a target node, by the rules of msprobe: exact, fuzzy, or by a layer mapping.

Exact: equal names and equal names of all nodes around, a collection among them, so that one more call of an API at the
top separates all later ones. Fuzzy: modules of one name, and the n-th call of an API inside of them. Version 1.2.1
compares types and shapes too. Source: `msprobe.visualization`, versions 1.2.1 and 26.2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from probe_flow.records import TensorKind, TensorRef
from probe_flow.records.model_graph import GRAPH_ROOT, NO_PARTNER, GraphKind, GraphLayout, ModelGraph

_COUNT = re.compile(r"\.\d+\.")
_RANK = re.compile(r"_rank\d+")


def reached(graph: ModelGraph) -> Iterator[int]:
    """Yield the nodes that the root holds, each before those inside it."""
    due = [GRAPH_ROOT]
    while due:
        number = due.pop()
        yield number
        due += reversed(graph.children[number])


def exact(target: ModelGraph, golden: ModelGraph) -> list[int]:
    """Return the partner of each node: of the same name, below nodes of the same names."""
    found = [NO_PARTNER] * len(target.nodes)
    below: dict[int, int] = {GRAPH_ROOT: GRAPH_ROOT}  # nodes whose names around are equal, whatever they hold
    checks_items = target.layout is GraphLayout.MSPROBE_VIS
    found[GRAPH_ROOT] = GRAPH_ROOT
    for number in reached(target):
        node = target.nodes[number]
        other = golden.numbers.get(node.name)
        if other is None or number == GRAPH_ROOT:
            continue
        if below.get(node.parent, NO_PARTNER) != golden.nodes[other].parent:
            continue
        below[number] = other
        if not checks_items or _have_equal_items(target, number, golden, other):
            found[number] = other
    return found


def fuzzy(target: ModelGraph, golden: ModelGraph) -> list[int]:
    """Return the partner of each node; calls of APIs are counted inside the module that made them."""
    found = [NO_PARTNER] * len(target.nodes)
    checks_shapes = target.layout is GraphLayout.MSPROBE_VIS
    for number in reached(target):
        node = target.nodes[number]
        other = golden.numbers.get(node.name)
        if node.kind is GraphKind.API or other is None:
            continue
        if checks_shapes and not _have_equal_shapes(target, number, golden, other):
            continue
        found[number] = other
        theirs = _counted(golden, other)
        for name, child in _counted(target, number).items():
            partner = theirs.get(name)
            if partner is not None and (not checks_shapes or _have_equal_shapes(target, child, golden, partner)):
                found[child] = partner
    return found


def mapped(target: ModelGraph, golden: ModelGraph, mapping: Mapping[str, str | None]) -> list[int]:
    """Return the partner of each node by a mapping of names, in which what is not named keeps its name.

    Args:
        target, golden: the graphs.
        mapping: name in the target -> name in the golden; None where it has no partner.
    """
    found = [NO_PARTNER] * len(target.nodes)
    for number in reached(target):
        name = target.nodes[number].name
        found[number] = golden.numbers.get(mapping.get(name, name) or "", NO_PARTNER)
    return found


def _counted(graph: ModelGraph, number: int) -> dict[str, int]:
    """Return the API calls that a node made: name without call number, with the running number in its place."""
    counts: dict[str, int] = {}
    found: dict[str, int] = {}
    for child in graph.children[number]:
        if graph.nodes[child].kind is GraphKind.API:
            name = _COUNT.sub(".", graph.nodes[child].name)
            if graph.layout is not GraphLayout.MSPROBE_VIS:
                name = _RANK.sub("", name)
            counts[name] = counts.get(name, 0) + 1
            found[f"{name}{counts[name]}"] = child
    return found


def _type_and_shape(tensor: TensorRef) -> tuple[object, object]:
    """Return what version 1.2.1 compares of two items."""
    if tensor.has_numbers:
        return TensorKind.TENSOR, tensor.logical_shape if tensor.logical_shape is not None else tensor.shape
    if tensor.kind is TensorKind.NULL:
        return None, None
    return tensor.stored_dtype, str(tensor.value) if tensor.stored_dtype == "torch.Size" else "[]"


def _items(graph: ModelGraph, number: int) -> list[list[tuple[object, object]]]:
    """Return type and shape of what a node reads, and of what it gives."""
    found: list[list[tuple[object, object]]] = [[], []]
    for tensor in graph.tensors_of(number):
        found[graph.is_output(tensor)].append(_type_and_shape(tensor))
    return found


def _have_equal_items(target: ModelGraph, number: int, golden: ModelGraph, other: int) -> bool:
    return _items(target, number) == _items(golden, other)


def _have_equal_shapes(target: ModelGraph, number: int, golden: ModelGraph, other: int) -> bool:
    """Return True if the shapes are equal as far as both sides have items."""
    sides = zip(_items(target, number), _items(golden, other), strict=True)
    return all(one == two for mine, theirs in sides for (_, one), (_, two) in zip(mine, theirs, strict=False))
