"""How much error a gradient may have: from the gradients that reach its call, and from what the forward pass saved.

To first order a gradient is the incoming one times the derivative, and the derivative is made of forward values: the
relative errors of both add. Both are relative to the size of what is summed up, not to what is left of it: a gradient
that is mathematically zero (a bias before a batch norm) is all rounding noise. Where the derivative jumps (relu at 0,
the place of a maximum) a few elements may be anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.model.decisions import FINE, LEAST_STEPS, share_turned
from probe_flow.analysis.model.deviation import PEAK_OVER_RMS, TINY, Deviation
from probe_flow.analysis.model.families import EXPONENTIALS, Family
from probe_flow.analysis.model.growth import (
    AMPLIFIED,
    HUGE,
    MOST,
    TYPICAL,
    Allowance,
    bounded,
    gain_of,
)
from probe_flow.analysis.model.products import coherent_product, typical_product
from probe_flow.analysis.number_types import common_share
from probe_flow.records.row import Row

GATE_GAIN = 0.5
"""Change of scale per share of flipped gates: what is lost on one side is missing from the product of both."""

STEEP = 10.0
"""Largest ratio of a tensor's size to its smallest value by which a power may raise relative errors."""

UNSTEADY = 1.5
"""Margin of the explained error: errors are correlated, and a derivative of a wrong value bends."""


class Saved(Struct, frozen=True):
    """A tensor of the forward call: its error, whether the call wrote it, and its shape's element count."""

    deviation: Deviation
    is_result: bool


def gradient_allowance(
    family: Family,
    output: Deviation,
    incoming: Sequence[Deviation],
    saved: Sequence[Saved],
    *,
    is_gated: bool,
    is_singular: bool = False,
    hidden: float = 0.0,
) -> Allowance:
    """Return the error that a gradient may have.

    Args:
        family: arithmetic of the forward call.
        output: the gradient.
        incoming: gradients that reach the call.
        saved: tensors of the forward call.
        is_gated: whether its derivative jumps.
        is_singular: whether its derivative has no bound near zero.
        hidden: relative error that each of them may have beyond what is known (statistics).
    """
    unit = max([output.unit, *[tensor.unit for tensor in incoming], *[each.deviation.unit for each in saved]])
    scale = max([output.size, *[_scale(family, output, tensor, saved) for tensor in incoming]])
    relative = sum([bounded(tensor) for tensor in incoming])
    worst = max(
        (min(tensor.relative * _steepness(family, tensor), 1.0) for tensor in _factors(family, output, saved)),
        default=0.0,
    )
    known = relative + 2.0 * worst
    doubt = hidden * (1 + len(incoming))
    floor = unit * scale * (_added_up(output, incoming) if family is Family.NORMALISE else 1.0) + output.step
    zeros, zeros_peak = _of_zeros(family, output, incoming, saved)
    explained = UNSTEADY * (scale * (known + doubt) + zeros)
    top = max([output.top, *[tensor.top for tensor in incoming]])
    peak = PEAK_OVER_RMS * (floor + explained) + 2.0 * unit * output.top + zeros_peak
    common = common_share(output.count) * (floor + explained) / max(output.size, TINY)
    peak += output.top * min(MOST, max((_peak_ratio(tensor) for tensor in incoming), default=0.0))
    if is_singular:
        # What is nearest to zero has the largest gradients, and may be off by as much as it is.
        read = [each.deviation for each in saved if each.deviation.least]
        nearest = max([(tensor.rms + hidden * tensor.size) / tensor.least for tensor in read], default=0.0)
        most = min(nearest, 1.0) * output.top
        explained += most / math.sqrt(output.count)
        peak += most
        size = max(output.size, TINY)
        common += min(most / size, MOST) * min(output.top / size, MOST) / output.count
    if is_gated:
        decided = max((min(max(each.deviation.relative, each.deviation.blind), 1.0) for each in saved), default=0.0)
        share = _flips(max(decided, hidden), unit, output.count)
        if share:
            explained += math.sqrt(share) * max(output.size, *(tensor.size for tensor in incoming), 0.0)
            peak += 2.0 * top
            common += GATE_GAIN * share
    gain = max(output.systematic, common)
    gain += gain_of(incoming) + doubt
    return Allowance(min(floor, HUGE), min(explained, HUGE), min(peak, HUGE), min(gain, HUGE), min(scale, HUGE))


