"""How far one tensor is from its golden partner, in the few figures that the search for the origin needs.

All figures are absolute (in units of the tensor) except ``gain``. They come from a `Measurement` alone, so the
analysis runs again without touching a tensor. In statistics mode the root mean square of the error is not known;
what the differences of norm and mean prove of it is used instead (a lower bound).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from probe_flow.analysis.measured import MeasuredPair
from probe_flow.records import Measurement, Mode, Statistics, TensorRef

UNIT = {
    "float64": 2.0**-40,
    "float32": 2.0**-20,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "hifloat8": 2.0**-3,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "complex64": 2.0**-20,
    "complex128": 2.0**-40,
    "complex32": 2.0**-11,
    "": 2.0**-8,
}
"""Relative error that storing a value in the dtype explains: half a step for 16 bits and less. For wider types half
a step would accuse every device: float32 products run in reduced precision there, float64 is emulated. Statistics of
which no dtype is known may be of bfloat16."""


STEP = {"float16": 2.0**-24, "complex32": 2.0**-24, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}
"""Distance between neighbours near zero, where values are so small that relative errors say nothing."""


@dataclass(frozen=True, slots=True)
class Deviation:
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
        unit: relative error that storage explains (`UNIT` of the coarser side).
        step: absolute error that storage explains near zero (`STEP`).
        nonfinite: positions where NaN or infinities disagree (statistics: 1 when the extremes show that some do).
        least: smallest golden magnitude where all values have one sign, else 0.
    """

    rms: float
    peak: float
    gain: float
    offset: float
    size: float
    top: float
    spread: float
    count: int
    unit: float
    step: float
    nonfinite: int
    least: float = 0.0

    @property
    def relative(self) -> float:
        """``rms`` relative to the golden's size; inf when only the target is not zero."""
        if self.size > 0:
            return self.rms / self.size
        return math.inf if self.rms > 0 else 0.0

    @property
    def likely(self) -> float:
        """Root mean square of the error where statistics only prove a part of it.

        Noise of this size moves each extreme by about as much (more where it grows with the values), norm and mean by
        as much over the root of the count: the middle one of the three guesses, which a common factor or a single
        wrong element does not spoil.
        """
        root = math.sqrt(self.count)
        extreme = self.peak * math.sqrt(self.size / self.top) if self.top else self.peak
        guesses = sorted((extreme, abs(self.gain) * self.size * root, abs(self.offset) * root))
        return max(self.rms, guesses[1])


def deviation_of(row: MeasuredPair) -> Deviation | None:
    """Return the deviation of a measured row, None when nothing numeric was measured or the tensor is empty.

    A tensor without any position that is finite on both sides has a deviation only if NaN or infinities disagree:
    zero in every figure, with ``nonfinite`` set.
    """
    measurement, target, golden = row.measurement, row.pair.target, row.pair.golden
    if measurement is None or target is None or golden is None:
        return None
    if measurement.mode not in (Mode.TENSOR, Mode.STATISTICS) or measurement.count == 0:
        return None
    if measurement.golden is None or measurement.target is None or _only_tells_zeros(row):
        return None
    figures = _size(measurement.golden.statistics, measurement.count)
    errors = None
    if figures is not None:
        is_tensor = measurement.mode is Mode.TENSOR
        errors = _tensor_errors(measurement, figures) if is_tensor else _statistic_errors(measurement, figures)
    if errors is None and not measurement.nonfinite_mismatch:
        return None
    rms, peak, gain, offset = errors or (0.0, 0.0, 0.0, 0.0)
    size, top, spread = figures or (0.0, 0.0, 0.0)
    unit = max(_unit(target, measurement.mode), _unit(golden, measurement.mode))
    step = max(STEP.get(target.dtype, 0.0), STEP.get(golden.dtype, 0.0))
    if row.pair.rule == "self" and target.dtype not in UNIT and golden.dtype in UNIT:
        step = max(step, 1.0)  # a cast to whole numbers drops the fraction
    least = _least(measurement.golden.statistics)
    mismatch = measurement.nonfinite_mismatch
    return Deviation(rms, peak, gain, offset, size, top, spread, measurement.count, unit, step, mismatch, least)


