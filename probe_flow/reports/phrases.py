"""What several reports say of a run: why rows fail that its verdict does not rest on, which metrics come first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probe_flow.record.excuses import excuses_any

FIGURES_FIRST = ("relative_euclidean_distance", "cosine", "max_abs_err", "max_rel_err")
"""Metrics that are shown first, where they were measured."""

_FAILING_ROWS_ARE_COMMON = (
    "tensors that fail miss the limits of the policy, as elements near zero and low precision do in a healthy run too; "
)
_WHY_IT_PASSES = "the run passes because no operator adds an error that rounding and its inputs do not explain"
_SOME_DIFFER_BETWEEN_RUNS = (
    "some of the tensors differ between repeated runs of one side: an error no larger than that cannot be seen in "
    "them, so make the runs deterministic to have them judged; other "
)
_WHY_IT_FAILS = "what is wrong is what stands above, and what inherits it"


def count_missing(run: Mapping[str, Any]) -> int:
    """Return how many tensors of both sides have no counterpart, though nothing explains that."""
    return sum(int(side.get("missing") or 0) for side in (run.get("coverage") or {}).values())


def note_on_failing_rows(run: Mapping[str, Any], passing_on: int) -> str:
    """Return why rows fail that the verdict of the run does not rest on; nothing when there are none."""
    failed = (run.get("counts") or {}).get("fail", 0)
    if run.get("verdict") == "pass" and failed and not excuses_any(run):
        kinds = {finding.get("kind") for finding in run.get("findings") or ()}
        noisy = _SOME_DIFFER_BETWEEN_RUNS if "not_deterministic" in kinds else ""
        return noisy + _FAILING_ROWS_ARE_COMMON + _WHY_IT_PASSES
    is_explained = run.get("first_divergence") is not None and failed > passing_on + 1
    return _FAILING_ROWS_ARE_COMMON + _WHY_IT_FAILS if is_explained else ""