def _of_zeros(
    family: Family, output: Deviation, incoming: Sequence[Deviation], saved: Sequence[Saved]
) -> tuple[float, float]:
    """Return error and peak of what is made of zeros on the golden, whose relative errors say nothing."""
    zeros = [tensor for tensor in _factors(family, output, saved) if not tensor.size] if family in _SCALED else []
    error = max((tensor.rms for tensor in zeros), default=0.0) * sum(tensor.size for tensor in incoming)
    peak = max((tensor.peak for tensor in zeros), default=0.0) * sum(tensor.top for tensor in incoming)
    for tensor in incoming:
        if tensor.rms and not tensor.size:
            factors = [] if family in _LINEAR else _factors(family, output, saved)
            slope = max((factor.size for factor in factors), default=1.0)
            error += max(tensor.rms * slope, _scale(family, output, replace(tensor, size=tensor.rms), saved))
            peak += tensor.peak * max((factor.top for factor in factors), default=1.0)
    return error, peak


def _added_up(output: Deviation, incoming: Sequence[Deviation]) -> float:
    """Return how many roundings are left where terms are added one after another in a type of 16 bits, as one.

    torch does so on CPU with the gradients of the weight and bias of a norm. A sum of k terms is rounded at the size of
    sqrt(k) of them: n make sqrt(n / 2) roundings of the last sum, of which 0.6 was reached.
    """
    terms = max((tensor.count / output.count for tensor in incoming), default=1.0)
    return math.hypot(1.0, math.sqrt(terms / 2.0)) if terms > 1.0 and output.unit > FINE else 1.0


HIDDEN = 2.0
"""How much more than is likely the gradient before may be off by, where only statistics are known of it."""


def with_added(allowed: Allowance, output: Deviation, gathered: Sequence[Deviation], *, is_hidden: bool) -> Allowance:
    """Return the allowance of a gradient that was added to one of an earlier micro step: its error is in the sum whole.

    Args:
        allowed: without that.
        output: the sum.
        gathered: the gradient before with the error that it is likely to have; empty for most.
        is_hidden: whether only statistics are known.
    """
    if not gathered:
        return allowed
    (before,) = gathered
    error, size = (HIDDEN if is_hidden else 1.0) * before.rms, max(output.size, TINY)
    single = error * math.sqrt(output.count) if is_hidden else before.peak
    noise = common_share(output.count) * error
    return replace(
        allowed,
        explained=min(allowed.explained + error, HUGE),
        peak=min(allowed.peak + single, HUGE),
        gain=min(allowed.gain + (abs(before.gain) * before.size + noise) / size, HUGE),
        offset=min(allowed.offset + abs(before.offset) + noise, HUGE),
    )


MOVED_GAIN = 1.25
"""The same of operators of graphs. The gradient of a pooling goes to another element as a whole: an error ``r`` is then
a change of scale of ``r**2 / 2``, and ``r`` may be `LIMITS.rms` times what is explained."""


def with_flips(
    allowed: Allowance, output: Deviation, inputs: Sequence[Deviation], deciding: Sequence[Deviation]
) -> Allowance:
    """Return the allowance of an operator that is the gradient of a gate, as a graph has it: `is_gate_gradient`.

    It reads the gradient and the values that decide. Where these come near the place at which they turn, the element is
    that of the gradient on one side, and none on the other.

    Args:
        allowed: without that.
        output: its result.
        inputs: what it reads.
        deciding: those of them that decide; empty where they are not known.
    """
    decided = max((min(tensor.relative, 1.0) for tensor in deciding or inputs), default=0.0)
    unit = max([output.unit, *[tensor.unit for tensor in inputs]])
    share = _flips(decided, unit, output.count)
    if not share:
        return allowed
    # Gradients of gates are a part of what reaches them, so larger inputs than the result is are what decides.
    explained = allowed.explained + math.sqrt(share) * output.size
    return replace(
        allowed,
        explained=min(explained, HUGE),
        peak=min(allowed.peak + 2.0 * output.top, HUGE),
        gain=min(allowed.gain + MOVED_GAIN * share, HUGE),
        single=min(allowed.single + 2.0 * output.top, HUGE),
    )


