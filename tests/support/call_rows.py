"""Build comparisons of calls by hand, over ranks and steps, for the tests of first differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from probe_flow.records import (
    CallFacts,
    Catalog,
    Comparison,
    Execution,
    Expectation,
    Measurement,
    Mode,
    Node,
    NodeKey,
    NodeKind,
    Pair,
    Pairs,
    Phase,
    Reason,
    Role,
    Row,
    Rule,
    SideSummary,
    Slot,
    SlotRole,
    Statistics,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.records.frameworks import PYTORCH
from tests.support.rules import kind_of

SAME = (1.0, 1.0)
"""A value of both sides: tensors are told by one number here."""


@dataclass
class Call:
    """One call on one rank: values as ``(target, golden)``, None for a side that lacks them.

    A value is a float (statistics around it), a `Statistics`, a text (checksum) or ``Plain`` (an argument).
    """

    name: str
    inputs: Sequence[Any] = (SAME,)
    outputs: Sequence[Any] = (SAME,)
    rank: int | None = None
    call: int = 0
    step: int | None = 0
    role: Role = Role.UNKNOWN
    keywords: dict[str, Any] = field(default_factory=dict)
    is_expected: bool = False
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((2,), (2,))
    p2p: tuple[dict[str, Any], ...] = ()
    nonfinite: int = 0
    rules: tuple[str, ...] = ()
    status: Status = Status.PASS

    @property
    def entry(self) -> str:
        return f"{self.name}.{self.call}.forward"

    @property
    def key(self) -> NodeKey:
        return NodeKey(Execution(rank=self.rank, step=self.step), self.name, self.call, Phase.FORWARD)


@dataclass(frozen=True)
class Plain:
    """An argument that is no tensor."""

    value: Any
    word: str = "int"


def compared(*calls: Call, **attrs: Any) -> Comparison:
    """The comparison of these calls, in their order."""
    rows: list[Row] = []
    for each in calls:
        for values, role in ((each.inputs, SlotRole.INPUT), (each.outputs, SlotRole.OUTPUT)):
            for place, value in enumerate(values):
                p2p = each.p2p[place] if role is SlotRole.INPUT and place < len(each.p2p) else None
                rows.append(_row(len(rows), each, Slot(role, (place,)), value, p2p))
        for name, value in each.keywords.items():
            rows.append(_row(len(rows), each, Slot(SlotRole.INPUT, (name,)), (value, value), None))
    sides = {}
    for side in ("target", "golden"):
        refs = [ref for row in rows if (ref := getattr(row.pair, side)) is not None]
        nodes = {}
        for order, each in enumerate(calls):
            if any(ref.node == each.key for ref in refs):
                nodes[each.key] = Node(
                    each.key,
                    each.name,
                    order=order,
                    stack_id="0" if order == 0 else None,
                    facts=CallFacts(NodeKind.API, entry=each.entry),
                )
        stacks = {"0": ("File model.py, line 1, in forward, \n x = f(x)",)}
        facts = {"format": "dump_json", "files": ("dump.json",), **attrs}
        sides[side] = Catalog(side, PYTORCH, _task(calls), "/d", nodes, tuple(refs), stacks=stacks, attrs=facts)
    pairs = Pairs(sides["target"], sides["golden"], tuple(row.pair for row in rows))
    return Comparison(pairs, tuple(rows), (), {}, "findings", gate_passed=True, policy="dump_json")


def _task(calls: Sequence[Call]) -> str:
    values = [value for each in calls for two in (*each.inputs, *each.outputs) for value in two]
    return "md5" if any(isinstance(value, str) for value in values) else "statistics"


def _row(order: int, call: Call, slot: Slot, values: tuple[Any, Any], p2p: dict[str, Any] | None) -> Row:
    target, golden = (_ref(call, slot, value, shape, p2p) for value, shape in zip(values, call.shapes, strict=True))
    if target is None or golden is None:
        expectation = Expectation.EXPECTED if call.is_expected else Expectation.MISSING
        reason = Reason(kind_of("no_partner"), f"no partner for `{call.entry}`", expectation)
        status = Status.UNMATCHED_GOLDEN if target is None else Status.UNMATCHED_TARGET
        return Row(Pair(target, golden, "g", Rule("none"), reason=reason), None, Verdict(status), order)
    if target.checksum is not None:
        measured = Measurement.of(Mode.CHECKSUM, {"checksum_equal": target.checksum == golden.checksum})
    elif target.recorded is None:
        measured = Measurement.of(Mode.VALUE, {})
    else:
        assert golden.recorded is not None
        summaries = SideSummary(target.recorded), SideSummary(golden.recorded)
        measured = Measurement.of(Mode.STATISTICS, {}, *summaries, nonfinite_mismatch=call.nonfinite)
    role = call.role if slot.role is SlotRole.OUTPUT else Role.UNKNOWN
    verdict = Verdict(call.status, call.rules, role=role)
    return Row(Pair(target, golden, "g", Rule("exact")), measured, verdict, order)


def _ref(call: Call, slot: Slot, value: Any, shape: tuple[int, ...], p2p: dict[str, Any] | None) -> TensorRef | None:
    if value is None:
        return None
    facts: dict[str, Any] = {"item": f"{call.entry}.{slot}"}
    if p2p:
        facts["peers"] = p2p
    if isinstance(value, Plain):
        kind = TensorKind.SCALAR if value.word in {"int", "float", "str"} else TensorKind.OPAQUE
        return TensorRef.of(call.key, slot, kind, value.word, value.word, value=value.value, **facts)
    recorded, checksum = None, None
    if isinstance(value, str):
        checksum = value
    else:
        recorded = value if isinstance(value, Statistics) else Statistics(value - 1, value + 1, value, value * 2)
    return TensorRef.of(
        call.key, slot, TensorKind.STATISTICS, "float32", "torch.float32", shape, shape,
        recorded=recorded, checksum=checksum, **facts,
    )  # fmt: skip
