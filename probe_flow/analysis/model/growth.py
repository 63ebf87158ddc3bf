"""How much error an operator's output may have: what rounding leaves (floor) and what its inputs' errors explain.

First-order bounds per family of arithmetic. With ``r`` the rms error, ``s`` the rms size and ``u`` the relative
error of storage: moving and contracting keep r; sums add r; products and scalings add r/s; normalising divides by
the spread instead of the size; exponentials turn an absolute error into a relative one. Sums that cancel raise the
floor: it is u times the size of what was summed, not of what is left (Higham, Accuracy and Stability of Numerical
Algorithms, chapters 3 and 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from probe_flow.analysis.model.decisions import FLIP_SHARE, MIN_FLIPS
from probe_flow.analysis.model.deviation import PEAK_OVER_RMS, TINY, Deviation
from probe_flow.analysis.model.families import EXPONENTIALS, Family
from probe_flow.analysis.model.products import UNCANCELLED, coherent_of, typical_of
from probe_flow.analysis.number_types import NARROW, RESTATED, UNIT, common_share

HUGE = 1e300
"""Largest allowance: products of extreme float64 figures end here instead of at infinity."""

ROUNDED = 0.3
"""Root mean square error of whole numbers that were rounded from slightly different values: a few are off by one."""

SHARED = 0.08
"""Part of an error that all terms of a sum share, as the elements of a column that come from one rounded weight: it
adds up where the rest cancels (measured: sums over batches of 512 to 4,096 rows in float16)."""

AMPLIFIED = {
    Family.MOVE: 1.2, Family.CONTRACT: 1.2, Family.SUM: 1.2, Family.REDUCE: 1.2, Family.TOTAL: 1.2,
    Family.SLOPE: 1.5, Family.SCALE: 1.5, Family.UNITS: 1.5, Family.QUOTIENT: 1.5, Family.PRODUCT: 1.5,
    Family.NORMALISE: 2.0, Family.UNKNOWN: 3.0, Family.SOLVE: 10.0,
}  # fmt: skip
"""What comes out of an error to first order, in what the family's bound says: slopes that are a little above 1, factors
whose errors are correlated, a spread that is off itself, what nobody knows the arithmetic of, and the condition number
of a covariance with some noise added."""

MOST = 1e12
"""Largest relative error that is followed: what is nearly zero on one side has any.

Rounding of terms that cancel is 2**16 times as large in bfloat16 as in float32, and the square of that 4e9 times."""

TYPICAL = 0.5
"""Least of what the terms of a product add up to, in what those of unrelated factors do."""

STEEPEST = 16.0
"""Largest size of an exponent whose rounding is followed: beyond it float16 overflows."""

LARGEST_SCORE = 64.0
"""Largest score whose rounding is left in the logarithm of a share or a sum: larger ones are masks."""


class Allowance(Struct, frozen=True, gc=False):
    """Error that needs no fault, absolute, as root mean square and as peak.

    ``scale`` is the size of the terms whose rounding the floor stands for; ``offset`` bounds the difference of the
    means where only statistics are known. ``single`` is the part of ``peak`` that is no noise: what the largest errors
    of the inputs and turned decisions leave in single elements.
    """

    floor: float
    explained: float
    peak: float
    gain: float
    scale: float = 0.0
    offset: float = HUGE
    single: float = 0.0

    @property
    def rms(self) -> float:
        """Floor and explained error together."""
        return self.floor + self.explained


def allowance(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> Allowance:
    """Return the error that ``output`` may have, given the measured errors of its node's inputs.

    Every figure is finite and at least 0, and none shrinks when an input's error grows.
    """
    family = _of_output(family, output)
    if family is Family.DISCRETE:
        return _decisions(output, inputs)
    if family is Family.STEP:
        return _steps(output, inputs)
    unit = max([output.unit, *[min(tensor.unit, UNIT["bfloat16"]) for tensor in inputs]])  # eight bits are only stored
    scale = _summed_size(family, output, inputs)
    floor = unit * scale + output.step
    explained = _explained(family, output, inputs)
    single = _single(family, output, inputs)
    peak = PEAK_OVER_RMS * (floor + explained) + 2.0 * unit * output.top + single
    if _is_rounded(output, inputs):
        floor, peak, single = floor + ROUNDED, peak + 1.0, single + 1.0
    gain = gain_of(inputs)
    gain += max(output.systematic, _common_share(family, output, inputs) * (floor + explained) / max(output.size, TINY))
    if floor + explained + peak + gain + scale <= HUGE:
        return Allowance(floor, explained, peak, gain, scale, single=single)
    floor, explained, peak, gain, scale = map(_bounded, (floor, explained, peak, gain, scale))
    return Allowance(floor, explained, peak, gain, scale, single=_bounded(single))


def explained_error(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Return how much of an error those of the inputs explain: `Allowance.explained` of `allowance` alone."""
    family = _of_output(family, output)
    if family in (Family.DISCRETE, Family.STEP):
        return allowance(family, output, inputs).explained
    return _bounded(_explained(family, output, inputs))


