"""NaN and infinity that begin in a call of the target which the golden lacks, so that no pair shows it.

What differs first is then an input of whatever reads it. The search over the target alone (`nonfinite.Origins`) tells
where such values begin; if that is a call without counterpart, it is the one to name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from probe_flow.analysis.search.diagnosis import Suspect
from probe_flow.analysis.search.states import State, state_of, state_of_statistics
from probe_flow.records import (
    Finding,
    FindingKind,
    Measurement,
    Mode,
    NodeKey,
    Pairs,
    SideSummary,
    Statistics,
    TensorKind,
)
from probe_flow.records.row import Row


def begins_alone(numbers: Iterable[int], rows: Sequence[Row], pairs: Pairs) -> Mapping[int, int]:
    """Return for some rows that are not finite unlike the golden the row of a lone call where that begins.

    Args:
        numbers: of the rows.
        rows: all rows of a comparison, in execution order.
        pairs: what was compared.

    Returns:
        Only those whose values begin in a call of which nothing was paired.
    """
    wanted = [*numbers]
    if not wanted or not any(_is_lone(row) for row in rows):
        return {}
    from probe_flow.analysis.search.nonfinite import Origins

    origins = Origins([_examined(row) for row in rows], pairs, _state)
    paired: set[NodeKey] = {row.node for row in rows if row.pair.target is not None and row.pair.golden is not None}
    roots = {number: origins.roots.get(number, number) for number in wanted}
    return {number: root for number, root in roots.items() if _is_lone(rows[root]) and rows[root].node not in paired}


def _is_lone(row: Row) -> bool:
    return row.pair.golden is None


def _examined(row: Row) -> Row:
    """Return a row of the target alone with what is known of it as its measurement."""
    target = row.pair.target
    if target is None or row.measurement is not None or row.pair.golden is not None:
        return row
    found = row.aside.alone
    if found is None and target.recorded is not None:
        found = Measurement.of(Mode.STATISTICS, {}, target, count=target.numel or 1)
    if found is None and target.kind is TensorKind.SCALAR and isinstance(target.value, (int, float)):
        found = Measurement.of(Mode.VALUE, {}, SideSummary(Statistics(min=target.value, max=target.value)), count=1)
    return Row(row.pair, found, row.verdict, row.order)


def _state(row: Row) -> State | None:
    measured = row.measurement
    if measured is None or row.pair.target is None:
        return None
    if row.pair.golden is None:
        return state_of(row)
    if measured.target is None:
        return None
    return state_of_statistics(measured.target.statistics, measured.count, row.pair.target.dtype)


def nonfinite_finding(suspect: Suspect, rows: Sequence[Row], writer: int | None) -> Finding:
    """Return the finding of a suspect, at the row where it begins (``writer``) where that has no counterpart."""
    row = rows[suspect.row]
    measurement = row.measurement
    assert measurement is not None
    count = measurement.nonfinite_mismatch
    extent = (
        "in its recorded statistics"
        if measurement.mode is Mode.STATISTICS
        else f"{count} of {measurement.count} elements"
    )
    at = suspect.row if writer is None else writer
    return Finding.at(
        at,
        rows[at],
        FindingKind.NONFINITE_ORIGIN,
        ("" if writer is None else f"has no counterpart in the golden, and `{row.pair.shown.id}` gets it: ")
        + f"first nan or inf that the other side does not have: {extent}",
        severity=float(count),
        metrics=measurement.metrics,
        size=f"nan or inf in {extent.removeprefix('in ')}",
    )
