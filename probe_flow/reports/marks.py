"""How pictures mark tensors: one scale of words, signs, colours and strengths for all of them.

What counts is the role of a tensor (is it wrong here, does it carry an error on, is it fine), and for one role how much
of its error is unexplained. The published verdict of a row colours nothing: it is a small word with a name.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from probe_flow.record.json_values import number
from probe_flow.record.types.run import RunRecord
from probe_flow.records import ALL_PASS, Comparison, FindingKind, Role, Row, Status, TensorKind
from probe_flow.records.row import verdicts_of

if TYPE_CHECKING:
    from probe_flow.record.row_index import RowIndex
    from probe_flow.record.types.rows import RowRecord


class Mark(enum.Enum):
    """What a picture says of a tensor, from what matters least to what matters most."""

    GAP = "gap"
    FINE = "fine"
    MISSING = "missing"
    OVER = "over"
    INHERITED = "inherited"
    DRIFT = "drift"
    ORIGIN = "origin"

    __hash__ = object.__hash__

    @property
    def rank(self) -> int:
        """The place in the order of importance, 0 for what matters least."""
        return _RANKS[self]


_RANKS = {mark: rank for rank, mark in enumerate(Mark)}


class Look(Struct, frozen=True):
    """How a mark looks.

    Args:
        word: what it is called.
        sign: one character that says the same without colour.
        letter: the same in ASCII.
        meaning: what it means, for legends.
        fills: colours of areas with the largest excess (`Verdict.excess`) that each is for; the last has no limit.
        is_strong_without_figure: whether an area without an excess has the last colour, else it has the first.
    """

    word: str
    sign: str
    letter: str
    meaning: str
    fills: tuple[tuple[float, str], ...]
    is_strong_without_figure: bool = False


_ALWAYS = math.inf
LOOKS: Mapping[Mark, Look] = MappingProxyType(
    {
        Mark.ORIGIN: Look(
            "wrong here",
            "\u25c6",
            "#",
            "the error begins here",
            ((2.0, "origin-1"), (10.0, "origin-2"), (_ALWAYS, "origin-3")),
            is_strong_without_figure=True,
        ),
        Mark.DRIFT: Look(
            "drifted", "\u25c9", "%", "small errors have added up beyond the limit", ((_ALWAYS, "origin-2"),)
        ),
        Mark.INHERITED: Look(
            "carries it on",
            "\u21b3",
            "-",
            "the error began earlier and is passed on",
            ((1.0, "inherited-1"), (10.0, "inherited-2"), (_ALWAYS, "inherited-3")),
        ),
        Mark.OVER: Look(
            "over its limit", "\u2715", "x", "misses a limit of the policy; no cause is known", ((_ALWAYS, "over"),)
        ),
        Mark.MISSING: Look("missing", "\u25d0", "!", "should have been compared and was not", ((_ALWAYS, "missing"),)),
        Mark.FINE: Look(
            "fine",
            "\u25cf",
            ".",
            "no error beyond what rounding and the inputs explain",
            ((0.05, "fine-1"), (0.4, "fine-2"), (1.0, "fine-3"), (_ALWAYS, "fine-4")),
        ),
        Mark.GAP: Look(
            "not compared",
            "\u2013",
            " ",
            "nothing to compare it with, as expected, or not asked for",
            ((_ALWAYS, "gap"),),
        ),
    }
)
"""What matters most comes first."""

_UNKNOWN = 255
"""No rank."""

_ORIGINS = frozenset({FindingKind.ORIGIN.value, FindingKind.NONFINITE_ORIGIN.value, FindingKind.CHECKSUM_ORIGIN.value})
_JUDGED = frozenset({Status.PASS, Status.WARNING, Status.FAIL})
_COMPARED = frozenset(status.value for status in _JUDGED)
_OFF = frozenset({Status.WARNING.value, Status.FAIL.value})


class Named(Struct, frozen=True):
    """A row that a finding names: how it is marked, and its excess where the finding says one."""

    mark: Mark
    excess: float | None


def fill_of(mark: Mark, excess: float | None) -> str:
    """Return the name of the colour of an area, by how much of the error is unexplained (NaN counts as infinite)."""
    look = LOOKS[mark]
    if excess is None:
        return look.fills[-1 if look.is_strong_without_figure else 0][1]
    return next((name for limit, name in look.fills if excess <= limit), look.fills[-1][1])


def excess_text(excess: float) -> str:
    """Return ``10 x its limit``: a limit is what rounding and the inputs explain, with a margin."""
    return f"{excess:.3g} x its limit" if math.isfinite(excess) else "beyond any limit"


def mark_of(role: str, status: str, *, is_missing: bool = False, counts_rule: bool = False) -> Mark:
    """Return the mark of a row.

    Args:
        role: what the analysis says of it.
        status: its published verdict.
        is_missing: whether it was not compared though it should have been.
        counts_rule: whether the gate counts failing rows (``all_pass``).
    """
    if role == Role.ORIGIN.value:
        return Mark.ORIGIN
    if role == Role.INHERITED.value:
        return Mark.INHERITED
    if status not in _COMPARED:
        return Mark.MISSING if is_missing else Mark.GAP
    is_unknown = role == Role.UNKNOWN.value and status in _OFF
    return Mark.OVER if is_unknown or (counts_rule and status == Status.FAIL.value) else Mark.FINE


def named_by(findings: Iterable[tuple[str, int | None, float | None]]) -> dict[int, Named]:
    """Return the rows that findings name, the first finding of each row: where errors, NaN or differences begin, drift.

    Args:
        findings: kind, row and severity of each.
    """
    found: dict[int, Named] = {}
    for kind, row, severity in findings:
        if row is not None and (kind in _ORIGINS or kind == FindingKind.DRIFT.value):
            mark = Mark.ORIGIN if kind in _ORIGINS else Mark.DRIFT
            found.setdefault(row, Named(mark, severity if kind == FindingKind.ORIGIN.value else None))
    return found


class RowMarks:
    """Marks the rows of one comparison.

    Args:
        named: the rows that its findings name.
        gate: its gate.
    """

    def __init__(self, named: Mapping[int, Named], gate: str | None) -> None:
        self._named = named
        self._counts_rule = gate == ALL_PASS
        self._known: dict[tuple[Role, Status, bool], Mark] = {}

    @classmethod
    def of(cls, comparison: Comparison) -> RowMarks:
        """Return what marks the rows of a comparison."""
        found = ((finding.kind.value, finding.row, finding.severity) for finding in comparison.findings)
        return cls(named_by(found), comparison.gate)

    def of_row(self, row: Row) -> Mark:
        """Return the mark of a row."""
        named = self._named.get(row.order)
        if named is not None:
            return named.mark
        verdict = row.verdict
        return self._of_kind(verdict.role, verdict.status, missing=verdict.status not in _JUDGED and is_missing(row))

    def ranks(self, rows: Sequence[Row]) -> bytes:
        """Return the rank of the mark of each row."""
        judged = {
            (status, role): self._of_kind(role, status, missing=False).rank for status in _JUDGED for role in Role
        }
        verdicts = verdicts_of(rows)
        found = bytearray(judged.get((verdict.status, verdict.role), _UNKNOWN) for verdict in verdicts)
        for place in self.places_named(rows):
            found[place] = _UNKNOWN
        place = found.find(_UNKNOWN)
        while place >= 0:
            found[place] = self.of_row(rows[place]).rank
            place = found.find(_UNKNOWN, place)
        return bytes(found)

    def places_named(self, rows: Sequence[Row]) -> list[int]:
        """Return the places of rows that findings name."""
        named = self._named
        return [place for place, row in enumerate(rows) if row.order in named] if named else []

    def _of_kind(self, role: Role, status: Status, *, missing: bool) -> Mark:
        found = self._known.get((role, status, missing))
        if found is None:
            found = mark_of(role.value, status.value, is_missing=missing, counts_rule=self._counts_rule)
            self._known[role, status, missing] = found
        return found

    def excess(self, order: int, known: float | None) -> float | None:
        """Return the excess of a row, that of the finding where it has none: an origin may have no counterpart."""
        named = self._named.get(order)
        return known if named is None or known is not None else named.excess


class StoredMarks:
    """Marks the rows of a stored run.

    Args:
        record: what run.json says.
    """

    def __init__(self, record: RunRecord) -> None:
        self._only = next(iter(record.comparisons), "") if len(record.comparisons) == 1 else ""
        self._named = {
            name: named_by((each.kind.value, each.row, number(each.severity)) for each in record.findings_of(name))
            for name in record.comparisons
        }
        self._gates = {
            name: part.gate.name if part.gate is not None else None for name, part in record.comparisons.items()
        }
        self._known: dict[tuple[str, Role, Status], Mark] = {}

    def of(self, row: RowRecord) -> tuple[Mark, float | None]:
        """Return the mark of a row and its excess.

        A record does not say whether a tensor without counterpart should have one: such a row counts as not compared.
        """
        name = row.comparison or self._only
        excess = number(row.excess)
        named = self._named[name].get(row.order)
        if named is not None:
            return named.mark, named.excess if excess is None else excess
        return self._unnamed(name, row.role, row.verdict), excess

    def ranks(self, comparison: str | None, index: RowIndex) -> bytes:
        """Return the rank of the mark of each row of a comparison."""
        name = comparison or self._only
        ranks = bytearray(index.by_state(lambda state: self._unnamed(name, state.role, state.status).rank))
        for order, named in self._named[name].items():
            for row in index.numbers_of_order(order):
                ranks[row] = named.mark.rank
        return bytes(ranks)

    def _unnamed(self, name: str, role: Role, status: Status) -> Mark:
        """Return the mark of a row that no finding names."""
        mark = self._known.get((name, role, status))
        if mark is None:
            is_missing, counts_rule = status is Status.ERROR, self._gates[name] == ALL_PASS
            mark = mark_of(role.value, status.value, is_missing=is_missing, counts_rule=counts_rule)
            self._known[name, role, status] = mark
        return mark

    def of_rows(self, rows: Iterable[RowRecord]) -> tuple[Mark, float | None] | None:
        """Return the most important mark of some rows, with the largest excess of those that have it; None for none."""
        found = [self.of(row) for row in rows]
        if not found:
            return None
        mark = max((mark for mark, _ in found), key=lambda each: each.rank)
        known = [excess for each, excess in found if each is mark and excess is not None]
        return mark, max(known, default=None)


def is_missing(row: Row) -> bool:
    """Return True for a row that was not compared and lowers the coverage."""
    status, pair = row.verdict.status, row.pair
    if status in _JUDGED:
        return False
    sides = [tensor for tensor in (pair.target, pair.golden) if tensor is not None]
    if status is Status.ERROR or any(tensor.kind is TensorKind.UNREADABLE for tensor in sides):
        return True
    if len(sides) < 2:
        return pair.reason is None or pair.reason.is_gap
    return not (status is Status.SKIPPED or row.measurement is not None or pair.is_opaque)


def marks_data() -> list[dict[str, Any]]:
    """Return the looks as JSON, in the order of `Mark`, so that a script draws by the same scale."""
    return [
        {
            "name": mark.value,
            "word": LOOKS[mark].word,
            "sign": LOOKS[mark].sign,
            "meaning": LOOKS[mark].meaning,
            "strong": LOOKS[mark].is_strong_without_figure,
            "fills": [[limit if math.isfinite(limit) else None, name] for limit, name in LOOKS[mark].fills],
        }
        for mark in Mark
    ]
