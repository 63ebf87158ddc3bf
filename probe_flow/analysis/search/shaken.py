"""Other data without a fault: what was drawn at random otherwise, or decided otherwise where scores nearly tie.

Rows that are computed from such are *shaken*: the golden's are no measure of each of their elements. With tensors they
are still judged by the measured errors of their inputs. Statistics agree to a few per cent although no element does,
so there only gross errors accuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.flow.undumped import Undumped
from probe_flow.analysis.limits import OTHER_DATA
from probe_flow.analysis.model.deviation import Deviation
from probe_flow.analysis.search.diagnosis import UNRELATED
from probe_flow.records import Mode, NodeKey, Phase
from probe_flow.records.row import Row

SAMPLED = 2.0
"""Standard errors of a mean over few samples that statistics of other data are off by."""

RANDOM = 1.0
"""Share of random values, as root mean square, that are others."""


class Shaken:
    """The rows that were drawn or decided otherwise so far, and those that were computed from them.

    Args:
        rows: all rows; met in order of time.
        undumped: what the dump does not hold.
        alike: gives how many rows of a row of a call change as one, by what it was computed from, and remembers it.
    """

    def __init__(
        self, rows: Sequence[Row], undumped: Undumped, alike: Callable[[int, Call, Sequence[int]], float]
    ) -> None:
        self._rows = rows
        self._undumped = undumped
        self._alike = alike
        self._decided: dict[object, float] = {}  # identity of an execution -> share of elements that are others
        self._most = 0.0
        self._resized: dict[int, float] = {}
        self.noise: dict[int, float] = {}
        """Shaken row -> root of the share of elements that may be others."""
        self._at_once: set[int] = set()  # rows of which whole parts may be others, not elements one by one
        self._is_any_at_once = False
        self.random: list[int] = []
        """Rows of random results that differ."""
        self.undumped: list[int] = []
        """Rows that would be suspects if what the dump does not hold could not have made them so."""
        self.undecided: list[int] = []
        """Rows that would be suspects if they could not be other data by decisions, which statistics do not tell."""

    def meet(self, row: Row, share: float) -> None:
        """Take note of the share of decisions that a row shows to have been taken otherwise (`turned_share`)."""
        if share:
            run = row.node.execution.identity
            self._decided[run] = max(share, self._decided.get(run, 0.0))

    def counts(self, number: int) -> bool:
        """Whether a plain number may be a count of rows that decisions before it sent elsewhere: 33 in place of 32.

        It is one of a list that adds up to the rows of a tensor of its call, on both sides: where nothing else is known
        of numbers, these are what an exchange, or a split, takes of each rank or part.
        """
        path = self._rows[number].pair.shown.slot.path
        if not self._decided or len(path) < 2:
            return False
        of_call = [self._rows[n] for n in _of_same_call(number, self._rows)]
        lists = [row for row in of_call if not row.is_produced and row.pair.shown.slot.path[:-1] == path[:-1]]
        for side in ("target", "golden"):
            numbers = [getattr(row.pair, side) for row in lists]
            values = [each.value for each in numbers if each is not None]
            shapes = (getattr(row.pair, side) for row in of_call)
            lengths = {each.shape[0] for each in shapes if each is not None and each.shape}
            if not all(type(value) is int for value in values) or sum(values) not in lengths:
                return False
        return True

    def score(
        self, number: int, call: Call, around: Sequence[int], score: float, deviation: Deviation, *,
        is_known: bool, is_undumped: bool,
    ) -> float:  # fmt: skip
        """Return the score of a row by what may have been drawn or decided otherwise, and remember what is shaken.

        Args:
            number: the row.
            call: that made it.
            around: rows that it was computed from.
            score: as it was judged without.
            deviation: of the row.
            is_known: whether ``around`` are known; else it may be made of anything before.
            is_undumped: whether it is off, and was made of what a dump of a part of the calls does not hold.
        """
        row = self._rows[number]
        is_drawn = row.is_produced and not row.noise and call.is_random(self._rows)  # repeated runs know better
        if is_drawn and not _is_drawn_alike(row, deviation):
            if score > 1.0:
                self.random.append(number)
            self.noise[number] = self._most = RANDOM
            self._note_parts(number, around, is_known=is_known, is_part=not _drops_elements(call))
            self._alike(number, call, ())
            return 0.0
        if is_undumped:
            self.undumped.append(number)
            self.noise[number] = self._most = RANDOM
            self._note_parts(number, around, is_known=is_known, is_part=True)
            return 0.0
        is_reordered = max(score, deviation.relative / UNRELATED) > 1.0 and _is_reordered(row, deviation)
        if is_reordered and self._is_any_at_once:
            is_known = False  # it has the statistics of what it was made of, and that is how it was found
        chosen = self._chosen(row, call, around) if row.is_produced else 0.0
        if not is_known and self._decided and (is_reordered or _are_whole(row)):
            chosen = self._decided.get(row.node.execution.identity, 0.0)
        noise = chosen
        if not is_known:
            noise = max(chosen, self._most, self._others_by_size)
        elif self.noise:
            noise = max([chosen, *(self.noise.get(n, 0.0) for n in around)])
        if not noise:
            return score
        self.noise[number] = noise
        self._note_parts(number, around, is_known=is_known, is_part=bool(chosen))
        resized = self._of_sizes(number, call, around)
        alike = self._alike(number, call, around)
        self._most = max(self._most, noise)
        if row.is_by_statistics:
            if not deviation.size or deviation.unit == 0.0:  # other indices and masks; zeros measure nothing
                return self._left_open(number, score, 0.0)
            if row.is_produced and not call.is_gradient and number not in self._at_once:
                return min(score, deviation.relative * math.sqrt(_rows_of(row) / alike) / OTHER_DATA.apart)
            part = min(1.0, noise / OTHER_DATA.share)
            gross = max(OTHER_DATA.share * part, resized, SAMPLED * noise / math.sqrt(self._samples(number, around)))
            least = min(score / (1.0 + (OTHER_DATA.times - 1.0) * part), deviation.relative / gross)
            return self._left_open(number, score, least)
        # What nobody knows the making of may hold rows that were chosen otherwise.
        is_open = not is_known and not row.is_produced and self._is_any_at_once
        return 0.0 if chosen or is_open else score

    def _left_open(self, number: int, score: float, least: float) -> float:
        """Return the score that is left, and remember a row that it clears without proof."""
        if score > 1.0 >= least and not self.random and not self.undumped:
            self.undecided.append(number)
        return least

    def _note_parts(self, number: int, around: Sequence[int], *, is_known: bool, is_part: bool) -> None:
        """Take note of a row that holds other parts, or was made of what may: decisions and draws of other kinds."""
        if is_part or (any(n in self._at_once for n in around) if is_known else self._is_any_at_once):
            self._at_once.add(number)
            self._is_any_at_once = True

    def _chosen(self, row: Row, call: Call, around: Sequence[int]) -> float:
        """Return the share of a result's elements that a decision before it may have picked otherwise.

        Of a call that left no inputs ``around`` has what the graph feeds to it.
        """
        if not self._decided and not self._undumped.is_any:
            return 0.0
        key = call.key
        others = self._choosers.get(key, -1.0)
        if call.is_gradient:
            forward = NodeKey(key.execution, key.name, key.call, Phase.FORWARD)
            others = max(others, self._choosers.get(forward, -1.0))
        if others < 0.0 and not any(self._rows[n].pair.shown.is_index and not _agrees(self._rows[n]) for n in around):
            return 0.0
        is_open = self._undumped.is_any and (others > 0.0 or self._reads_undumped_choices(call))
        return self._decided.get(row.node.execution.identity, RANDOM if is_open else 0.0)

    def _reads_undumped_choices(self, call: Call) -> bool:
        """Whether a call, or that of a gradient, reads indices or masks that the dump does not hold the making of."""
        read = (n for n in (*call.read, *call.forward) if not self._rows[n].is_produced)
        return any(self._rows[n].pair.shown.is_index and self._undumped.made(n, call) for n in read)

    @cached_property
    def _others_by_size(self) -> float:
        """That of what comes from nobody knows where in a part of the calls, some of which read more or fewer rows."""
        return RANDOM if any(self._choosers.values()) and self._undumped.is_any else 0.0

    def _samples(self, number: int, around: Sequence[int]) -> int:
        """Return how many elements, or rows of what it was made of, a result has: so many are what averages out.

        A loss is one number, and the mean of one of each row: of few rows it is other by as much as each is.
        """
        read = [self._rows[n].pair.shown for n in around if not self._rows[n].is_produced]
        rows = ((each.numel or 0) // max((each.shape or ())[1:][-1:], default=1) for each in read if each.numel)
        return max(self._rows[number].pair.shown.numel or 1, 1, *rows)

    def _of_sizes(self, number: int, call: Call, around: Sequence[int]) -> float:
        """Return the root of the share of a row's elements that the sizes of what was picked show to be others."""
        found = max([self._choosers.get(call.key, 0.0), *(self._resized.get(n, 0.0) for n in around)])
        if found:
            self._resized[number] = found
        return found

    @cached_property
    def _choosers(self) -> Mapping[NodeKey, float]:
        """Nodes that read indices or masks, or tensors of other sizes than the golden's: as many rows as were picked.

        With them the root of the share of elements that the sizes show to be others: of few rows few more are many.
        With tensors those whose indices agree are left out.
        """
        found: dict[NodeKey, float] = {}
        for row in self._rows:
            target, golden = row.pair.target, row.pair.golden
            if target is None or golden is None or (mine := target.numel) is None or (other := golden.numel) is None:
                continue
            if mine != other or (not row.is_produced and target.is_index and not _agrees(row)):
                share = abs(mine - other) / max(1, mine, other)
                found[target.node] = max(math.sqrt(share), found.get(target.node, 0.0))
        return found


