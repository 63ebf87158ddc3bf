"""What a norm of rows makes of data that are as uneven as the golden's, where its weights differ."""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.statistics.dues import Due
from probe_flow.analysis.statistics.laws import left_by_rounding, weighted
from probe_flow.analysis.statistics.moments import Moments

CHANCE = 6.0
"""What chance may do to a channel of one row, in what data that are as uneven as independent rows do to it."""

ORDINARY = 4.0
"""Largest value, in root mean squares, up to which no channel of the golden's holds more than others."""

LIKE_A_FACTOR = 0.08
"""How far the ratio of an extreme to the golden's may be from that of the root mean squares where a factor makes both.
A quarter of the rows that became constant leave it at 0.87 of the root mean square, and mostly the extremes."""


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
