"""What minimum, maximum, mean and root mean square of a result are due to be, by those of its own inputs.

Statistics prove little of what a product makes. Of many other operators they prove much, and they prove it of the
target alone, whatever error its inputs have by then:

- An elementwise function takes the extremes to extremes: where it rises, the largest value of ``tanh(x)`` is ``tanh``
  of the largest ``x``. So a single wrong element beyond them shows, and so does what was rounded to fewer bits.
- A factor scales all four; what is put together (``cat``) has the extremes of all and the means of their squares.
- What is picked or averaged (a slice, a pooling, attention as a mean of its values) lies between the extremes of what
  it was picked from.
- A softmax adds up to 1 over one axis, so its mean is one over the length of that axis.
- A norm makes rows (channels, groups) of mean 0 and variance 1 and then scales and moves them: with weights of one
  value ``w`` and no bias the root mean square is ``|w|``, with others it lies between the smallest and the largest. Of
  a batch norm, whose weights are constant where it normalises, it is the root of the mean squares of weight and bias,
  and its mean is that of the bias. One wrong channel, row or element, a factor and an offset all move one of the two.

Products, and sums of other than two tensors, have no such law. Each law is asked of the golden as well: where that
breaks it, the operator is not what its name says, or its records are not what they seem, and nothing is concluded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TypeAlias

from msgspec import Struct

from probe_flow.analysis.model.growth import common_share
from probe_flow.analysis.model.handed_on import NARROW, Moments

STEP = 2.0
"""Rounding step of a value at most, in `UNIT` of it: kernels that round faithfully give either neighbour."""

GELU_FORMS = 2.0**-10
"""Largest difference between the two common forms of gelu, by erf and by tanh: 4.7e-4, and as much in reserve."""

EPSILON = 1e-5
"""What norms add to the variance, in most frameworks and models at most."""

QUIETER = 8.0
"""How many times smaller than that of all elements the variance of the quietest rows may be on average."""

RISEN = 1.0
"""From here on gelu, silu and their kin rise, and what is largest before is largest behind."""


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
        """Return how far a result's figure is from where it is due, in what rounding explains: inf of an exact zero."""
        here: float = getattr(whole, self.figure)
        away = max(self.low - here, here - self.high, 0.0)
        if not away:
            return 0.0
        return away / self.explained if self.explained else math.inf

    def told(self, whole: Moments) -> str:
        """Return the figure and what it is due to be, in words."""
        here = getattr(whole, self.figure)
        bound = self.low if here < self.low else self.high
        word = "" if self.low == self.high else "at least " if here < self.low else "at most "
        return f"its {WORDS[self.figure]} is {here:.4g}, theirs make {word}{bound:.4g}"


WORDS = {"low": "minimum", "high": "maximum", "mean": "mean", "size": "root mean square"}

Law: TypeAlias = "Callable[[Moments, Sequence[Moments], Operands], Sequence[Due]]"


class Operands(Struct, frozen=True):
    """What a call reads beside tensors of fractions.

    Args:
        shape: of its result.
        numbers: scalar arguments, in order.
    """

    shape: tuple[int, ...]
    numbers: tuple[float, ...]


@lru_cache(maxsize=4096)
def law_of(op_type: str) -> Law | None:
    """Return the law of an operator by its type (``__add__``, ``BatchNorm2d``), None where it has none."""
    return _LAWS.get(_DIMENSIONS.sub("", op_type).replace("_", "").lower())


_DIMENSIONS = re.compile(r"\dd_*$", re.IGNORECASE)  # of pooling and norms


def sum_of(whole: Moments, parts: Sequence[Moments], operands: Operands, *, signs: Sequence[int]) -> Sequence[Due]:
    """The mean of a sum is the sum of the means; a number moves the extremes as well."""
    if len(parts) == 1 == len(operands.numbers) and parts[0].count == whole.count and signs == _ADDED:
        return _moved(whole, parts[0], operands.numbers[0])
    if len(parts) != len(signs) or any(whole.count % each.count for each in parts):
        return ()
    mean = math.fsum(sign * each.mean for sign, each in zip(signs, parts, strict=True))
    return (Due("mean", mean, mean, sum(_averaged(each, whole) for each in (whole, *parts))),)


def _moved(whole: Moments, tensor: Moments, by: float) -> Sequence[Due]:
    step = STEP * whole.unit * (_top(tensor) + abs(by))
    explained = _averaged(whole, whole) + _averaged(tensor, whole)
    return (
        Due("low", tensor.low + by, tensor.low + by, step), Due("high", tensor.high + by, tensor.high + by, step),
        Due("mean", tensor.mean + by, tensor.mean + by, explained),
    )  # fmt: skip


def _averaged(tensor: Moments, whole: Moments) -> float:
    """Return what rounding leaves in the mean: little, unless elements are so alike that all are rounded alike."""
    share = common_share(whole.count) if whole.spread > NARROW * whole.unit * whole.size else 1.0
    return share * whole.unit * tensor.size + tensor.mean_recorded


def _top(tensor: Moments) -> float:
    return max(abs(tensor.low), abs(tensor.high))


