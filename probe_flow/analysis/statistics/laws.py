"""What minimum, maximum, mean and root mean square of a result are due to be, by those of its own inputs.

Statistics prove little of what a product makes. Of many other operators they prove much, and they prove it of the
target alone, whatever error its inputs have by then:

- An elementwise function takes the extremes to extremes: where it rises, the largest value of ``tanh(x)`` is ``tanh``
  of the largest ``x``. So a single wrong element beyond them shows, and so does what was rounded to fewer bits.
- A factor scales all four; what is put together (``cat``) has the extremes of all and the means of their squares.
- What is picked or averaged (a slice, a pooling, attention as a mean of its values) lies between the extremes of what
  it was picked from.
- A softmax adds up to 1 over one axis, so its mean is one over the length of that axis.
- Sums along an axis add up to what was summed, and the largest along it to the largest. Rows over their own sum, and
  rows times the reciprocal root of their mean square, are a softmax and a norm written out. A comparison with a number
  is true or false of both extremes.
- A norm makes rows (channels, groups) of mean 0 and variance 1 and then scales and moves them: with weights of one
  value ``w`` and no bias the root mean square is ``|w|``, with others it lies between the smallest and the largest. Of
  a batch norm, whose weights are constant where it normalises, it is the root of the mean squares of weight and bias,
  and its mean is that of the bias. One wrong channel, row or element, a factor and an offset all move one of the two.
  No element of a row is larger than the row is long.

- Elementwise sums, products and quotients of two tensors have no element beyond what their extremes make.

Products of matrices, and sums of other than two tensors, have no such law. Each law is asked of the golden as well:
where that breaks it, the operator is not what its name says, or its records are not what they seem, and nothing is
concluded.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from probe_flow.analysis.number_types import STEP_AT_MOST, common_share
from probe_flow.analysis.statistics.bounded import BOUNDED, bounded, magnitude, squared
from probe_flow.analysis.statistics.dues import (
    ADDED,
    SUBTRACTED,
    Due,
    Law,
    Operands,
    added_at,
    averaged,
    chosen,
    divided,
    joined,
    largest,
    multiplied,
    scaled,
    sum_of,
    total,
    true_at,
    within,
)
from probe_flow.analysis.statistics.moments import Moments, apart

GELU_FORMS = 2.0**-10
"""Largest difference between the two common forms of _gelu, by erf and by tanh: 4.7e-4, and as much in reserve."""

EPSILON = 1e-5
"""What norms add to the variance, in most frameworks and models at most."""

QUIETER = 8.0
"""How many times smaller than that of all elements the variance of the quietest rows may be on average."""

FIVE_DEVIATIONS = 2.9
"""Those of a rounding error that is anywhere within half a step, in half a step."""

RISEN = 1.0
"""From here on _gelu, silu and their kin rise, and what is largest before is largest behind."""


@lru_cache(maxsize=4096)
def law_of(op_type: str) -> Law | None:
    """Return the law of an operator by its type (``__add__``, ``BatchNorm2d``), None where it has none."""
    return _LAWS.get(bare(op_type))


@lru_cache(maxsize=4096)
def bare(op_type: str) -> str:
    """Return a type without case, underscores and dimensions: ``LayerNorm`` and ``layer_norm`` are one."""
    return _DIMENSIONS.sub("", op_type).replace("_", "").lower()


_DIMENSIONS = re.compile(r"\dd_*$", re.IGNORECASE)  # of pooling and norms


def _softmax(whole: Moments, _parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """The mean is one over the length of the axis that adds up to 1; the nearest such number is taken."""
    lengths = [length for length in operands.shape if length > 1]
    if not lengths:
        return ()
    due = min((1.0 / length for length in lengths), key=lambda each: abs(each - whole.mean))
    step = STEP_AT_MOST * whole.unit
    return (Due("mean", due, due, (step + whole.recorded) * due), Due("high", 0.0, 1.0, step))


def _of_length_one(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Rows of length 1 (`normalize`) have a root mean square of one over the root of their number of elements."""
    lengths = [length for length in operands.shape if length > 1]
    if len(parts) != 1 or not lengths:
        return ()
    due = min((1.0 / math.sqrt(length) for length in lengths), key=lambda each: abs(each - whole.size))
    return (Due("size", due, due, (STEP_AT_MOST * whole.unit + whole.norm_recorded) * due), *_no_further(whole, 1.0))


