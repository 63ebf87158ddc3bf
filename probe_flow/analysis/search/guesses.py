"""Pairs that were guessed: what their values say against the guess.

Matchers without rules pair what has the same shape in the same place. Where such a pair holds values that have nothing
to do with each other, or an input that differs from what its operator's producer gave, the guess is the likelier
mistake: nobody is accused on its account, and nothing is explained by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.analysis.model.deviation import Deviation
from probe_flow.records import Role, Status, Verdict
from probe_flow.records.row import Row

UNRELATED = 0.1
"""Relative error from which two tensors may be any two."""


def is_doubtful(row: Row, deviation: Deviation) -> bool:
    """Say whether a pair whose error nothing explains is rather a wrong guess."""
    if not row.pair.is_guess:
        return False
    return not row.is_produced or deviation.relative > UNRELATED or deviation.nonfinite > 0


def doubtful_rows(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> int:
    """Return the number of guessed pairs that fail and that the search for the origin left out."""
    return sum(
        row.measurement is not None
        and row.pair.is_guess
        and verdict.status is Status.FAIL
        and verdict.role is Role.UNKNOWN
        for row, verdict in zip(rows, verdicts, strict=True)
    )
