"""Where figures of a result are due to lie, and what is due of what operators add, scale, put together or pick.

What rounding takes a figure beyond is part of what is due: a step at extremes, for kernels may round to either
neighbour, and what averages out in means and norms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis.number_types import STEP_AT_MOST, common_share
from probe_flow.analysis.statistics.moments import RECORDED, Moments

ADDED, SUBTRACTED = (1, 1), (1, -1)


class Due(Struct, frozen=True):
    """Where a figure of a result is due to lie.

    Args:
        figure: of `Moments`.
        low, high: bounds.
        explained: what rounding takes it beyond.
    """

    figure: str
    low: float
    high: float
    explained: float

    def gap(self, whole: Moments) -> float:
        """Return how far a result's figure is from where it is due, in what rounding explains: inf of an exact zero.

        Near zero a type has no more bits, but a step: a gradient of 6e-7 in float16 is one of ten numbers.
        """
        here: float = getattr(whole, self.figure)
        away = max(self.low - here, here - self.high, 0.0)
        if not away:
            return 0.0
        explained = self.explained + whole.step
        return away / explained if explained else math.inf

    def told(self, whole: Moments) -> str:
        """Return the figure and what it is due to be, in words."""
        here = getattr(whole, self.figure)
        bound = self.low if here < self.low else self.high
        word = "" if self.low == self.high else "at least " if here < self.low else "at most "
        return f"its {WORDS[self.figure]} is {here:.4g}, theirs make {word}{bound:.4g}"


WORDS = {"low": "minimum", "high": "maximum", "mean": "mean", "size": "root mean square"}


class Made(Struct, frozen=True):
    """What made a tensor that a call reads.

    Args:
        kind: type of that call, in small letters without underscores.
        of: what it read first; None where its statistics are not all finite.
    """

    kind: str
    of: Moments | None


class Operands(Struct, frozen=True):
    """What a call reads beside tensors of fractions.

    Args:
        shape: of its result.
        numbers: scalar arguments, in order.
        made: gives what made a tensor that it reads, by its place; None where that is not known.
        alpha: what the second addend is multiplied with.
    """

    shape: tuple[int, ...]
    numbers: tuple[float, ...]
    made: Callable[[int], Made | None]
    alpha: float = 1.0


Law: TypeAlias = "Callable[[Moments, Sequence[Moments], Operands], Sequence[Due]]"
"""Gives what is due of a result by the figures of what was read."""


def sum_of(whole: Moments, parts: Sequence[Moments], operands: Operands, *, signs: Sequence[int]) -> Sequence[Due]:
    """The mean of a sum is the sum of the means, no element beyond those of the extremes; a number moves these."""
    if len(parts) == 1 == len(operands.numbers) and parts[0].count == whole.count and signs == ADDED:
        return _moved(whole, parts[0], operands.alpha * operands.numbers[0])
    if len(parts) != len(signs) or any(whole.count % each.count for each in parts):
        return ()
    first, second = parts
    factors = signs[0], operands.alpha * signs[1]
    mean = factors[0] * first.mean + factors[1] * second.mean
    explained = averaged(whole, whole) + averaged(first, whole) + abs(operands.alpha) * averaged(second, whole)
    ends = [sorted((by * each.low, by * each.high)) for by, each in zip(factors, parts, strict=True)]
    top = sum(abs(by) * each.top for by, each in zip(factors, parts, strict=True))
    low, high = (sum(each[at] for each in ends) for at in (0, 1))
    return Due("mean", mean, mean, explained), *inside(whole, low, high, top)


def inside(whole: Moments, low: float, high: float, top: float) -> Sequence[Due]:
    """No element lies outside of two bounds, which are made of numbers as large as ``top``."""
    step = STEP_AT_MOST * whole.unit * top
    return Due("low", low, high, step), Due("high", low, high, step)


def multiplied(whole: Moments, parts: Sequence[Moments]) -> Sequence[Due]:
    """Elements of a product of two tensors lie between the products of their extremes.

    Its norm is no larger than that of one of them, of which each element is used once, times the largest of the other.
    """
    if len(parts) != 2 or any(whole.count % each.count for each in parts):
        return ()
    first, second = parts
    ends = [one * other for one in (first.low, first.high) for other in (second.low, second.high)]
    sizes = [each.size * other.top for each, other in ((first, second), (second, first)) if each.count == whole.count]
    if not sizes:
        return ()
    most = min(sizes)
    of_norm = (whole.share * whole.unit + whole.norm_recorded + max(each.norm_recorded for each in parts)) * most
    return Due("size", 0.0, most, of_norm), *inside(whole, min(ends), max(ends), first.top * second.top)


def divided(whole: Moments, parts: Sequence[Moments]) -> Sequence[Due]:
    """Elements of a quotient whose divisor has one sign lie between the quotients of the extremes."""
    read, divisor = parts
    if divisor.low * divisor.high <= 0.0 or read.count != whole.count or whole.count % divisor.count:
        return ()
    ends = [one / other for one in (read.low, read.high) for other in (divisor.low, divisor.high)]
    return inside(whole, min(ends), max(ends), max(map(abs, ends)))


def _moved(whole: Moments, tensor: Moments, by: float) -> Sequence[Due]:
    step = STEP_AT_MOST * whole.unit * (tensor.top + abs(by))
    explained = averaged(whole, whole) + averaged(tensor, whole)
    return (
        Due("low", tensor.low + by, tensor.low + by, step), Due("high", tensor.high + by, tensor.high + by, step),
        Due("mean", tensor.mean + by, tensor.mean + by, explained),
    )  # fmt: skip


def averaged(tensor: Moments, whole: Moments) -> float:
    """Return what rounding of a result leaves in its mean, by the size of something that it is made of."""
    return whole.share * whole.unit * tensor.size + tensor.mean_recorded


def same(whole: Moments, tensor: Moments, factor: float = 1.0) -> Sequence[Due]:
    """All four figures are those of a tensor, times a factor."""
    step = STEP_AT_MOST * whole.unit * abs(factor) * tensor.top
    low, high = sorted((factor * tensor.low, factor * tensor.high))
    mean, size = factor * tensor.mean, abs(factor) * tensor.size
    of_mean = abs(factor) * averaged(tensor, whole) + whole.mean_recorded
    of_norm = (common_share(whole.count) * whole.unit + whole.norm_recorded + tensor.norm_recorded) * size
    return (
        Due("low", low, low, step), Due("high", high, high, step), Due("mean", mean, mean, of_mean),
        Due("size", size, size, of_norm + of_mean),
    )  # fmt: skip


def scaled(whole: Moments, parts: Sequence[Moments], operands: Operands, *, is_divided: bool) -> Sequence[Due]:
    """A number as factor scales all four."""
    if len(parts) != 1 or len(operands.numbers) != 1 or parts[0].count != whole.count or not operands.numbers[0]:
        return ()
    number = operands.numbers[0]
    return same(whole, parts[0], 1.0 / number if is_divided else number)


def joined(whole: Moments, parts: Sequence[Moments], _operands: Operands) -> Sequence[Due]:
    """What was put together has the extremes of all, and the means of means and squares."""
    if not parts or sum(each.count for each in parts) != whole.count:
        return ()
    norm = math.hypot(*(each.norm for each in parts))
    all_of = Moments(
        min(each.low for each in parts),
        max(each.high for each in parts),
        math.fsum(each.mean * each.count for each in parts) / whole.count,
        norm,
        whole.count,
        max(each.unit for each in parts),
        # Of a part of zeros no digit of the norm is sure, and none is needed.
        math.hypot(*(each.recorded * each.norm for each in parts)) / norm if norm else RECORDED,
        max(each.bits for each in parts),
        max(each.step for each in parts),
    )
    return same(whole, all_of)


def total(whole: Moments, parts: Sequence[Moments], _operands: Operands) -> Sequence[Due]:
    """The mean of sums of so many elements each is so many times theirs."""
    if len(parts) != 1 or parts[0].count % whole.count or parts[0].count == whole.count:
        return ()
    (read,), terms = parts, parts[0].count // whole.count
    added = common_share(whole.count) * whole.unit * read.size + read.mean_recorded
    mean = terms * read.mean
    return (Due("mean", mean, mean, averaged(whole, whole) + terms * added),)


def scattered(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *, is_of_norm: bool = False
) -> Sequence[Due]:
    """What is put, or added, to places of something else keeps its sum: the gradient of what was picked or added.

    Kernels may add in the type of what they read and widen the sum: the float32 gradient of a bias behind bfloat16. Of
    a norm, torch rounds the sum after each term on a CPU: `n` of them make `sqrt(n / 2)` roundings of the last one.
    """
    if len(parts) != 1:
        return ()
    (read,), terms = parts, parts[0].count / whole.count
    whole = replace(whole, unit=max(whole.unit, read.unit))
    added = common_share(min(read.count, whole.count)) * whole.unit * read.size + read.mean_recorded
    mean, explained = terms * read.mean, averaged(whole, whole) + terms * added
    if is_of_norm and terms > 1.0:
        explained += whole.share * whole.unit * math.sqrt(terms / 2.0) * whole.size
    return (Due("mean", mean, mean, explained),)


def added_at(whole: Moments, parts: Sequence[Moments], _operands: Operands) -> Sequence[Due]:
    """What is added to some places of a tensor adds to its sum."""
    if len(parts) != 2 or parts[0].count != whole.count:
        return ()
    base, source = parts
    terms = source.count / whole.count
    mean = base.mean + terms * source.mean
    added = common_share(whole.count) * whole.unit * source.size + source.mean_recorded
    return (Due("mean", mean, mean, averaged(whole, whole) + averaged(base, whole) + terms * added),)


def within(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *, place: int | None = None, is_mean: bool = False
) -> Sequence[Due]:
    """Elements that are picked or averaged lie between the extremes of what they are picked from, or of one input."""
    if not parts or (place is not None and place >= len(parts)):
        return ()
    read = parts if place is None else parts[place : place + 1]
    low, high = min(each.low for each in read), max(each.high for each in read)
    step = STEP_AT_MOST * whole.unit * max(each.top for each in read)
    found = [Due("low", low, high, step), Due("high", low, high, step)]
    if is_mean and len(read) == 1 and not read[0].count % whole.count:
        mean = read[0].mean
        explained = averaged(whole, whole) + read[0].mean_recorded
        found.append(Due("mean", mean, mean, explained))
    return found


def chosen(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Elements of several, numbers among them, lie between the extremes of all."""
    ends = [*(each.low for each in parts), *(each.high for each in parts), *operands.numbers]
    if len(ends) < 3:
        return ()
    step = STEP_AT_MOST * whole.unit * max(map(abs, ends))
    return [Due(figure, min(ends), max(ends), step) for figure in ("low", "high")]


