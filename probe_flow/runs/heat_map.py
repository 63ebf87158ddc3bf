"""A heat map of a run as text: executions down, operators in order of execution across, the worst of each as a sign."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from probe_flow.record.places import Place, printable
from probe_flow.record.row_index import RowIndex
from probe_flow.record.types.run import RunRecord
from probe_flow.reports.marks import LOOKS, Mark, StoredMarks

MAX_LINES = 16
LEAST_CELLS = 10
MARGIN = 2

_MARKS = tuple(Mark)
"""By their ranks."""

Words = tuple[str, ...]
"""Those of an execution."""


class HeatText:
    """Collects what a run found, execution by execution.

    Args:
        record: what run.json says of the run.
    """

    def __init__(self, record: RunRecord) -> None:
        self._marks = StoredMarks(record)
        self._bands: dict[Words, list[int]] = {}

    def add(self, comparison: str | None, index: RowIndex) -> None:
        """Take the rows of a comparison; they are in execution order."""
        words = [_words(comparison, place) for place in index.executions]
        bands = [self._bands.setdefault(each, []) for each in words]
        ranks = self._marks.ranks(comparison, index)
        calls: dict[Words, int] = {}
        for begin, end, execution, call in index.stretches():
            band, worst = bands[execution], max(ranks[begin:end])
            if calls.get(words[execution]) == call:  # its rows are not all together
                band[-1] = max(band[-1], worst)
            else:
                calls[words[execution]] = call
                band.append(worst)

    def lines(self, *, width: int) -> list[str]:
        """Return a line for each execution and what the signs mean; nothing when there is only one execution.

        Of many executions those with the worst are shown.
        """
        if len(self._bands) < 2:
            return []
        kept = self._kept()
        labels = {place: " ".join(place) or "the only execution" for place in kept}
        room = max(map(len, labels.values()))
        cells = max(LEAST_CELLS, width - room - 2 * MARGIN)
        indent = " " * MARGIN
        found = [_squeezed(self._bands[place], cells) for place in kept]
        lines = [
            f"{indent}{label.ljust(room)}{indent}{_text(band)}".rstrip()
            for label, band in zip(labels.values(), found, strict=True)
        ]
        rest = len(self._bands) - len(kept)
        more = [f"{indent}and {rest} more execution{'s' if rest > 1 else ''} that fared no worse"] if rest else []
        seen = {rank for band in found for rank in band}
        looks = [LOOKS[_MARKS[rank]] for rank in sorted(seen, reverse=True) if rank]
        meanings = [f"{look.letter} {look.word}" for look in looks]
        return [*lines, *more, f"{indent}{', '.join(meanings)}"] if meanings else [*lines, *more]

    def _kept(self) -> list[Words]:
        """Return the places of at most so many lines, in order of execution: all, or those that are not as healthy."""
        order = {place: number for number, place in enumerate(self._bands)}
        if len(order) <= MAX_LINES:
            return list(order)
        ranked = sorted(order, key=lambda place: _weight(self._bands[place]), reverse=True)
        worse = [place for place in ranked if _weight(self._bands[place]) > (0, 0)]
        return sorted((worse or ranked)[:MAX_LINES], key=order.__getitem__)


def _words(comparison: str | None, place: Place) -> Words:
    parts = (("rank", place.rank), ("graph", place.graph), ("step", place.step))
    stage = () if comparison is None else (printable(comparison),)
    return (*stage, *(f"{name} {printable(value)}" for name, value in parts if value is not None))


def _weight(band: Sequence[int]) -> tuple[int, int]:
    worst = max(band)
    return (worst, band.count(worst)) if worst > Mark.MISSING.rank else (0, 0)


def _squeezed(band: Sequence[int], cells: int) -> list[int]:
    """Return a band in at most so many cells, each the worst of the operators in it."""
    if len(band) <= cells:
        return list(band)
    found = [0] * cells
    for place, rank in enumerate(band):
        cell = place * cells // len(band)
        found[cell] = max(found[cell], rank)
    return found


def _text(band: Iterable[int]) -> str:
    return "".join(LOOKS[_MARKS[rank]].letter for rank in band)