def _flips(decided: float, unit: float, count: int) -> float:
    """Return the share of elements whose gate may have turned, given the relative error of what decides."""
    return share_turned(max(decided, LEAST_STEPS * unit if unit > FINE else 0.0), count)


_LINEAR = frozenset({Family.MOVE, Family.SUM, Family.TOTAL})
"""Families whose gradients do not depend on the values of the forward pass."""

_SCALED = frozenset({Family.SCALE, Family.QUOTIENT})


def _steepness(family: Family, tensor: Deviation) -> float:
    """How much larger a relative error is at the smallest value of a positive tensor, whose powers are the largest.

    Gradients of equations are solutions of equations.
    """
    if family is Family.SOLVE:
        return AMPLIFIED[family]
    return min(STEEP, tensor.size / tensor.least) if family in _SCALED and tensor.least > 0.0 else 1.0


def _factors(family: Family, output: Deviation, saved: Sequence[Saved]) -> list[Deviation]:
    """Return the forward values that the derivative is made of."""
    read = [each.deviation for each in saved if not each.is_result]
    if family in _LINEAR:
        return []
    if family is Family.PRODUCT:
        return [tensor for tensor in read if tensor.count != output.count] or read
    if family in _SCALED and len(read) > 1:
        return read
    return [each.deviation for each in saved]


def coherent_gradient_error(
    family: Family, output: Deviation, incoming: Sequence[Deviation], saved: Sequence[Saved]
) -> float:
    """Return what differences of the incoming gradients' means add up to where many of their elements are summed."""
    read = [each.deviation for each in saved if not each.is_result] if family is Family.PRODUCT else []
    sums = [abs(tensor.offset) * tensor.count / output.count for tensor in incoming if tensor.count > output.count]
    products = [coherent_product(output, tensor, other) for tensor in incoming for other in read]
    return max([0.0, *sums, *products])


def _peak_ratio(tensor: Deviation) -> float:
    return tensor.peak / max(tensor.size, TINY)


def _scale(family: Family, output: Deviation, incoming: Deviation, saved: Sequence[Saved]) -> float:
    """Size of the terms that the gradient is a sum of: incoming gradient times derivative."""
    terms = max(1.0, incoming.count / output.count)
    total = incoming.size * math.sqrt(terms)
    read = [each.deviation for each in saved if not each.is_result]
    written = [each.deviation for each in saved if each.is_result]
    if family in (Family.PRODUCT, Family.ATTENTION):
        like = [tensor for tensor in read if tensor.count != output.count] or read
        products = [TYPICAL * typical_product(output, incoming, tensor) for tensor in like]
        if family is Family.ATTENTION:
            products += [incoming.size * tensor.size for tensor in read]
        # Weights and inputs are products with the incoming gradient, biases its sum.
        is_bias = not read or output.count == min(tensor.count for tensor in read) < incoming.count
        return max([*products, total if is_bias or output.count * 4 <= incoming.count else 0.0])
    if family is Family.NORMALISE and read:
        source = max(read, key=lambda tensor: tensor.count)
        slope = max((tensor.size for tensor in written), default=1.0) / max(source.spread, TINY)
        own = incoming.size * slope if output.count == source.count else 0.0
        return max(own, total if output.count < incoming.count else 0.0)
    if family in EXPONENTIALS:
        return 2.0 * incoming.size * min(1.0, max((tensor.size for tensor in written), default=1.0))
    divisors = [tensor.size for tensor in read if tensor.count == output.count and tensor.size]
    if family is Family.QUOTIENT and output.count < incoming.count and divisors and written:
        return total * max(tensor.size for tensor in written) / min(divisors)  # of x / d it is -x / d / d
    if family in _SCALED and output.count < incoming.count:
        return total * max((tensor.size for tensor in read), default=1.0)
    return total if terms > 1.0 else 0.0


_FACTORS = frozenset(("mul", "div", "truediv", "true_divide", "rmul", "imul", "multiply", "divide"))


def scales_by_number(call: Call, rows: Sequence[Row]) -> bool:
    """Whether a gradient is that of a product or quotient with a plain number: nothing saved matters then."""
    if call.node is None or call.node.op_type.strip("_") not in _FACTORS:
        return False
    read = [rows[n].pair.shown for n in call.forward if not rows[n].is_produced]
    return len(read) == 2 and sum(each.value is not None for each in read) == 1
