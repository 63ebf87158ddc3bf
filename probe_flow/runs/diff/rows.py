"""The rows of two stored runs side by side: which show the same tensor, and what became of it."""

from __future__ import annotations

import enum
import math
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct

from probe_flow.metrics.error_figure import error_figure
from probe_flow.record.row_index import LineIndex
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import Phase, Role, SlotRole, Status

COMPARED = frozenset({Status.PASS, Status.WARNING, Status.FAIL})

RELATIVE = frozenset({"relative_euclidean_distance", "l2norm_diff_rel", "cosine", "mean_rel_err", "max_rel_err"})

ROUNDING: Mapping[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e4m3fnuz": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "float8_e5m2fnuz": 2.0**-3,
    "hifloat8": 2.0**-3,
}
"""Half a unit in the last place of the significand: a relative error up to this is what storing a value costs."""


class Kind(enum.Enum):
    """What became of a tensor; the first that applies, in this order."""

    WORSE = "worse"
    LOST = "lost"
    VANISHED = "vanished"
    BETTER = "better"
    GAINED = "gained"
    APPEARED = "appeared"
    CHANGED = "changed"
    REMATCHED = "rematched"


MEANINGS: Mapping[Kind, str] = {
    Kind.WORSE: "the error has grown, or NaN, infinities or a differing checksum have come",
    Kind.LOST: "compared in A, in B not compared any more",
    Kind.VANISHED: "in A only",
    Kind.BETTER: "the error has shrunk, or NaN, infinities or a differing checksum have gone",
    Kind.GAINED: "not compared in A, compared in B",
    Kind.APPEARED: "in B only",
    Kind.CHANGED: "another verdict, with an error of the same size",
    Kind.REMATCHED: "compared with another golden tensor, with the same verdict and an error of the same size",
}


class RowFacts(Struct, frozen=True):
    """What the difference needs of a row of one run."""

    verdict: Status
    role: Role
    golden: str
    rule: str
    figure: tuple[str, float] | None
    nonfinite: int
    is_equal: bool | None
    dtypes: tuple[str, ...]
    is_excused: bool

    @property
    def is_compared(self) -> bool:
        """Whether its values were judged."""
        return self.verdict in COMPARED


class RowPlace(Struct, frozen=True, gc=False):
    """Where a tensor is, in the words of ``comparison.jsonl``; `side` names what the row shows."""

    comparison: str | None
    rank: int | None
    graph: int | str | None
    step: int | None
    node: str
    name: str
    call: int
    phase: Phase
    direction: SlotRole
    index: str
    op_type: str
    side: str


_Key = tuple[Any, ...]
_place_of = attrgetter("rank", "graph", "step", "node", "call", "phase", "direction", "index")


class RowChange(Struct, frozen=True):
    """A tensor that is not in both runs the same.

    Args:
        kind: what became of it.
        place: where it is.
        before, after: the row in A and in B; None where it has none.
        is_rematched: whether it is compared with another golden tensor.
    """

    kind: Kind
    place: RowPlace
    before: RowFacts | None
    after: RowFacts | None
    is_rematched: bool = False

    @property
    def is_regression(self) -> bool:
        """Whether it is for the worse, and neither waived nor in the baseline of B."""
        if self.kind is Kind.WORSE:
            return self.after is not None and not self.after.is_excused
        return self.kind is Kind.LOST or (
            self.kind is Kind.VANISHED and self.before is not None and self.before.is_compared
        )


At = tuple[int | None, int | None]
"""Rank and step."""


class RunRows:
    """Some rows of one run by the tensor that they show; a tensor may be in several pairs."""

    def __init__(self) -> None:
        self._names: dict[_Key, tuple[str, str]] = {}
        self._by_key: dict[_Key, list[RowFacts]] = {}

    def add(self, row: RowRecord, comparison: str | None) -> None:
        """Add a row; ``comparison`` is what places name."""
        side = "target" if row.target is not None else "golden"
        key = (side, comparison, *_place_of(row))
        self._by_key.setdefault(key, []).append(_facts(row))
        self._names[key] = sys.intern(row.op_type), row.name

    def pairs(
        self, before: RunRows, names: Mapping[str, str]
    ) -> Iterator[tuple[RowPlace, tuple[RowFacts | None, RowFacts | None]]]:
        """Yield place, row before and row now of every tensor: in the order of this run, then those that it lacks.

        Args:
            before: rows of the other run.
            names: stage of this run -> stage of the other one.
        """
        left = dict(before._by_key)
        for key, rows in self._by_key.items():
            old = left.pop((key[0], names.get(key[1], key[1]), *key[2:]), [])
            place = self._place(key)
            for pair in _aligned(old, rows):
                yield place, pair
        for key, rows in left.items():
            place = before._place(key)
            for row in rows:
                yield place, (row, None)

    def _place(self, key: _Key) -> RowPlace:
        side, comparison, rank, graph, step, node, call, phase, direction, index = key
        op_type, name = self._names[key]
        return RowPlace(comparison, rank, graph, step, node, name, call, phase, direction, index, op_type, side)


