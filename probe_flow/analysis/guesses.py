"""Pairs that were guessed: what their values say against the guess.

Matchers without rules pair what has the same shape in the same place. Where such a pair holds values that have nothing
to do with each other, or an input that differs from what its operator's producer gave, the guess is the likelier
mistake: nobody is accused on its account, and nothing is explained by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.analysis.deviation import Deviation
from probe_flow.analysis.measured import MeasuredPair
from probe_flow.records import Role, Status, Verdict

GUESS = 0.6
"""Confidence up to which a guessed pair rests on shape and place alone."""

UNRELATED = 0.5
"""Relative error from which two tensors may be any two."""


def is_guess(row: MeasuredPair) -> bool:
    """Say whether a pair was guessed by shape and place."""
    pair = row.pair
    return pair.confidence <= GUESS and pair.reason is not None and pair.reason.code == "guessed"


def is_doubtful(row: MeasuredPair, deviation: Deviation) -> bool:
    """Say whether a pair whose error nothing explains is rather a wrong guess."""
    if not is_guess(row):
        return False
    return not row.is_produced or deviation.relative > UNRELATED or deviation.nonfinite > 0


def doubtful_rows(rows: Sequence[MeasuredPair], verdicts: Sequence[Verdict]) -> int:
    """Return the number of guessed pairs that fail and that the search for the origin left out."""
    return sum(
        row.measurement is not None and is_guess(row) and verdict.status is Status.FAIL and verdict.role is Role.UNKNOWN
        for row, verdict in zip(rows, verdicts, strict=True)
    )