def _no_further(whole: Moments, most: float, bias: Moments | None = None) -> Sequence[Due]:
    """No element of a row is larger than the row is long: its length, times a weight, plus a bias."""
    least, high = (bias.low, bias.high) if bias is not None else (0.0, 0.0)
    rounded = 2.0 * STEP_AT_MOST * whole.unit * (most + max(abs(least), abs(high)))  # that of each factor as well
    return Due("low", least - most, math.inf, rounded), Due("high", -math.inf, high + most, rounded)


def _times(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """A number scales all four; of two tensors none is beyond the product of the largest."""
    if len(parts) != 2:
        return scaled(whole, parts, operands, is_divided=False)
    return *_by_mean_square(whole, parts, operands), *multiplied(whole, parts)


def _by_mean_square(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Rows times the reciprocal root of their mean square have a mean square of 1."""
    at = 0 if parts[0].count < parts[1].count else 1
    read, factor, made = parts[1 - at], parts[at], operands.made(at)
    if made is None or made.of is None or made.kind != "rsqrt" or read.count != whole.count or not read.size:
        return ()
    square, near = read.size * read.size, EPSILON * QUIETER / (2.0 * read.size * read.size)
    if abs(made.of.mean - square) > STEP_AT_MOST * (whole.unit + made.of.recorded + near) * square:
        return ()
    if any(due.gap(factor) > 1.0 for due in _LAWS["rsqrt"](factor, (made.of,), operands)):
        return ()  # it carries on what the factor does wrong
    rounded = STEP_AT_MOST * common_share(factor.count) * whole.unit
    longest = math.sqrt(read.count / factor.count)
    return (Due("size", 1.0, 1.0, rounded + whole.norm_recorded + near), *_no_further(whole, longest))


def _over(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """A number scales all four; of two tensors none is beyond the largest over the smallest."""
    if len(parts) != 2:
        return scaled(whole, parts, operands, is_divided=True)
    return *_by_sum(whole, parts, operands), *divided(whole, parts)


def _by_sum(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Rows over their own sum add up to 1."""
    read, divisor, made = *parts, operands.made(1)
    if made is None or made.of is None or made.kind != "sum" or read.count != whole.count:
        return ()
    if apart(read, made.of) > 1.0:
        return ()
    if any(due.gap(divisor) > 1.0 for due in total(divisor, parts[:1], operands)):
        return ()
    mean = divisor.count / whole.count
    return (Due("mean", mean, mean, STEP_AT_MOST * whole.unit * mean + averaged(whole, whole)),)


def _product(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Rows of a softmax average what they are multiplied with, if they add up to 1."""
    made = operands.made(0) if len(parts) == 2 else None
    if made is None or made.kind != "softmax" or not parts[0].mean:
        return ()
    shares, length = parts[0], round(1.0 / parts[0].mean)
    if (
        abs(length * shares.mean - 1.0) > STEP_AT_MOST * shares.unit + shares.recorded
        or shares.high > 1.0 + shares.unit
    ):
        return ()  # it carries on what the softmax does wrong
    return within(whole, parts, operands, place=1)


def _clipped(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Extremes are those of what is clipped, clipped."""
    if not 0 < len(operands.numbers) <= 2:
        return ()
    least, most = (*operands.numbers, math.inf)[:2]
    return _at_extremes(whole, parts, operands, function=lambda value: min(max(value, least), most))


def weighted(whole: Moments, parts: Sequence[Moments]) -> tuple[Moments | None, Moments | None] | None:
    """Return weight and bias of a norm; None where it reads something else."""
    if not parts or len(parts) > _MOST_OF_NORM or parts[0].count != whole.count:
        return None
    weight, bias, *_ = (*parts[1:][-2:], None, None)
    return None if any(each is not None and whole.count % each.count for each in (weight, bias)) else (weight, bias)


def _normalised(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *,
    by_channel: bool = False, is_centred: bool = True, has_rows: bool = True,
) -> Sequence[Due]:  # fmt: skip
    """Rows of mean 0 and variance 1, times weights, plus a bias; groups may be longer than weights have channels."""
    given = weighted(whole, parts)
    if given is None:
        return ()
    weight, bias = given
    least, most = (1.0, 1.0) if weight is None else _magnitudes(weight)
    moved, mean = (bias.size, bias.mean) if bias is not None else (0.0, 0.0)
    low, high = least - moved, most + moved
    tilted = 0.0 if weight is None else (weight.high - weight.low) / 2.0
    if by_channel:
        low = high = math.hypot(1.0 if weight is None else weight.size, moved)
        tilted = 0.0
    channels = 1 if weight is None else weight.count
    groups = channels if by_channel else whole.count // channels
    of_norm, of_mean = left_by_rounding(whole, parts[0], groups, is_centred=is_centred)
    if math.isinf(of_norm):
        return ()
    found = [Due("size", low, high, of_norm)]
    if weight is not None:
        together = whole.count // groups if has_rows else whole.count
        found += _no_further(whole, most * math.sqrt(together), bias)
    if is_centred:
        found.append(Due("mean", mean - tilted, mean + tilted, of_mean))
    return found


def left_by_rounding(whole: Moments, source: Moments, groups: int, *, is_centred: bool) -> tuple[float, float]:
    """Return what rounding leaves in root mean square and mean behind a norm.

    A kernel may round mean and variance of each group, so that all its elements are off alike. The former moves the
    mean of its result, most where a group is quiet, and the mean square by no more than the square of that.
    """
    spread = source.spread if is_centred else source.size
    if not spread:
        return math.inf, math.inf
    share = max(common_share(groups), min(1.0, FIVE_DEVIATIONS / math.sqrt(groups)))
    rounded = share * whole.unit * whole.size * max(1.0, source.size / spread)
    epsilon = EPSILON * QUIETER / (2.0 * spread * spread)
    of_norm = rounded + (whole.norm_recorded + epsilon) * whole.size
    return of_norm, math.sqrt(QUIETER) * rounded + whole.mean_recorded


CENTRED = frozenset(("layernorm", "groupnorm"))
"""Types of norms of rows that take off the mean."""

OF_ROWS = CENTRED | {"rmsnorm"}
"""Types of norms of rows."""

_MOST_OF_NORM = 5  # a batch norm's: what is normalised, running mean and variance, weight, bias


def _magnitudes(weight: Moments) -> tuple[float, float]:
    ends = sorted((abs(weight.low), abs(weight.high)))
    return (0.0 if weight.low < 0.0 < weight.high else ends[0]), ends[1]


def _at_extremes(
    whole: Moments, parts: Sequence[Moments], _operands: Operands, *, function: Callable[[float], float],
    falls: bool = False, loose: float = 0.0, from_: float = -math.inf, least: float = -math.inf,
) -> Sequence[Due]:  # fmt: skip
    """A function that rises (or falls) takes extremes to extremes; one that rises from somewhere on, the largest.

    ``least`` is the smallest value that it has at all.
    """
    if len(parts) != 1 or parts[0].count != whole.count:
        return ()
    (read,) = parts
    ends = (("low", read.high), ("high", read.low)) if falls else (("low", read.low), ("high", read.high))
    found = []
    for figure, value in ends:
        if from_ != -math.inf and (figure == "low" or value < from_):
            continue
        moved = STEP_AT_MOST * whole.unit * abs(value)
        try:
            due, near = function(value), (function(value - moved), function(value + moved))
        except (ValueError, OverflowError, ZeroDivisionError):
            continue
        explained = STEP_AT_MOST * whole.unit * abs(due) + abs(near[1] - near[0]) / 2.0 + loose
        found.append(Due(figure, due, due, explained))
    if least != -math.inf:
        found.append(Due("low", least, math.inf, STEP_AT_MOST * whole.unit * abs(least) + loose))
    return found


def _wave(
    whole: Moments, parts: Sequence[Moments], operands: Operands, *, function: Callable[[float], float],
    rises: tuple[float, float],
) -> Sequence[Due]:  # fmt: skip
    """A sine lies between -1 and 1; where all that it reads lies where it rises, its extremes are those of that."""
    if len(parts) == 1 and rises[0] <= parts[0].low and parts[0].high <= rises[1]:
        return _at_extremes(whole, parts, operands, function=function)
    return bounded(whole, parts, operands)


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value > -_LARGE else math.exp(value)


_LARGE = 700.0  # exp overflows behind


def _gelu(value: float) -> float:
    return 0.5 * value * (1.0 + math.erf(value / math.sqrt(2.0)))


def _mish(value: float) -> float:
    return value * math.tanh(_softplus(value))


def _hardswish(value: float) -> float:
    return value * min(max(value + 3.0, 0.0), 6.0) / 6.0


def _softplus(value: float) -> float:
    return value + math.log1p(math.exp(-value)) if value > 0.0 else math.log1p(math.exp(value))


def _rising(function: Callable[[float], float], **more: float) -> Law:
    return partial(_at_extremes, function=function, **more)  # type: ignore[arg-type]


_OF_MATH = (
    "tanh", "exp", "expm1", "sqrt", "log", "log1p", "log2", "log10", "erf", "atan", "sinh", "asinh", "floor", "ceil",
    "trunc",
)  # fmt: skip
"""Functions that rise everywhere, by their names in `math` and in frameworks."""

_LAWS: Mapping[str, Law] = {
    **dict.fromkeys(("add", "radd", "iadd"), partial(sum_of, signs=ADDED)),
    **dict.fromkeys(("sub", "isub"), partial(sum_of, signs=SUBTRACTED)),
    "rsub": partial(sum_of, signs=(-1, 1)),
    **dict.fromkeys(("mul", "rmul", "imul"), _times),
    **dict.fromkeys(("div", "truediv", "itruediv"), _over),
    **dict.fromkeys(("matmul", "bmm"), _product),
    **dict.fromkeys(("cat", "concat", "stack"), joined),
    **dict.fromkeys(
        ("getitem", "indexselect", "gather", "select", "narrow", "maxpool", "embedding"),
        within,
    ),
    **dict.fromkeys(
        ("chunk", "split", "unbind", "repeat", "repeatinterleave", "adaptiveavgpool", "expand", "takealongdim"), within
    ),
    **dict.fromkeys(("where", "maskedfill", "scatter", "maskedscatter", "indexcopy"), chosen),
    "scaleddotproductattention": partial(within, place=2),
    "mean": partial(within, is_mean=True),
    "sum": total,
    **dict.fromkeys(("indexadd", "scatteradd"), added_at),
    **dict.fromkeys(("max", "amax", "maximum", "topk"), largest),
    **dict.fromkeys(("min", "amin", "minimum"), partial(largest, is_smallest=True)),
    "clamp": _clipped,
    "abs": magnitude,
    "softmax": _softmax,
    "normalize": _of_length_one,
    "layernorm": _normalised,
    "groupnorm": partial(_normalised, has_rows=False),
    "rmsnorm": partial(_normalised, is_centred=False),
    **dict.fromkeys(("batchnorm", "instancenorm"), partial(_normalised, by_channel=True)),
    "pow": partial(squared, exponent=(2.0,)),
    "square": squared,
    "relu": _rising(lambda value: max(value, 0.0)),
    "relu6": _rising(lambda value: min(max(value, 0.0), 6.0)),
    **{name: _rising(getattr(math, name)) for name in _OF_MATH},
    **BOUNDED,
    "sin": partial(_wave, function=math.sin, rises=(-math.pi / 2.0, math.pi / 2.0)),
    "cos": partial(_wave, function=math.cos, rises=(-math.pi, 0.0)),
    "hardtanh": _rising(lambda value: min(max(value, -1.0), 1.0)),
    "hardsigmoid": _rising(lambda value: min(max(value / 6.0 + 0.5, 0.0), 1.0)),
    "softsign": _rising(lambda value: value / (1.0 + abs(value))),
    "tanhshrink": _rising(lambda value: value - math.tanh(value)),
    "erfc": partial(_at_extremes, function=math.erfc, falls=True),
    "exp2": _rising(lambda value: 2.0**value),
    "selu": _rising(lambda value: 1.0507009873554805 * value, from_=0.0, least=-1.7580993408473766),
    "mish": _rising(_mish, from_=RISEN, least=-0.3089),
    "hardswish": _rising(_hardswish, from_=RISEN, least=-0.375),
    "round": _rising(lambda value: float(round(value))),
    "sigmoid": _rising(_sigmoid),
    "logsigmoid": _rising(lambda value: -_softplus(-value)),
    "softplus": _rising(_softplus),
    "rsqrt": partial(_at_extremes, function=lambda value: 1.0 / math.sqrt(value), falls=True),
    "neg": partial(_at_extremes, function=lambda value: -value, falls=True),
    "gelu": _rising(_gelu, from_=RISEN, loose=GELU_FORMS, least=-0.17),
    "silu": _rising(lambda value: value * _sigmoid(value), from_=RISEN, least=-0.2785),
    **dict.fromkeys(("gt", "greater"), partial(true_at, is_true=operator.gt)),
    **dict.fromkeys(("ge", "greaterequal"), partial(true_at, is_true=operator.ge)),
    **dict.fromkeys(("lt", "less"), partial(true_at, is_true=operator.lt, falls=True)),
    **dict.fromkeys(("le", "lessequal"), partial(true_at, is_true=operator.le, falls=True)),
    **dict.fromkeys(("leakyrelu", "elu", "celu", "prelu"), _rising(float, from_=0.0)),
}
