"""The errors that statistics of rows hide, and what rows have in common.

Of values that were rounded to whole numbers some are a step apart, and nothing shows it.
Extremes stay as they are, and in mean and norm steps up and down cancel. So that error is not guessed from these but
from what was rounded: of values that lie anywhere between two edges, those cross one that are nearer than their error.
Nor do they show much of what gates (relu, pooling) let through on one side and hold back on the other, and of
parameters of which an optimizer turned the noise of gradients into whole steps. And mixed precision computes products
in 16 bits and sums, norms and losses in float32: each value of these is off by steps of 16 bits, while norm, mean and
extremes agree to float32.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.flow.links import Sources
from probe_flow.analysis.model.decisions import FINE, MIN_FLIPS
from probe_flow.analysis.model.deviation import Deviation, mean_of
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.families import Family, family_of
from probe_flow.records import Execution, Mode
from probe_flow.records.figure_views import FigureColumn
from probe_flow.records.row import Row

RECENT = 32
"""Outputs whose errors an unknown path may carry: what is computed is used soon, or came along a skip."""

SEVERAL = 5
"""Sums over rows from which the middle one says what they have in common."""

HIDDEN_UNITS = 0.5
"""Rounding steps that a tensor of which only statistics are known may be off by beyond what they prove."""

FADING = 0.8
"""Share of it that is still there behind the next operation."""

MEAN_OF_NORMAL = 0.8
"""Mean magnitude of normally distributed errors, in their root mean square."""

SELDOM = 0.002
"""Expected number of edges crossed below which none is allowed; one is crossed half as often as is expected here."""

_HANDING = frozenset((Family.MOVE, Family.CONTRACT))  # elements stay what they are


class CommonFactors:
    """The factor that sums over rows of a gradient have in common, by execution: the middle one of the latest.

    An error that all rows share goes little into the norm of a gradient, and whole into what sums its rows: gradients
    of weights and biases, one after the other. What noise leaves in these has either sign, so the middle one is none.
    """

    def __init__(self) -> None:
        self._latest: dict[Execution, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))

    def add(self, execution: Execution, factor: float) -> None:
        """Take note of such a sum, which is off by a factor, relative to the size of its terms."""
        self._latest[execution].append(factor)

    def of(self, execution: Execution) -> float:
        """Return the size of what the latest have in common; 0 of few."""
        found = sorted(self._latest[execution])
        return abs(found[len(found) // 2]) if len(found) >= SEVERAL else 0.0


class SharedRows:
    """How many rows of each tensor that was computed from random values change as one.

    Args:
        rows: all rows.
        deviations: of them.
    """

    def __init__(self, rows: Sequence[Row], deviations: Deviations) -> None:
        self._rows = rows
        self._deviations = deviations
        self._alike: dict[int, float] = {}

    def alike(self, number: int, call: Call, around: Sequence[int]) -> float:
        """Return how many rows of a row change as one, and remember it.

        That is as many as of what it is made of, and what an average shares: rows of attention are averages of the same
        values. Of ``k`` independent ones little but the root of ``k`` is left in the size of an average, and so much
        more of an error that all rows share.

        Args:
            number: the row.
            call: that made it.
            around: rows that it was computed from; of those that change some were asked about before.
        """
        made_of = [(n, self._size(n) ** 2) for n in around if n in self._alike]
        squares = sum(square for _, square in made_of)
        found = sum(self._alike[n] * square for n, square in made_of) / squares if squares else 1.0
        if self._rows[number].is_produced and call.node is not None:
            found *= self._averaged(number, call, family_of(call.node.op_type))
        self._alike[number] = found
        return found

    def _averaged(self, number: int, call: Call, family: Family) -> float:
        """Return how many rows of what changes an average shares."""
        if family not in (Family.PRODUCT, Family.ATTENTION):
            return 1.0
        read = {self._rows[n].pair.shown.slot.path: n for n in call.read if n in self._alike}
        values = read.get((2 if family is Family.ATTENTION else 1,))
        weight = 1.0 if family is Family.ATTENTION else self._summed(read.get((0,)))
        size = self._size(number)
        return max(1.0, (weight * self._size(values) / size) ** 2) if values is not None and size else 1.0

    def _summed(self, weights: int | None) -> float:
        """Return what the rows of a product's weights add up to on average: 1 behind a softmax, about 0 of noise."""
        tensor = self._deviations[weights] if weights is not None else None
        if weights is None or tensor is None:
            return 0.0
        return mean_of(tensor) * (self._rows[weights].pair.shown.shape or (1,))[-1]

    def _size(self, number: int) -> float:
        found = self._deviations[number]
        return found.size if found is not None else 0.0


class CrossedEdges:
    """The rows so far that hold whole numbers of which some may be a step apart.

    Args:
        rows: all rows.
        deviations: of them.
    """

    def __init__(self, rows: Sequence[Row], deviations: Deviations) -> None:
        self._rows = rows
        self._deviations = deviations
        self._errors: dict[int, float] = {}

    def error(self, number: int) -> float:
        """Return the error that a row is likely to have, as root mean square; 0 where it has no such."""
        return self._errors.get(number, 0.0)

    def meet(self, number: int, call: Call, sources: Sources) -> bool:
        """Say whether statistics of a row may hide such an error, and remember it.

        Args:
            number: the row.
            call: that owns it.
            sources: gives the rows that a row came from.
        """
        row = self._rows[number]
        measured = row.measurement
        if measured is None or measured.mode is not Mode.STATISTICS or call.is_gradient or call.node is None:
            return False
        family = family_of(call.node.op_type) if row.is_produced else Family.MOVE
        if family is Family.STEP:
            found = self._of_rounding(call)
        elif family in _HANDING and self._errors:
            read = call.read if row.is_produced else sources(number) or ()
            found = max((self.error(n) for n in read), default=0.0)
        elif family is Family.SCALE and self._errors:
            found = self._scaled(number, call)
        else:
            return False
        if found:
            self._errors[number] = found
        return found > 0.0

    def _scaled(self, number: int, call: Call) -> float:
        """Return that of whole numbers times their scale."""
        known = [(self.error(n), d.size) for n in call.read if (d := self._deviations[n]) is not None]
        relative = max((error / size for error, size in known if size), default=0.0)
        own = self._deviations[number]
        return relative * own.size if own is not None else 0.0

    def _of_rounding(self, call: Call) -> float:
        known = [d for n in call.read if (d := self._deviations[n]) is not None and d.unit]
        error = max((d.likely + HIDDEN_UNITS * d.unit * d.size for d in known), default=0.0)
        share, count = 2.0 * MEAN_OF_NORMAL * error, max((d.count for d in known), default=1)
        few = MIN_FLIPS / count if share * count > SELDOM else 0.0
        return math.sqrt(min(1.0, max(share, few)))