def _of_same_call(number: int, rows: Sequence[Row]) -> Iterator[int]:
    """Yield the rows of the call that owns one; they follow each other."""
    node = rows[number].node
    for step in (-1, 1):
        at = number if step > 0 else number - 1
        while 0 <= at < len(rows) and rows[at].node == node:
            yield at
            at += step


DRAWN_ALIKE = 0.02
"""Error of a random result beside a common factor, relative, up to which both sides drew the same: of 2,500 elements
one that is dropped on one side only leaves as much."""


def _is_drawn_alike(row: Row, deviation: Deviation) -> bool:
    """Whether both sides drew the same random numbers, as of one seed on one device: then nothing is other data.

    Their tensors tell: all elements differ by one factor and by little else.
    """
    is_known = not row.is_by_statistics and deviation.size > 0.0 and not deviation.nonfinite
    return is_known and deviation.relative**2 - deviation.gain**2 <= DRAWN_ALIKE**2


def _drops_elements(call: Call) -> bool:
    """Whether a random operator drops elements one by one: no channels, and no rows as masks of other kinds may."""
    assert call.node is not None
    return call.node.op_type.strip("_").lower() in _DROPOUTS


_DROPOUTS = frozenset(("dropout", "dropoutv2", "nativedropout", "native_dropout"))


