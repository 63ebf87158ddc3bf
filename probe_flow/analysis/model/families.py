"""What kind of arithmetic an operator does, by the words of its type name, as far as error growth is concerned."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from functools import lru_cache


class Family(enum.Enum):
    """How errors of the inputs reach the output (first order)."""

    MOVE = "move"  # copies, gathers, slices, casts: the same values
    CONTRACT = "contract"  # elementwise with slope at most about 1: relu, gelu, tanh
    SLOPE = "slope"  # gradients of such functions, as operators of a graph: relative errors of both factors add
    SUM = "sum"  # add, sub: absolute errors add
    REDUCE = "reduce"  # mean, norm, deviation over axes
    TOTAL = "total"  # sum over axes: errors add over everything summed
    PRODUCT_ADDED = "product added"  # addcmul: the product of two elements, added to a third
    SCALE = "scale"  # mul, pow: relative errors add
    UNITS = "units"  # quantise, dequantise: relative errors add, those of whole numbers relative to their spread
    QUOTIENT = "quotient"  # div: the same, but single elements follow the smallest denominators
    PRODUCT = "product"  # matmul, linear, conv, attention scores
    WEIGHTED = "weighted"  # the same with weights that are not shown: what is known is multiplied with them, or added
    NORMALISE = "normalise"  # layer norm and kin: errors relative to the spread, not the size
    EXPONENTIAL = "exponential"  # softmax, exp: an absolute error becomes a relative one
    LOG_SHARE = "log share"  # log softmax, cross entropy: the same, but the logarithm is rounded as what is taken off
    LOG_SUM = "log sum"  # logsumexp, and means of such: absolute errors stay, however near to zero the result is
    ATTENTION = "attention"  # fused softmax(QK)V
    SAMPLE = "sample"  # values between pixels, at places that are computed: an error of a place meets the slope there
    SOLVE = "solve"  # equations, inverses, decompositions: errors grow by a condition number, in all elements alike
    DISCRETE = "discrete"  # argmax, comparison: no first-order growth at all
    ORDER = "order"  # topk, sort: places are decisions, the values that are put in order are only moved
    STEP = "step"  # floor, round and kin: whole numbers, off by one at most where the input comes near an edge
    UNKNOWN = "unknown"

    __hash__ = object.__hash__  # Enum's own is a call of Python


EXPONENTIALS = frozenset((Family.EXPONENTIAL, Family.LOG_SHARE, Family.LOG_SUM))
"""Families in which an absolute error of an exponent becomes a relative one."""

_KEYWORDS: tuple[tuple[Family, str], ...] = (
    (Family.PRODUCT_ADDED, "addcmul"),
    (Family.UNKNOWN, "muladd addcdiv"),  # a product or quotient and a sum in one
    (
        Family.SLOPE,
        "relugrad tanhgrad sigmoidgrad gelugrad silugrad swishgrad hardswishgrad hardsigmoidgrad mishgrad elugrad "
        "selugrad celugrad hardtanhgrad thresholdbackward tanhbackward sigmoidbackward gelubackward silubackward "
        "hardswishbackward hardsigmoidbackward mishbackward elubackward hardtanhbackward relubackward",
    ),
    (Family.ATTENTION, "attention sdpa scaleddotproduct"),
    (
        Family.NORMALISE,
        "layernorm rmsnorm batchnorm groupnorm instancenorm normalize bninfer bninference bntraining",
    ),
    (Family.LOG_SHARE, "logsoftmax crossentropy"),
    (Family.LOG_SUM, "logsumexp nllloss"),
    (Family.EXPONENTIAL, "softmax exp expm softplus"),
    (Family.UNKNOWN, "log logaddexp"),  # turns a relative error into an absolute one
    (
        Family.UNITS,
        "quantizelinear dequantizelinear ascendquant dynamicquant dequant requant antiquant quantize dequantize",
    ),
    (
        Family.PRODUCT,
        "matmul rmatmul mm bmm mv addmm baddbmm addbmm linear dense conv convolution einsum gemm tensordot "
        "fullyconnection innerproduct deconvolution",
    ),
    (Family.SAMPLE, "gridsample gridsampler"),
    (Family.SOLVE, "solve inverse inv pinv pinverse cholesky lstsq svd eigh qr det logdet slogdet"),
    (Family.DISCRETE, "floordivide floordiv floormod floordivision"),
    (Family.STEP, "floor ceil round rint trunc"),
    (Family.DISCRETE, "gatingtopk"),  # scores of its own among the results
    (Family.ORDER, "topk sort maxwithvalue minwithvalue median nanmedian kthvalue cummax cummin"),
    (
        Family.DISCRETE,
        "argmax argmin argsort eq ne lt le gt ge equal notequal greater less logical bitwise isnan isinf "
        "nonzero unique and or xor invert",
    ),
    (Family.TOTAL, "sum reducesum nansum biasaddgrad"),
    (Family.REDUCE, "reduce mean prod var std norm cumsum avgpool averagepool pooling"),
    (Family.SUM, "add adds addn axpy sub subtract radd rsub iadd isub lerp biasadd applygradientdescent"),
    (Family.QUOTIENT, "div idiv divide truediv itruediv"),
    (
        Family.SCALE,
        "swiglu geglu glu mul muls rmul imul multiply rdiv rtruediv pow power rpow ipow sqrt reciprocal square rsqrt "
        "scale",
    ),
    (
        Family.MOVE,
        "transdata transpose permute reshape view cast bitcast copy clone contiguous concat cat split slice gather "
        "embedding select stack unbind expand tile repeat pad identity t squeeze unsqueeze chunk index scatter dropout "
        "flatten unflatten fill to getitem setitem roll flip where maximum minimum maxpool clamp clip broadcast narrow "
        "pack unpack strided diagonal tril triu detach move swapaxes movedim unfold fold type float half",
    ),
    (
        Family.CONTRACT,
        "relu prelu gelu silu swish hardswish tanh sigmoid hardsigmoid mish elu selu celu erf sin cos abs neg max min "
        "amax amin hardtanh act upsample interpolate",
    ),
)
_LONG = 5
"""Keywords of this length decide whatever stands beside them; a shorter one decides only among words that are known."""

_NEUTRAL = (
    "a activation all approx as backprop backward base batch bias by channel d depthwise dim element elementwise ext "
    "fast filter foreach functional fused fusion gated gating global grad grouped in inplace input k layer leaky like "
    "local lp mask masked mint moe n nan native nd no npu of op out parallel place pool quick quant real residual "
    "rotary scaled square tensor scalar v values with"
)
"""Words that say how or on what an operator works, not what it does."""

_SUFFIX = re.compile(r"(?:V\d+)?D?$")
"""Version and variant of a device operator: ``MatMulV2``, ``ReduceSumD``."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NAMESPACES = frozenset({"aten", "prims", "npu", "torchair", "torch_npu"})