def unequal_rows(a: StoredRun, b: StoredRun, names: Mapping[str, str]) -> tuple[int, RunRows, RunRows]:
    """Return how many lines of both runs say the same, wherever they are, and the other rows of either.

    Lines that say the same are not read, unless neither file is known to be as its run wrote it: both may be damaged
    alike.

    Args:
        a: the run before.
        b: the run after.
        names: stage of B -> stage of A.
    """
    is_named = len(a.comparisons) > 1 or len(b.comparisons) > 1
    before, after, same = RunRows(), RunRows(), 0
    olds = dict(zip(a.comparisons, a.stored_rows(), strict=True))
    left = {name: [*range(len(old.lines))] for name, old in olds.items()}
    for name, new in zip(b.comparisons, b.stored_rows(), strict=True):
        numbers, partner = [*range(len(new.lines))], names.get(name, name)
        if partner in olds and a.version == b.version:
            numbers, left[partner] = _unequal(new.lines, olds[partner].lines)
            same += len(new.lines) - len(numbers)
            if not (new.is_as_written or olds[partner].is_as_written):
                new.check(set(range(len(new.lines))).difference(numbers))
        for row in new.rows(numbers):
            after.add(row, name if is_named else None)
    for name, old in olds.items():
        for row in old.rows(left[name]):
            before.add(row, name if is_named else None)
    return same, before, after


def _unequal(new: LineIndex, old: LineIndex) -> tuple[list[int], list[int]]:
    """Return the numbers of the lines that only the one has, or more often, and of those that only the other has."""
    codes = new.codes(), old.codes()
    return (_only_in(*codes), _only_in(*reversed(codes))) if codes[0] != codes[1] else ([], [])


def _only_in(codes: Sequence[int], others: Sequence[int]) -> list[int]:
    left = Counter(others)
    found = []
    for number, code in enumerate(codes):
        there = left.get(code, 0)
        if there:
            left[code] = there - 1
        else:
            found.append(number)
    return found


def _aligned(old: Sequence[RowFacts], new: Sequence[RowFacts]) -> Iterator[tuple[RowFacts | None, RowFacts | None]]:
    """Pair the rows of one tensor: those with the same golden tensor, then the others in order."""
    if len(old) == len(new) == 1:
        yield old[0], new[0]
        return
    by_golden: defaultdict[str, deque[int]] = defaultdict(deque)
    for place, row in enumerate(old):
        by_golden[row.golden].append(place)
    same = [by_golden[row.golden].popleft() if by_golden[row.golden] else None for row in new]
    waiting = deque(old[place] for place in sorted(place for places in by_golden.values() for place in places))
    for row, place_before in zip(new, same, strict=True):
        if place_before is not None:
            yield old[place_before], row
        else:
            yield waiting.popleft() if waiting else None, row
    for row in waiting:
        yield row, None


def _facts(row: RowRecord) -> RowFacts:
    sides = [side for side in (row.target, row.golden) if side is not None]
    counts = [((side.nan or 0), (side.inf or 0)) for side in sides]
    equal = row.metrics.get("checksum_equal")
    return RowFacts(
        verdict=row.verdict,
        role=row.role,
        golden=sys.intern(row.golden.name) if row.golden is not None else "",
        rule=sys.intern(row.rule),
        figure=error_figure(row.metrics),
        nonfinite=sum(abs(one - other) for one, other in zip(*counts, strict=True)) if len(counts) == 2 else 0,
        is_equal=equal if isinstance(equal, bool) else None,
        dtypes=tuple(sys.intern(side.dtype) for side in sides),
        is_excused=row.waived is not None or row.accepted is not None,
    )


def change_of(place: RowPlace, old: RowFacts | None, new: RowFacts | None, tolerance: float) -> RowChange | None:
    """Return what became of a tensor from its row in A to that in B; None where it is the same.

    An error has grown when it is more than the tolerance above that of A, and more than the rounding of its dtype.
    """
    if old is None or new is None:
        return RowChange(Kind.APPEARED if old is None else Kind.VANISHED, place, old, new)
    is_rematched = old.golden != new.golden
    kind = _kind(old, new, tolerance)
    if kind is None and is_rematched:
        kind = Kind.REMATCHED
    return RowChange(kind, place, old, new, is_rematched) if kind is not None else None


def _kind(old: RowFacts, new: RowFacts, tolerance: float) -> Kind | None:
    if old.is_compared != new.is_compared:
        return Kind.LOST if old.is_compared else Kind.GAINED
    if old.is_compared:
        if _is_worse(old, new, tolerance):
            return Kind.WORSE
        if _is_worse(new, old, tolerance):
            return Kind.BETTER
    return Kind.CHANGED if old.verdict != new.verdict else None


def _is_worse(old: RowFacts, new: RowFacts, tolerance: float) -> bool:
    if new.nonfinite > old.nonfinite or (old.is_equal is True and new.is_equal is False):
        return True
    if new.nonfinite < old.nonfinite or (old.is_equal is False and new.is_equal is True):
        return False
    if old.figure is None or new.figure is None or old.figure[0] != new.figure[0]:
        return old.verdict is not Status.FAIL and new.verdict is Status.FAIL
    metric, before = old.figure
    after = new.figure[1]
    rounding = max((ROUNDING.get(dtype, 0.0) for dtype in new.dtypes), default=0.0) if metric in RELATIVE else 0.0
    if math.isnan(before) or math.isnan(after):
        return math.isnan(after) and not math.isnan(before)
    return after > before * (1.0 + tolerance) and after > rounding
