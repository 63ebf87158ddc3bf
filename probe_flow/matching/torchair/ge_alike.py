"""Tell whether operators of two device dumps look alike: by their tensors, and by what ran before them."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.matching.torchair.arguments import fact
from probe_flow.matching.torchair.nodes import DumpedNode
from probe_flow.matching.torchair.notes import unusable
from probe_flow.records import NodeKey, Reason, TensorRef


def unusable_golden(golden: TensorRef) -> Reason | None:
    """Return why a golden tensor cannot be compared with anything."""
    reason = unusable(golden)
    return reason and Reason(reason.code, f"golden `{golden.id}`: {reason.text}", reason.expectation)


def are_alike(first: Sequence[TensorRef], second: Sequence[TensorRef]) -> bool:
    """Tell whether tensors agree one by one in class of type and element count, as far as they are known."""
    if len(first) != len(second):
        return False
    facts = ((fact(one), fact(other)) for one, other in zip(first, second, strict=True))
    return all(one == other or None in (one, other) for one, other in facts)


def have_like_tensors(first: DumpedNode, second: DumpedNode) -> bool:
    """Tell whether the inputs and outputs of two operators agree one by one."""
    return are_alike(first.inputs, second.inputs) and are_alike(first.outputs, second.outputs)


def predecessors(nodes: Sequence[DumpedNode]) -> dict[NodeKey, tuple[str, ...]]:
    """Return for each node the parts of the last graph operator that ran before it."""
    found: dict[NodeKey, tuple[str, ...]] = {}
    last: tuple[str, ...] = ()
    for node in nodes:
        found[node.node.key] = last
        last = node.parts or last
    return found
