"""What the output of a fused operator may be off by, part by part, where the graph says how its parts are joined.

Of a fused operator only what enters and leaves is dumped. Taken together its inputs say little: in ``x + 1000 * y``
the factor is the largest input and no term of the sum. Followed through the parts, what lies between has a size and an
error of its own. Only elementwise parts are followed: bounds of their results need nothing but the operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from probe_flow.analysis.model.deviation import TINY, Deviation
from probe_flow.analysis.model.families import Family, family_of
from probe_flow.analysis.model.growth import Allowance, allowance
from probe_flow.records import Graph, GraphOp, Node, Pairs

_PRODUCTS = frozenset(("Mul", "Muls"))
_UP_TO_ONE = frozenset(("Sigmoid", "HardSigmoid", "Tanh", "Cos", "Sin", "Erf"))
_SHRINKING = frozenset(("Relu", "LeakyRelu", "Gelu", "Swish", "Silu", "Neg", "Abs", "HardSwish"))
"""Their results are no larger than what they read; those of the row above no larger than 1."""


def types_of_parts(pairs: Pairs) -> Mapping[str, str]:
    """Return the types of the operators that fused ones were made of, by name: of most dumps few operators."""
    parts = {part for node in pairs.target.nodes.values() for part in node.originals}
    if not parts:
        return {}
    found = {key.name: node.op_type for key, node in pairs.golden.nodes.items() if node.op_type and key.name in parts}
    found.update((op.name, op.op_type) for graph in pairs.target.graphs for op in graph.ops if op.name in parts)
    return found


class FusedParts:
    """The parts of fused operators, looked up in the graphs of the target."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._graphs = graphs

    @cached_property
    def _ops(self) -> Mapping[object, Mapping[str, GraphOp]]:
        """The operators of each graph by name; made when a fused one asks for its parts."""
        found: dict[object, dict[str, GraphOp]] = {}
        for graph in self._graphs:  # the ranks of one graph run the same text
            found.setdefault(graph.id, {}).update((op.name, op) for op in graph.ops)
        return found

    def operators(self, node: Node) -> tuple[GraphOp, ...]:
        """Return the parts in the order of the name; empty where the node is not fused or one is not in its graph."""
        if len(node.originals) < 2:
            return ()
        known = self._ops.get(node.key.execution.graph, {})
        parts = tuple(known[name] for name in node.originals if name in known)
        return parts if len(parts) == len(node.originals) else ()

    def allowance(self, node: Node, output: Deviation, inputs: Mapping[int, Deviation]) -> Allowance | None:
        """Return what the only result of a fused operator may be off by.

        Args:
            node: the fused operator.
            output: deviation of the result of its last part.
            inputs: deviation of each dumped input, by its number.

        Returns:
            None where the graph does not have the parts, an input was not compared, parts are not elementwise, or other
            tensors enter than those that the graph names.
        """
        parts = self.operators(node)
        entering = _entering(parts)
        if not parts or set(inputs) != set(range(len(entering))):
            return None
        last = max(parts, key=lambda part: part.position)
        inner: dict[str, Deviation] = {}
        for part in sorted(parts, key=lambda part: part.position):
            operands, between = [], []
            for slot, source in enumerate(part.inputs):
                if source is not None:
                    place = entering.get((part.name, slot))
                    operands.append(inner[source[0]] if place is None else inputs[place])
                    between.append(place is None)
            if not _is_followed(part, operands):
                return None
            if part is last:
                operands = _by_result(operands, between, output) if part.op_type in _PRODUCTS else operands
                return allowance(family_of(part.op_type), output, operands)
            if part.op_type in _PRODUCTS and any(between):
                return None
            inner[part.name] = _result(part, operands, output)
        return None


def _entering(parts: Sequence[GraphOp]) -> dict[tuple[str, int], int]:
    """Return (part, slot) -> number of the dumped input: what enters part by part, as the matcher counts."""
    names = {part.name for part in parts}
    found: dict[tuple[str, int], int] = {}
    for part in parts:
        for slot, source in enumerate(part.inputs):
            if source is not None and source[0] not in names:
                found[part.name, slot] = len(found)
    return found


def _is_followed(part: GraphOp, operands: Sequence[Deviation]) -> bool:
    if part.op_type in _PRODUCTS or family_of(part.op_type) is Family.SUM:
        return len(operands) == 2
    return part.op_type in _UP_TO_ONE | _SHRINKING and len(operands) == 1


def _by_result(operands: Sequence[Deviation], between: Sequence[bool], output: Deviation) -> list[Deviation]:
    """Return the factors of a product; of one that was not dumped the size is what the result needs at least.

    Its error is relative to that in a product, and sums may leave far less than their terms.
    """
    found = []
    for number, operand in enumerate(operands):
        least = output.size / max(operands[1 - number].top, TINY)
        found.append(replace(operand, size=min(operand.size, least)) if between[number] else operand)
    return found


def _result(part: GraphOp, operands: Sequence[Deviation], output: Deviation) -> Deviation:
    """Return the largest result, and error of it, that a part may hand on; stored as the output is."""
    first, last = operands[0], operands[-1]
    if part.op_type in _PRODUCTS:
        size, top = min(first.size * last.top, first.top * last.size), first.top * last.top
    elif part.op_type in _UP_TO_ONE:
        size = top = 1.0
    elif part.op_type in _SHRINKING:
        size, top = first.size, first.top
    else:
        size, top = first.size + last.size, first.top + last.top
    count = max(operand.count for operand in operands)
    result = replace(output, size=size, top=top, spread=size, count=count, least=0.0, nonfinite=0)
    allowed = allowance(family_of(part.op_type), result, operands)
    return replace(result, rms=allowed.rms, peak=allowed.peak, gain=allowed.gain, offset=0.0)


def tightest(one: Allowance, other: Allowance) -> Allowance:
    """Return what both leave: each bounds the error of a sound operator."""
    smaller = one if one.rms <= other.rms else other
    return Allowance(
        smaller.floor,
        smaller.explained,
        min(one.peak, other.peak),
        min(one.gain, other.gain),
        smaller.scale,
        min(one.offset, other.offset),
    )