COLUMNS = 4.0
"""Columns of a row from which what its elements share outweighs what each is off by alone, and does not average out."""


def _rows_of(row: Row) -> float:
    """Return how many rows of a tensor change independently at least: those of its last axis, or of its channels.

    A row of few elements counts less, for these average out less.
    """
    shape = row.pair.shown.shape or (1,)
    width = max(1, *shape[1:2], shape[-1])
    return max(1.0, math.prod(shape) // width / (1.0 + COLUMNS / width))


REORDERED = 0.1
"""Difference of norms and extremes, in what elements are off by, up to which these lie in another order."""


def _is_reordered(row: Row, deviation: Deviation) -> bool:
    """Whether a tensor that was read has nearly the golden's elements in another order, as rows sorted by expert do.

    One row in many that is another, since two scores tie, leaves norm and extremes nearly as they were, too.
    """
    measured = row.measurement
    if measured is None or row.is_produced or measured.mode is not Mode.TENSOR or not deviation.size:
        return False
    target, golden = measured.target_statistics, measured.golden_statistics
    if target is None or golden is None:
        return False
    names = (("l2norm", math.sqrt(deviation.count)), ("min", 1.0), ("max", 1.0))
    gaps = [(getattr(target, name), getattr(golden, name), scale) for name, scale in names]
    most = REORDERED * deviation.rms
    return all(a is not None and b is not None and abs(a - b) <= most * scale for a, b, scale in gaps)


def _are_whole(row: Row) -> bool:
    """Whether a row that was read holds whole numbers as floats: what was picked (experts), cast to be counted."""
    measured = row.measurement
    sides = (measured.target_statistics, measured.golden_statistics) if measured is not None else ()
    ends = [end for each in sides if each is not None for end in (each.min, each.max)]
    return not row.is_produced and bool(ends) and all(isinstance(end, float) and end.is_integer() for end in ends)


def _agrees(row: Row) -> bool:
    """Whether all elements are known to agree."""
    found = row.measurement
    return found is not None and found.mode is Mode.TENSOR and found.metrics.get("max_abs_err") == 0.0
