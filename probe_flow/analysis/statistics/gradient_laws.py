"""What statistics of a gradient are due to be, by those of the gradient that reached its call.

What a call picked, spread or added to everything takes the gradient apart or adds it up, so that sums stay. What it
computed elementwise multiplies each element with a slope, and slopes of activations are bounded: no element comes out
larger than the largest that reached it times the steepest slope, nor does the norm. Gates may turn any element on or
off by what the forward pass is off by, but none beyond that. Rows of the gradient of a softmax add up to zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.number_types import STEP_AT_MOST
from probe_flow.analysis.statistics.dues import Due, Law, Operands, averaged, scattered
from probe_flow.analysis.statistics.laws import bare
from probe_flow.analysis.statistics.moments import Moments
from probe_flow.records.row import Row

SPREADING = frozenset(
    (
        "add", "radd", "expand", "mean", "gather", "takealongdim", "indexselect", "getitem", "select", "narrow",
        "embedding", "maxpool", "avgpool", "adaptiveavgpool",
    )
)  # fmt: skip
"""Types whose gradients add up to that which reached them."""

WITH_BIAS = ("linear", "conv", "layernorm", "groupnorm", "batchnorm")
"""Beginnings of types that add a bias."""

STEEPEST = {
    **dict.fromkeys(
        (
            "relu", "relu6", "leakyrelu", "elu", "celu", "hardtanh", "clamp", "threshold", "hardshrink", "softshrink",
            "tanhshrink", "tanh", "softsign", "softplus", "logsigmoid", "abs", "sin", "cos", "atan",
        ),
        1.0,
    ),
    "selu": 1.7580993408473766,  # scale times alpha (Klambauer and others, 2017)
    "gelu": 1.13,  # 1.1289 at the root of 2, of both forms
    "silu": 1.1,  # 1.0998 at 2.3994
    "mish": 1.09,  # 1.0885 at 1.49
    "hardswish": 1.5,
    "sigmoid": 0.25,
    "hardsigmoid": 1.0 / 6.0,
    "erf": 2.0 / math.sqrt(math.pi),
}  # fmt: skip
"""Types -> their steepest slope. That of `elu` and its kin is their ``alpha``, mostly 1: the golden tells."""

EACH = 2.0
"""Roundings of an element: of the slope and of the product."""


def law_of_gradient(row: Row, call: Call) -> Law | None:
    """Return the law of a gradient of a call; None where it has none, or where an input may have been overwritten."""
    kind = "" if call.is_in_place or call.node is None else bare(call.node.op_type)
    if kind in STEEPEST:
        return partial(_sloped, steepest=STEEPEST[kind])
    if kind == "softmax":
        return _of_softmax
    is_bias = kind.startswith(WITH_BIAS) and len(row.pair.shown.shape or ()) == 1
    if is_bias and "norm" in kind:
        return partial(scattered, is_of_norm=True)
    return scattered if is_bias or kind in SPREADING else None


def _sloped(whole: Moments, parts: Sequence[Moments], _operands: Operands, *, steepest: float) -> Sequence[Due]:
    """No element is larger than the largest that came in, times the steepest slope, and neither is the norm."""
    if len(parts) != 1 or parts[0].count != whole.count:
        return ()
    (read,), unit = parts, max(whole.unit, parts[0].unit)
    top, size = steepest * read.top, steepest * read.size
    step = EACH * STEP_AT_MOST * unit
    of_norm = (step + whole.norm_recorded + read.norm_recorded) * size
    return (
        Due("low", -top, math.inf, step * top),
        Due("high", -math.inf, top, step * top),
        Due("size", 0.0, size, of_norm),
    )


def _of_softmax(whole: Moments, parts: Sequence[Moments], operands: Operands) -> Sequence[Due]:
    """Rows add up to zero, but for what rounding keeps shares from adding up to one.

    An element is its share, times what its gradient lies from their mean by shares. So it is a quarter of their range
    at most, and the norm half of theirs: no covariance of a choice is larger.
    """
    lengths = [length for length in operands.shape if length > 1]
    if len(parts) != 1 or parts[0].count != whole.count or not lengths:
        return ()
    (read,), unit = parts, max(whole.unit, parts[0].unit)
    step, most = EACH * STEP_AT_MOST * unit * read.top, (read.high - read.low) / 4.0
    return (
        Due("mean", 0.0, 0.0, averaged(whole, whole) + unit * read.top / min(lengths)),
        Due("low", -most, math.inf, step),
        Due("high", -math.inf, most, step),
        Due("size", 0.0, read.size / 2.0, step),
    )
