"""Which function computes an operator, by the name that each framework has for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import (
    convolution,
    elementwise,
    losses,
    moves,
    normalising,
    products,
    reductions,
)
from probe_flow.apis.numpy_core.binding import Named, keyword_only
from probe_flow.apis.numpy_core.forms.device import DEVICE_TYPES, device_form

Function: TypeAlias = "Callable[..., Any]"

_ONE = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "abs": np.abs, "absolute": np.abs, "neg": np.negative, "negative": np.negative, "square": np.square,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sign": np.sign, "isnan": np.isnan,
    "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not, "bitwise_not": np.invert,
    "sinh": np.sinh, "cosh": np.cosh, "atan": np.arctan, "arctan": np.arctan, "asin": np.arcsin, "arcsin": np.arcsin,
    "acos": np.arccos, "arccos": np.arccos, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
_TWO = {
    "mul": np.multiply, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "atan2": np.arctan2,
    "logaddexp": np.logaddexp, "hypot": np.hypot,
}  # fmt: skip
_MUL = elementwise.of_two(np.multiply)

TORCH: Mapping[str, Function] = MappingProxyType(
    {name: elementwise.of_one(function) for name, function in _ONE.items()}
    | {name: elementwise.of_two(function) for name, function in _TWO.items()}
    | {
        "add": elementwise.add, "sub": elementwise.sub, "subtract": elementwise.sub, "rsub": elementwise.rsub,
        "div": elementwise.div, "divide": elementwise.div, "true_divide": elementwise.div, "pow": elementwise.pow,
        "rsqrt": elementwise.rsqrt, "reciprocal": elementwise.reciprocal, "sigmoid": elementwise.sigmoid,
        "relu": elementwise.relu, "relu6": elementwise.relu6, "leaky_relu": elementwise.leaky_relu,
        "elu": elementwise.elu, "gelu": elementwise.gelu, "erf": elementwise.erf, "silu": elementwise.silu,
        "mish": elementwise.mish, "softplus": elementwise.softplus, "hardtanh": elementwise.hardtanh,
        "hardsigmoid": elementwise.hardsigmoid, "hardswish": elementwise.hardswish, "clamp": elementwise.clamp,
        "clip": elementwise.clamp, "clamp_min": elementwise.clamp_min, "clamp_max": elementwise.clamp_max,
        "where": elementwise.where, "masked_fill": elementwise.masked_fill, "addcmul": elementwise.addcmul,
        "addcdiv": elementwise.addcdiv, "lerp": elementwise.lerp, "npu_swiglu": elementwise.swiglu,
        "angle": elementwise.angle, "dropout": elementwise.dropout, "selu": elementwise.selu, "celu": elementwise.celu,
        "softsign": elementwise.softsign, "tanhshrink": elementwise.tanhshrink, "hardshrink": elementwise.hardshrink,
        "softshrink": elementwise.softshrink, "threshold": elementwise.threshold,
        "logsigmoid": elementwise.logsigmoid, "prelu": elementwise.prelu, "glu": elementwise.glu,
        "matmul": products.matmul, "mm": products.mm, "bmm": products.mm, "mv": products.mv,
        "outer": products.outer, "linear": products.linear, "addmm": products.addmm, "baddbmm": products.baddbmm,
        "addmv": products.addmv, "addbmm": products.addbmm, "dot": products.matmul, "tensordot": products.tensordot,
        "kron": products.kron, "cross": products.cross, "linalg.cross": products.linalg_cross,
        "bilinear": products.bilinear, "einsum": products.einsum, "scaled_dot_product_attention": products.attention,
        "conv1d": convolution.conv, "conv2d": convolution.conv, "conv3d": convolution.conv,
        "convolution": convolution.conv_aten,
        "conv_transpose1d": convolution.conv_transpose, "conv_transpose2d": convolution.conv_transpose,
        "conv_transpose3d": convolution.conv_transpose,
        **{f"max_pool{axes}d": pool for axes, pool in convolution.MAX_POOLS.items()},
        **{f"avg_pool{axes}d": pool for axes, pool in convolution.AVG_POOLS.items()},
        **{f"adaptive_avg_pool{axes}d": pool for axes, pool in convolution.ADAPTIVE_POOLS.items()},
        "layer_norm": normalising.layer_norm, "rms_norm": normalising.rms_norm,
        "npu_rms_norm": normalising.npu_rms_norm, "batch_norm": normalising.batch_norm,
        "group_norm": normalising.group_norm, "normalize": normalising.normalize, "softmax": normalising.softmax,
        "log_softmax": normalising.log_softmax, "softmin": normalising.softmin,
        "instance_norm": normalising.instance_norm, "local_response_norm": normalising.local_response_norm,
        "cosine_similarity": normalising.cosine_similarity,
        "sum": reductions.total, "mean": reductions.mean, "prod": reductions.prod, "cumsum": reductions.cumsum,
        "var": reductions.variance, "std": reductions.deviation, "norm": reductions.norm,
        "vector_norm": reductions.vector_norm, "linalg.vector_norm": reductions.vector_norm,
        "logsumexp": reductions.logsumexp, "all": reductions.every, "any": reductions.some,
        "amax": reductions.amax, "amin": reductions.amin, "max": reductions.largest, "min": reductions.smallest,
        "argmax": reductions.argmax, "argmin": reductions.argmin, "topk": reductions.topk, "sort": reductions.sort,
        "argsort": reductions.argsort, "cumprod": reductions.cumprod, "nansum": reductions.nansum,
        "count_nonzero": reductions.count_nonzero, "dist": reductions.dist, "quantile": reductions.quantile,
        "var_mean": reductions.var_mean, "std_mean": reductions.std_mean,
        "clone": moves.same, "contiguous": moves.same, "detach": moves.same, "cpu": moves.same, "npu": moves.same,
        "cuda": moves.same, "reshape": moves.reshape, "view": moves.reshape, "view_as": moves.view_as,
        "reshape_as": moves.view_as, "flatten": moves.flatten, "transpose": moves.transpose,
        "swapaxes": moves.transpose, "swapdims": moves.transpose, "t": moves.turn, "permute": moves.permute,
        "squeeze": moves.squeeze, "unsqueeze": moves.unsqueeze, "expand": moves.expand,
        "broadcast_to": moves.expand, "expand_as": moves.expand_as, "repeat": moves.repeat, "tile": moves.repeat,
        "repeat_interleave": moves.repeat_interleave, "cat": moves.cat, "concat": moves.cat, "stack": moves.stack,
        "split": moves.split, "chunk": moves.chunk, "unbind": moves.unbind, "narrow": moves.narrow,
        "select": moves.select, "slice": moves.aten_slice, "getitem": moves.get_item, "flip": moves.flip,
        "roll": moves.roll, "tril": moves.tril, "triu": moves.triu, "pad": moves.pad, "gather": moves.gather,
        "take_along_dim": moves.take_along, "index_select": moves.index_select, "embedding": moves.embedding,
        "embedding_bag": moves.embedding_bag, "movedim": moves.movedim, "moveaxis": moves.movedim,
        "unflatten": moves.unflatten, "diagonal": moves.diagonal, "pixel_shuffle": moves.pixel_shuffle,
        "pixel_unshuffle": moves.pixel_unshuffle, "hstack": moves.hstack, "vstack": moves.vstack,
        "one_hot": moves.one_hot, "to": moves.to, "type": moves.cast, "type_as": moves.type_as,
        "float": moves.cast_to("float32"), "double": moves.cast_to("float64"), "half": moves.cast_to("float16"),
        "bfloat16": moves.cast_to("bfloat16"), "int": moves.cast_to("int32"), "long": moves.cast_to("int64"),
        "bool": moves.cast_to("bool"),
        "cross_entropy": losses.cross_entropy, "nll_loss": losses.nll_loss, "mse_loss": losses.mse_loss,
        "l1_loss": losses.l1_loss, "smooth_l1_loss": losses.smooth_l1_loss,
        "binary_cross_entropy_with_logits": losses.bce_with_logits,
        "binary_cross_entropy": losses.binary_cross_entropy, "kl_div": losses.kl_div,
        "huber_loss": losses.huber_loss, "pairwise_distance": losses.pairwise_distance,
        "triplet_margin_loss": losses.triplet_margin_loss,
    }
)  # fmt: skip
"""Functions of torch and torch.nn.functional, methods of its tensors, and those of mint, which has the same."""

OPERATORS: Mapping[str, Function] = MappingProxyType(
    {
        "add": elementwise.add, "radd": elementwise.turned(elementwise.add), "sub": elementwise.sub,
        "rsub": elementwise.turned(elementwise.sub), "mul": _MUL, "rmul": elementwise.turned(_MUL),
        "truediv": elementwise.div, "rtruediv": elementwise.turned(elementwise.div), "div": elementwise.div,
        "rdiv": elementwise.turned(elementwise.div), "pow": elementwise.pow,
        "rpow": elementwise.turned(elementwise.pow), "matmul": products.matmul,
        "rmatmul": elementwise.turned(products.matmul), "neg": TORCH["neg"], "abs": TORCH["abs"],
        "invert": TORCH["bitwise_not"], "and": TORCH["bitwise_and"], "or": TORCH["bitwise_or"],
        "xor": TORCH["bitwise_xor"], "getitem": moves.get_item,
        **{name: TORCH[name] for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    }
)  # fmt: skip
"""Operators of Python: ``__add__`` and so on."""

_OF_KIND: Mapping[tuple[str, str], Function] = MappingProxyType(
    {
        ("Torch", "batch_norm"): normalising.torch_batch_norm,
        ("Torch", "instance_norm"): normalising.torch_instance_norm,
        ("Torch", "embedding"): moves.torch_embedding,
        ("Aten", "embedding"): moves.torch_embedding,
        ("Tensor", "where"): elementwise.tensor_where,
    }
)
"""Names of torch that take their arguments in another order where they belong to a certain kind."""

PRIMITIVES: Mapping[str, Function] = MappingProxyType(
    {
        "Add": elementwise.add, "AddV2": elementwise.add, "Sub": elementwise.sub, "Mul": _MUL,
        "RealDiv": elementwise.div, "Div": elementwise.div, "Pow": elementwise.pow, "Exp": TORCH["exp"],
        "Log": TORCH["log"], "Sqrt": TORCH["sqrt"], "Rsqrt": elementwise.rsqrt, "Tanh": TORCH["tanh"],
        "Sigmoid": elementwise.sigmoid, "ReLU": elementwise.relu, "Relu": elementwise.relu,
        "Erf": elementwise.erf, "Abs": TORCH["abs"], "Neg": TORCH["neg"], "Square": TORCH["square"],
        "Reciprocal": elementwise.reciprocal, "Sin": TORCH["sin"], "Cos": TORCH["cos"],
        "Maximum": TORCH["maximum"], "Minimum": TORCH["minimum"], "Equal": TORCH["eq"], "NotEqual": TORCH["ne"],
        "Greater": TORCH["gt"], "GreaterEqual": TORCH["ge"], "Less": TORCH["lt"], "LessEqual": TORCH["le"],
        "LogicalAnd": TORCH["logical_and"], "LogicalOr": TORCH["logical_or"], "LogicalNot": TORCH["logical_not"],
        "Select": elementwise.where, "SelectV2": elementwise.where, "Where": elementwise.where,
        "Floor": TORCH["floor"], "Ceil": TORCH["ceil"], "SiLU": elementwise.silu, "Identity": moves.same,
    }
)  # fmt: skip
"""Operators of MindSpore's primitives, of devices and of ONNX without attributes that change what they compute."""

