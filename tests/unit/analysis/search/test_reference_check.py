"""What a reference says of rows: both errors, the multipliers, and who is accused."""

from __future__ import annotations

import math

import pytest
from comparison_rows import IN, OUT, edge, measured, pairs_of, passes, row, tensor
from msgspec.structs import replace

from probe_flow.analysis.limits import REPEATED_LIMITS
from probe_flow.analysis.model.deviation import ErrorFigure
from probe_flow.analysis.search.conclude import conclude
from probe_flow.analysis.search.reference_check import NO_WITNESS, clears, with_figures, witness_of
from probe_flow.records import FindingKind, Measurement, Mode, Role
from probe_flow.records.row import Row, ThirdSide

U = 2.0**-11


def judged(found: Row, target: Measurement, golden: Measurement, dtype: str = "float64") -> Row:
    """The row with a reference from which its sides are off by these measurements."""
    reference = found.pair.golden.changed(dtype=dtype)
    return replace(found, pair=found.pair.judged_by(reference)).with_aside(third=ThirdSide(target, golden))


def off(target: float, golden: float, *, dtype: str = "float16", **figures) -> Row:
    return judged(
        row("a", relative=target + golden, dtype=dtype, golden_dtype="float32"),
        measured(relative=target, **figures),
        measured(relative=golden),
    )


@pytest.mark.parametrize(
    ("dtype", "floor"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8), ("float32", 2.0**-14), ("float64", 2.0**-40)]
)
def test_errors_below_the_minimum_error_of_the_dtype_count_as_that(dtype, floor):
    witness = witness_of(off(6.0 * floor, 0.0, dtype=dtype))
    assert witness.excess(ErrorFigure.RMS) == pytest.approx(6.0)
    assert witness_of(off(6.0 * floor, 3.0 * floor, dtype=dtype)).excess(ErrorFigure.RMS) == pytest.approx(2.0)


def test_integers_have_no_minimum_error():
    assert witness_of(off(0.25, 0.0, dtype="int32")).excess(ErrorFigure.RMS) == math.inf
    assert witness_of(off(0.0, 0.0, dtype="int32")).excess(ErrorFigure.RMS) == 0.0


def test_the_metrics_of_three_sides():
    found = with_figures(off(0.02, 0.01)).measurement.metrics
    assert found["excess_error"] == pytest.approx(2.0)
    assert found["excess_peak"] == pytest.approx(2.0)
    assert found["golden_error"] == pytest.approx(0.01)


@pytest.mark.parametrize(("ratio", "is_cleared"), [(1.0, True), (1.99, True), (2.01, False), (50.0, False)])
def test_a_target_up_to_twice_as_far_off_as_the_golden_is_cleared(ratio, is_cleared):
    assert clears(off(0.005 * ratio, 0.005), ErrorFigure.RMS) is is_cleared


@pytest.mark.parametrize(("peak", "is_cleared"), [(0.29, True), (0.31, False)])
def test_a_single_element_may_be_ten_times_as_far_off(peak, is_cleared):
    assert REPEATED_LIMITS.peak == 10.0
    assert clears(off(0.01, 0.01, peak=peak), ErrorFigure.PEAK) is is_cleared


def test_a_target_far_from_the_reference_is_not_cleared_by_a_golden_that_is_too():
    assert clears(off(NO_WITNESS - 0.01, 1.0), ErrorFigure.RMS)
    assert not clears(off(NO_WITNESS + 0.01, 1.0), ErrorFigure.RMS)


def test_nan_that_the_reference_has_too_is_not_the_targets_fault():
    agreeing = judged(row("a", nonfinite=3), measured(), measured(nonfinite=3))
    own = judged(row("a", nonfinite=3), measured(nonfinite=3), measured())
    assert clears(agreeing, ErrorFigure.NONFINITE)
    assert not clears(own, ErrorFigure.NONFINITE)


def test_without_a_reference_nothing_is_cleared():
    assert not clears(row("a", relative=0.1), ErrorFigure.RMS)
    assert with_figures(row("a")) == row("a")


