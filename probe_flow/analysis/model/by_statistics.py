"""What a result may be off by where minimum, maximum, mean and norm are all that is known of it and of its inputs.

They prove a part of the inputs' errors only. What they may hide is allowed for as well, and so is what their own
rounding leaves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.flow.links import Sources
from probe_flow.analysis.model.arithmetic import Arithmetic
from probe_flow.analysis.model.decisions import is_decided
from probe_flow.analysis.model.deviation import TINY, Deviation, mean_of
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.families import Family
from probe_flow.analysis.model.growth import Allowance, gain_of
from probe_flow.analysis.model.hidden_errors import CrossedEdges, FadingNoise, LostSteps
from probe_flow.analysis.model.products import product_length
from probe_flow.analysis.number_types import STEP_AT_MOST, common_share, noise_by
from probe_flow.records import FigureColumn

STATISTICS_SLACK = 2.0
"""How much more error than is likely an input may hide when only its extremes, mean and norm are known."""

FLIPPED = 0.3
"""Error that gates are expected to leave, of the most that they may."""

AVERAGED = 0.65
"""Share of common errors in norm and mean, compared with tensors whose every element is known."""

UNSHOWN = 2.0
"""How much larger than what statistics prove the difference of means may be that comes of it."""

AT_EXTREMES = 1.6
"""Largest error at the two extremes of a computed tensor, in what is explained of values of their size: two elements
are off by less than the worst of all may be. Of tensors of which nothing else is known the largest healthy ratio is 1.
"""

TWICE = 2.0
"""Change of a mean square, in that of what is squared."""

COHERENT = 1.5
"""Margin of what differences of means add up to: lengths of sums are estimated from counts."""

BY_ACCIDENT = 4.0
"""How many times smaller than what its own inputs explain the error of a tensor is taken to be at least. Statistics may
agree by accident, though no element does: one guess in a hundred is ten to fifty times too small. Behind 330 faults, of
which each was the only one, 44 right results were off by twice their limit without this, and 2 are with it."""

HIDDEN_AT_MOST = 25.0
"""How many times what its figures say together, or a rounding, the error of a tensor may be at most. Of 2,357 results
behind 60 faults, whose tensors are known, one in a thousand is off by 24 times that, none by 30. What gates turned in
gradients may hide more."""

ANGLE = 0.25
"""Error of an angle, in radians, from which sine and cosine hide it: their extremes, mean and norm stay as they are."""

_PERIODIC = re.compile(r"(?i)_*(sin|cos)_*")


def angle_noise(call: Call, read: Iterable[Deviation]) -> float:
    """Return the relative error that a sine or cosine may have and not show, of angles far beyond a turn.

    Positions and time steps times frequencies reach thousands: a step of bfloat16 is a whole turn there.

    Args:
        call: that made the result.
        read: what it read.
    """
    if call.is_gradient or call.node is None or not _PERIODIC.fullmatch(call.node.op_type):
        return 0.0
    error = max((tensor.likely + tensor.unit * tensor.size for tensor in read), default=0.0)
    return min(1.0, error) if error > ANGLE else 0.0


class StatisticsAllowances:
    """The allowances of computed rows of which statistics are all that is known.

    Args:
        flips: the noise of gates that turned.
        steps: that of parameters which an optimizer changed.
        crossed: whole numbers of which some may be a step apart.
        lost: what rounding to 16 bits left.
        sources: gives the rows that one was made of; ``()`` where nothing made it.
        explained: takes the relative error that each row's own inputs explain.
    """

    def __init__(
        self,
        flips: FadingNoise,
        steps: FadingNoise,
        crossed: CrossedEdges,
        lost: LostSteps,
        sources: Sources,
        explained: FigureColumn,
    ) -> None:
        self._flips = flips
        self._steps = steps
        self._crossed = crossed
        self._lost = lost
        self._sources = sources
        self._explained = explained
        self.is_behind = False
        """Whether what follows may inherit from a suspect."""

    def hand_on(self, number: int, behind: Sequence[int]) -> None:
        """Give a row that shows others again their noise, and what explains their errors."""
        self._flips.hand_on(number, behind)
        self._steps.hand_on(number, behind)
        self._explained[number] = max((self._explained.get(n, 0.0) for n in behind), default=0.0)

    def of(
        self,
        number: int,
        call: Call,
        output: Deviation,
        inputs: Sequence[tuple[int, Deviation]],
        families: frozenset[Family],
        arithmetic: Arithmetic,
        *,
        is_linked: bool,
    ) -> Allowance:
        """Allow for what recorded statistics do not show of the inputs' errors, and for their own rounding.

        Args:
            number: of the row.
            call: that it was made by.
            output: its deviation.
            inputs: rows that it was made of, with their deviations.
            families: of the call.
            arithmetic: forward, or of gradients.
            is_linked: whether the row shows again what others gave.
        """
        shown = [d for _, d in inputs]
        execution = call.key.execution
        proven = arithmetic.explained(call, output, shown, families)
        likely = [self._likely(n, d, output, is_gradient=call.is_gradient) for n, d in inputs]
        if not output.unit and all(is_decided(family, output, likely) for family in families):
            return Allowance(0.0, 0.0, 0.0, output.systematic, output.size, 0.0)
        allowed = arithmetic.allowance(call, output, likely, families, self._lost.around(execution, output))
        if Family.STEP in families and (crossed := self._crossed.error(number)):
            # Whole numbers follow what they were rounded from, and some cross an edge.
            proven, error = (max([d.rms for d in read], default=0.0) for read in (shown, likely))
            explained, gain = math.hypot(error, crossed), max(allowed.gain, gain_of(shown))
            allowed = replace(allowed, explained=explained, gain=gain)
        size, error = max(output.size, TINY), allowed.rms
        self._explained[number] = allowed.explained / size
        behind = [n for n, _ in inputs]
        of_norm, of_mean = self._noise(
            number, call, output, shown, behind, families, arithmetic, allowed, is_linked=is_linked
        )
        coherent = COHERENT * arithmetic.coherent(call, output, shown, families)
        extra = (STATISTICS_SLACK - 1.0) * allowed.explained + coherent
        # Gates and rounding to whole numbers turn single elements; what else is hidden is noise.
        is_noise = not call.is_gradient and not any(map(self._crossed.error, behind))
        anywhere = allowed.peak + extra * math.sqrt(output.count)
        peak = _at_extremes(allowed, output, shown, extra) if is_noise else anywhere
        if Family.MOVE in families:
            # A part may show what lies between the extremes of the whole: an update moves whole channels.
            peak += self._steps.of(number) * output.size * math.sqrt(output.count)
        share = AVERAGED * common_share(output.count)
        alike = AVERAGED * common_share(_of_one_mean(output, shown)) if Family.NORMALISE in families else share
        return Allowance(
            allowed.floor,
            allowed.explained + extra,
            peak,
            AVERAGED * allowed.gain
            + output.unit
            + (share * extra + coherent) / size
            + of_norm
            + math.hypot(1.0, error / size)  # noise adds its squares, and is all there is of zeros
            - 1.0,
            allowed.scale,
            max(share * (error + extra), alike * allowed.floor)
            + UNSHOWN * proven
            + coherent
            + of_mean * output.size
            + output.unit * mean_of(output)
            + 0.5 * output.step,  # as much is lost of what is added to multiples of it
        )

    def _noise(
        self,
        number: int,
        call: Call,
        output: Deviation,
        shown: Sequence[Deviation],
        behind: Sequence[int],
        families: frozenset[Family],
        arithmetic: Arithmetic,
        allowed: Allowance,
        *,
        is_linked: bool,
    ) -> tuple[float, float]:
        """Return the relative change of norm and of mean that noise leaves which statistics do not show.

        That is of gates that turned, angles beyond a turn, and parameters that were changed; what comes later finds it
        kept. Arguments as of `of`, whose inputs are ``behind`` with the deviations ``shown``; ``allowed`` is without
        such noise.
        """
        execution = call.key.execution
        is_known = is_linked or bool(behind)
        turned = self._flips.reaching(behind, execution, is_known=is_known)
        stepped = self._steps.reaching(behind, execution, is_known=is_known)
        is_product = Family.PRODUCT in families and len(shown) > 1 and not call.is_gradient  # which reads no factor
        if stepped and is_product and all(self._sources(n) for n in behind):
            # All rows share what an update did, and so all terms of a product of two computed tensors may (q k^T).
            stepped *= math.sqrt(product_length(output, *sorted(shown, key=lambda each: -each.count)[:2]))
        if arithmetic.is_gated(call):
            size = max(output.size, TINY)
            turned = math.hypot(turned, FLIPPED * allowed.explained / size)  # gates turn independently
        turned = math.hypot(turned, angle_noise(call, shown))
        self._flips.fade(number, execution, turned)
        self._steps.fade(number, execution, stepped)
        aligned = arithmetic.aligned(call, output, families)
        of_norm = stepped + left_by_flips(turned, output.count, aligned * aligned)
        return of_norm, stepped + left_by_flips(turned, output.count, aligned)

    def apart(self, number: int, call: Call | None, deviations: Deviations) -> float:
        """Return how far the largest of what a call read may be off, as a share of its spread, 1 at most."""
        read = [(n, d) for n in (call.read if call is not None else ()) if (d := deviations[n]) is not None]
        source, tensor = max(read, key=lambda each: each[1].count, default=(number, None))
        if tensor is None or not tensor.spread:
            return 1.0
        noise = tensor.unit + sum(each.of(n) for each in (self._flips, self._steps) for n in (source, number))
        error = STATISTICS_SLACK * max(self._guessed(source, tensor), noise * tensor.size)
        return min(1.0, TWICE * error / tensor.spread)

    def _likely(self, number: int, tensor: Deviation, output: Deviation, *, is_gradient: bool) -> Deviation:
        """Return an input with the error that it is likely to have, and what its statistics may not show.

        That is flips, edges that were crossed, lost steps, and what records of 16 bits leave open: a step at the
        extremes as well. What nothing made is the same on both sides where such records agree.
        """
        if not tensor.unit:
            return tensor
        blind = tensor.blind if tensor.blind and self._sources(number) != () else 0.0
        lost = self._lost.hidden_in(number, tensor, output)
        relative = max(self._flips.of(number), self._steps.of(number), lost, blind)
        likely = max(
            self._guessed(number, tensor, is_gradient=is_gradient), relative * tensor.size, self._crossed.error(number)
        )
        if blind:
            return replace(tensor, rms=likely, peak=tensor.peak + STEP_AT_MOST * blind * tensor.top)
        return tensor if likely == tensor.rms else tensor.with_rms(likely)

    def saved(self, number: int, tensor: Deviation) -> Deviation:
        """Return what a forward call saved with the error that it is likely to have behind a suspect."""
        guessed = self._guessed(number, tensor) if self.is_behind and tensor.unit else tensor.rms
        return tensor if guessed <= tensor.rms else tensor.with_rms(guessed)

    def _guessed(self, number: int, tensor: Deviation, *, is_gradient: bool = False) -> float:
        """Return the error that a tensor's own statistics, and behind a suspect those of what it was made of, say."""
        if not self.is_behind:
            return tensor.likely
        found = of_all_figures(tensor)
        explained = min(1.0, self._explained.get(number, 0.0) / BY_ACCIDENT) * tensor.size
        is_hidden = is_gradient or (tensor.top == 1.0 and not tensor.peak)  # shares, of which the first is all of a row
        most = math.inf if is_hidden else HIDDEN_AT_MOST * max(found, tensor.unit * tensor.size)
        return max(found, min(explained, most))