OF_MINDSPORE: Mapping[str, Function] = MappingProxyType({"BiasAdd": elementwise.bias_add})
"""The same of MindSpore alone: devices and ONNX have attributes for it, which shapes settle here."""

_ROUNDED_ONCE = frozenset(
    (
        elementwise.add, elementwise.sub, elementwise.rsub, elementwise.div, TORCH["mul"], TORCH["multiply"],
        *(OPERATORS[name] for name in ("radd", "rsub", "mul", "rmul", "rtruediv", "rdiv")),
    )
)  # fmt: skip


def is_rounded_once(function: Function, dtypes: AbstractSet[str]) -> bool:
    """Return whether nothing is rounded but the result: of one sum, product or quotient within one type of 16 bits.

    Args:
        function: that computes it.
        dtypes: element types of all that it takes and gives.
    """
    return function in _ROUNDED_ONCE and dtypes in ({"float16"}, {"bfloat16"})


_RANDOM = frozenset({
    "alpha_dropout", "bernoulli", "cauchy", "dropout1d", "dropout2d", "dropout3d", "exponential",
    "feature_alpha_dropout", "geometric", "gumbel_softmax", "log_normal", "multinomial", "native_dropout", "normal",
    "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "random", "rrelu",
    "uniform",
})  # fmt: skip
_UNDEFINED = frozenset(["empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"])
_OF_TORCH = frozenset(["Torch", "Functional", "Tensor", "Mint", "MintFunctional", "Aten", "NPU"])
_TORCH_IN_MINDSPORE = frozenset(["Mint", "MintFunctional"])