def _of_output(family: Family, output: Deviation) -> Family:
    """Return the arithmetic behind one output of an operator that puts values in order.

    Places (whole numbers) are decisions. The k-th largest of some values is off by no more than the worst of them,
    whichever element it is, so the values that come with them are as if only moved.
    """
    if family is not Family.ORDER:
        return family
    return Family.MOVE if output.unit else Family.DISCRETE


def gain_of(inputs: Sequence[Deviation]) -> float:
    """Return the change of scale that inputs bring: of a single element, by which all others are scaled, its error."""
    return 2.0 * sum([abs(tensor.gain) if tensor.count > 1 else bounded(tensor) for tensor in inputs])


def bounded(tensor: Deviation) -> float:
    """Return the relative error of a tensor as far as it is followed."""
    return min(tensor.relative, MOST)


def _bounded(value: float) -> float:
    """Return the value, `HUGE` where it overflowed (NaN: zero times infinity)."""
    return value if value <= HUGE else HUGE


def _decisions(output: Deviation, inputs: Sequence[Deviation]) -> Allowance:
    """Return what decisions (argmax, comparison) may do: nothing on equal inputs, else a few flips of any size."""
    relative = max((min(tensor.relative, 1.0) for tensor in inputs), default=0.0)
    floor = output.unit * output.size + output.step
    flip = max(output.peak, 2.0 * output.top)
    share = min(1.0, max(FLIP_SHARE * relative, MIN_FLIPS / output.count)) if relative else 0.0
    explained = flip * math.sqrt(share)
    peak = floor + (flip if relative else 0.0)
    gain = (floor + explained) / max(output.size, TINY)
    floor, explained, peak, gain = map(_bounded, (floor, explained, peak, gain))
    return Allowance(floor, explained, peak, gain, output.size, single=peak)


def _steps(output: Deviation, inputs: Sequence[Deviation]) -> Allowance:
    """Return what rounding to whole numbers may do: nothing on equal inputs, else one beyond the error of the input.

    How many elements that carries over an edge is not bounded: all of them may have been whole before.
    """
    worst = max((tensor.peak for tensor in inputs), default=0.0)
    floor = output.unit * output.size + output.step
    step = 1.0 + worst if worst > 0.0 else 0.0
    gain = (floor + step) / max(output.size, TINY)
    peak = floor + step + 2.0 * output.unit * output.top
    return Allowance(
        _bounded(floor), _bounded(step), _bounded(peak), _bounded(gain), output.size, single=_bounded(floor + step)
    )


def _is_rounded(output: Deviation, inputs: Sequence[Deviation]) -> bool:
    """Whether whole numbers were made of inexact fractions (casts, quantisation)."""
    return output.unit == 0.0 and any(tensor.unit > 0.0 and tensor.rms > 0.0 for tensor in inputs)


