"""What is due of results that have bounds, of squares and lengths, and of what is mixed or padded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from probe_flow.analysis.number_types import STEP_AT_MOST, common_share
from probe_flow.analysis.statistics.dues import Due, Law, Operands, averaged, inside
from probe_flow.analysis.statistics.moments import Moments


def bounded(
    whole: Moments, _parts: Sequence[Moments], _operands: Operands, *, low: float = -1.0, high: float = 1.0
) -> Sequence[Due]:
    """No element lies outside of two numbers, whatever was read."""
    return inside(whole, low, high, max(abs(low), abs(high)))


def log_of_sums(whole: Moments, parts: Sequence[Moments], _operands: Operands) -> Sequence[Due]:
    """The logarithm of a sum of ``n`` powers is no less than the largest exponent, and at most ``log(n)`` more.

    Nor is it less than their mean and ``log(n)``, which is what ``n`` equal ones give.
    """
    if len(parts) != 1 or parts[0].count % whole.count:
        return ()
    (read,) = parts
    more = math.log(read.count // whole.count)
    step = STEP_AT_MOST * whole.unit * (read.top + more)
    explained = averaged(read, whole) + averaged(whole, whole)
    return (
        Due("high", read.high, read.high + more, step), Due("low", read.low + more, math.inf, step),
        Due("mean", read.mean + more, math.inf, explained),
    )  # fmt: skip


def log_of_shares(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Logarithms of shares that add up to 1 are not above 0, nor their mean above that of equal shares."""
    lengths = [length for length in operands.shape if length > 1]
    if len(parts) != 1 or parts[0].count != whole.count or not lengths:
        return ()
    (read,) = parts
    least, mean = read.low - read.high - math.log(max(lengths)), -math.log(min(lengths))
    step = STEP_AT_MOST * whole.unit * (read.top - least)
    return *inside(whole, least, 0.0, read.top - least), Due("mean", -math.inf, mean, step)


def magnitude(whole: Moments, parts: Sequence[Moments], _operands: Operands) -> Sequence[Due]:
    """Signs that are dropped leave the root mean square, and the largest is that of the largest magnitude."""
    if len(parts) != 1 or parts[0].count != whole.count:
        return ()
    (read,), top = parts, parts[0].top
    of_norm = (common_share(whole.count) * whole.unit + whole.norm_recorded + read.norm_recorded) * read.size
    step = STEP_AT_MOST * whole.unit * top
    return Due("size", read.size, read.size, of_norm), Due("high", top, top, step), Due("low", 0.0, top, step)


def squared(
    whole: Moments, parts: Sequence[Moments], operands: Operands, *, exponent: tuple[float, ...] = ()
) -> Sequence[Due]:
    """The mean of squares is the square of the root mean square, the largest that of the largest magnitude."""
    if len(parts) != 1 or parts[0].count != whole.count or operands.numbers != exponent:
        return ()
    (read,) = parts
    mean, top = read.size * read.size, read.top**2
    explained = (2.0 * read.norm_recorded + whole.unit) * mean + averaged(whole, whole)
    return Due("mean", mean, mean, explained), Due("high", top, top, 2.0 * STEP_AT_MOST * whole.unit * top)


def lengths(whole: Moments, parts: Sequence[Moments], _operands: Operands) -> Sequence[Due]:
    """The squares of lengths add up to the squares of all that they are the lengths of."""
    if len(parts) != 1 or parts[0].count % whole.count:
        return ()
    (read,) = parts
    size = read.size * math.sqrt(read.count / whole.count)
    step = STEP_AT_MOST * whole.unit
    explained = (common_share(whole.count) * step + whole.norm_recorded + read.norm_recorded) * size
    return Due("size", size, size, explained), Due("low", 0.0, math.inf, 0.0)


def mixed(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """The mean of a mixture of two (`lerp`) is that of their means, and no element lies beyond both."""
    if len(parts) != 2 or len(operands.numbers) != 1 or any(each.count != whole.count for each in parts):
        return ()
    (begin, end), (by,) = parts, operands.numbers
    if not 0.0 <= by <= 1.0:
        return ()
    low, high, mean = ((1.0 - by) * getattr(begin, f) + by * getattr(end, f) for f in ("low", "high", "mean"))
    explained = averaged(whole, whole) + (1.0 - by) * averaged(begin, whole) + by * averaged(end, whole)
    return Due("mean", mean, mean, explained), *inside(whole, low, high, max(begin.top, end.top))


def squares_added(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Squares that are added (`addcmul` of a tensor and itself, as optimizers do) add their mean; none takes off.

    What is less than half a step of an element is lost in all of them alike, so that no mean averages it out.
    """
    if len(parts) != 3 or parts[1] != parts[2] or any(each.count != whole.count for each in parts):
        return ()
    before, one, by = parts[0], parts[1], operands.alpha
    added = by * one.size * one.size
    ends = sorted((0.0, by * one.top * one.top))
    lost = min(abs(added), whole.unit * before.size)
    of_squares = abs(added) * (2.0 * whole.share * whole.unit + 2.0 * one.norm_recorded)
    explained = averaged(whole, whole) + averaged(before, whole) + of_squares + lost
    mean = before.mean + added
    bounds = inside(whole, before.low + ends[0], before.high + ends[1], before.top + max(map(abs, ends)))
    return Due("mean", mean, mean, explained), *bounds


def padded(whole: Moments, parts: Sequence[Moments], _operands: Operands) -> Sequence[Due]:
    """Zeros around a tensor leave its sum, that of its squares, and its extremes but for themselves."""
    if len(parts) != 1 or parts[0].count > whole.count:
        return ()
    (read,) = parts
    share = read.count / whole.count
    mean, size = share * read.mean, math.sqrt(share) * read.size
    of_mean = share * averaged(read, whole) + whole.mean_recorded
    of_norm = (common_share(whole.count) * whole.unit + whole.norm_recorded + read.norm_recorded) * size
    ends = Due("size", size, size, of_norm), Due("mean", mean, mean, of_mean)
    return *ends, *inside(whole, min(read.low, 0.0), max(read.high, 0.0), read.top)


def averaged_with_zeros(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *, place: int | None = None
) -> Sequence[Due]:
    """Averages of elements, and of zeros around them, lie between the extremes, zero among them."""
    if not parts or (place is None and len(parts) > 1):
        return ()
    read = parts[place or 0]
    return inside(whole, min(read.low, 0.0), max(read.high, 0.0), read.top)


BOUNDED: Mapping[str, Law] = {
    "cosinesimilarity": bounded,
    "logsumexp": log_of_sums,
    "logsoftmax": log_of_shares,
    **dict.fromkeys(("norm", "vectornorm", "linalgvectornorm"), lengths),
    "lerp": mixed,
    "addcmul": squares_added,
    "pad": padded,
    "avgpool": averaged_with_zeros,
    "gridsample": partial(averaged_with_zeros, place=0),
}
"""Their laws, by the bare type of an operator."""
