"""Second origins by statistics: which results behind a first one stand out of all others, and which carry it on.

Statistics prove little of the errors that a result inherits, so what is a little more than these explain may be their
echo. But the errors of a first fault reach all that follows, and where first order explains too little of them it does
so in many places. A result that is further off than any other is wrong by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import is_gradient
from probe_flow.analysis.search.diagnosis import Diagnosis, Suspect
from probe_flow.records import Phase
from probe_flow.records.row import Row

LEAST = 1.25
"""Score from which a suspect behind an origin may be another one."""

APART = 2.5
"""How many times the score of all others it must have. Of 658 comparisons, each with results behind one fault that are
right, 5 have such a result; of 100 second faults that are suspects 92 do, or have twice their limit."""


def beside(strong: Sequence[Suspect], diagnosis: Diagnosis, rows: Sequence[Row]) -> set[int]:
    """Return the rows of strong suspects without those that only carry on, and what stands out behind the first."""
    found = {each.row for each in strong if not (each.inherits and divides_by_wrong_spread(each.row, diagnosis, rows))}
    return found | standing_out(strong[0], diagnosis, rows)


def standing_out(origin: Suspect, diagnosis: Diagnosis, rows: Sequence[Row]) -> frozenset[int]:
    """Return the suspects of the forward pass behind an origin, in its step, that stand out of all others there."""
    run = rows[origin.row].node.execution
    proven = {each.row for each in diagnosis.suspects if each.is_proven}
    suspects = {each.row for each in diagnosis.suspects if not (each.deviation is None or each.deviation.is_bare)}
    behind = (n for n in diagnosis.order[diagnosis.order.index(origin.row) + 1 :] if rows[n].node.execution == run)
    judged = (n for n in behind if _is_forward(rows[n]) and n not in proven and n in diagnosis.scores)
    ranked = sorted(((diagnosis.scores[n], n) for n in judged), reverse=True)
    found: set[int] = set()
    for place, ((score, _), (following, _)) in enumerate(pairwise([*ranked, (0.0, -1)])):
        if score < LEAST:
            break
        if score >= APART * following:
            found = {n for _, n in ranked[: place + 1]}
    return frozenset(found & suspects)


def divides_by_wrong_spread(number: int, diagnosis: Diagnosis, rows: Sequence[Row]) -> bool:
    """Return True for a gradient of a norm whose input inherits an error or is to blame, by statistics.

    It is divided by the spread of each row of that input, which no statistic shows: of a row that was lost it is zero.
    """
    key = rows[number].node
    if not (rows[number].is_by_statistics and key.phase is Phase.BACKWARD and "norm" in key.name.lower()):
        return False
    wrong = diagnosis.tainted.keys() | {each.row for each in diagnosis.suspects}
    forward = replace(key, phase=Phase.FORWARD)
    return any(rows[n].node == forward and not rows[n].is_produced for n in wrong)


def _is_forward(row: Row) -> bool:
    return row.is_produced and row.is_by_statistics and not is_gradient(row.node)
