"""What kind of arithmetic an operator does, by the words of its type name, as far as error growth is concerned."""

from __future__ import annotations

import enum
import re
from functools import lru_cache


class Family(enum.Enum):
    """How errors of the inputs reach the output (first order)."""

    MOVE = "move"  # copies, gathers, slices, casts: the same values
    CONTRACT = "contract"  # elementwise with slope at most about 1: relu, gelu, tanh
    SUM = "sum"  # add, sub: absolute errors add
    REDUCE = "reduce"  # sum, mean over axes
    SCALE = "scale"  # mul, div, pow: relative errors add
    PRODUCT = "product"  # matmul, linear, conv, attention scores
    NORMALISE = "normalise"  # layer norm and kin: errors relative to the spread, not the size
    EXPONENTIAL = "exponential"  # softmax, exp: an absolute error becomes a relative one
    ATTENTION = "attention"  # fused softmax(QK)V
    DISCRETE = "discrete"  # argmax, topk, comparison: no first-order growth at all
    UNKNOWN = "unknown"


_KEYWORDS: tuple[tuple[Family, str], ...] = (
    (Family.ATTENTION, "attention sdpa"),
    (
        Family.NORMALISE,
        "layernorm rmsnorm batchnorm groupnorm instancenorm normalize bninfer bninference bntraining",
    ),
    (Family.EXPONENTIAL, "softmax logsumexp crossentropy nllloss exp exp2 expm1 softplus"),
    (
        Family.PRODUCT,
        "matmul mm bmm mv addmm baddbmm addbmm linear dense conv conv1d conv2d conv3d convolution einsum gemm "
        "tensordot fullyconnection",
    ),
    (
        Family.DISCRETE,
        "argmax argmin topk sort eq ne lt le gt ge equal notequal greater less logical bitwise isnan nonzero floor "
        "ceil round unique",
    ),
    (Family.REDUCE, "reduce sum mean prod var std norm cumsum avgpool adaptiveavgpool"),
    (Family.SUM, "add addn axpy sub subtract rsub iadd isub lerp biasadd"),
    (Family.SCALE, "swiglu mul muls div pow sqrt reciprocal square rsqrt scale log truediv imul idiv"),
    (
        Family.MOVE,
        "transdata transpose permute reshape view cast copy clone contiguous concat cat split slice gather embedding "
        "select stack unbind expand tile repeat pad identity t squeeze unsqueeze chunk index scatter dropout flatten "
        "fill to getitem roll flip where maximum minimum maxpool clamp clip",
    ),
    (Family.CONTRACT, "relu gelu silu swish tanh sigmoid mish elu erf sin cos abs neg max min hardtanh act"),
)
_LONG = 5
"""Keywords of this length are found anywhere in the joined name; shorter ones must be a word of their own."""


@lru_cache(maxsize=4096)
def family_of(op_type: str) -> Family:
    """Return the family of a type name: ``MatMulV2``, ``aten._softmax.default``, ``Tensor.__add__``."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+\d*[a-z]?|[A-Z]+(?![a-z])\d*", op_type)]
    joined = "".join(words)
    found = set(words)
    for family, keywords in _KEYWORDS:
        if any(keyword in joined if len(keyword) >= _LONG else keyword in found for keyword in keywords.split()):
            return family
    return Family.UNKNOWN
