"""Decisions: rounding to whole numbers is off by one at most, and what was decided otherwise is asked about."""

from __future__ import annotations

import pytest
from comparison_rows import IN, edge, pairs_of, passes, row

from probe_flow.analysis.search.conclude import conclude
from probe_flow.analysis.search.origin import diagnose
from probe_flow.records import FindingKind
from probe_flow.records.row import Recomputed


def rounded(peak, kind="floor", **more):
    """A node that rounds what carries an error of a few per cent, its result off by up to so much."""
    rows = [
        row("n0", IN, relative=0.0), row("n0", relative=2e-4), row("n1", IN, relative=2e-4),
        row("n1", relative=peak * 0.05, peak=peak, **more),
    ]  # fmt: skip
    return rows, pairs_of(rows, {"n1": kind}, [edge("nowhere", "n0", 9), edge("n0", "n1")])


def origins(rows, pairs):
    return [each.node.name for each in conclude(rows, pairs, passes(rows))[0] if each.kind is FindingKind.ORIGIN]


@pytest.mark.parametrize("kind", ["floor", "aten.ceil.default", "Round", "trunc"])
def test_a_step_of_one_is_explained_and_a_larger_one_is_not(kind):
    assert origins(*rounded(1.0, kind, dtype="int32")) == []
    assert origins(*rounded(4.0, kind, dtype="int32")) == ["n1"]


def test_decisions_that_differ_are_asked_about_and_believed_when_proven():
    rows, pairs = rounded(1.0, "Greater", dtype="int32")
    diagnosis = diagnose(rows, pairs)
    assert diagnosis.decided == (3,)
    wrong = Recomputed("rms", 0.2, 0.0, float("inf"), golden=0.0)
    for own, due in ((wrong, ["n1"]), (Recomputed("rms", 0.0, 0.0, 0.0), []), (None, [])):
        rows[3] = rows[3].with_aside(recomputed=own)
        assert origins(rows, pairs) == due
