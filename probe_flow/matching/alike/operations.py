"""What kind of operation a call is, whatever the framework calls it: `Primitive.matmul.MatMul`, `Tensor.__matmul__`.

A *family* is the operation's own name without framework, case, underscores and in-place mark. Families of one *kin* do
related work (`linear` is a `matmul` with a bias). A *composite* is an operation that another framework spells as
several calls in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from probe_flow.matching.shared.api_table import PYTORCH_OF

_SAME: Mapping[str, str] = MappingProxyType(
    {
        "addition": "add",
        "avgpool": "avgpool2d",
        "batchmatmul": "matmul",
        "bmm": "matmul",
        "concat": "cat",
        "conv1dtranspose": "convtranspose1d",
        "conv2dbackpropinput": "convtranspose2d",
        "conv2dtranspose": "convtranspose2d",
        "conv3dtranspose": "convtranspose3d",
        "divide": "div",
        "floordivide": "floordiv",
        "greater": "gt",
        "greaterequal": "ge",
        "hshrink": "hardshrink",
        "hsigmoid": "hardsigmoid",
        "hswish": "hardswish",
        "less": "lt",
        "lessequal": "le",
        "maxpool": "maxpool2d",
        "mm": "matmul",
        "multiply": "mul",
        "negative": "neg",
        "notequal": "ne",
        "power": "pow",
        "realdiv": "div",
        "reducemean": "mean",
        "reducesum": "sum",
        "softmaxv2": "softmax",
        "subtract": "sub",
        "swapdims": "transpose",
        "truediv": "div",
        "truedivide": "div",
    }
)
"""Spellings of one operation beside those of the built-in table of APIs."""

_KIN: Mapping[str, str] = MappingProxyType(
    {
        "addmm": "linear",
        "addbmm": "linear",
        **{f"{kind}{word}": word for word in ("and", "or", "xor") for kind in ("bitwise", "logical")},
        "baddbmm": "linear",
        "biasadd": "linear",
        "matmul": "linear",
        "batchnorm": "norm",
        "groupnorm": "norm",
        "layernorm": "norm",
        "npurmsnorm": "norm",
        "rmsnorm": "norm",
        "fusedlayernorm": "norm",
        "flashattentionscore": "attention",
        "npufusionattention": "attention",
        "scaleddotproductattention": "attention",
        "logsoftmax": "softmax",
        "nllloss": "crossentropy",
        "softmaxcrossentropywithlogits": "crossentropy",
        "sparsesoftmaxcrossentropywithlogits": "crossentropy",
    }
)
"""Families that do related work."""

_BOOKKEEPING = frozenset(
    {
        *("arange", "empty", "full", "ones", "zeros"),
        *("cast", "clone", "contiguous", "detach", "dtype", "float", "half", "to", "type", "typeas"),
        *("chunk", "getitem", "setitem", "split", "stack"),
        *(
            "broadcastto",
            "expand",
            "expandas",
            "expanddims",
            "flatten",
            "permute",
            "reshape",
            "squeeze",
            "transpose",
            "unsqueeze",
            "view",
            "viewas",
        ),
        *("rank", "shape", "shapeop", "size", "tensorshape"),
    }
)
"""Views, casts and shapes: frameworks differ in how many of them they make, and they change no value."""

COMPOSITES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "linear": (("matmul", "biasadd"), ("matmul", "add"), ("transpose", "matmul", "add")),
        "addmm": (("matmul", "biasadd"), ("matmul", "add")),
        "conv1d": (("expanddims", "conv2d", "biasadd", "squeeze"), ("expanddims", "conv2d", "squeeze")),
        **{name: ((name, "biasadd"),) for name in ("conv2d", "conv3d", "convtranspose2d", "convtranspose3d")},
        "embedding": (("reshape", "gather", "reshape"),),
        "crossentropy": (("logsoftmax", "nllloss"),),
        "silu": (("sigmoid", "mul"),),
        "swiglu": (("silu", "mul"), ("chunk", "silu", "mul"), ("split", "silu", "mul")),
        "scaleddotproductattention": (
            ("matmul", "div", "softmax", "matmul"),
            ("matmul", "mul", "softmax", "matmul"),
            ("matmul", "softmax", "matmul"),
            ("matmul", "div", "add", "softmax", "matmul"),
        ),
    }
)
"""One operation -> calls in a row that do the same."""

_LAYERS = frozenset(
    {
        *("conv1d", "conv2d", "conv3d", "convtranspose1d", "convtranspose2d", "convtranspose3d", "dense", "linear"),
        *("embedding", "gru", "grucell", "lstm", "lstmcell", "multiheadattention", "rnn", "rnncell"),
        *("batchnorm1d", "batchnorm2d", "batchnorm3d", "groupnorm", "instancenorm1d", "instancenorm2d", "layernorm"),
        *("avgpool1d", "avgpool2d", "avgpool3d", "maxpool1d", "maxpool2d", "maxpool3d", "pixelshuffle", "upsample"),
        *("hardshrink", "hardsigmoid", "hardswish"),
        *("celu", "elu", "gelu", "hardtanh", "leakyrelu", "logsigmoid", "logsoftmax", "mish", "prelu", "relu", "relu6"),
        *("selu", "sigmoid", "silu", "softmax", "softplus", "softshrink", "softsign", "tanh", "tanhshrink"),
        *("bceloss", "bcewithlogitsloss", "cosineembeddingloss", "crossentropyloss", "huberloss", "kldivloss"),
        *("l1loss", "mseloss", "nllloss", "smoothl1loss", "softmarginloss", "tripletmarginloss"),
    }
)
"""Families of the layers that PyTorch and MindSpore both have under one name; each makes them of calls of its own."""


@cache
def _renamed() -> Mapping[str, str]:
    """Return the families that the built-in table of APIs calls otherwise in PyTorch."""
    words = ((_word(ours), _word(theirs)) for ours, theirs in PYTORCH_OF.items())
    return {ours: theirs for ours, theirs in words if ours != theirs}


def _word(name: str) -> str:
    return name.rpartition(".")[2].replace("_", "").lower()


@cache
def family(op_type: str) -> str:
    """Return the family of an API or a class.

    >>> family("__truediv__"), family("LayerNorm"), family("layer_norm"), family("relu_"), family("HSwish")
    ('div', 'layernorm', 'layernorm', 'relu', 'hardswish')
    """
    word = _word(op_type)
    if op_type.startswith("__i") and op_type.endswith("__") and word not in {"invert", "index", "int"}:
        word = word.removeprefix("i")
    if op_type.startswith("__r") and op_type.endswith("__") and word not in {"round", "rshift", "repr", "reversed"}:
        word = word.removeprefix("r")
    word = _renamed().get(word, word)
    return _SAME.get(word, word)


def kin(word: str) -> str:
    """Return what a family shares with related ones."""
    return _KIN.get(word, word)


def is_bookkeeping(word: str) -> bool:
    """Say whether a family only changes shape, view or dtype."""
    return word in _BOOKKEEPING


def is_layer(word: str) -> bool:
    """Say whether the frameworks have a layer of this family."""
    return word in _LAYERS
