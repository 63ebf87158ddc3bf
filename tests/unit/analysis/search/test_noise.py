"""What repeated runs differ by: it is told, it accuses nobody, and what is larger still does."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, edge, measured, pairs_of, passes, row

from probe_flow.analysis.model.deviation import ErrorFigure
from probe_flow.analysis.search.conclude import conclude
from probe_flow.analysis.search.reference_check import (
    is_noisy,
    is_within_noise,
    noise_of,
    not_deterministic,
    with_figures,
)
from probe_flow.records import FindingKind
from probe_flow.records.row import Row

U = 2.0**-11


def repeated(found: Row, *runs: float, **figures) -> Row:
    """The row with further runs of its golden, which differ from the first by these relative errors."""
    noise = tuple(Row(found.pair, measured(relative=error, **figures)) for error in runs)
    return found.with_aside(noise=noise)


def test_the_largest_difference_of_the_runs_is_the_noise():
    found = with_figures(repeated(row("a", relative=0.01), 0.001, 0.003))
    assert found.measurement.metrics["noise_error"] == 0.003
    assert [noise.rms for noise in noise_of(found)] == [0.001, 0.003]


def test_runs_without_difference_have_a_noise_of_zero():
    found = with_figures(repeated(row("a", relative=0.01), 0.0))
    assert found.measurement.metrics["noise_error"] == 0.0
    assert not is_noisy(found)
    assert with_figures(row("a")) == row("a")


@pytest.mark.parametrize(("error", "is_within"), [(0.0199, True), (0.0201, False)])
def test_a_row_may_be_off_by_twice_what_runs_differ_by(error, is_within):
    assert is_within_noise(repeated(row("a", relative=error), 0.001, 0.01), ErrorFigure.RMS) is is_within


def test_nan_that_comes_and_goes_between_runs_accuses_nobody():
    assert is_within_noise(repeated(row("a", nonfinite=2), 0.0, nonfinite=3), ErrorFigure.NONFINITE)
    assert not is_within_noise(repeated(row("a", nonfinite=2), 0.0), ErrorFigure.NONFINITE)


def chain(*errors: tuple[float, float]):
    """Nodes n0, n1 ... with these relative errors of the sides and between runs of the golden."""
    rows, edges = [repeated(row("n0", IN), 0.0)], [edge("nowhere", "n0", 9)]
    for number, (sides, runs) in enumerate(errors):
        if number:
            rows.append(repeated(row(f"n{number}", IN, relative=errors[number - 1][0]), errors[number - 1][1]))
            edges.append(edge(f"n{number - 1}", f"n{number}"))
        rows.append(repeated(row(f"n{number}", OUT, relative=sides), runs))
    return rows, pairs_of(rows, None, edges)


def findings_of(*errors):
    rows, pairs = chain(*errors)
    return conclude(rows, pairs, passes(rows))[0]


def test_a_difference_within_the_noise_is_told_and_fails_nothing():
    (finding,) = findings_of((0.5 * U, 0.0), (60 * U, 50 * U), (60 * U, 50 * U))
    assert (finding.kind, finding.node.name, finding.fails) == (FindingKind.NOT_DETERMINISTIC, "n1", False)
    assert finding.evidence.startswith("`n1.output.0` differs by 2.4e-02 between runs")
    assert "3 tensors differ in all" in finding.evidence


def test_a_fault_beyond_the_noise_is_accused():
    found = findings_of((0.5 * U, 0.0), (200 * U, 2 * U))
    assert [(finding.kind, finding.node.name) for finding in found] == [
        (FindingKind.ORIGIN, "n1"),
        (FindingKind.NOT_DETERMINISTIC, "n1"),
    ]


def test_only_nodes_that_read_the_same_are_not_deterministic():
    rows, _ = chain((0.0, 0.01), (0.0, 0.02), (0.0, 0.02))
    (finding,) = not_deterministic(rows, range(len(rows)))
    assert finding.node.name == "n0"
    assert "more node" not in finding.evidence


def test_runs_of_other_inputs_are_told_from_nodes_that_are_not_deterministic():
    rows, _ = chain((0.0, 0.0))
    rows = [repeated(found, 0.01) for found in rows]
    (finding,) = not_deterministic(rows, range(len(rows)))
    assert (finding.node.name, finding.slot.role) == ("n0", IN)
    assert "runs of one side that read other inputs" in finding.evidence


def test_runs_that_agree_are_not_mentioned():
    assert findings_of((0.5 * U, 0.0), (0.5 * U, 0.0)) == ()
