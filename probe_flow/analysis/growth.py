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
from dataclasses import dataclass

from probe_flow.analysis.deviation import Deviation
from probe_flow.analysis.families import Family

PEAK_OVER_RMS = 6.0
"""Largest of a million normally distributed errors, in standard deviations, and a margin."""


TINY = 1e-300
"""Keeps ratios of all-zero tensors finite."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Error that needs no fault, absolute, as root mean square and as peak."""

    floor: float
    explained: float
    peak: float
    gain: float

    @property
    def rms(self) -> float:
        """Floor and explained error together."""
        return self.floor + self.explained


def allowance(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> Allowance:
    """Return the error that ``output`` may have, given the measured errors of its node's inputs."""
    finite = [tensor for tensor in inputs if math.isfinite(tensor.rms)]
    unit = max([output.unit, *(tensor.unit for tensor in finite)])
    floor = unit * _summed_size(family, output, finite) + output.step
    explained = _explained(family, output, finite)
    peak = _peak(family, output, finite, unit, floor + explained)
    gain = 2.0 * sum(abs(tensor.gain) for tensor in finite)
    gain += _common_share(output.count) * (floor + explained) / max(output.size, TINY)
    return Allowance(floor, explained, peak, gain)


def _common_share(count: int) -> float:
    """Return the share of rounding noise that a change of scale may make up.

    Noise averages out over the elements, but not fully: errors of weights and channels are shared by many of them.
    """
    return min(0.5, 0.1 + 2.0 / math.sqrt(count))


def widest(allowances: Sequence[Allowance]) -> Allowance:
    """Return the largest of each figure: what a node may have whose arithmetic is one or all of several kinds."""
    return Allowance(
        max(allowed.floor for allowed in allowances),
        max(allowed.explained for allowed in allowances),
        max(allowed.peak for allowed in allowances),
        max(allowed.gain for allowed in allowances),
    )


def _summed_size(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Size of the terms whose rounding ends up in the output."""
    sizes = [tensor.size for tensor in inputs]
    if family in (Family.SUM, Family.UNKNOWN):
        return max([output.size, *(size for size, tensor in zip(sizes, inputs, strict=True) if _fits(tensor, output))])
    if family is Family.PRODUCT and len(inputs) >= 2:
        return max(output.size, 0.5 * _typical_product(output, inputs))
    if family is Family.REDUCE and inputs:
        source = max(inputs, key=lambda tensor: tensor.count)
        return max(output.size, source.size)
    if family is Family.NORMALISE and inputs:
        source = max(inputs, key=lambda tensor: tensor.count)
        # The statistics that a norm returns (mean, reciprocal deviation) are sums over its input.
        if output.count < source.count:
            return max(output.size, source.size)
        return output.size * max(1.0, source.size / max(source.spread, TINY))
    if family is Family.EXPONENTIAL and inputs:
        return output.size * max(1.0, min(16.0, max(tensor.size for tensor in inputs)))
    return output.size


def _fits(tensor: Deviation, output: Deviation) -> bool:
    """Whether an input can be an operand of the sum (tables and scalars of other size are not)."""
    return tensor.count <= output.count


def _typical_product(output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Size that a product of unrelated factors has: s_a * s_b * sqrt(length of the sum)."""
    first, second = sorted(inputs, key=lambda tensor: -tensor.count)[:2]
    length = math.sqrt(max(1.0, first.count * second.count / max(1, output.count)))
    return first.size * second.size * math.sqrt(length)


def _explained(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> float:
    if not inputs:
        return 0.0
    relative = sum(min(tensor.relative, 1e6) for tensor in inputs)
    absolute = sum(tensor.rms * math.sqrt(max(1.0, tensor.count / output.count)) for tensor in inputs)
    if family in (Family.MOVE, Family.CONTRACT):
        # A slice may keep just the wrong part of its input; a table lookup returns rows of one input.
        return max(1.2 * absolute, output.size * min(relative, 1e6))
    if family is Family.SUM:
        return 1.2 * absolute
    if family is Family.SCALE:
        return 1.5 * output.size * relative
    if family is Family.REDUCE:
        return max(output.size * relative, sum(tensor.rms for tensor in inputs))
    if family is Family.PRODUCT:
        cancelled = max(1.0, _typical_product(output, inputs) / max(output.size, TINY)) if len(inputs) > 1 else 2.0
        return 1.5 * output.size * relative * min(cancelled, 1e3)
    if family is Family.NORMALISE:
        source = max(inputs, key=lambda tensor: tensor.count)
        rest = sum(tensor.relative for tensor in inputs if tensor is not source)
        own = source.rms if output.count < source.count else output.size * source.rms / max(source.spread, TINY)
        return 2.0 * own + 1.5 * output.size * rest
    if family in (Family.EXPONENTIAL, Family.ATTENTION):
        exponent = max(min(tensor.peak, 1.0) for tensor in inputs)
        return output.size * max(exponent, relative)
    return 3.0 * max(output.size * relative, absolute)


def _peak(family: Family, output: Deviation, inputs: Sequence[Deviation], unit: float, rms: float) -> float:
    own = PEAK_OVER_RMS * rms + 2.0 * unit * output.top
    if not inputs:
        return own
    worst = max(tensor.peak for tensor in inputs)
    if family in (Family.MOVE, Family.CONTRACT, Family.REDUCE):
        return own + 1.2 * worst
    if family is Family.SUM:
        return own + sum(tensor.peak for tensor in inputs)
    relative = max(tensor.peak / max(tensor.size, TINY) for tensor in inputs)
    return own + output.top * min(relative, 1e6)
