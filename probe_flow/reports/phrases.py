"""What several reports say of a run: why rows fail that its verdict does not rest on, which metrics come first."""

from __future__ import annotations

from probe_flow.record.excuses import excuses_any
from probe_flow.record.types.run import RunRecord
from probe_flow.records import FindingKind, Status

FIGURES_FIRST = ("relative_euclidean_distance", "cosine", "max_abs_err", "max_rel_err")
"""Metrics that are shown first, where they were measured."""

_TOLD_ABOVE = frozenset(
    {
        FindingKind.ORIGIN,
        FindingKind.CHECKSUM_ORIGIN,
        FindingKind.NONFINITE_ORIGIN,
        FindingKind.FAILURE,
        FindingKind.SUSPECT,
    }
)

_FAILING_ROWS_ARE_COMMON = (
    "tensors that fail miss the limits of the policy, as elements near zero and low precision do in a healthy run too; "
)
_WHY_IT_PASSES = "the run passes because no operator adds an error that rounding and its inputs do not explain"
_SOME_DIFFER_BETWEEN_RUNS = (
    "some of the tensors differ between repeated runs of one side: an error no larger than that cannot be seen in "
    "them, so make the runs deterministic to have them judged; other "
)
_WHY_IT_FAILS = "what is wrong is what stands above, and what inherits it"


def is_told_above(kind: FindingKind) -> bool:
    """Return True if findings of a kind name a tensor, and are told with the first wrong one or as suspects."""
    return kind in _TOLD_ABOVE


def count_missing(run: RunRecord) -> int:
    """Return how many tensors of both sides have no counterpart, though nothing explains that."""
    return sum(side.missing for side in run.coverage.values())


def note_on_failing_rows(run: RunRecord, passing_on: int) -> str:
    """Return why rows fail that the verdict of the run does not rest on; nothing when there are none."""
    failed = run.counts.get(Status.FAIL, 0)
    if run.verdict == "pass" and failed and not excuses_any(run):
        noisy = _SOME_DIFFER_BETWEEN_RUNS if FindingKind.NOT_DETERMINISTIC in run.finding_counts else ""
        return noisy + _FAILING_ROWS_ARE_COMMON + _WHY_IT_PASSES
    is_explained = run.first_divergence is not None and failed > passing_on + 1
    return _FAILING_ROWS_ARE_COMMON + _WHY_IT_FAILS if is_explained else ""
