"""Where tensors of a program came from, by their values: what holds a value that an earlier tensor held is that tensor.

No collector records edges. Values are those of the golden, which a fault of the target does not change.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from probe_flow.analysis.flow.calls import is_gated
from probe_flow.records import Execution, NodeKey, NodeKind, Pairs, Phase, SlotRole, Statistics
from probe_flow.records.pairs import numbers_for
from probe_flow.records.row import Row

_INPUT, _PARAMETER, _BACKWARD = SlotRole.INPUT, SlotRole.PARAMETER, Phase.BACKWARD
"""Asked for each row: a member of an enumeration takes longer to find than most else."""

_WEIGHTED = re.compile(
    r"(?i)(linear|dense|conv(_?transpose)?_?\d?d?|(layer|batch|group|instance|rms)_?norm|embedding(_?bag)?|prelu|"
    r"(gru|lstm|rnn)(_tanh|_relu)?(_cell)?|bilinear|multi_head_attention_forward)\d?"
)
"""Types of which tensors are parameters or buffers from some place on, unless something before wrote them."""

_FIRST_WEIGHT = {"bilinear": 2, "multi_head_attention_forward": 3}
"""That place, where it is not the one behind the first: these read two and three tensors."""

PLAIN = 2.0**12
"""Significands that are multiples of one part in so many are of plain numbers."""

_Number = int | float | None
_Fingerprint = tuple[int, int, _Number, _Number, _Number, int, bool]
"""Execution, number of elements, minimum, maximum, norm, mean in parts of the size, and whether they are of the target.

