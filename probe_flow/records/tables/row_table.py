"""Rows of large comparisons as columns: 13 bytes each in place of 120, the pair not counted."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import repeat

from probe_flow.records.measurement import MeasuredTable, Measurement
from probe_flow.records.pairs import Pair
from probe_flow.records.row import UNJUDGED, ManyRows, Row
from probe_flow.records.tables.blocks import Blocks, Some
from probe_flow.records.verdict import Verdict

_OTHER = 255
"""Kind of a measurement that is held as it is."""


class MeasuredColumn:
    """What was measured of many pairs, by number: of recorded statistics the place in their table is enough.

    Args:
        pairs: all pairs.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        self._tables: list[MeasuredTable] = []
        self._others: list[Measurement] = []
        self._kinds = array("B", bytes(len(pairs)))  # 0: nothing; `_OTHER`; else number of the table, from 1 on
        self._numbers = array("I", bytes(4 * len(pairs)))

    def __setitem__(self, number: int, measured: Measurement) -> None:
        kind, place = _OTHER, len(self._others)
        if isinstance(measured.given, Pair):  # of its pair, whose sides the dumps recorded
            kind, place = self._kind_of(measured.table), measured.number
        if kind == _OTHER:
            place = len(self._others)
            self._others.append(measured)
        self._kinds[number], self._numbers[number] = kind, place

    def _kind_of(self, table: MeasuredTable) -> int:
        """Return the number of a table from 1 on, `_OTHER` of one too many; tables are few, the last one is usual."""
        place = next((place for place, each in enumerate(self._tables) if each is table), len(self._tables))
        if place == len(self._tables) < _OTHER - 1:
            self._tables.append(table)
        return min(place + 1, _OTHER)

    def __getitem__(self, number: int) -> Measurement | None:
        return self.some(number, number + 1, (self.pairs[number],))[0]

    def some(self, begin: int, end: int, pairs: Sequence[Pair]) -> list[Measurement | None]:
        """Return what was measured of neighbours, which are these."""
        kinds, numbers = self._kinds[begin:end], self._numbers[begin:end]
        if kinds.count(kinds[0]) == len(kinds) and 0 < kinds[0] < _OTHER:  # as most are
            table = self._tables[kinds[0] - 1]
            return [Measurement(table, number, (), pair) for number, pair in zip(numbers, pairs, strict=True)]
        found: list[Measurement | None] = []
        for kind, number, pair in zip(kinds, numbers, pairs, strict=True):
            of_table = kind and kind < _OTHER
            other = self._others[number] if kind == _OTHER else None
            found.append(Measurement(self._tables[kind - 1], number, (), pair) if of_table else other)
        return found

    def without(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return which of some pairs nothing was measured of."""
        return array("I", [number for number in numbers if not self._kinds[number]])

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