def _unit(tensor: TensorRef, mode: Mode) -> float:
    """Return the relative rounding of values: that of the dtype, or of the decimal digits that a dump keeps."""
    unit = UNIT.get(tensor.dtype, 0.0)
    digits = tensor.attrs.get("significant_digits") if mode is Mode.STATISTICS else None
    return max(unit, 0.5 * 10.0 ** (1 - digits)) if isinstance(digits, int) else unit


def _only_tells_zeros(row: MeasuredPair) -> bool:
    """Whether this is a cast to bool compared with its own input: distances say nothing there."""
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    return row.pair.rule == "self" and target.dtype == "bool" != golden.dtype


def _size(statistics: Statistics, count: int) -> tuple[float, float, float] | None:
    """Return (root mean square, largest magnitude, standard deviation) of the finite golden values.

    Statistics recorded by a framework are infinite where a value is (masked scores); the finite extreme serves then.
    """
    low, high = _number(statistics.min), _number(statistics.max)
    if low is None and high is None:
        return None
    top = max(abs(low or 0.0), abs(high or 0.0))
    finite = count - (statistics.nan or 0) - (statistics.inf or 0)
    norm, mean = _number(statistics.l2norm), _number(statistics.mean)
    size = top if norm is None else abs(norm) / math.sqrt(max(1, finite))
    spread = size if mean is None else math.sqrt(max(0.0, size * size - mean * mean))
    return size, top, spread


def _least(statistics: Statistics) -> float:
    low, high = _number(statistics.min), _number(statistics.max)
    if low is None or high is None:
        return 0.0
    return max(0.0, low, -high)


def _tensor_errors(
    measurement: Measurement, figures: tuple[float, float, float]
) -> tuple[float, float, float, float] | None:
    metrics = measurement.metrics
    distance, peak = metrics.get("euclidean_distance"), metrics.get("max_abs_err")
    if distance is None and measurement.count == 1:
        distance = peak  # not given for scalars, where it is the same
    if distance is None or peak is None:
        return None
    assert measurement.target is not None
    assert measurement.golden is not None
    statistics = measurement.golden.statistics
    finite = max(1, measurement.count - (statistics.nan or 0) - (statistics.inf or 0))
    gain = _gain(measurement, figures[0], float(peak))
    offset = _difference(measurement.target.statistics.mean, statistics.mean)
    return float(distance) / math.sqrt(finite), float(peak), gain, offset


def _gain(measurement: Measurement, size: float, peak: float) -> float:
    """Return <target, golden> / <golden, golden> - 1; 0 for a golden tensor of zeros and for single elements."""
    assert measurement.target is not None
    assert measurement.golden is not None
    norms = _number(measurement.target.statistics.l2norm), _number(measurement.golden.statistics.l2norm)
    if not peak or not size or norms[0] is None or not norms[1]:
        return 0.0
    if not norms[0]:
        return -1.0
    cosine = measurement.metrics.get("cosine")
    return 0.0 if cosine is None or math.isnan(cosine) else cosine * norms[0] / norms[1] - 1.0


def _statistic_errors(
    measurement: Measurement, figures: tuple[float, float, float]
) -> tuple[float, float, float, float]:
    assert measurement.target is not None
    assert measurement.golden is not None
    target, golden = measurement.target.statistics, measurement.golden.statistics
    peak = max(abs(_difference(target.max, golden.max)), abs(_difference(target.min, golden.min)))
    offset = _difference(target.mean, golden.mean)
    root = math.sqrt(measurement.count)
    norms = _difference(target.l2norm, golden.l2norm) / root
    gain = norms / figures[0] if figures[0] and _number(golden.l2norm) else 0.0
    # With neither norm nor mean (integers) the extremes are all there is: one element may be all the error.
    proven = max(abs(norms), abs(offset), peak / root)
    return proven, peak, gain, offset


def _difference(target: float | None, golden: float | None) -> float:
    """Return target - golden, 0 where one of them is missing or not finite."""
    if target is None or golden is None:
        return 0.0
    difference = float(target) - float(golden)
    if -math.inf < difference < math.inf:
        return difference
    values = _number(target), _number(golden)
    return 0.0 if values[0] is None or values[1] is None else values[0] - values[1]


def _number(value: float | None) -> float | None:
    """Return a finite float; recorded infinities and NaN tell nothing about distances."""
    if value is None:
        return None
    number = float(value)
    return number if -math.inf < number < math.inf else None
