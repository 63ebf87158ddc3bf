"""The modes of result tables, told by their exact headers, and the columns that a merge of ranks reads of each."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.reports.tables.dump_json.layout import (
    CONSISTENT,
    FILES,
    JUDGEMENT,
    PREFIX,
    ROLE,
    STACK,
    STATISTICS,
    Layout,
)

MAXIMA = (STATISTICS[0], STATISTICS[4])
"""The largest value of both sides, shown where a measure has no number."""

_OPTIONAL = frozenset((STACK, FILES, ROLE))


def mode_of(header: Sequence[str]) -> Layout | None:
    """Return the mode of a table by its exact header; None when it is no result table."""
    plain = [name for name in header if name not in _OPTIONAL]
    for layout in Layout:
        if plain == [*PREFIX, *layout.columns, *JUDGEMENT] and len(set(header)) == len(header):
            return layout
    return None


def measures_of(mode: Layout) -> tuple[str, ...]:
    """Return the columns of a mode that can be merged."""
    return (*(name for name in mode.columns if name not in STATISTICS), CONSISTENT)


def columns_read(header: Sequence[str]) -> frozenset[str]:
    """Return the columns that a merge reads."""
    mode = mode_of(header)
    return frozenset((*measures_of(mode), *MAXIMA)) if mode is not None else frozenset()
