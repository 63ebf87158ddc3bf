"""How far one tensor is from its golden partner, in the few figures that the search for the origin needs.

All figures are absolute (in units of the tensor) except ``gain``. They come from a `Measurement` alone, so the
analysis runs again without touching a tensor. In statistics mode the root mean square of the error is not known;
what the differences of norm and mean prove of it is used instead (a lower bound).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from operator import sub
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis.model.rounding import SYSTEMATIC, UNLOST, WITHIN_FRAMEWORK, Rounding, mean_as_recorded, storage
from probe_flow.analysis.narrowed import rounded_before
from probe_flow.analysis.number_types import SIGNIFICANT_BITS, WIDE, is_record, nearest_record
from probe_flow.analysis.plain_values import is_mask_rounding, is_masked, mask_otherwise
from probe_flow.masks import LEAST
from probe_flow.records import Measurement, Mode, Statistics, Value
from probe_flow.records.row import Row

PEAK_OVER_RMS = 6.0
"""Largest of a million normally distributed errors, in standard deviations, and a margin."""

TINY = 1e-300
"""Keeps ratios of all-zero tensors finite."""

SIZE_OF_TOP = 0.5
"""Root mean square of values of which only the extremes are known, relative to the larger one: 0.58 for uniform values,
0.35 to 0.2 for a hundred to a million normally distributed ones."""

HELD = 0.02
"""Of what noise leaves in norm and mean: both are smaller by accident once in 4,000 times."""

ALIKE = 4.0
"""Rounding steps, of storage and of recorded statistics, within which elements are one number."""


class Deviation(Struct, frozen=True, gc=False):
    """Error of one tensor.

    Args:
        rms: root mean square of the error over finite elements.
        peak: largest absolute error.
        gain: relative difference in scale, <target, golden> / <golden, golden> - 1: rounding noise cancels in it,
            a wrong factor does not.
        offset: difference of the means.
        size: root mean square of the golden values.
        top: largest absolute golden value.
        spread: standard deviation of the golden values.
        count: elements.
        nonfinite: positions where NaN or infinities disagree (statistics: 1 when the extremes show that some do).
        least: smallest golden magnitude where all values have one sign, else 0.
        unit: relative error that storage explains (`UNIT` of the coarser side, or of what it was rounded to before).
        step: absolute error that storage explains near zero (`STEP`).
        systematic: change of scale that needs no fault (`SYSTEMATIC`).
        is_bare: whether the extremes of its fractions are all that is known, or masked scores outweigh all others.
        summed: error of a recorded norm per element (`SUMMED`), where statistics are recorded.
        blind: relative error that its records leave open although they agree: those of 16 bits on both sides, of which
            neighbours count as one, so that elements may be a step apart (1 to 2 `unit`) in either direction.
    """

    rms: float
    peak: float
    gain: float
    offset: float
    size: float
    top: float
    spread: float
    count: int
    nonfinite: int
    least: float = 0.0
    unit: float = 0.0
    step: float = 0.0
    systematic: float = SYSTEMATIC
    is_bare: bool = False
    blind: float = 0.0
    summed: float = 0.0

    @property
    def crest(self) -> float:
        """How far single elements stand out of the error itself, in what the errors of many terms leave at most.

        Such errors add up to one that is spread as a normal distribution, however large it is. One channel of a product
        that is wrong stands out of that long before it shows among all that the inputs explain.
        """
        most = PEAK_OVER_RMS * self.rms + 2.0 * self.unit * self.top
        return self.peak / most if most else 0.0

    @property
    def relative(self) -> float:
        """``rms`` relative to the golden's size; inf when only the target is not zero."""
        if self.size > 0:
            return self.rms / self.size
        return math.inf if self.rms > 0 else 0.0

    @property
    def is_of_storage(self) -> bool:
        """Whether each element is off by no more than storage explains."""
        return self.rms <= self.unit * self.size and self.peak <= 2.0 * self.unit * self.top and not self.nonfinite

    @property
    def weighty_count(self) -> float:
        """How many elements hold the squares of the golden: all if they are alike, a third of normal ones.

        The largest bounds the sum of fourth powers; of 20 to 1,000 normal numbers it says three times as much.
        """
        share = 3.0 * (self.size / self.top) ** 2 if self.top else 1.0
        return max(1.0, self.count * min(1.0, share))

    @property
    def is_of_one_value(self) -> bool:
        """Whether each element is zero or one number, so that all are rounded alike: the gradient of a mean.

        For no others is the mean of the squares that number times the mean.
        """
        square = self.size * self.size
        return self.count > 1 and abs(square - self.top * mean_of(self)) <= ALIKE * self.unit * square

    @property
    def likely(self) -> float:
        """Root mean square of the error where statistics only prove a part of it.

        Noise of this size moves each extreme by about as much (more where it grows with the values), norm and mean by
        as much over the root of the count: the middle one of the three guesses, which a common factor or a single
        wrong element does not spoil. Where extremes are all there is, theirs is the only one. That norm or mean agree
        as records of 16 bits do measures nothing, so these are left out; nor does that norms of many elements do. Where
        both agree far better than noise leaves them, a norm holds them, whatever the error.
        """
        if not (self.peak or self.gain or self.offset):
            return self.rms
        root = math.sqrt(self.count)
        extreme = self.peak * math.sqrt(self.size / self.top) if self.top else self.peak
        if self.is_bare:
            return extreme
        is_norm_open = self.blind or self.summed * self.count > UNLOST
        averages = (abs(self.gain) * self.size * root, is_norm_open), (abs(self.offset) * root, self.blind)
        if all(each < HELD * extreme for each, _ in averages):
            return max(self.rms, extreme)
        guesses = sorted((extreme, *(each for each, is_open in averages if each or not is_open)))
        return max(self.rms, guesses[(len(guesses) - 1) // 2])

    def with_rms(self, rms: float) -> Deviation:
        """Return the same with another root mean square of the error."""
        return replace(self, rms=rms)


def mean_of(tensor: Deviation) -> float:
    """Return the magnitude of the mean of the golden values."""
    return math.sqrt(max(0.0, tensor.size * tensor.size - tensor.spread * tensor.spread))


class ErrorFigure(enum.Enum):
    """By what an error is found: a figure of its `Deviation`, a picked index (``PICK``), a scalar (``VALUE``).

    ``HANDED``: that what was read is not what others gave. ``UPDATE``: that parameters changed otherwise.
    ``OWN``: that a result is not what its own inputs make. ``BITS``: that its extremes were rounded to fewer bits.
    """

    RMS = "rms"
    PEAK = "peak"
    GAIN = "gain"
    OFFSET = "offset"
    NONFINITE = "nonfinite"
    PICK = "pick"
    VALUE = "value"
    HANDED = "handed"
    UPDATE = "update"
    OWN = "own"
    BITS = "bits"

    __hash__ = object.__hash__  # Enum's own is a call of Python

    def of(self, deviation: Deviation) -> float:
        """Return the size of this figure; those from ``PICK`` on have none."""
        return float(abs(getattr(deviation, self._value_)))


def deviation_of(row: Row, rounding: Rounding = WITHIN_FRAMEWORK) -> Deviation | None:
    """Return the deviation of a measured row, None when nothing numeric was measured or the tensor is empty.

    None also where one side alone is quantised: the distance of its values is that of an unknown scale.

    A tensor without any position that is finite on both sides has a deviation only if NaN or infinities disagree:
    zero in every figure, with ``nonfinite`` set.
    """
    measurement, target, golden = row.measurement, row.pair.target, row.pair.golden
    if measurement is None or target is None or golden is None:
        return None
    mode, count = measurement.mode, measurement.count
    if (mode is not Mode.STATISTICS and mode is not Mode.TENSOR) or count == 0:
        return None
    own, statistics = measurement.target_statistics, measurement.golden_statistics
    if own is None or statistics is None:
        return None
    own, statistics = _without_masks(own, statistics)
    is_self, is_hidden = row.pair.rule.is_self, False
    if is_self and target.dtype == "bool" != golden.dtype:
        return None  # a cast to bool compared with its own input: distances say nothing there
    if quantised_side(row):
        return None
    numbers = _believed(statistics, count, rounding)
    low, high, mean, norm = numbers
    mismatch = measurement.nonfinite_mismatch
    least, errors, size, top, spread, blind = 0.0, None, 0.0, 0.0, 0.0, 0.0
    if low is not None or high is not None:
        top = max(abs(low or 0.0), abs(high or 0.0))
        size = top * SIZE_OF_TOP if norm is None else abs(norm) / math.sqrt(_finite(statistics, count))
        spread = size if mean is None else math.sqrt(max(0.0, size * size - mean * mean))
        if low is not None and high is not None and (low > 0.0 or high < 0.0):
            least = max(0.0, low, -high)
        ends = (own.min, statistics.min), (own.max, statistics.max)
        # The distance between two numbers that mask scores outweighs that of all other elements, and so does what
        # rounding leaves of scores added to one: 8 at -1e4 in float16.
        is_hidden = any(mine != other and mask_otherwise(mine, other) for mine, other in ends)
        if mode is Mode.TENSOR:
            errors = _tensor_errors(measurement, own, statistics, size)
            peak = math.inf if errors is None else errors[1]
            is_hidden = is_hidden or any(mine != other and is_mask_rounding(mine, other, peak) for mine, other in ends)
            errors = _NO_ERRORS if is_hidden else errors
        else:
            mine = _believed(own, count, rounding)
            mine, blind = _as_recorded(mine, numbers, (target.dtype, golden.dtype), rounding)
            errors = _statistic_errors(mine, numbers, size, count, rounding.summed)
    if errors is None and not mismatch:
        return None
    rms, peak, gain, offset = errors or _NO_ERRORS
    unit, step = storage(row.pair, mode, rounding)
    if target.dtype in WIDE and golden.dtype in WIDE:
        unit = max(unit, rounded_before((low, high, _number(own.min), _number(own.max)), rounding.unit))
    return Deviation(
        rms, peak, gain, offset, size, top, spread, count, mismatch, least, unit, step, rounding.systematic,
        is_hidden or (mode is Mode.STATISTICS and mean is None and norm is None and unit > 0.0), blind,
        0.0 if mode is Mode.TENSOR else rounding.summed,
    )  # fmt: skip


_NO_ERRORS = (0.0, 0.0, 0.0, 0.0)
_Numbers: TypeAlias = tuple[float | None, float | None, float | None, float | None]


NARROW = frozenset(("int8", "int4"))
"""Dtypes of quantised values. Without their scale they say nothing of values of another type, unless both are the same
values: equality needs no scale."""


def quantised_side(row: Row) -> str | None:
    """Say so where exactly one side of a two-sided pair is quantised; None where the values may be compared."""
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if (target.dtype in NARROW) == (golden.dtype in NARROW):
        return None
    side, narrow, other = ("target", target, golden) if target.dtype in NARROW else ("golden", golden, target)
    if "float" not in other.dtype:
        return None
    return f"quantised side: the {side} is {narrow.dtype}, its scale is unknown"


def unknown_scale(row: Row) -> str | None:
    """Return why a pair cannot be judged without a scale; None where it can, and where its values are equal."""
    told = quantised_side(row)
    return None if told is None or (row.measurement is not None and _is_same(row.measurement)) else told


def _is_same(measurement: Measurement) -> bool:
    """Whether all elements are equal, or everything that was recorded of them, extremes at least."""
    if measurement.nonfinite_mismatch:
        return False
    metrics = measurement.metrics
    if measurement.mode is Mode.TENSOR:
        return metrics.get("max_abs_err") == 0.0 and not metrics.get("max_rel_err_eps")
    recorded = [metrics.get(f"{name}_diff") for name in ("min", "max", "mean", "l2norm")]
    is_known = measurement.mode is Mode.STATISTICS and None not in recorded[:2]
    return is_known and not any(recorded)


def _as_recorded(
    target: _Numbers, golden: _Numbers, dtypes: tuple[str, str], rounding: Rounding
) -> tuple[_Numbers, float]:
    """Return what the target's statistics may stand for beside the golden's, and the error left open (`Deviation`)."""
    held = [SIGNIFICANT_BITS[dtype] for dtype in dtypes if dtype in SIGNIFICANT_BITS]
    (low, high, mean, norm), (own_low, own_high, own_mean, own_norm) = golden, target
    if len(held) < len(dtypes):
        return (own_low, own_high, mean_as_recorded(own_mean, mean), own_norm), 0.0
    bits = min(held)
    is_open = is_record(norm, bits) and is_record(own_norm, bits)
    extremes = nearest_record(own_low, low, bits), nearest_record(own_high, high, bits)
    found = *extremes, nearest_record(own_mean, mean), nearest_record(own_norm, norm)
    return found, max(rounding.unit[dtype] for dtype in dtypes) if is_open else 0.0


def _without_masks(target: Statistics, golden: Statistics) -> tuple[Statistics, Statistics]:
    """Return the statistics of both sides; twice those of the one that alone masks with infinity, which is in none."""
    for one, other in ((target, golden), (golden, target)):
        if one.inf and not other.inf and is_masked(other):
            return one, one
    return target, golden


def _believed(statistics: Statistics, count: int, rounding: Rounding) -> _Numbers:
    """Return extremes, mean and norm of the finite values; the norm that these make where they are all one number."""
    low, high, mean, norm = _numbers(statistics)
    if rounding.summed and norm and low is not None and low == high:
        norm = abs(low) * math.sqrt(count)
    return low, high, mean, norm


def _numbers(statistics: Statistics) -> _Numbers:
    """Return extremes, mean and norm of the finite values.

    Statistics recorded by a framework are infinite where a value is (masked scores); the finite extreme serves then.
    """
    low, high, mean, norm = statistics.min, statistics.max, statistics.mean, statistics.l2norm
    try:
        if mean is None and norm is None:  # extremes alone: half of the time would go into raising and catching
            if (low + high) * 0.0 == 0.0:  # type: ignore[operator]  # None is what the except clause is for
                return float(low), float(high), None, None  # type: ignore[arg-type]
        elif (low + high + mean + norm) * 0.0 == 0.0:  # type: ignore[operator]
            return low, high, mean, norm
    except (TypeError, OverflowError):
        pass
    return _number(low), _number(high), _number(mean), _number(norm)


def _finite(statistics: Statistics, count: int) -> int:
    return max(1, count - (statistics.nan or 0) - (statistics.inf or 0))


def _tensor_errors(
    measurement: Measurement, target: Statistics, golden: Statistics, size: float
) -> tuple[float, float, float, float] | None:
    metrics, count = measurement.metrics, measurement.count
    distance, peak = metrics.get("euclidean_distance"), metrics.get("max_abs_err")
    if distance is None and count == 1:
        distance = peak  # not given for scalars, where it is the same
    if distance is None or peak is None:
        return None
    gain = offset = 0.0
    if not measurement.nonfinite_mismatch:  # else the sides' norms and means are of different elements
        gain = _gain(metrics, target, golden, size, float(peak))
        offset = _difference(_number(target.mean), _number(golden.mean))
    return float(distance) / math.sqrt(_finite(golden, count)), float(peak), gain, offset


def _gain(metrics: Mapping[str, Value], target: Statistics, golden: Statistics, size: float, peak: float) -> float:
    """Return <target, golden> / <golden, golden> - 1; 0 for a golden tensor of zeros and for single elements."""
    norms = _number(target.l2norm), _number(golden.l2norm)
    if not peak or not size or norms[0] is None or not norms[1]:
        return 0.0
    if not norms[0]:
        return -1.0
    cosine = metrics.get("cosine")
    return 0.0 if cosine is None or math.isnan(cosine) else cosine * norms[0] / norms[1] - 1.0


def _statistic_errors(
    target: _Numbers, golden: _Numbers, size: float, count: int, summed: float
) -> tuple[float, float, float, float]:
    if target == golden:
        return _NO_ERRORS
    if max(abs(golden[0] or 0.0), abs(golden[1] or 0.0)) >= LEAST:
        ends = zip(target[:2], golden[:2], strict=True)
        low, high = (other if mask_otherwise(mine, other) else mine for mine, other in ends)
        if (low, high) != target[:2]:  # what outweighs all others is in mean and norm, too
            target = low, high, *golden[2:]
    try:
        low, high, offset, norm = map(sub, target, golden)
    except TypeError:  # one of them is not known
        low, high, offset, norm = map(_difference, target, golden)
    lost = summed * count - UNLOST
    if lost > 0.0:
        norm = math.copysign(max(0.0, abs(norm) - lost * abs(golden[3] or 0.0)), norm)
    root = math.sqrt(count)
    peak, norms = max(abs(high), abs(low)), norm / root
    # With neither norm nor mean (integers) the extremes are all there is: one element may be all the error.
    proven = max(abs(norms), abs(offset), peak / root)
    return proven, peak, norms / size if size and golden[3] else 0.0, offset


def _difference(target: float | None, golden: float | None) -> float:
    """Return target - golden, 0 where one of them is missing or not finite."""
    return 0.0 if target is None or golden is None else target - golden


def _number(value: float | None) -> float | None:
    """Return a finite float; recorded infinities and NaN tell nothing about distances."""
    return None if value is None or not math.isfinite(value) else float(value)