def _norm_recorded(tensor: Moments) -> float:
    """Return the relative error of a recorded norm, which of 16-bit tensors may be of their type."""
    return tensor.unit if tensor.bits else tensor.recorded


def _same(whole: Moments, tensor: Moments, factor: float = 1.0) -> Sequence[Due]:
    """All four figures are those of a tensor, times a factor."""
    step = STEP * whole.unit * abs(factor) * _top(tensor)
    low, high = sorted((factor * tensor.low, factor * tensor.high))
    mean, size = factor * tensor.mean, abs(factor) * tensor.size
    averaged = abs(factor) * _averaged(tensor, whole) + whole.mean_recorded
    of_norm = (common_share(whole.count) * whole.unit + _norm_recorded(whole) + _norm_recorded(tensor)) * size
    return (
        Due("low", low, low, step), Due("high", high, high, step), Due("mean", mean, mean, averaged),
        Due("size", size, size, of_norm + averaged),
    )  # fmt: skip


def _scaled(whole: Moments, parts: Sequence[Moments], operands: Operands, *, is_divided: bool) -> Sequence[Due]:
    """A number as factor scales all four."""
    if len(parts) != 1 or len(operands.numbers) != 1 or parts[0].count != whole.count or not operands.numbers[0]:
        return ()
    number = operands.numbers[0]
    return _same(whole, parts[0], 1.0 / number if is_divided else number)


def _joined(whole: Moments, parts: Sequence[Moments], _operands: Operands) -> Sequence[Due]:
    """What was put together has the extremes of all, and the means of means and squares."""
    if not parts or sum(each.count for each in parts) != whole.count:
        return ()
    all_of = Moments(
        min(each.low for each in parts),
        max(each.high for each in parts),
        math.fsum(each.mean * each.count for each in parts) / whole.count,
        math.sqrt(math.fsum(each.norm * each.norm for each in parts)),
        whole.count,
        max(each.unit for each in parts),
        max(each.recorded for each in parts),
        max(each.bits for each in parts),
        max(each.step for each in parts),
    )
    return _same(whole, all_of)


def _within(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *, place: int | None = None, is_mean: bool = False
) -> Sequence[Due]:
    """Elements that are picked or averaged lie between the extremes of what they are picked from, or of one input."""
    if not parts or (place is not None and place >= len(parts)):
        return ()
    read = parts if place is None else parts[place : place + 1]
    low, high = min(each.low for each in read), max(each.high for each in read)
    step = STEP * whole.unit * max(map(_top, read))
    found = [Due("low", low, high, step), Due("high", low, high, step)]
    if is_mean and len(read) == 1 and not read[0].count % whole.count:
        mean = read[0].mean
        explained = _averaged(whole, whole) + read[0].mean_recorded
        found.append(Due("mean", mean, mean, explained))
    return found