class FadingNoise:
    """The relative error of one kind, as root mean square, that each row so far is likely to have."""

    def __init__(self) -> None:
        self._of: dict[int, float] = {}
        self._latest: dict[Execution, float] = {}

    def of(self, number: int) -> float:
        """Return that of a row."""
        return self._of.get(number, 0.0)

    def largest(self, numbers: Iterable[int]) -> float:
        """Return the largest of some rows."""
        return max([self.of(n) for n in numbers], default=0.0) if self._of else 0.0

    def reaching(self, numbers: Iterable[int], execution: Execution, *, is_known: bool) -> float:
        """Return what reaches a row: from what it was made of, if that is known, else from the latest that had any."""
        return self.largest(numbers) if is_known else self._latest.get(execution, 0.0)

    def raise_to(self, number: int, noise: float) -> None:
        """Take note of a row that has at least so much."""
        if noise:
            self._of[number] = max(self.of(number), noise)

    def hand_on(self, number: int, behind: Iterable[int]) -> None:
        """Take note of a row that holds what one behind it holds."""
        if noise := self.largest(behind):
            self._of[number] = noise

    def fade(self, number: int, execution: Execution, noise: float) -> None:
        """Take note of what is left in a row that was computed from what had so much."""
        if noise:
            self._of[number] = self._latest[execution] = min(1.0, FADING * noise)

    def is_free(self, execution: Execution, sources: Iterable[int] | None) -> bool:
        """Whether a row of these sources has none; None where they are not known."""
        if sources is None:
            return execution not in self._latest
        return not any(n in self._of for n in sources)

    def __bool__(self) -> bool:
        return bool(self._of or self._latest)


class LostSteps:
    """The coarsest rounding, relative to their size, that the values of each row went through, in order of time.

    Rows of 16 bits have their own. What others came by is kept for those alone that came by any, and found once it is
    asked for: most runs never ask, and where all rows came from takes longer to find than to judge them.

    Args:
        rows: all rows.
        deviations: of them.
        sources: gives the rows that one was made of.
    """

    def __init__(self, rows: Sequence[Row], deviations: Deviations, sources: Sources) -> None:
        self._rows = rows
        self._deviations = deviations
        self._sources = sources
        self._coarsest: dict[Execution, float] = {}
        self._waiting = array("I")
        self._came_by = FigureColumn(len(rows))
        self._is_any = False

    def add(self, number: int, deviation: Deviation) -> None:
        """Take note of a judged row."""
        row = self._rows[number]
        if not row.is_by_statistics:
            return
        if deviation.unit > FINE:
            self._is_any = True
            if row.is_produced:
                run = row.node.execution
                self._coarsest[run] = max(deviation.unit, self._coarsest.get(run, 0.0))
        elif self._is_any and deviation.size > 0.0 and deviation.unit:
            self._waiting.append(number)

    def _settle(self) -> None:
        """Find what rows that wait came by."""
        waiting, self._waiting = self._waiting, array("I")
        for number in waiting:
            behind, found = self._sources(number), 0.0
            lost = {each: step for each in behind or () if (step := self._of(each, self._deviations.unit(each)))}
            if behind is not None and not lost:  # as of most
                continue
            deviation = self._deviations[number]
            assert deviation is not None, "what was judged is not forgotten"
            if behind is None and not deviation.is_of_storage:  # made of what the dump does not show
                found = self._coarsest.get(self._rows[number].node.execution, 0.0)
            elif lost:
                found = max([self._share(each, step, deviation) for each, step in lost.items()])
            if found:
                self._came_by[number] = found

    def _share(self, source: int, lost: float, output: Deviation) -> float:
        """Return the rounding of a source relative to an output: less of smaller values, of sums the root."""
        tensor = self._deviations[source]
        if tensor is None:
            return 0.0
        summed = math.sqrt(max(1.0, tensor.count / output.count))
        return lost * min(1.0, summed * tensor.size / output.size)

    def _of(self, number: int, unit: float) -> float:
        return unit if unit > FINE else self._came_by.get(number, 0.0)

    def hidden_in(self, number: int, tensor: Deviation, output: Deviation) -> float:
        """Return the relative error that an input of a wide output may hide; rounding of narrow ones covers it."""
        if output.unit > FINE:
            return 0.0
        if self._waiting:
            self._settle()
        return HIDDEN_UNITS * self._of(number, tensor.unit)

    def around(self, execution: Execution, output: Deviation) -> float:
        """Return the same for what a gradient is made of, by the coarsest type that its execution was in so far.

        However far back that was: gradients are made of the values of the forward pass.
        """
        return HIDDEN_UNITS * max(output.unit, self._coarsest.get(execution, 0.0))
