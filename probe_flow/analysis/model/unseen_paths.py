"""What may have come along paths that the dump does not show, by the errors of what was judged before.

Gradients that were clipped or that autograd adds up, state kept between steps, and operators without files leave no
rows, or rows of which nobody knows what they were made of. These may carry what the latest outputs were off by, or the
gradients like them, and a rounding for each operator of a graph that ran in between.

A device often dumps only some operators of a model; the golden, which has them all, tells how many ran. Each of ``n``
rounds its result once, independently of the others, so what has no fault is off by about ``sqrt(n)`` rounding steps
behind them.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from probe_flow.analysis.flow.calls import Calls, begins_gradients, is_gradient
from probe_flow.analysis.flow.links import Links
from probe_flow.analysis.model.decisions import flipped_share, share_turned
from probe_flow.analysis.model.deviation import TINY, Deviation
from probe_flow.analysis.model.hidden_casts import HiddenCasts
from probe_flow.analysis.model.hidden_errors import RECENT, LostSteps
from probe_flow.analysis.model.updates import Unseen, Updates
from probe_flow.analysis.number_types import UNIT
from probe_flow.records import Catalog, Execution, Flow, NodeKey, NodeKind, Pairs, SlotRole
from probe_flow.records.row import Row

UNSHOWN = 2.0
"""How much larger than the errors of late outputs one may be that came along a path that the dump does not show."""

UNDUMPED = 2.0
"""Rounding steps of what the dump does not show the making of: it may be several operators, a recurrence or a slice."""

LAST, ABOUT = 8, 8
"""Gradients among which the last of about as many elements is looked for, and how many times as many that may be."""

LATEST = 64
"""Gradients of as many elements among which the terms of a sum are looked for."""


AS_SMALL = 4
"""Powers of two between the size of noise and that of what may be made of it: averaged, clipped, cut in parts."""


class UnseenPaths:
    """The errors that rows may have from what the dump does not show, in order of time.

    Args:
        rows: all rows.
        pairs: what they come from.
        calls: of them.
        updates: the parameters that were read so far.
        casts: roundings that no type shows.
        lost: the coarsest rounding that each row went through.
        links: gives where rows came from, when it is asked for.
    """

    def __init__(
        self, rows: Sequence[Row], pairs: Pairs, calls: Calls, updates: Updates, casts: HiddenCasts, lost: LostSteps,
        links: Callable[[], Links],
    ) -> None:  # fmt: skip
        self._rows = rows
        self._calls = calls
        self._updates = updates
        self._casts = casts
        self._lost = lost
        self._links = links
        self._past = PastErrors()
        self._unshown = UnshownSteps(pairs)
        self._gradients = LatestGradients()
        self._read = array("I")
        nodes = pairs.target.nodes.values()
        self._shows_modules_only = all(node.kind not in (None, NodeKind.API) for node in nodes)

    def recent(self, execution: Execution) -> float:
        """Return the largest relative error of the latest outputs of an execution."""
        return self._past.recent(execution)

    def error(self, number: int, deviation: Deviation, *, is_known: bool) -> Unseen:
        """Return the error that a row may have so; ``is_known``: that nothing made it is known."""
        row = self._rows[number]
        if row.pair.rule.is_self or begins_gradients(row):
            return Unseen(0.0)
        step = row.node.execution.step
        updated = self._of_update(number, step, is_known=is_known) if step else None
        if not is_known:
            return max(self._of_unknown(row, deviation), Unseen(updated or 0.0))
        # State of earlier steps (caches, updated parameters) enters as an input without producer.
        if updated is not None:
            return Unseen(updated)
        usual = self._past.usual_before(step) * deviation.size if step else 0.0
        return Unseen(UNSHOWN * max(usual, self._updates.kept(number), self._unshown.of_input(row) * deviation.size))

    def _of_unknown(self, row: Row, deviation: Deviation) -> Unseen:
        """Return the error of what nobody knows the making of."""
        run = row.node.execution
        known = max(self._past.recent_or_before(run), self._past.noise_of(run, deviation.size))
        recent = math.hypot(known, self._unshown.error(row))
        recent = max(recent, self._gradients.error(row, deviation), self._gradients.last(row, deviation))
        turned = 0.0
        if self._shows_modules_only and is_gradient(row.node):
            turned = flipped_share(recent, deviation.count)  # between modules there may be gates
            recent += turned
        size = max(deviation.size, self._gradients.cancelled(row, deviation))
        steps = UNDUMPED * max(deviation.unit, self._casts.before(row), self._casts.around(row)) * size
        if row.is_by_statistics:  # what was in 16 bits of late hides steps of these
            steps = max(steps, self._lost.around(row.node.execution, deviation) * size)
        carried = self._gradients.carried(row, deviation)
        found = Unseen(UNSHOWN * recent * size, min(1.0, UNSHOWN * turned * size / max(deviation.size, TINY)))
        return max(found, Unseen(max(carried, steps, decided_otherwise(row, recent))))

    def _of_update(self, number: int, step: int, *, is_known: bool) -> float | None:
        """Error of a parameter that was compared in a step before."""
        if not self._updates.is_trained(number):
            return None
        links = self._links()
        for read in self._read:
            if not links.producers.get(read):
                self._updates.add(read)
        del self._read[:]
        usual = min(1.0, UNSHOWN * self._past.usual_before(step))
        return self._updates.error(number, usual, is_known=is_known, wrote=links.wrote.get(number))

    def remember(
        self, number: int, deviation: Deviation, scale: float, *, is_suspect: bool, is_noise: bool = False
    ) -> None:
        """Take note of a judged row; ``scale`` is the size of the terms that it was summed from."""
        row, call, run = self._rows[number], self._calls.of[number], self._rows[number].node.execution
        assert call is not None
        if row.is_produced:
            if call.is_gradient:
                self._gradients.add(run, deviation, scale)
            if is_noise:
                self._past.add_noise(run, deviation)
            elif deviation.size or deviation.rms:  # zeros do not tell what others may be off by
                error = deviation.rms / (scale or deviation.size or 1.0)
                self._past.add(run, min(error, 1.0) if is_suspect or not call.is_gradient else error)
            self._unshown.add(row)
        elif run.step is not None:
            self._read.append(number)


class PastErrors:
    """Relative errors of outputs that were judged before; steps come one after the other.

    Executions are those of the rows, which outlive this.
    """

    def __init__(self) -> None:
        self._sorted = array("d")  # of steps that are over
        self._step = -1
        self._current = array("d")
        self._latest: dict[Execution, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._noise: dict[tuple[Execution, int], float] = {}
        self._by_object: dict[int, deque[float]] = {}  # the same, since hashing an execution is slow

    def add(self, execution: Execution, error: float) -> None:
        """Take note of an output's error; the step never decreases."""
        self._latest_of(execution).append(error)
        if execution.step is not None:
            self._begin(execution.step)
            self._current.append(error)

    def add_noise(self, execution: Execution, deviation: Deviation) -> None:
        """Take note of a result that is noise: of its size only, as it says nothing of others."""
        if deviation.size:
            place = execution, math.frexp(deviation.size)[1]
            self._noise[place] = max(self._noise.get(place, 0.0), deviation.relative)

    def noise_of(self, execution: Execution, size: float) -> float:
        """Return the largest relative error of noise of about a size: what is as small may be a part of it."""
        if not size or not self._noise:
            return 0.0
        exponent = math.frexp(size)[1]
        return max(self._noise.get((execution, exponent + n), 0.0) for n in range(-AS_SMALL, AS_SMALL + 1))

    def recent(self, execution: Execution) -> float:
        """Return the largest error of the latest outputs of an execution, 0 without any."""
        return max(self._latest_of(execution), default=0.0)

    def recent_or_before(self, execution: Execution) -> float:
        """Return the same, or the usual error of the steps before, of which a step that just began reads."""
        found = self._latest_of(execution)
        before = self.usual_before(execution.step) if execution.step and len(found) < RECENT else 0.0
        return max(before, *found, 0.0)

    def usual_before(self, step: int) -> float:
        """Return the error that nine in ten outputs of steps before this one stay below: noise tensors left out."""
        self._begin(step)
        return self._sorted[int(0.9 * (len(self._sorted) - 1))] if self._sorted else 0.0

    def _begin(self, step: int) -> None:
        if step > self._step:
            self._sorted = array("d", sorted((*self._sorted, *self._current)))
            self._step, self._current = step, array("d")

    def _latest_of(self, execution: Execution) -> deque[float]:
        found = self._by_object.get(id(execution))
        if found is None:
            found = self._by_object[id(execution)] = self._latest[execution]
        return found


