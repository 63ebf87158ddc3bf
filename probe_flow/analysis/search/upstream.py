"""What a row was computed from, one operator further back at a time: where its error may have begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from probe_flow.analysis.model.deviation import Deviations
from probe_flow.records import NodeKey
from probe_flow.records.row import Row

Sources: TypeAlias = Callable[[int], tuple[int, ...] | None]
"""Rows whose errors explain a row's; ``()`` for a source, None where they are not known."""

MOST = 5
"""Operators before a tensor that are told: of random faults that extremes show further on, four in five are there."""

EXTREMES = 2
"""Elements of which minimum and maximum show all."""


def hidden_before(number: int, rows: Sequence[Row], deviations: Deviations, sources: Sources) -> tuple[int, ...]:
    """Return rows of outputs before a row, one per operator and the nearest first, that may hide what is wrong there.

    Args:
        number: row of an output whose extremes differ.
        rows: all rows.
        deviations: of them.
        sources: where they came from.

    Returns:
        At most `MOST` rows: nothing but the extremes is known of them, and they have more elements than these.
        Empty where no such output is known.
    """
    found: dict[NodeKey, int] = {}
    for row in outputs_before(number, rows, sources):
        deviation, node = deviations[row], rows[row].node
        if deviation is not None and deviation.is_bare and deviation.count > EXTREMES and node != rows[number].node:
            found.setdefault(node, row)
            if len(found) == MOST:
                break
    return tuple(found.values())


def outputs_before(number: int, rows: Sequence[Row], sources: Sources) -> Iterator[int]:
    """Yield the outputs that a row was computed from, one operator further back at a time, the latest first."""
    seen, level = {number}, [number]
    while level:
        read = {n for row in level for n in sources(row) or ()}
        written = {n for row in read for n in ((row,) if rows[row].is_produced else sources(row) or ())}
        level = sorted(written - seen, reverse=True)
        seen.update(level)
        yield from level
