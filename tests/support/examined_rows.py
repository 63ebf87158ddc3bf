"""Rows of a dump that is examined alone, built by hand for the tests of the search for NaN and infinity."""

from __future__ import annotations

import math
from typing import Any

from comparison_rows import IN, OUT, tensor

from probe_flow.analysis.search.nonfinite import conclude_nonfinite
from probe_flow.analysis.search.overflow import conclude_overflow
from probe_flow.comparing.examine import EXAMINED, examined, unmeasured
from probe_flow.records import (
    Finding,
    Flow,
    Measurement,
    Mode,
    NodeKey,
    Pair,
    Row,
    SideSummary,
    SlotRole,
    Statistics,
    TensorKind,
    Verdict,
)
from probe_flow.testing import builders

NAN, INF, MINUS = "nan", "inf", "-inf"


def row(
    node: NodeKey | str,
    role: SlotRole = OUT,
    place: int | str = 0,
    *holds: str,
    size: float = 2.0,
    count: int = 100,
    **more: Any,
) -> Row:
    """Return a row of a tensor with 3 elements of each kind that it holds."""
    counts = {name: 3 if name in holds else 0 for name in (NAN, INF, MINUS)}
    metrics = {
        "max_abs": math.nan if NAN in holds else math.inf if holds else size,
        "nan_count": counts[NAN], "positive_inf_count": counts[INF], "negative_inf_count": counts[MINUS],
    }  # fmt: skip
    side = SideSummary(Statistics(min=-size, max=size, nan=counts[NAN], inf=counts[INF] + counts[MINUS]))
    found = Measurement.of(Mode.TENSOR, metrics, side, count=count, backend="numpy")
    return Row(Pair(tensor(node, role, place, **more), None, "", EXAMINED), found)


def argument(node: NodeKey | str, value: float, place: int | str = 1) -> Row:
    ref = tensor(node, IN, place, kind=TensorKind.SCALAR, value=value, shape=())
    side = SideSummary(Statistics(min=value, max=value))
    return Row(Pair(ref, None, "", EXAMINED), Measurement.of(Mode.VALUE, {"max_abs": abs(value)}, side, count=1))


def recorded(
    node: NodeKey | str, role: SlotRole = OUT, place: int | str = 0, *, count: int = 100, dtype: str = "float32",
    low: float | None = -1.0, high: float | None = 1.0, mean: float | None = 0.0, norm: float | None = 5.0,
) -> Row:  # fmt: skip
    """Return a row of a tensor of which statistics alone are known."""
    known = Statistics(min=low, max=high, mean=mean, l2norm=norm)
    ref = tensor(node, role, place, kind=TensorKind.STATISTICS, recorded=known, dtype=dtype, shape=(count,))
    return Row(Pair(ref, None, "", EXAMINED), Measurement.of(Mode.STATISTICS, {}, ref, count=count))


def overflowing(rows: list[Row], *, growth: float = 100.0, **more: Any) -> tuple[list[Finding], list[Verdict]]:
    """Return what the search for overflow concludes."""
    dump = builders.catalog([each.pair.shown for each in rows], **{"flow": Flow.ORDER, **more})
    findings, verdicts = conclude_overflow(rows, examined(dump), unmeasured, growth=growth)
    return list(findings), verdicts


def concluded(rows: list[Row], **more: Any) -> tuple[list[Finding], list[Verdict]]:
    """Return what the search for NaN and infinity concludes."""
    facts = {"flow": Flow.ORDER, **more}
    dump = builders.catalog([each.pair.shown for each in rows], **facts)
    findings, verdicts = conclude_nonfinite(rows, examined(dump), unmeasured)
    return list(findings), verdicts
