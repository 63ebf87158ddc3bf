"""Build measured rows by hand for the tests of the analysis: figures in, no tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from probe_flow.analysis.model.deviation import Deviation
from probe_flow.records import (
    Edge,
    Execution,
    Expectation,
    Measurement,
    Mode,
    NodeKey,
    Pair,
    Pairs,
    Reason,
    Rule,
    SideSummary,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.records.frameworks import named
from probe_flow.records.row import Row
from probe_flow.testing import builders
from probe_flow.testing.builders import key
from tests.support.rules import kind_of, rule_of

IN, OUT, PARAM = SlotRole.INPUT, SlotRole.OUTPUT, SlotRole.PARAMETER
RUN = Execution(rank=0, step=0, graph=1)


def tensor(node: NodeKey | str = "a", role: SlotRole = OUT, place: int | str = 0, **more: Any) -> TensorRef:
    return builders.tensor(node, role, (place,), **{"dtype": "float16", "shape": (100,), **more})


def statistics(**values: Any) -> Statistics:
    return Statistics(**{"min": -3.0, "max": 3.0, "mean": 0.0, "l2norm": 10.0, "nan": 0, "inf": 0, **values})


def measured(
    *, relative: float = 0.0, size: float = 1.0, count: int = 100, gain: float = 0.0, peak: float | None = None,
    nonfinite: int = 0, mark: float = 0.0, **metrics: Any,
) -> Measurement:  # fmt: skip
    """A tensor measurement with this relative rms error; ``mark`` makes golden statistics unlike any other's."""
    rms = relative * size
    norm = size * math.sqrt(count)
    golden = statistics(min=-3.0 * size - mark, max=3.0 * size, l2norm=norm)
    return Measurement.of(
        Mode.TENSOR,
        {
            "cosine": 1.0 if count > 1 else None, "euclidean_distance": rms * math.sqrt(count),
            "relative_euclidean_distance": relative, "max_abs_err": 3.0 * rms if peak is None else peak, **metrics,
        },
        SideSummary(statistics(min=golden.min, max=golden.max, l2norm=norm * (1.0 + gain))),
        SideSummary(golden),
        nonfinite_mismatch=nonfinite,
        count=count,
        backend="hand",
    )  # fmt: skip


def statistics_measured(target: Statistics, golden: Statistics, count: int = 100, nonfinite: int = 0) -> Measurement:
    return Measurement.of(
        Mode.STATISTICS, {}, SideSummary(target), SideSummary(golden), nonfinite_mismatch=nonfinite, count=count
    )


def row(
    node: NodeKey | str = "a", role: SlotRole = OUT, place: int | str = 0, *, measurement: Measurement | None = None,
    rule: str = "exact", dtype: str = "float16", golden_dtype: str | None = None, reason: Reason | None = None,
    **figures: Any,
) -> Row:  # fmt: skip
    """A two-sided row; figures as in `measured`."""
    count = figures.get("count", 100) if measurement is None else measurement.count
    mine = tensor(node, role, place, dtype=dtype, shape=(count,))
    other = tensor(node, role, place, dtype=golden_dtype or dtype, shape=(count,))
    return Row(
        Pair(mine, other, "g", rule_of(rule), reason=reason),
        measured(**figures) if measurement is None else measurement,
    )


def argument(node: NodeKey | str, target: Any, golden: Any, place: int = 1, role: SlotRole = IN) -> Row:
    """A row of plain values."""
    kind = TensorKind.NULL if target is None and golden is None else TensorKind.SCALAR
    pair = Pair(
        tensor(node, role, place, kind=kind, value=target, shape=()),
        tensor(node, role, place, kind=kind, value=golden, shape=()), "g", Rule("exact"),
    )  # fmt: skip
    return Row(pair, Measurement.of(Mode.VALUE, {}, SideSummary(Statistics()), SideSummary(Statistics()), count=1))


def checksum_row(node: NodeKey | str, role: SlotRole, target: str, golden: str, place: int | str = 0) -> Row:
    sides = [tensor(node, role, place, kind=TensorKind.STATISTICS, checksum=checksum) for checksum in (target, golden)]
    measurement = Measurement.of(Mode.CHECKSUM, {"checksum_equal": target == golden}, count=100)
    return Row(Pair(sides[0], sides[1], "g", Rule("exact")), measurement)


def target_only(ref: TensorRef, *, expected: bool = False) -> Row:
    return Row(Pair(ref, None, "g", Rule("none"), reason=why(expected=expected)))


def golden_only(ref: TensorRef, *, expected: bool = False) -> Row:
    return Row(Pair(None, ref, "g", Rule("none"), reason=why(expected=expected)))


def why(*, expected: bool) -> Reason:
    return Reason(kind_of("no_partner"), "no partner", Expectation.EXPECTED if expected else Expectation.MISSING)


def pairs_of(
    rows: Sequence[Row], types: Mapping[str, str] | None = None, edges: Sequence[Edge] = (), **target: Any
) -> Pairs:
    """Catalogs that hold the rows' tensors; ``types`` gives op types by node name (default Relu)."""
    found = builders.pairs_of([each.pair for each in rows], op_type="Relu", op_types=types or {})
    if "framework" in target:
        target["framework"] = named(target["framework"])
    return replace(found, target=replace(found.target, edges=tuple(edges), **target))


def edge(producer: NodeKey | str, consumer: NodeKey | str, place: int = 0, output: int = 0) -> Edge:
    nodes = [key(node) if isinstance(node, str) else node for node in (producer, consumer)]
    return Edge(nodes[0], output, nodes[1], place)


def deviation(**figures: Any) -> Deviation:
    """A float16 tensor of 100 elements, size 1, without error."""
    return Deviation(
        **{
            "rms": 0.0, "peak": 0.0, "gain": 0.0, "offset": 0.0, "size": 1.0, "top": 3.0, "spread": 1.0, "count": 100,
            "unit": 2.0**-11, "step": 0.0, "nonfinite": 0, **figures,
        }
    )  # fmt: skip


def passes(rows: Sequence[Row]) -> list[Verdict]:
    from probe_flow.records import Status

    return [Verdict(Status.PASS if each.measurement else Status.UNMATCHED_TARGET) for each in rows]