def find(kind: str, api: str, *, is_mindspore: bool = False) -> Function:
    """Return the function that computes an API of a dump.

    Args:
        kind, api: parts of its name: ``Functional``, ``layer_norm``; `DEVICE` or `ONNX` and the type of an operator;
            nothing and the type of one that is known by its inputs alone.
        is_mindspore: whether it is of MindSpore, whose ``Functional`` are other functions.

    An operator in place is computed as the one that is not: whether a dump holds what its input was before shows there.

    Raises:
        UnusableError: there is none, and why.
    """
    if not kind:
        return of_type(api)
    if kind in _OF_GRAPHS:
        return _of_graph(kind, api)
    if kind == "Distributed" and api in _EXCHANGED:
        return _EXCHANGED[api]
    word = api.split(".")[0] if kind == "Aten" else api
    own = word.strip("_")
    if own in _RANDOM:
        raise UnusableError("its result is random")
    if own in _UNDEFINED:
        raise UnusableError("it gives memory that nobody wrote")
    is_operator = word.startswith("__") and word.endswith("__")
    if is_operator and own not in OPERATORS and own[:1] == "i":
        own = own[1:]  # in place: `__iadd__`
    elif not is_operator and word.endswith("_") and not word.startswith("_"):
        word = word.rstrip("_")
    if kind == "Primitive":
        found = PRIMITIVES.get(primitive := word.rpartition(".")[2]) or OF_MINDSPORE.get(primitive)
        why = "what its attributes are is not dumped"
    elif is_operator:
        found, why = OPERATORS.get(own), ""
    elif is_mindspore and kind not in _TORCH_IN_MINDSPORE:
        found, why = _mindspore_forms().get(word, TORCH.get(word) if word in _ALIKE else None), ""
    else:
        found, why = _OF_KIND.get((kind, word), TORCH.get(word)) if kind in _OF_TORCH else None, ""
    if found is None:
        raise UnusableError(f"`{api}` is no operator that is computed{f': {why}' if why else ''}", is_expected=True)
    return found