def test_checksums_clear_nothing():
    sums = Measurement.of(Mode.CHECKSUM, {"checksum_equal": True}, count=100)
    assert witness_of(judged(row("a"), sums, sums)) is None


def chain(*errors: tuple[float, float, float]):
    """Nodes n0, n1 ... with these relative errors: of the sides, of target and golden against the reference."""
    rows, edges = [row("n0", IN, golden_dtype="float32")], [edge("nowhere", "n0", 9)]
    for number, (sides, target, golden) in enumerate(errors):
        if number:
            rows.append(row(f"n{number}", IN, relative=errors[number - 1][0], golden_dtype="float32"))
            edges.append(edge(f"n{number - 1}", f"n{number}"))
        out = row(f"n{number}", OUT, relative=sides, golden_dtype="float32")
        rows.append(judged(out, measured(relative=target), measured(relative=golden)))
    return rows, pairs_of(rows, None, edges)


def test_a_target_that_is_worse_than_the_golden_is_the_origin_and_the_evidence_says_by_how_much():
    rows, pairs = chain((0.5 * U, 0.5 * U, 0.0), (60 * U, 60 * U, 1e-7), (60 * U, 60 * U, 1e-7))
    findings, verdicts = conclude(rows, pairs, passes(rows))

    assert [(finding.kind, finding.node.name) for finding in findings] == [(FindingKind.ORIGIN, "n1")]
    assert "the target is off by 2.9e-02, the golden by 1.0e-07: 60 x (limit 2)" in findings[0].evidence
    assert verdicts[3].role is Role.ORIGIN


def test_where_the_golden_is_off_the_target_is_not_accused_and_the_finding_fails_nothing():
    rows, pairs = chain((0.5 * U, 0.5 * U, 0.0), (60 * U, 1 * U, 60 * U), (60 * U, 1 * U, 60 * U))
    findings, verdicts = conclude(rows, pairs, passes(rows))

    assert [(finding.kind, finding.node.name, finding.fails) for finding in findings] == [
        (FindingKind.GOLDEN_ERROR, "n1", False)
    ]
    assert findings[0].evidence.startswith("`n1.output.0` differs from the golden beyond rounding, but is not to blame")
    assert {verdict.role for verdict in verdicts} == {Role.CLEAN}


def test_a_fault_behind_a_wrong_golden_is_still_the_targets():
    rows, pairs = chain((60 * U, 1 * U, 60 * U), (600 * U, 540 * U, 60 * U))
    findings, _ = conclude(rows, pairs, passes(rows))

    assert [(finding.kind, finding.node.name) for finding in findings] == [
        (FindingKind.ORIGIN, "n1"),
        (FindingKind.GOLDEN_ERROR, "n0"),
    ]


def test_several_rows_that_the_golden_spoils_are_counted():
    rows, pairs = chain((60 * U, 1 * U, 60 * U), (600 * U, 1 * U, 600 * U))
    (finding,) = conclude(rows, pairs, passes(rows))[0]
    assert finding.evidence.endswith("; 1 more tensor alike")


def test_drift_that_the_golden_shares_is_none():
    steps = [(0.02 * (number + 1), 0.01, 0.01 * (number + 1)) for number in range(8)]
    alone, pairs = chain(*((sides, sides, 1e-7) for sides, _, _ in steps))
    shared, others = chain(*steps)

    assert {finding.kind for finding in conclude(alone, pairs, passes(alone))[0]} & {
        FindingKind.DRIFT,
        FindingKind.ORIGIN,
    }
    assert all(not finding.fails for finding in conclude(shared, others, passes(shared))[0])


def test_a_row_without_reference_is_judged_by_the_golden_alone():
    rows, pairs = chain((0.5 * U, 0.5 * U, 0.0), (60 * U, 1 * U, 60 * U))
    bare = [Row(each.pair.judged_by(None), each.measurement) for each in rows]
    assert [finding.kind for finding in conclude(bare, pairs, passes(bare))[0]] == [FindingKind.ORIGIN]


def test_a_scalar_argument_has_no_witness():
    assert witness_of(Row(row("a").pair.judged_by(tensor("a")), None)) is None
