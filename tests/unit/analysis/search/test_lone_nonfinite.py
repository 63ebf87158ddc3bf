"""NaN and infinity that begin in a call which the golden lacks: that call is named, not its first consumer."""

from __future__ import annotations

import math

import pytest
from comparison_rows import (
    IN,
    OUT,
    PARAM,
    edge,
    measured,
    pairs_of,
    passes,
    row,
    statistics,
    statistics_measured,
    target_only,
    tensor,
)

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Finding, FindingKind, Measurement, Mode, Role, SideSummary, Statistics, TensorKind
from probe_flow.records.row import Row

NAN = Statistics(min=math.nan, max=math.nan, mean=math.nan, l2norm=math.nan)
INF = Statistics(min=-1.0, max=math.inf, mean=math.inf, l2norm=math.inf)
FINE = Statistics(min=-1.0, max=2.0, mean=0.1, l2norm=5.0)


def lone(node: str, role=OUT, known: Statistics = NAN, place: int | str = 0) -> Row:
    return target_only(tensor(node, role, place, kind=TensorKind.STATISTICS, recorded=known))


def spoilt(node: str, role=OUT, known: Statistics = NAN) -> Row:
    return row(node, role, measurement=statistics_measured(known, statistics(), nonfinite=1))


def sound(node: str, role=OUT) -> Row:
    return row(node, role, measurement=statistics_measured(statistics(), statistics()))


def found_in(rows: list[Row], **facts) -> tuple[list[Finding], list[Role]]:
    pairs = pairs_of(rows, **facts)
    findings, verdicts = conclude(rows, pairs, passes(rows))
    return list(findings), [each.role for each in verdicts]


def named(findings: list[Finding], kind: FindingKind) -> list[tuple[str, int | None]]:
    return [(each.node.name, each.row) for each in findings if each.kind is kind and each.node is not None]


@pytest.mark.parametrize("known", [NAN, INF], ids=["nan", "inf"])
def test_a_call_without_counterpart_that_makes_it_of_finite_inputs_is_the_origin(known: Statistics) -> None:
    rows = [sound("a"), lone("extra", IN, FINE), lone("extra", OUT, known), spoilt("b", IN, known), spoilt("b")]
    findings, roles = found_in(rows)
    assert named(findings, FindingKind.ORIGIN) == [("extra", 2)]
    assert named(findings, FindingKind.NONFINITE_ORIGIN) == [("extra", 2)]
    evidence = next(each.evidence for each in findings if each.kind is FindingKind.NONFINITE_ORIGIN)
    assert evidence.startswith("has no counterpart in the golden, and `b.input.0` gets it: first nan or inf")
    assert roles == [Role.CLEAN, Role.UNKNOWN, Role.ORIGIN, Role.INHERITED, Role.INHERITED]


def test_of_two_such_calls_the_one_that_makes_it_is_named_not_the_one_that_hands_it_on() -> None:
    rows = [
        sound("a"), lone("log", IN, FINE), lone("log"), lone("cast", IN), lone("cast"), spoilt("b", IN), spoilt("b"),
    ]  # fmt: skip
    assert named(found_in(rows)[0], FindingKind.NONFINITE_ORIGIN) == [("log", 2)]


def test_where_a_paired_call_before_it_makes_it_that_one_stays_the_origin() -> None:
    rows = [sound("a", IN), spoilt("a"), lone("cast", IN), lone("cast"), spoilt("b", IN), spoilt("b")]
    assert named(found_in(rows)[0], FindingKind.NONFINITE_ORIGIN) == [("a", 1)]


def test_a_weight_that_only_the_target_has_is_where_it_begins() -> None:
    rows = [
        sound("a"), lone("norm", IN, FINE), lone("norm", PARAM, NAN, "weight"), lone("norm"),
        spoilt("b", IN), spoilt("b"),
    ]  # fmt: skip
    assert named(found_in(rows)[0], FindingKind.NONFINITE_ORIGIN) == [("norm", 2)]


def test_a_consumer_that_reads_something_else_by_the_graph_is_named_itself() -> None:
    rows = [sound("a"), lone("extra"), sound("b", IN), spoilt("b")]
    findings, _ = found_in(rows, edges=[edge("a", "b")])
    assert named(findings, FindingKind.NONFINITE_ORIGIN) == [("b", 3)]


def test_finite_calls_without_counterpart_are_not_accused() -> None:
    rows = [sound("a"), lone("cast", IN, FINE), lone("cast", OUT, FINE), sound("b", IN), spoilt("b")]
    assert named(found_in(rows)[0], FindingKind.NONFINITE_ORIGIN) == [("b", 4)]


def test_elements_count_where_the_dump_recorded_nothing() -> None:
    counts = {"max_abs": math.nan, "nan_count": 3, "positive_inf_count": 0, "negative_inf_count": 0}
    seen = Measurement.of(Mode.TENSOR, counts, SideSummary(Statistics(min=0.0, max=1.0, nan=3, inf=0)), count=100)
    target = SideSummary(statistics(nan=3))
    read = measured(nonfinite=3)
    bad = Measurement.of(read.mode, read.metrics, target, read.golden, nonfinite_mismatch=3, count=100)
    rows = [
        row("a", mark=1.0), target_only(tensor("extra")).with_aside(alone=seen),
        row("b", IN, measurement=bad), row("b", measurement=bad),
    ]  # fmt: skip
    edges = [edge("a", "extra"), edge("extra", "b")]
    assert named(found_in(rows, edges=edges)[0], FindingKind.NONFINITE_ORIGIN) == [("extra", 1)]
    without = [rows[0], target_only(tensor("extra")), *rows[2:]]
    assert named(found_in(without, edges=edges)[0], FindingKind.NONFINITE_ORIGIN) == [("b", 2)]