A rotary embedding multiplies a tensor, and the same with half of its elements negated: their means differ."""

_PARTS = 1e4
"""Parts of a size by which means are told apart: those of one tensor differ by what the order of sums leaves."""


class Producers(Mapping[int, tuple[int, ...]]):
    """Row -> rows that it came from. Most came from one, or from none: that takes 4 bytes a row, in a dictionary 130.

    Args:
        count: number of all rows.
        known: what is known already.
    """

    __slots__ = ("_known", "_one", "_several")

    def __init__(self, count: int, *known: Mapping[int, tuple[int, ...]]) -> None:
        self._one = array("i", [_UNKNOWN]) * count
        self._several: dict[int, tuple[int, ...]] = {}
        self._known = 0
        for each in known:
            for number, rows in each.items():
                self[number] = rows

    def __setitem__(self, number: int, rows: tuple[int, ...]) -> None:
        self._known += self._one[number] == _UNKNOWN
        self._one[number] = _SOURCE if not rows else rows[0] if len(rows) == 1 else _SEVERAL
        if len(rows) > 1:
            self._several[number] = rows

    def __getitem__(self, number: int) -> tuple[int, ...]:
        one = self._one[number]
        if one >= 0:
            return (one,)
        if one == _UNKNOWN:
            raise KeyError(number)
        return () if one == _SOURCE else self._several[number]

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self._one[number] != _UNKNOWN

    def __iter__(self) -> Iterator[int]:
        return (number for number, one in enumerate(self._one) if one != _UNKNOWN)

    def __len__(self) -> int:
        return self._known

    def forget(self, number: int) -> None:
        """Take it for unknown where a row came from."""
        self._known -= self._one[number] != _UNKNOWN
        self._one[number] = _UNKNOWN


_UNKNOWN, _SOURCE, _SEVERAL = -1, -2, -3


def by_value(rows: Sequence[Row], pairs: Pairs) -> tuple[Producers, dict[int, tuple[NodeKey, ...]], dict[int, int]]:
    """Return `Links.producers` by equal values, `Links.before` for what gates in place made, and `Links.wrote`."""
    places, programs = _programs(rows)
    has_steps = len(set(programs.values())) < len(programs)

    shown = (row for row in rows if row.slot_role is _PARAMETER)
    keys = (_fingerprint(row, places[id(row.node.execution)]) for row in shown)
    weights = _Weights(pairs, frozenset(key for key in keys if key is not None))
    kept: dict[object, int] = {}  # what earlier steps of the same program left for later ones to read
    last: dict[object, int] = {}
    run = -1
    producers = Producers(len(rows))
    gates: dict[int, tuple[NodeKey, ...]] = {}
    wrote: dict[int, int | None] = {}
    stacked = _Stacked()
    skipped = _SkippedCalls(rows, lambda row: _fingerprint_alone(row, places[id(row.node.execution)]))
    passed: dict[object, int] = {}  # (execution, elements) -> gradient that a gate in place has yet to act on
    for number, row in zip(numbers_for(rows, len(rows)), rows, strict=False):
        if row.measurement is None:
            continue
        node, role = row.node, row.slot_role
        if (place := places[id(node.execution)]) != run:  # its rows follow each other, and take from no other's
            run, last = place, {}
            stacked.begin()
        key = _fingerprint(row, place)
        left = kept.get((programs[key[0]], key[1:])) if kept and key is not None and not row.is_produced else None
        latest = last.get(key)
        if key is not None and latest is not None and weights.is_same(row, rows[latest], key):
            producers[number] = (_shown_again(row, latest, rows, producers),)
            if row.is_produced and rows[latest].node == node and _is_gate(row, pairs):
                passed[key[:2]] = number
        elif passed and role is _INPUT and node.phase is _BACKWARD and key is not None and key[:2] in passed:
            gate = passed.pop(key[:2])
            producers[number], gates[number] = (gate,), (rows[gate].node,)
        elif (handed := skipped.handed(row, key, last, rows)) is not None:
            producers[number] = (handed,)
        elif weights.has(row, key):
            producers[number], wrote[number] = (), left
        elif left is not None:
            producers[number] = (left,)
        elif made := stacked.made_of(row):
            producers[number] = made
        stacked.note(number, row)
        if key is not None:
            _keep(number, key, last, kept if has_steps else None, programs)
    return producers, gates, {n: left for n, left in wrote.items() if left is not None and rows[left].is_produced}


def _keep(
    number: int, key: _Fingerprint, last: dict[object, int], kept: dict[object, int] | None,
    programs: Mapping[int, object],
) -> None:  # fmt: skip
    last[key] = number
    if kept is not None:
        kept[programs[key[0]], key[1:]] = number


def _shown_again(row: Row, latest: int, rows: Sequence[Row], producers: Mapping[int, tuple[int, ...]]) -> int:
    """Return the row whose tensor a row shows again: the latest of the same golden value.

    Two arguments of one call may be equal on the golden by accident, as a norm and a parameter that begins as that
    norm: then the target's values tell which of the rows before it is.
    """
    if row.is_produced or rows[latest].node != row.node:
        return latest
    own = row.pair.target.recorded if row.pair.target is not None else None
    if own is None:
        return latest
    number = latest
    before: tuple[int, ...] = (latest,)
    while len(before) == 1 and before[0] <= number:
        number = before[0]
        other = rows[number].pair.target
        if other is not None and other.recorded == own:
            return number
        before = producers.get(number, ())
    return latest


class _Weights:
    """Which rows are weights, and whether two of one golden value are the same tensor.

    Args:
        pairs: of the comparison.
        parameters: what modules list as theirs.
    """

    def __init__(self, pairs: Pairs, parameters: frozenset[_Fingerprint]) -> None:
        self._pairs = pairs
        self._parameters = parameters

    def has(self, row: Row, key: _Fingerprint | None) -> bool:
        """Whether a row that nothing wrote is a weight."""
        role = row.slot_role
        return role is _PARAMETER or (role is _INPUT and (key in self._parameters or _is_weight(row, self._pairs)))

    def is_same(self, row: Row, equal: Row, key: _Fingerprint) -> bool:
        """Whether a row shows the tensor of an earlier one, and no other that has the same value on the golden.

        Layers that begin alike have weights of their own: where the target reads different ones, they are not the same.
        """
        if row.is_produced:
            return not _is_chance(row, equal, self._pairs)
        is_of_both = equal.is_produced or _agree(row, equal) is not False
        return is_of_both or not (self.has(row, key) and self.has(equal, key))


RECORDED = 2.0**-18
"""Relative error of mean and norm of a few numbers, which collectors add up in float32."""


class _Stacked:
    """Vectors of single numbers that calls gave one after the other: gradients' norms before they are clipped.

    What puts them together (`stack`) is in no dump. The golden's statistics tell it.
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._values: list[float] = []

    def begin(self) -> None:
        """Begin another execution."""
        self._numbers, self._values = [], []

    def note(self, number: int, row: Row) -> None:
        """Take note of a result that is one number."""
        if row.is_produced and (known := _of_numbers(row, 1)) is not None:
            self._numbers.append(number)
            self._values.append(float(known.min or 0.0))

    def made_of(self, row: Row) -> tuple[int, ...]:
        """Return the latest results that a row that was read consists of; none where its statistics are others."""
        count = row.measurement.count if row.measurement is not None else 0
        if row.is_produced or not 1 < count <= len(self._values) or (known := _of_numbers(row, count)) is None:
            return ()
        values = self._values[-count:]
        mean, norm = math.fsum(values) / count, math.hypot(*values)
        is_same = (known.min, known.max) == (min(values), max(values)) and None not in (known.mean, known.l2norm)
        gaps = abs((known.mean or 0.0) - mean), abs((known.l2norm or 0.0) - norm)
        return tuple(self._numbers[-count:]) if is_same and max(gaps) <= RECORDED * norm else ()