def _chosen(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Elements of several, numbers among them, lie between the extremes of all."""
    ends = [*(each.low for each in parts), *(each.high for each in parts), *operands.numbers]
    if len(ends) < 3:
        return ()
    step = STEP * whole.unit * max(map(abs, ends))
    return [Due(figure, min(ends), max(ends), step) for figure in ("low", "high")]


def _softmax(whole: Moments, _parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """The mean is one over the length of the axis that adds up to 1; the nearest such number is taken."""
    lengths = [length for length in operands.shape if length > 1]
    if not lengths:
        return ()
    due = min((1.0 / length for length in lengths), key=lambda each: abs(each - whole.mean))
    step = STEP * whole.unit
    return (Due("mean", due, due, (step + whole.recorded) * due), Due("high", 0.0, 1.0, step))


def _normalised(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *, by_channel: bool, is_centred: bool = True
) -> Sequence[Due]:
    """Rows of mean 0 and variance 1, times weights, plus a bias."""
    if not parts or len(parts) > _MOST_OF_NORM or parts[0].count != whole.count:
        return ()
    weight, bias, *_ = (*parts[1:][-2:], None, None)
    if any(each is not None and whole.count % each.count for each in (weight, bias)):
        return ()
    least, most = (1.0, 1.0) if weight is None else _magnitudes(weight)
    moved, mean = (bias.size, bias.mean) if bias is not None else (0.0, 0.0)
    low, high = least - moved, most + moved
    tilted = 0.0 if weight is None else (weight.high - weight.low) / 2.0
    if by_channel:
        low = high = math.hypot(1.0 if weight is None else weight.size, moved)
        tilted = 0.0
    (source, *_), channels = parts, 1 if weight is None else weight.count
    spread = (source.spread if is_centred else source.size) / math.sqrt(QUIETER)
    if not spread:
        return ()
    # A kernel may round mean and variance of each group, so that all its elements are off alike.
    groups = channels if by_channel else whole.count // channels
    rounded = common_share(groups) * whole.unit * whole.size * max(1.0, source.size / spread)
    of_norm = rounded + (_norm_recorded(whole) + EPSILON / (2.0 * spread * spread)) * whole.size
    found = [Due("size", low, high, of_norm)]
    if is_centred:
        explained = rounded + whole.mean_recorded
        found.append(Due("mean", mean - tilted, mean + tilted, explained))
    return found


_MOST_OF_NORM = 5  # a batch norm's: what is normalised, running mean and variance, weight, bias


def _magnitudes(weight: Moments) -> tuple[float, float]:
    ends = sorted((abs(weight.low), abs(weight.high)))
    return (0.0 if weight.low < 0.0 < weight.high else ends[0]), ends[1]


def _at_extremes(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *, function: Callable[[float], float],
    falls: bool = False, loose: float = 0.0, from_: float = -math.inf,
) -> Sequence[Due]:  # fmt: skip
    """A function that rises (or falls) takes extremes to extremes; one that rises from somewhere on, the largest."""
    if len(parts) != 1 or parts[0].count != whole.count:
        return ()
    (read,) = parts
    ends = (("low", read.high), ("high", read.low)) if falls else (("low", read.low), ("high", read.high))
    found = []
    for figure, value in ends:
        if from_ != -math.inf and (figure == "low" or value < from_):
            continue
        moved = STEP * whole.unit * abs(value)
        try:
            due, near = function(value), (function(value - moved), function(value + moved))
        except (ValueError, OverflowError, ZeroDivisionError):
            continue
        explained = STEP * whole.unit * abs(due) + abs(near[1] - near[0]) / 2.0 + loose
        found.append(Due(figure, due, due, explained))
    return found


def _squared(
    whole: Moments, parts: Sequence[Moments], operands: Operands, *, exponent: tuple[float, ...] = ()
) -> Sequence[Due]:
    """The mean of squares is the square of the root mean square, the largest that of the largest magnitude."""
    if len(parts) != 1 or parts[0].count != whole.count or operands.numbers != exponent:
        return ()
    (read,) = parts
    mean, top = read.size * read.size, _top(read) ** 2
    explained = (2.0 * _norm_recorded(read) + whole.unit) * mean + _averaged(whole, whole)
    return Due("mean", mean, mean, explained), Due("high", top, top, 2.0 * STEP * whole.unit * top)


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value > -_LARGE else math.exp(value)


_LARGE = 700.0  # exp overflows behind


def _gelu(value: float) -> float:
    return 0.5 * value * (1.0 + math.erf(value / math.sqrt(2.0)))


def _softplus(value: float) -> float:
    return value + math.log1p(math.exp(-value)) if value > 0.0 else math.log1p(math.exp(value))


def _rising(function: Callable[[float], float], **more: float) -> Law:
    return partial(_at_extremes, function=function, **more)  # type: ignore[arg-type]


def _itself(value: float) -> float:
    return value


_ADDED, _SUBTRACTED = (1, 1), (1, -1)
_LAWS: Mapping[str, Law] = {
    **dict.fromkeys(("add", "radd", "iadd"), partial(sum_of, signs=_ADDED)),
    **dict.fromkeys(("sub", "isub"), partial(sum_of, signs=_SUBTRACTED)),
    "rsub": partial(sum_of, signs=(-1, 1)),
    **dict.fromkeys(("mul", "rmul", "imul"), partial(_scaled, is_divided=False)),
    **dict.fromkeys(("div", "truediv", "itruediv"), partial(_scaled, is_divided=True)),
    **dict.fromkeys(("cat", "concat", "stack"), _joined),
    **dict.fromkeys(
        ("getitem", "indexselect", "gather", "select", "narrow", "maxpool", "embedding", "expand"), _within
    ),
    **dict.fromkeys(("chunk", "split", "unbind", "repeat", "repeatinterleave", "adaptiveavgpool"), _within),
    "where": _chosen,
    "scaleddotproductattention": partial(_within, place=2),
    "mean": partial(_within, is_mean=True),
    "softmax": _softmax,
    **dict.fromkeys(("layernorm", "groupnorm"), partial(_normalised, by_channel=False)),
    "rmsnorm": partial(_normalised, by_channel=False, is_centred=False),
    **dict.fromkeys(("batchnorm", "instancenorm"), partial(_normalised, by_channel=True)),
    "pow": partial(_squared, exponent=(2.0,)),
    "square": _squared,
    "relu": _rising(lambda value: max(value, 0.0)),
    "relu6": _rising(lambda value: min(max(value, 0.0), 6.0)),
    "tanh": _rising(math.tanh),
    "sigmoid": _rising(_sigmoid),
    "exp": _rising(math.exp),
    "sqrt": _rising(math.sqrt),
    "log": _rising(math.log),
    "softplus": _rising(_softplus),
    "rsqrt": partial(_at_extremes, function=lambda value: 1.0 / math.sqrt(value), falls=True),
    "neg": partial(_at_extremes, function=lambda value: -value, falls=True),
    "gelu": _rising(_gelu, from_=RISEN, loose=GELU_FORMS),
    "silu": _rising(lambda value: value * _sigmoid(value), from_=RISEN),
    **dict.fromkeys(("leakyrelu", "elu", "celu", "prelu"), _rising(_itself, from_=0.0)),
}