def _common_share(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Return the share of the allowed error that a change of scale may make up.

    Noise averages out over the elements, but not fully: errors of weights and channels are shared by many of them.
    A slice may keep just the part of its input that is off by a factor, and the solution of equations is one direction.
    Relative errors, which powers and products of elements have, count as much as the squares of what they are of.
    """
    if family is Family.MOVE and any(tensor.count > output.count for tensor in inputs):
        return 1.0
    if family is Family.SOLVE or output.is_of_one_value or output.spread <= NARROW * output.unit * output.size:
        return 1.0
    share = common_share(output.count)
    if family in (Family.SCALE, Family.QUOTIENT):
        return max(share, min(1.0, 2.0 / math.sqrt(output.weighty_count)))
    return share


def widest(allowances: Sequence[Allowance]) -> Allowance:
    """Return the largest of each figure: what a node may have whose arithmetic is one or all of several kinds."""
    if len(allowances) == 1:
        return allowances[0]
    return Allowance(
        max(allowed.floor for allowed in allowances),
        max(allowed.explained for allowed in allowances),
        max(allowed.peak for allowed in allowances),
        max(allowed.gain for allowed in allowances),
        max(allowed.scale for allowed in allowances),
        single=max(allowed.single for allowed in allowances),
    )


def _summed_size(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Size of the terms whose rounding ends up in the output."""
    if family in (Family.MOVE, Family.CONTRACT, Family.SCALE, Family.QUOTIENT):
        return output.size
    if family is Family.SLOPE:
        return _of_slope(output.size, [tensor.size for tensor in inputs])
    if family is Family.SOLVE:
        return AMPLIFIED[family] * output.size
    if family in (Family.SUM, Family.UNKNOWN):
        return max([output.size, *[tensor.size for tensor in inputs if _fits(tensor, output)]])
    if family is Family.PRODUCT and len(inputs) >= 2:
        return max(output.size, TYPICAL * typical_of(output, inputs))
    if family is Family.WEIGHTED:
        return max([output.size, *(tensor.size for tensor in _addends(output, inputs))])
    if family in (Family.REDUCE, Family.TOTAL) and inputs:
        source = _source(inputs)
        terms = _terms(source, output) if family is Family.TOTAL else 1.0
        return max(output.size, source.size * math.sqrt(terms))
    if family is Family.NORMALISE and inputs:
        source = _source(inputs)
        steep = output.size * max(1.0, source.size / max(source.spread, TINY))
        # The statistics that a norm returns (mean, reciprocal deviation) are sums over its input.
        return max(steep, source.size) if output.count < source.count else steep
    if family in EXPONENTIALS and inputs:
        steep = output.size * max(1.0, min(STEEPEST, max(tensor.size for tensor in inputs)))
        # The largest score is taken off and added again; what is left of it may be nearly zero.
        return steep if family is Family.EXPONENTIAL else max(steep, min(_source(inputs).top, LARGEST_SCORE))
    return output.size


def _shared(output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Return how much larger the error of a sum is than that of independent terms."""
    return 1.0 + SHARED * math.sqrt(max(_terms(tensor, output) for tensor in inputs))


def _of_slope(output: float, inputs: Sequence[float]) -> float:
    """Return the size of what reaches a gradient: where the function is flat little is left of it.

    Which input is the gradient is not known; the smaller one is, unless the output is larger still.
    """
    return max([output, *([min(inputs)] if inputs else [])])


def _source(inputs: Sequence[Deviation]) -> Deviation:
    """Return what a reduction reads; weights and axes are smaller."""
    return max(inputs, key=lambda tensor: tensor.count)


def _terms(tensor: Deviation, output: Deviation) -> float:
    """Return how many elements of an input go into one of the output."""
    return max(1.0, tensor.count / output.count)


def _fits(tensor: Deviation, output: Deviation) -> bool:
    """Whether an input can be an operand of the sum (tables and scalars of other size are not)."""
    return tensor.count <= output.count


def _addends(output: Deviation, inputs: Sequence[Deviation]) -> list[Deviation]:
    """Return the inputs that may be added to a product as they are (a shortcut)."""
    return [tensor for tensor in inputs if tensor.count == output.count]


def _relative(family: Family, inputs: Sequence[Deviation]) -> float:
    """Return the sum of the relative errors of inputs, as far as each is followed."""
    if family is not Family.UNITS:
        return sum([bounded(tensor) for tensor in inputs])
    return sum([min(tensor.rms / max(_yardstick(family, tensor), TINY), MOST) for tensor in inputs])


def _explained(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    if not any(tensor.rms or tensor.peak for tensor in inputs):
        return 0.0
    relative = _relative(family, inputs)
    absolute = sum([tensor.rms * math.sqrt(_terms(tensor, output)) for tensor in inputs])
    amplified = AMPLIFIED.get(family, 1.0)
    if family in (Family.MOVE, Family.CONTRACT):
        # A slice may keep just the wrong part of its input; a table lookup returns rows of one input.
        return max(amplified * absolute, output.size * min(relative, MOST))
    if family is Family.SLOPE:
        return amplified * _of_slope(output.size, [tensor.size for tensor in inputs]) * relative
    if family is Family.SUM:
        return amplified * absolute
    if family in (Family.SCALE, Family.UNITS, Family.QUOTIENT):
        relative = max(relative, _compound(inputs)) if family is Family.SCALE else relative
        smallest = _at_smallest(family, output, inputs) / math.sqrt(output.count)
        # A mask that keeps what is nearly zero keeps errors of all sizes.
        unrelated = math.prod([tensor.size for tensor in inputs]) if len(inputs) == 2 else 0.0
        size = max(output.size, unrelated) if family is Family.SCALE else output.size
        return max(amplified * size * relative, smallest, amplified * _of_zeros(inputs))
    if family in (Family.REDUCE, Family.TOTAL):
        is_mean = family is Family.REDUCE
        whole = sum(tensor.rms for tensor in inputs) if is_mean else amplified * absolute * _shared(output, inputs)
        return max(output.size * relative, whole)
    if family is Family.PRODUCT:
        # Where the product cancels, the error is relative to what its terms would usually add up to.
        uncancelled = typical_of(output, inputs) if len(inputs) > 1 else UNCANCELLED * output.size
        return amplified * relative * max(output.size, uncancelled)
    if family is Family.WEIGHTED:
        parts = [UNCANCELLED * output.size * bounded(tensor) for tensor in inputs]
        return max(math.hypot(*parts), AMPLIFIED[Family.SUM] * sum(tensor.rms for tensor in _addends(output, inputs)))
    if family is Family.NORMALISE:
        source = _source(inputs)
        rest = sum(bounded(tensor) for tensor in inputs if tensor is not source)
        own = output.size * source.rms / max(source.spread, TINY)
        if output.count < source.count:
            own = max(own, source.rms)
        return amplified * own + AMPLIFIED[Family.SCALE] * output.size * rest
    if family in EXPONENTIALS or family is Family.ATTENTION:
        exponent = max(min(tensor.peak, 1.0) for tensor in inputs)
        kept = AMPLIFIED[Family.REDUCE] * _source(inputs).rms if family is Family.LOG_SUM else 0.0
        return max(output.size * max(exponent, relative), kept)
    return amplified * max(output.size * relative, absolute)


def _compound(inputs: Sequence[Deviation]) -> float:
    """Return what is of second order in the relative error of a product of elements: noise that is squared."""
    return math.prod([bounded(tensor) for tensor in inputs])


def _of_zeros(inputs: Sequence[Deviation]) -> float:
    """Return what is off in a product of elements where a factor of the golden's is zero, and not relative to it."""
    wrong = sum(tensor.rms for tensor in inputs if not tensor.size)
    return wrong * max([1.0, *(tensor.top for tensor in inputs)]) if wrong else 0.0


def _single(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Return what the largest errors of the inputs leave in a single element of the output."""
    worst = max([tensor.peak for tensor in inputs], default=0.0)
    if not worst:
        return 0.0
    if family in (Family.MOVE, Family.CONTRACT, Family.REDUCE, Family.TOTAL):
        return AMPLIFIED[family] * worst
    if family is Family.SUM:
        return sum(tensor.peak for tensor in inputs)
    relative = max(tensor.peak / max(_yardstick(family, tensor), TINY) for tensor in inputs)
    if family is Family.SLOPE:
        return 2.0 * _of_slope(output.top, [tensor.top for tensor in inputs]) * min(relative, MOST)
    if family is Family.LOG_SUM:
        return AMPLIFIED[Family.REDUCE] * worst
    if family in EXPONENTIALS or family is Family.ATTENTION:
        relative = max(relative, min(worst, 1.0))
    return _at_smallest(family, output, inputs) + output.top * min(relative, MOST)


def _at_smallest(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Return the error of a quotient where its positive denominator is smallest, at most twice what it may be there."""
    if family is not Family.QUOTIENT or len(inputs) < 2 or inputs[-1].least <= 0.0:
        return 0.0
    divided, by = inputs[-2:]  # extremes that agree say nothing of elements that are noise: Adam divides it by epsilon
    return min((max(divided.peak, divided.likely) + output.top * by.peak) / by.least, 2.0 * output.top)


def coherent_error(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Return what differences of the inputs' means add up to in the output: they have one sign, so nothing cancels.

    Zero for families that sum nothing up. A mean that is off by ``d`` leaves ``n d`` in a sum of ``n`` terms, and
    ``n d m`` in a product of length ``n`` with something of mean ``m``.
    """
    if family is Family.TOTAL and inputs:
        source = _source(inputs)
        return abs(source.offset) * _terms(source, output)
    if family is Family.PRODUCT and len(inputs) > 1:
        return coherent_of(output, inputs)
    return 0.0


def _yardstick(family: Family, tensor: Deviation) -> float:
    """Return the size that an error is relative to: that of the spread where a mean or a zero point is taken off."""
    is_centred = family is Family.NORMALISE or (family is Family.UNITS and not tensor.unit)
    return min(tensor.size, tensor.spread) if is_centred else tensor.size


def is_stack(output: Deviation, read: Sequence[Deviation]) -> bool:
    """Whether a vector consists of single numbers that were read, one for each of its elements."""
    return len(read) == output.count > 1 and all(tensor.count == 1 for tensor in read)


def of_stack(output: Deviation, numbers: Sequence[Deviation]) -> Allowance:
    """Return the error of a vector of single numbers: each of its elements is off by what its own number is."""
    error = math.sqrt(math.fsum(tensor.rms**2 for tensor in numbers) / output.count)
    most = max((tensor.peak for tensor in numbers), default=0.0)
    return Allowance(
        output.unit * output.size + output.step,
        min(error, HUGE),
        min(most + 2.0 * (output.unit * output.top + output.step), HUGE),
        output.systematic + min(error / max(output.size, TINY), HUGE),
        output.size,
        min(error, HUGE) + output.unit * output.size + output.step,
    )


def of_copy(output: Deviation, known: Sequence[Deviation]) -> Allowance:
    """Allow a tensor that shows again what it was off by before: nothing was computed or rounded in between."""
    allowed = allowance(Family.MOVE, output, known)
    gain = sum(2.0 * abs(tensor.gain) for tensor in known) + max(output.systematic, RESTATED * output.unit)
    offset = sum(2.0 * abs(tensor.offset) for tensor in known) + RESTATED * allowed.floor
    return Allowance(allowed.floor, allowed.explained, allowed.peak, gain, allowed.scale, offset)