@lru_cache(maxsize=4096)
def family_of(op_type: str) -> Family:
    """Return the family of a type name: ``MatMulV2``, ``aten._softmax.default``, ``__add__``, ``LlamaRMSNorm``.

    A keyword is one word of the name or several neighbouring ones joined (``Max``, ``Pool``), digits left out. A name
    with words that are not known, such as ``SubVocab``, is not decided by a short word in it.
    """
    runs = words_of(op_type)
    is_known = set(_words(op_type)) <= _KNOWN
    for family, keywords in _TABLE:
        if any(keyword in runs and (len(keyword) >= _LONG or is_known) for keyword in keywords):
            return family
    return Family.UNKNOWN


def is_move(op_type: str) -> bool:
    """Return True if an operator gives elements of what it reads as they are."""
    return family_of(op_type) is Family.MOVE


def is_product(op_type: str) -> bool:
    """Return True for what multiplies matrices or convolves."""
    return family_of(op_type) is Family.PRODUCT


@lru_cache(maxsize=4096)
def words_of(op_type: str) -> frozenset[str]:
    """Return the words of a type name, and what up to three neighbouring ones are joined.

    >>> sorted(words_of("IndexPutV2"))
    ['index', 'indexput', 'put']
    """
    words = _words(op_type)
    ends = ((i, j) for i in range(len(words)) for j in range(i + 1, min(len(words), i + 3) + 1))
    return frozenset("".join(words[i:j]) for i, j in ends)


@lru_cache(maxsize=4096)
def families_of(op_type: str) -> frozenset[Family]:
    """Return the families of an operator that does several things at once; of others just its own."""
    return _SEVERAL.get(op_type.strip("_").lower()) or frozenset((family_of(op_type),))


@lru_cache(maxsize=4096)
def gives_places(op_type: str) -> bool:
    """Return True if whole numbers among the results say where values were found, and are decisions: max pooling."""
    words = _words(op_type)
    return any(words[at : at + 2] == ["max", "pool"] for at in range(len(words))) or "maxpool" in words


_SEVERAL = {"addcdiv": frozenset((Family.UNKNOWN, Family.QUOTIENT))}


def _words(op_type: str) -> list[str]:
    """Return the words of the operator's own name, without name space, overload, version and digits."""
    parts = [part for part in op_type.replace("::", ".").split(".") if part]
    spaces = [place for place, part in enumerate(parts) if part in _NAMESPACES]
    own = parts[spaces[-1] + 1 :][:1] if spaces else []
    name = (own or parts[-1:] or [""])[0]
    # Mixed capitals inside one word would fall apart: ReLU, SiLU, LeakyReLU6.
    name = name.replace("ReLU", "Relu").replace("SiLU", "Silu")
    name = _SUFFIX.sub("", name)
    return [word.lower() for word in _WORD.findall(name)]


def _split(table: Sequence[tuple[Family, str]]) -> tuple[tuple[Family, frozenset[str]], ...]:
    return tuple((family, frozenset(keywords.split())) for family, keywords in table)


_TABLE = _split(_KEYWORDS)
_PARTS = (
    "arg avg batch bn bool cross cum dot entropy equal full fully group index instance isin layer log logical max "
    "not product rms silu soft top training z zero"
)
"""Halves of keywords that occur as words: ``reduce_sum``, ``ArgMax``, ``TopK``."""
_KNOWN = {*_NEUTRAL.split(), *_PARTS.split(), *(keyword for _, keywords in _TABLE for keyword in keywords)}