class _SkippedCalls:
    """What calls of the golden alone read, by what they gave in the golden to a call that both sides make.

    Where the target reads there, to the last recorded digit, what that call of the golden had read, it left it out:
    that tensor is where the row comes from, and what the call would have done to it is the error. A target that makes
    another call in its place reads another tensor.

    Args:
        rows: all rows.
        identity: gives what identifies the golden tensor of a row that was not compared, or None.
    """

    def __init__(self, rows: Sequence[Row], identity: Callable[[Row], Hashable | None]) -> None:
        self._read: dict[NodeKey, list[Hashable]] = defaultdict(list)
        self._made: dict[Hashable, NodeKey] = {}
        for row in rows:
            if row.pair.target is not None or (known := identity(row)) is None:
                continue
            if row.is_produced:
                self._made[known] = row.node
            else:
                self._read[row.node].append(known)

    def handed(self, row: Row, known: Hashable, last: Mapping[Hashable, int], rows: Sequence[Row]) -> int | None:
        """Return the row that the target hands on to ``row``; None where nothing tells that it left a call out.

        Args:
            row: what is read.
            known: identity of its golden tensor.
            last: identity -> latest row of it.
            rows: all rows.
        """
        node, own = self._made.get(known), row.pair.target
        if node is None or own is None or own.recorded is None or row.slot_role is not _INPUT:
            return None
        for number in (last[read] for read in self._read.get(node, ()) if read in last):
            before = rows[number].pair.target
            if before is not None and (before.shape, before.recorded) == (own.shape, own.recorded):
                return number
        return None


def _of_numbers(row: Row, count: int) -> Statistics | None:
    """Return the golden's statistics of so many fractions in a line; None of others."""
    measured, golden = row.measurement, row.pair.golden
    if measured is None or golden is None or measured.count != count or "float" not in golden.dtype:
        return None
    known = measured.golden_statistics
    is_line = len(golden.shape or ()) <= 1
    return known if is_line and known is not None and known.min is not None else None


def _is_chance(row: Row, equal: Row, pairs: Pairs) -> bool:
    """Whether a result of the golden equals what its own call read, or another one gave, and the target's does not.

    So it is where what was added is lost in rounding on one side only, and where two sums are of the same terms: the
    call computes, and does not hand on. A module does.
    """
    if not row.is_produced:
        return False
    node = pairs.target.nodes.get(row.node)
    is_computed = equal.node == row.node or (node is not None and node.kind is NodeKind.API)
    return is_computed and _agree(row, equal) is False


