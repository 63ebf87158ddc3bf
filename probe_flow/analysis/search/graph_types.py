"""What two graphs of one step say of their operators: types and layouts that differ, and casts that lose values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from probe_flow.analysis.number_types import MAX_HALF
from probe_flow.dumps.rules.records import RuleFile, RuleOp, RuleOutput
from probe_flow.records import Catalog, Comparison, Finding, FindingKind, NodeKey, Pairs, SlotRole
from probe_flow.records.frameworks import NO_FRAMEWORK

IGNORED = frozenset(
    {"TransData", "Cast", "Recv", "Send", "Variable", "NetOutput", "NoOp", "Assign", "Constant", "StreamActive"}
)
"""Types of operators that compilers add, move and drop without any meaning."""

_FLOATS = frozenset({"DT_FLOAT", "DT_FLOAT16", "DT_BF16", "DT_DOUBLE"})
_INTEGERS = frozenset(
    {"DT_INT8", "DT_INT16", "DT_INT32", "DT_INT64", "DT_UINT8", "DT_UINT16", "DT_UINT32", "DT_UINT64"}
)
_NARROW = MappingProxyType({("DT_INT64", "DT_INT32"): "values beyond 32 bits are lost"})
_TO_HALF = frozenset({("DT_FLOAT", "DT_FLOAT16"), ("DT_DOUBLE", "DT_FLOAT16")})
_SHOWN = 5


class DangerousCast(Struct, frozen=True):
    """A cast that may lose values: the operator, its types, and what it loses."""

    op: RuleOp
    source: str
    result: str
    why: str


class Likeness(Struct, frozen=True):
    """How alike two graphs are.

    Args:
        compared: operators of both that count.
        alike: those of them whose outputs have the same type, layout and shape.
        differing: the others, each with what differs.
        only_one, only_other: names of one graph alone.
    """

    compared: int
    alike: int
    differing: tuple[tuple[RuleOp, str], ...]
    only_one: tuple[str, ...]
    only_other: tuple[str, ...]

    @property
    def share(self) -> float | None:
        """Share of alike operators, None where no name is in both; equal graphs reach 1."""
        return self.alike / self.compared if self.compared else None


def _ops(files: Iterable[RuleFile]) -> dict[str, RuleOp]:
    found: dict[str, RuleOp] = {}
    for file in files:
        for graph in file.graphs:
            for op in graph.ops:
                found.setdefault(op.name, op)
    return found


def likeness(one: Sequence[RuleFile], other: Sequence[RuleFile]) -> Likeness:
    """Compare the operators of two graphs, or of several each, by their names."""
    mine, theirs = (
        {name: op for name, op in _ops(files).items() if op.op_type not in IGNORED} for files in (one, other)
    )
    both = [name for name in mine if name in theirs]
    differing = [(mine[name], text) for name in both if (text := _difference(mine[name], theirs[name]))]
    return Likeness(
        len(both),
        len(both) - len(differing),
        tuple(differing),
        tuple(name for name in mine if name not in theirs),
        tuple(name for name in theirs if name not in mine),
    )


def _difference(one: RuleOp, other: RuleOp) -> str:
    """Return what differs between the outputs of two operators; empty if nothing does."""
    if len(one.outputs) != len(other.outputs):
        return f"{len(one.outputs)} outputs and {len(other.outputs)}"
    texts = []
    for index, pair in enumerate(zip(one.outputs, other.outputs, strict=True)):
        for what, values in _facts(*pair).items():
            if values[0] != values[1] and None not in values and "" not in values:
                texts.append(f"{what} of output {index}: {values[0]} and {values[1]}")
    return "; ".join(texts)


def _facts(one: RuleOutput, other: RuleOutput) -> Mapping[str, tuple[object, object]]:
    shapes = [None if each.shape is None else list(each.shape) for each in (one, other)]
    return {"type": (one.dtype, other.dtype), "layout": (one.layout, other.layout), "shape": (shapes[0], shapes[1])}


def dangerous_casts(files: Sequence[RuleFile], comparison: Comparison | None = None) -> Iterator[DangerousCast]:
    """Yield the casts of graphs that lose values by their types; those to float16 where values say that they do."""
    ops = _ops(files)
    largest = _largest_inputs(comparison) if comparison is not None else {}
    for op in ops.values():
        if op.op_type != "Cast" or not op.inputs or not op.outputs:
            continue
        name, _, index = op.inputs[0].rpartition(":")
        producer = ops.get(name)
        if producer is None or not index.isdigit() or int(index) >= len(producer.outputs):
            continue
        source, result = producer.outputs[int(index)].dtype, op.outputs[0].dtype
        why = _loss(source, result, largest.get(op.name))
        if why is not None:
            yield DangerousCast(op, source, result, why)


def _loss(source: str, result: str, largest: float | None) -> str | None:
    if source in _FLOATS and result in _INTEGERS:
        return "fractions and values beyond its range are lost"
    if (source, result) in _TO_HALF:
        is_beyond = largest is not None and not largest <= MAX_HALF
        return f"a value of {largest:.6g} is beyond {MAX_HALF:g}" if is_beyond else None
    return _NARROW.get((source, result))


def _largest_inputs(comparison: Comparison) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in comparison.rows:
        target, measured = row.pair.target, row.measurement
        if target is None or measured is None or target.slot.role is not SlotRole.INPUT:
            continue
        side = measured.target
        ends = (side.statistics.min, side.statistics.max) if side is not None else ()
        values = [abs(float(end)) for end in ends if end is not None]
        if values:
            found[target.node.name] = max(*values, found.get(target.node.name, 0.0))
    return found


def graph_findings(
    one: Sequence[RuleFile], other: Sequence[RuleFile], comparison: Comparison | None
) -> tuple[Finding, ...]:
    """Return remarks about casts, and where there are two graphs about what differs between them."""
    known: dict[str, NodeKey] = {}
    if comparison is not None:
        known = {key.name: key for key in reversed(tuple(comparison.pairs.target.nodes))}
    found = [
        _remark(
            f"the cast `{cast.op.name}` turns {cast.source} into {cast.result}: {cast.why}; keep it in the wider type "
            "if its result matters",
            known.get(cast.op.name),
        )
        for cast in dangerous_casts(one, comparison)
    ]
    return (
        (*found, *(_remark(text, key) for text, key in _unlike(likeness(one, other), known))) if other else tuple(found)
    )


def _unlike(found: Likeness, known: Mapping[str, NodeKey]) -> Iterator[tuple[str, NodeKey | None]]:
    share = "none" if found.share is None else f"{found.share:.1%}"
    alone = len(found.only_one) + len(found.only_other)
    text = f"the two graphs are alike in {found.alike} of {found.compared} operators ({share})"
    if alone:
        names = ", ".join(f"`{name}`" for name in (*found.only_one, *found.only_other)[:_SHOWN])
        text += f"; {len(found.only_one)} and {len(found.only_other)} are in one of them only, such as {names}"
    yield f"{text}; only operators of both can be told apart by their types", None
    for op, what in found.differing[:_SHOWN]:
        yield (
            f"`{op.name}` ({op.op_type}) is not the same in both graphs: {what}; see whether this is meant",
            known.get(op.name),
        )
    if len(found.differing) > _SHOWN:
        yield f"{len(found.differing) - _SHOWN} more operators differ in type, layout or shape", None


def _remark(text: str, key: NodeKey | None) -> Finding:
    return Finding(FindingKind.REMARK, key, None, text, severity=0.0, fails=False)


def findings_alone(findings: Sequence[Finding], side: str) -> Comparison:
    """Return findings about no dump: no rows, and a gate that only they could fail."""
    nothing = Catalog(side, NO_FRAMEWORK, "tensor", "", {}, ())
    return Comparison(
        Pairs(nothing, nothing, ()),
        (),
        tuple(findings),
        {},
        gate="findings",
        gate_passed=not any(finding.fails for finding in findings),
    )
