"""Operators that ran, by what a dump says beside its values, although no output of them is in it.

What tells that an operator ran, by the format of the dump:

- dump.json: stack.json and construct.json (`dumps.dump_json.unrecorded_calls`), and entries without outputs where the
  collector writes some.
- TorchAir, device: the graph text.
- TorchAir, FX: the FX names in the graph text of the device, so only beside a device dump.
- Offline models, device: the fusion rules, which list the operators of the compiled graph.
- Folders of arrays, MindSpore graphs: nothing that the catalog holds. What a model file of a framework lists may be
  folded or fused away, and what a folder of arrays should hold is nowhere written.

Whatever can have left an operator out of a healthy dump, is taken for the cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from probe_flow.analysis.silent_graph_operators import silent_on_device, silent_under_fx
from probe_flow.dumps.selection import Selection, selected_nodes
from probe_flow.errors import Diagnostic, Severity
from probe_flow.records import (
    CallFacts,
    Catalog,
    Execution,
    NodeKey,
    NodeKind,
    Pairs,
    Phase,
    SlotRole,
)
from probe_flow.records.frameworks import TORCHAIR_FX, TORCHAIR_GE

Evidence = Literal["graph", "stack", "calls", "entry", "rules"]


class SilentOperator(Struct, frozen=True):
    """An operator that ran and of which outputs are missing in the dump.

    Args:
        node: its key, as it would be in the catalog; it is there when the dump holds other tensors of the operator.
        op_type: its type.
        outputs: how many outputs are missing at least.
        evidence: what tells that it ran: a graph text, stack.json, construct.json, its own entry in the
            dump, or fusion rules.
    """

    node: NodeKey
    op_type: str
    outputs: int
    evidence: Evidence


_SHOWN = 3


def silent_sides(pairs: Pairs) -> Mapping[str, tuple[SilentOperator, ...]]:
    """Return the silent operators of ``target`` and ``golden`` that were to be compared.

    None where a mapping or the selection of one side leaves a part of the other out: nothing tells whether that names
    what is not there.
    """
    if any(pair.reason is not None and pair.reason.kind.narrows for pair in pairs.pairs):
        return {}
    return {
        "target": silent_operators(pairs.target, pairs.golden),
        "golden": silent_operators(pairs.golden, pairs.target),
    }


def silence_problems(silent: Mapping[str, Sequence[SilentOperator]], pairs: Pairs) -> Iterator[Diagnostic]:
    """Yield a warning (PF5118) per side of which operators are silent."""
    for side, operators in silent.items():
        if not operators:
            continue
        shown = ", ".join(f"`{each.node.name}`" for each in operators[:_SHOWN])
        more = f" and {len(operators) - _SHOWN} more" if len(operators) > _SHOWN else ""
        yield Diagnostic(
            "PF5118",
            f"{len(operators)} operator{'s' if len(operators) > 1 else ''} of the {side} ran and left no output in the "
            f"dump: {shown}{more}",
            severity=Severity.WARNING,
            path=pairs.target.root if side == "target" else pairs.golden.root,
            help="dump again if files were lost or the dump was stopped; name what is meant with `select` if it is a "
            "part",
            notes=(f"{_TOLD_BY[operators[0].evidence]} says that they ran",),
            fields={"operators": [each.node.name for each in operators]},
        )


_TOLD_BY: Mapping[Evidence, str] = {
    "graph": "the graph text",
    "stack": "stack.json",
    "calls": "construct.json",
    "entry": "dump.json",
    "rules": "the file of fusion rules",
}


def silent_operators(catalog: Catalog, other: Catalog | None = None) -> tuple[SilentOperator, ...]:
    """Return the operators of a dump that ran without an output of them in it.

    Args:
        catalog: what was read of the dump.
        other: the other side of the comparison, whose graph texts serve where the dump has none of its own.

    Returns:
        One per operator and execution; none where the dump tells nothing of what ran, and for what `select` left out.
    """
    if catalog.framework == TORCHAIR_GE:
        found = silent_on_device(catalog, other)
    elif catalog.framework == TORCHAIR_FX:
        found = silent_under_fx(catalog, other)
    elif catalog.attrs.get("format") == "dump_json":
        return tuple(_silent_calls(catalog))
    else:
        takes = Selection(nodes=selected_nodes(catalog)).node_filter()
        return tuple(
            SilentOperator(node.key, node.op_type, outputs, "rules")
            for node in catalog.nodes.values()
            if node.rules is not None
            and (outputs := node.rules.silent_outputs) is not None
            and any(takes(name) for name in (node.key.name, node.clean_name or node.key.name))
        )
    return tuple(SilentOperator(node, op_type, outputs, "graph") for node, op_type, outputs in found)


def _silent_calls(catalog: Catalog) -> Iterator[SilentOperator]:
    """Yield the calls without an entry, then those whose entry lacks the outputs that it should have."""
    with_outputs = {tensor.node for tensor in catalog.tensors if tensor.slot.role is SlotRole.OUTPUT}
    written = {key.phase for key in with_outputs} - {Phase.NONE}  # a dump may be of inputs only, or of one direction
    unfinished = _maybe_unfinished(catalog, with_outputs)
    bare = [key for key in catalog.nodes if key not in with_outputs and key.phase in written]
    keys = (*(node.key for node in catalog.undumped), *bare)
    asked = _asked_for(catalog, {_forward(key) for key in keys if key.phase is Phase.BACKWARD})
    for node in catalog.undumped:
        key, evidence = node.key, node.facts.evidence if isinstance(node.facts, CallFacts) else None
        if evidence is not None and (key.phase is not Phase.BACKWARD or asked[_forward(key)] != {False}):
            yield SilentOperator(key, node.op_type, 1, "stack" if evidence == "stack" else "calls")
    for key in bare:
        if (True in asked[_forward(key)]) if key.phase is Phase.BACKWARD else (key not in unfinished):
            yield SilentOperator(key, catalog.nodes[key].op_type, 1, "entry")


def _forward(key: NodeKey) -> NodeKey:
    return NodeKey(key.execution, key.name, key.call)


def _asked_for(catalog: Catalog, calls: Collection[NodeKey]) -> Mapping[NodeKey, Collection[object]]:
    """Say of the inputs of some forward calls whether they require gradients: what the backward call gives.

    That of a module gives those of its positional arguments alone (torch's backward hooks of modules).
    """
    asked: dict[NodeKey, set[object]] = {key: set() for key in calls}
    modules = {key for key in calls if key in catalog.nodes and catalog.nodes[key].kind is NodeKind.MODULE}
    for tensor in catalog.tensors if asked else ():
        if tensor.slot.role is not SlotRole.INPUT or tensor.requires_grad is None or tensor.node not in asked:
            continue
        if tensor.node not in modules or isinstance(tensor.slot.path[0], int):
            asked[tensor.node].add(tensor.requires_grad)
    return asked


def _maybe_unfinished(catalog: Catalog, with_outputs: Collection[NodeKey]) -> set[NodeKey]:
    """Return forward calls that may have been left before their end: checkpointed modules that are computed again.

    A recomputation ends with the last value that the backward phase asks for. Only modules can be recomputed before the
    first backward call of the dump ends. The call that is left has no caller, so its name alone tells what it repeats.
    """
    found: set[NodeKey] = set()
    done: set[tuple[Execution, str]] = set()
    backward = {key.execution for key in catalog.nodes if key.phase is Phase.BACKWARD}
    begun: set[Execution] = set()
    for key, node in catalog.nodes.items() if backward else ():
        if key.phase is Phase.BACKWARD:
            begun.add(key.execution)
        elif key.phase is Phase.FORWARD and key.execution in backward:
            place = (key.execution, key.name)
            if key in with_outputs:
                done.add(place)
            elif place in done and (key.execution in begun or node.kind is NodeKind.MODULE):
                found.add(key)
    return found