def of_all_figures(tensor: Deviation) -> float:
    """Return the error that extremes, norm and mean say together, of which some may be small by accident.

    What is inherited is common to many elements in part, and does not average out as noise does.
    """
    if tensor.is_bare or tensor.blind or not (tensor.peak or tensor.gain or tensor.offset):
        return tensor.likely
    figures = tensor.peak, tensor.gain * tensor.size, tensor.offset
    return max(tensor.rms, noise_by(figures, tensor.size, tensor.top, tensor.count))


def left_by_flips(noise: float, count: int, aligned: float) -> float:
    """Return the relative change of norm or mean that the noise of gates leaves.

    What a gate turns on or off has no sign of its own, so it averages out as all noise does, but for the part that is
    ``aligned``. What does not is its own size: a share ``noise`` squared of all is there on one side only.
    """
    return noise * (noise + max(common_share(count), min(1.0, aligned))) if noise else 0.0


def _of_one_mean(output: Deviation, inputs: Sequence[Deviation]) -> int:
    """Return how many parts of a norm's result have a mean and a deviation of their own, as its weights tell.

    These are rounded as well, and all elements of a part alike: eight channels may be off by a rounding each.
    """
    return min((tensor.count for tensor in inputs if 1 < tensor.count < output.count), default=output.count)


def _at_extremes(allowed: Allowance, output: Deviation, inputs: Sequence[Deviation], extra: float) -> float:
    """Return the largest error that minimum and maximum of a result may have: two elements, and not the worst of all.

    Where mean and norm are known, what was read is told by these as well. So noise may be larger than the extremes show
    (``extra``), and largest errors more than noise.
    """
    at_top = math.sqrt(max(1.0, output.top / max(output.size, TINY)))
    is_bare = output.is_bare and all(tensor.is_bare for tensor in inputs)
    noise, single = (allowed.rms, 0.0) if is_bare else (allowed.rms + extra, allowed.single)
    return AT_EXTREMES * (noise * at_top + 2.0 * output.unit * output.top) + single