class _Gradient(NamedTuple):
    """A judged gradient: its size and error, as root mean squares, and the size of the terms that it is a sum of."""

    size: float
    rms: float
    terms: float


class LatestGradients:
    """The sizes and errors of the latest gradients of so many elements: what no dump shows may be made of such.

    The gradient of what a result does not depend on, such as the largest value that a softmax takes off by hand or a
    bias before a batch norm, is a sum that cancels: the golden holds nothing but the rounding of its terms, and so does
    the target, in its own type. An optimizer reads gradients that were clipped, so that they show nowhere else.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[Execution, int], deque[_Gradient]] = defaultdict(lambda: deque(maxlen=LATEST))
        self._last: dict[Execution, deque[tuple[int, float]]] = defaultdict(lambda: deque(maxlen=LAST))

    def add(self, execution: Execution, deviation: Deviation, scale: float) -> None:
        """Take note of a judged gradient that was summed from terms of a size."""
        if deviation.size:
            found = _Gradient(deviation.size, deviation.rms, max(deviation.size, scale))
            self._latest[execution, deviation.count].append(found)
            self._last[execution].append((deviation.count, deviation.relative))

    def cancelled(self, row: Row, deviation: Deviation) -> float:
        """Return the size of the terms of which a golden's row holds the rounding alone; 0.0 where it holds more."""
        known = self._of(row, deviation)
        if not known or row.pair.golden is None:
            return 0.0
        largest = max(each.terms for each in known)
        return largest if deviation.size <= UNIT.get(row.pair.golden.dtype, 0.0) * largest else 0.0

    def error(self, row: Row, deviation: Deviation) -> float:
        """Return the largest relative error of those that a row behind the backward pass may be; 0.0 for others."""
        known = () if is_gradient(row.node) else self._of(row, deviation)
        return max((each.rms / each.size for each in known), default=0.0)

    def last(self, row: Row, deviation: Deviation) -> float:
        """Return the relative error of the last of about as many elements, of which a gradient may be made; else 0.0.

        That of a product is not always recorded, and what cancelled before it was computed stays as wrong behind it.
        """
        known = reversed(self._last[row.node.execution]) if is_gradient(row.node) else ()
        least, most = deviation.count / ABOUT, deviation.count * ABOUT
        return next((error for count, error in known if least <= count <= most), 0.0)

    def carried(self, row: Row, deviation: Deviation) -> float:
        """Return the error of the one that is nearest in size, which a gradient may hold whole; 0.0 for others.

        What autograd adds up holds mostly one of its terms. The error of that may be many times its size: a layer norm
        lets nothing of the mean of its squares through but what its epsilon makes of it.
        """
        known = self._of(row, deviation) if is_gradient(row.node) and deviation.size else ()
        nearest = min(known, key=lambda each: abs(math.log(each.size / deviation.size)), default=None)
        return 0.0 if nearest is None else nearest.rms

    def _of(self, row: Row, deviation: Deviation) -> Sequence[_Gradient]:
        return self._latest.get((row.node.execution, deviation.count), ())