_ALIKE = frozenset(_ONE.keys() | _TWO.keys()) | frozenset({
    "add", "sub", "subtract", "div", "divide", "true_divide", "pow", "rsqrt", "reciprocal", "sigmoid", "relu", "relu6",
    "gelu", "erf", "silu", "mish", "where", "masked_fill", "addcmul", "addcdiv", "lerp", "matmul", "mm", "bmm", "mv",
    "outer", "addmm", "baddbmm", "layer_norm", "batch_norm", "group_norm", "rms_norm", "sum", "argmax", "argmin",
    "amax", "amin", "sort", "argsort", "cat", "stack", "reshape", "squeeze", "unsqueeze", "flatten", "swapaxes",
    "permute", "tril", "triu", "index_select", "softplus", "logsumexp", "clamp", "clip", "chunk", "unbind", "narrow",
    "broadcast_to",
})  # fmt: skip
"""Functions of ``mindspore.ops`` that take what those of torch take."""


_ATEN = frozenset({
    "abs", "add", "bmm", "clone", "cos", "div", "eq", "erf", "exp", "ge", "gt", "le", "log", "lt", "maximum", "minimum",
    "mm", "mul", "mv", "ne", "neg", "reciprocal", "relu", "rsqrt", "sigmoid", "silu", "sin", "sqrt", "sub", "tanh",
    "where",
})  # fmt: skip
"""Operators of FX that are computed from their tensors alone: their other arguments are the usual ones, mostly."""


def mindspore_names() -> list[str]:
    """Return the names of ``mindspore.ops`` that are computed."""
    return sorted({*_mindspore_forms(), *_ALIKE})


def _mindspore_forms() -> Mapping[str, Function]:
    from probe_flow.apis.numpy_core.forms.mindspore import MINDSPORE_FORMS

    return MINDSPORE_FORMS


DEVICE, ONNX = "Device", "Onnx"
"""Kinds of operators of graphs, whose attributes are known."""

_OF_GRAPHS = frozenset([DEVICE, ONNX])
_EXCHANGED: Mapping[str, Function] = MappingProxyType({"added": moves.added, "joined": moves.joined})
"""What communications do with what ranks gave: no names of a dump."""


def _onnx_forms() -> Mapping[str, Function]:
    from probe_flow.apis.numpy_core.forms.onnx import ONNX_FORMS

    return ONNX_FORMS


def _of_graph(kind: str, op_type: str) -> Function:
    found = (device_form(op_type) if kind == DEVICE else _onnx_forms().get(op_type)) or PRIMITIVES.get(op_type)
    if found is None:
        raise UnusableError(f"`{op_type}` is no operator that is computed", is_expected=True)
    return found


def needs_attributes(op_type: str) -> bool:
    """Return whether what an operator of a device computes depends on its attributes, or is known with them only."""
    return op_type in DEVICE_TYPES and (op_type not in PRIMITIVES or bool(attributes_of(DEVICE, op_type).all))


def attributes_of(kind: str, op_type: str) -> Named:
    """Return the attributes of an operator of a graph that change what it computes.

    Raises:
        UnusableError: nothing computes it.
    """
    return keyword_only(_of_graph(kind, op_type))


def of_type(op_type: str) -> Function:
    """Return the function that computes an operator of a device, of ONNX or of FX, given its inputs alone.

    Raises:
        UnusableError: there is none, or it has attributes that change what it computes.
    """
    space, _, name = op_type.partition(".")
    found = PRIMITIVES.get(op_type)
    if space == "aten" and (word := name.partition(".")[0]) in _ATEN:
        found = TORCH[word]
    if found is not None:
        return found
    raise UnusableError(f"`{op_type}` is no operator that is computed from its inputs alone", is_expected=True)
