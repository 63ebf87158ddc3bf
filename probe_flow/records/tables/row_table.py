"""Rows of large comparisons as columns: 21 bytes each in place of 120, the pair not counted."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import repeat

from probe_flow.records.measurement import MeasuredTable, Measurement
from probe_flow.records.pairs import Pair
from probe_flow.records.row import UNJUDGED, ManyRows, Row
from probe_flow.records.tables.blocks import Blocks, Some
from probe_flow.records.verdict import Verdict


class MeasuredColumn:
    """What was measured of many pairs, by number: of recorded statistics the place in their table is enough.

    Args:
        pairs: all pairs.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        self._held: list[MeasuredTable | Measurement | None] = [None] * len(pairs)
        self._numbers = array("I", bytes(4 * len(pairs)))

    def __setitem__(self, number: int, measured: Measurement) -> None:
        if isinstance(measured.given, Pair):  # of its pair, whose sides the dumps recorded
            self._held[number], self._numbers[number] = measured.table, measured.number
        else:
            self._held[number] = measured

    def __getitem__(self, number: int) -> Measurement | None:
        return self.some(number, number + 1, (self.pairs[number],))[0]

    def some(self, begin: int, end: int, pairs: Sequence[Pair]) -> list[Measurement | None]:
        """Return what was measured of neighbours, which are these."""
        held, numbers = self._held[begin:end], self._numbers[begin:end]
        return [
            Measurement(each, number, (), pair) if isinstance(each, MeasuredTable) else each
            for each, number, pair in zip(held, numbers, pairs, strict=True)
        ]

    def rows(self) -> RowTable:
        """Return the rows, not judged yet."""
        return RowTable(self)


class RowTable(Blocks[Row], ManyRows):
    """Rows of pairs in their order, and what was measured of them.

    Args:
        measured: of the pairs.
        verdicts: of all rows, which then have numbers; None before.
    """

    def __init__(self, measured: MeasuredColumn, verdicts: Sequence[Verdict] | None = None) -> None:
        super().__init__(len(measured.pairs))
        self._measured, self._verdicts = measured, verdicts
        self._others: dict[int, Row] = {}

    @property
    def pairs(self) -> Sequence[Pair]:
        """The pairs of the rows."""
        return self._measured.pairs

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """The verdict of each row."""
        return [UNJUDGED] * len(self) if self._verdicts is None else self._verdicts

    def numbers_of_pairs(self, begin: int, end: int) -> Sequence[int]:
        """Return which pairs those of neighbours are, in the order in which they were made."""
        return self.pairs.numbers[begin:end] if isinstance(self.pairs, Some) else range(begin, end)

    def __setitem__(self, number: int, row: Row) -> None:
        """Have another row of the same pair."""
        self._others[number] = row
        self._let_go()

    def judged(self, verdicts: Sequence[Verdict]) -> RowTable:
        """Return the rows with their verdicts and numbers, and without what only judging needs."""
        for number, row in self._others.items():
            if row.measurement is not None:
                self._measured[number] = row.measurement
        return RowTable(self._measured, verdicts)

    def _made(self, begin: int, end: int) -> list[Row]:
        pairs = self.pairs[begin:end]
        measured = self._measured.some(begin, end, pairs)
        if self._verdicts is None:
            found = list(map(Row, pairs, measured, repeat(UNJUDGED)))
        else:
            found = list(map(Row, pairs, measured, self._verdicts[begin:end], range(begin, end)))
        if self._others:
            for number in range(begin, end):
                if number in self._others:
                    found[number - begin] = self._others[number]
        return found