def _agree(row: Row, equal: Row) -> bool | None:
    """Return whether the target recorded the same of two rows; None where that is not known."""
    own, other = (None if each.pair.target is None else each.pair.target.recorded for each in (row, equal))
    if own is None or other is None:
        return None
    return (own.min, own.max, own.l2norm) == (other.min, other.max, other.l2norm)


def _programs(rows: Sequence[Row]) -> tuple[dict[int, int], dict[int, tuple[object, ...]]]:
    """Return the number of each execution, by the object since hashing one is slow, and whose step each number is."""
    runs: dict[Execution, int] = {}
    places: dict[int, int] = {}
    programs: dict[int, tuple[object, ...]] = {}
    for row in rows:
        run = row.node.execution
        if id(run) not in places:
            place = places[id(run)] = runs.setdefault(run, len(runs))
            programs[place] = run.rank, run.graph
    return places, programs


def _is_gate(row: Row, pairs: Pairs) -> bool:
    """Whether a row is of the backward pass of a call whose derivative jumps."""
    node = pairs.target.nodes.get(row.node)
    return row.node.phase is Phase.BACKWARD and node is not None and is_gated(node.op_type)


def _is_weight(row: Row, pairs: Pairs) -> bool:
    """Whether an input that nothing wrote is a weight by its place in the call."""
    tensor = row.pair.shown
    place = next(iter(tensor.traits.slot.path), 0)
    if tensor.node.phase is not Phase.FORWARD or place == 0:
        return False
    node = pairs.target.nodes.get(tensor.node)
    if node is None or _WEIGHTED.fullmatch(node.op_type) is None:
        return False
    return not isinstance(place, int) or place >= _FIRST_WEIGHT.get(node.op_type.lower(), 1)


def _fingerprint(row: Row, run: int) -> _Fingerprint | None:
    """Return what identifies the golden values, or None when that says too little (constants, plain scalars).

    It begins with execution and number of elements.

    What the dump recorded comes first: it is the same in both modes, and of the same precision wherever a tensor shows.
    Of a difference that is zero on the golden everywhere the target's values tell, which are what rounding left, and of
    one number that is plain on the golden, as what little a logarithm of nearly 1 is.
    """
    measurement, golden = row.measurement, row.pair.golden
    if measurement is None or golden is None or not (count := measurement.count):
        return None
    recorded = golden.recorded
    measured = recorded if measurement.given.golden is golden else measurement.golden_statistics
    if measured is None:
        return None
    # Of integers no norm is recorded.
    statistics = measured if recorded is None or recorded.l2norm is None else recorded
    if statistics.l2norm is None:
        return None
    if not _is_constant(statistics, count):
        return _print(run, count, statistics, is_target=False)
    target = row.pair.target.recorded if row.pair.target is not None else None
    if (statistics.max != 0 and count > 1) or target is None or not target.l2norm or _is_constant(target, count):
        return None
    return _print(run, count, target, is_target=True)


def _fingerprint_alone(row: Row, run: int) -> _Fingerprint | None:
    """Return the same of what only the golden has."""
    golden = row.pair.golden
    known = golden.recorded if golden is not None else None
    if golden is None or known is None or known.l2norm is None or not (count := golden.numel):
        return None
    return None if _is_constant(known, count) else _print(run, count, known, is_target=False)


def _print(run: int, count: int, known: Statistics, *, is_target: bool) -> _Fingerprint:
    part = known.mean * math.sqrt(count) * _PARTS / known.l2norm if known.mean and known.l2norm else 0.0
    return run, count, known.min, known.max, known.l2norm, round(part) if math.isfinite(part) else 0, is_target


def _is_constant(statistics: Statistics, count: int) -> bool:
    """Whether a tensor holds one value everywhere, or is a number that others are as well."""
    return statistics.min == statistics.max and (count > 1 or not _is_telling(statistics.min))


def _is_telling(value: _Number) -> bool:
    """Whether a number needs more bits than 0, 1, 0.5 and what 16 bits hold, so that another one hardly is the same."""
    return value is not None and math.isfinite(value) and not (math.frexp(value)[0] * PLAIN).is_integer()