def largest(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *, is_smallest: bool = False
) -> Sequence[Due]:
    """The largest of all is that of the largest ones along an axis, or of each two elements of two tensors."""
    if not parts or max(each.count for each in parts) < whole.count:
        return ()
    pick, figure, behind = (min, "low", "high") if is_smallest else (max, "high", "low")
    top = pick(getattr(each, figure) for each in parts)
    least = pick(getattr(each, behind) for each in parts)
    step = STEP_AT_MOST * whole.unit * max(each.top for each in parts)
    low, high = sorted((least, top))
    return Due(figure, top, top, step), Due(behind, low, high, step)


def true_at(
    _whole: Moments, parts: Sequence[Moments], operands: Operands, *, is_true: Callable[[float, float], bool],
    falls: bool = False,
) -> Sequence[Due]:  # fmt: skip
    """A comparison with a number is true (or false) of both extremes of what is compared, and so of some element."""
    if len(parts) != 1 or len(operands.numbers) != 1:
        return ()
    (read,), (number,) = parts, operands.numbers
    near = STEP_AT_MOST * read.unit * abs(number)  # the number is rounded to the type of the tensor
    ends = zip(("high", "low") if falls else ("low", "high"), (read.low, read.high), strict=True)
    told = [(figure, float(is_true(value, number))) for figure, value in ends if abs(value - number) > near]
    return [Due(figure, due, due, 0.0) for figure, due in told]