class UnshownSteps:
    """The golden operators that ran since the latest output that was judged, for the compared tensors of a graph.

    Args:
        pairs: what is compared; of programs, whose calls follow each other, nothing is counted.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._judged: dict[Execution, list[int]] = defaultdict(list)

    @cached_property
    def _places(self) -> dict[NodeKey, int]:
        return _places_of(self._pairs.golden)

    @cached_property
    def _unit(self) -> float:
        """The coarsest rounding of what the target stores: nobody knows in which type the others kept theirs."""
        return max((UNIT.get(tensor.dtype, 0.0) for tensor in self._pairs.target.tensors), default=0.0)

    def add(self, row: Row) -> None:
        """Take note of an output that was judged."""
        place = self._place(row)
        if place is not None:
            insort(self._judged[row.node.execution], place)

    def error(self, row: Row) -> float:
        """Return the relative error, as root mean square, that those add which ran since the latest judged output."""
        place = self._place(row)
        if place is None:
            return 0.0
        judged = self._judged[row.node.execution]
        before = bisect_right(judged, place - 1)
        passed = place - (judged[before - 1] if before else -1) - 1
        return self._unit * math.sqrt(passed)

    def of_input(self, row: Row) -> float:
        """Return that of an input that nothing in the dump wrote, although an operator of the golden makes it."""
        golden = row.pair.golden
        is_made = not row.is_produced and golden is not None and golden.slot.role is SlotRole.OUTPUT
        return self.error(row) if is_made else 0.0

    def _place(self, row: Row) -> int | None:
        golden = row.pair.golden
        return None if golden is None or self._pairs.target.flow is not Flow.GRAPH else self._places.get(golden.node)


def _places_of(catalog: Catalog) -> dict[NodeKey, int]:
    """Return the place of each node in the order of its execution, from 0."""
    counts: dict[Execution, int] = defaultdict(int)
    places = {}
    for key in catalog.nodes:
        places[key] = counts[key.execution]
        counts[key.execution] += 1
    return places


def decided_otherwise(row: Row, relative: float) -> float:
    """Return what a row may be off by of which each golden element is one of two values, as of masks, gates and spikes.

    No dump tells what decided, but that was off by a relative error. With statistics the norm says how many more or
    fewer there are of the larger value. Few golden statistics are of two values by accident: mean and norm must agree
    to `TWO_VALUED`. 0.0 for other rows.
    """
    from probe_flow.analysis.statistics.moments import moments_of  # few runs need it

    golden = moments_of(row, "golden")
    if golden is None or golden.low == golden.high or not golden.is_two_valued:
        return 0.0
    share = share_turned(relative, golden.count)
    if row.is_by_statistics:
        return share * abs(golden.high**2 - golden.low**2) / (2.0 * golden.size)
    return math.sqrt(share) * (golden.high - golden.low)
