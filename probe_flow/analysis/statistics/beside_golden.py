"""What results are due to be by their own inputs and by what the golden's are of the golden's.

A norm of rows makes of data that are as uneven as the golden's the same, where its weights differ.

What `relu` takes away is the negative half of its input. Input and result say its mean (the difference of both) and its
mean square (that of their mean squares, for nothing is in both halves). How these two belong together is a matter of
how the data are spread, which hardly changes where data do: of 11,000 right results behind dropouts, updates and
other faults, also of `gelu`, `silu` and `leaky_relu`, whose halves overlap. But a wrong factor, channel or row of the
result adds to the one what it takes from the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.number_types import noise_by
from probe_flow.analysis.statistics.dues import Due
from probe_flow.analysis.statistics.laws import GELU_FORMS, left_by_rounding, weighted
from probe_flow.analysis.statistics.moments import Moments

CHANCE = 6.0
"""What chance may do to a channel of one row, in what data that are as uneven as independent rows do to it."""

ORDINARY = 4.0
"""Largest value, in root mean squares, up to which no channel of the golden's holds more than others."""

LIKE_A_FACTOR = 0.08
"""How far the ratio of an extreme to the golden's may be from that of the root mean squares where a factor makes both.
A quarter of the rows that became constant leave it at 0.87 of the root mean square, and mostly the extremes."""

LEAVING = frozenset(("relu", "gelu", "silu", "leakyrelu"))
"""Types of activations that were measured."""

FOLLOWS = 0.5
"""How far the mean may be from that due, in how far the inputs of both sides are apart: right results reach 0.29."""

FEWEST = 64
"""Elements from which figures say how data are spread."""

LEAST = 0.05
"""Least mean of what the golden leaves out, in the size of its input: of less nothing follows."""


def as_uneven(
    whole: Moments, parts: Sequence[Moments], golden: Moments, golden_parts: Sequence[Moments], *, is_centred: bool,
    apart: float = 1.0,
) -> Sequence[Due]:  # fmt: skip
    """What root mean square and mean are due to be behind a norm of rows whose weights differ, by the golden's.

    Weights make more of some channels than of others, so that both follow how uneven the data are as well. That has
    nothing to do with the weights: over ``n`` channels chance moves the mean square by the standard deviation of what
    weights do to a channel, over the root of ``n``. More is allowed where rows are few, where the golden's largest
    value shows that few channels may hold most, and where weights follow the golden's data. Rows that became constant,
    by what was read, have nothing to normalise. Data that are ``apart`` by a small share of their spread are as uneven
    as the golden's but for that share.
    """
    given, theirs = weighted(whole, parts), weighted(golden, golden_parts)
    if given is None or theirs is None or (weight := given[0]) is None or weight.count < 2:
        return ()
    (square, mean), (their_square, their_mean) = _even(*given), _even(*theirs)
    rows = whole.count // weight.count
    of_norm, of_mean = left_by_rounding(whole, parts[0], rows, is_centred=is_centred)
    if math.isinf(of_norm) or rows < 2 or not golden.size or not golden_parts[0].size:
        return ()
    few = golden.top / (ORDINARY * golden.size)
    chance = max(1.0, CHANCE / math.sqrt(rows), few * few) / math.sqrt(weight.count)
    spread = math.hypot(weight.spread, given[1].spread if given[1] is not None else 0.0)
    tilt = golden.size * golden.size - their_square
    may = apart * max(chance * spread * (2.0 * abs(weight.mean) + spread), abs(tilt))
    smaller = parts[0].size / golden_parts[0].size
    constant = 0.0 if _is_scaled(parts[0], golden_parts[0], smaller) else max(0.0, 1.0 - smaller * smaller)
    high, low = math.sqrt(max(0.0, square + tilt)), math.sqrt(max(0.0, (square + tilt) * (1.0 - constant)))
    if not low:
        return ()
    found = [Due("size", low, high, may / (2.0 * low) + of_norm)]
    if is_centred:
        due = mean + golden.mean - their_mean
        of_data = apart * max(chance * weight.spread, abs(golden.mean - their_mean))
        found.append(Due("mean", due, due, of_data + of_mean))
    return found


def _is_scaled(tensor: Moments, golden: Moments, factor: float) -> bool:
    """Return True if a factor alone makes a tensor smaller: that of both extremes as well, which constant rows keep."""
    ends = (tensor.low, golden.low), (tensor.high, golden.high)
    is_told = factor < 1.0 - 2.0 * LIKE_A_FACTOR  # else extremes that stayed are near to it, too
    return is_told and all(there != 0.0 and abs(here / there - factor) <= LIKE_A_FACTOR for here, there in ends)


def _even(weight: Moments | None, bias: Moments | None) -> tuple[float, float]:
    """Return mean square and mean behind a norm of data that are the same in all channels."""
    square = 1.0 if weight is None else weight.size * weight.size
    return (square, 0.0) if bias is None else (square + bias.size * bias.size, bias.mean)


def left_out(
    whole: Moments, parts: Sequence[Moments], golden: Moments, golden_parts: Sequence[Moments]
) -> Sequence[Due]:
    """Return what the mean of a result is due to be, by what it leaves out of its input and what the golden's does."""
    if len(parts) != 1 or len(golden_parts) != 1 or not FEWEST <= whole.count == parts[0].count:
        return []
    (read,), (other,) = parts, golden_parts
    taken, theirs = (
        source.size * source.size - made.size * made.size for source, made in ((read, whole), (other, golden))
    )
    mean = other.mean - golden.mean
    if taken <= 0.0 or theirs <= 0.0 or abs(mean) < LEAST * other.size:
        return []
    due = mean * math.sqrt(taken / theirs)
    squares = (whole.norm_recorded * whole.size**2 + read.norm_recorded * read.size**2) / taken
    recorded = whole.mean_recorded + read.mean_recorded + abs(due) * squares
    explained = FOLLOWS * max(_apart(read, other), read.unit) * read.size + recorded + GELU_FORMS * abs(due)
    return [Due("mean", read.mean - due, read.mean - due, explained)]


def _apart(tensor: Moments, golden: Moments) -> float:
    """Return how far a tensor is from the golden's by all of its figures together, in its size."""
    ends = max(abs(tensor.low - golden.low), abs(tensor.high - golden.high))
    figures = ends, tensor.size - golden.size, tensor.mean - golden.mean
    return noise_by(figures, golden.size, golden.top, tensor.count) / golden.size
