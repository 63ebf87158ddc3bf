"""Forms of the calls that the numpy core computes: several argument forms of every supported operator of torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from api_calls import Form

from probe_flow.apis.calls import DtypeName

_RANDOM = np.random.default_rng(24)


def floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape)


def positive(*shape: int) -> np.ndarray:
    return _RANDOM.uniform(0.25, 3.0, shape)


def places(high: int, *shape: int) -> np.ndarray:
    return _RANDOM.integers(0, high, shape)


def flags(*shape: int) -> np.ndarray:
    return _RANDOM.random(shape) > 0.5


A, B, V, P = floats(3, 4), floats(3, 4), floats(4), positive(3, 4)
X = floats(2, 3, 4)
Q, K = floats(2, 2, 5, 4), floats(2, 2, 5, 4)
IMAGE, SIGNAL, VOLUME = floats(2, 4, 7, 6), floats(2, 4, 9), floats(1, 2, 4, 5, 4)

ONE_FLOAT = (
    "exp expm1 sin cos tan tanh abs absolute neg negative square floor ceil round trunc sign isnan isinf isfinite "
    "sigmoid erf logical_not sinh cosh atan arctan asinh reciprocal exp2 angle"
)
ONE_POSITIVE = "log log2 log10 log1p sqrt rsqrt"
ONE_SHARE = "asin arcsin acos arccos atanh"
TWO = (
    "mul multiply maximum minimum eq ne lt le gt ge not_equal less less_equal greater greater_equal atan2 logaddexp "
    "hypot"
)
LOGICAL = "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor"
ACTIVATIONS = "relu relu6 leaky_relu elu gelu silu mish softplus hardtanh hardsigmoid hardswish"
MORE_ACTIVATIONS = "selu celu softsign tanhshrink hardshrink softshrink logsigmoid glu"


def elementwise() -> Iterator[Form]:
    for name in ONE_FLOAT.split():
        yield Form("Torch", name, [A])
    for name in ONE_POSITIVE.split():
        yield Form("Torch", name, [P])
    for name in ONE_SHARE.split():
        yield Form("Torch", name, [P / 4])
    for name in TWO.split():
        yield Form("Torch", name, [A, B])
        yield Form("Tensor", name, [A, V])
    for name in LOGICAL.split():
        yield Form("Torch", name, [flags(3, 4), flags(3, 4)])
    for name in (ACTIVATIONS + " " + MORE_ACTIVATIONS).split():
        yield Form("Functional", name, [X * 3])
    yield from (
        Form("Functional", "gelu", [A], {"approximate": "tanh"}),
        Form("Functional", "leaky_relu", [A, 0.3]), Form("Functional", "elu", [A], {"alpha": 0.5}),
        Form("Functional", "softplus", [A * 5, 2.0, 5.0]), Form("Functional", "hardtanh", [A, -0.5, 0.25]),
        Form("Torch", "acosh", [P + 1]), Form("Functional", "celu", [A], {"alpha": 0.5}),
        Form("Functional", "hardshrink", [A, 0.2]), Form("Functional", "softshrink", [A], {"lambd": 0.2}),
        Form("Functional", "threshold", [A, 0.1, -3.0]), Form("Functional", "prelu", [A, floats(1)]),
        Form("Functional", "prelu", [IMAGE, floats(4)]), Form("Functional", "glu", [A, 1]),
        Form("Functional", "logsigmoid", [A * 400]), Form("Torch", "selu", [A]),
        Form("Torch", "bitwise_not", [places(9, 4)]),
        Form("Torch", "add", [A, B]), Form("Torch", "add", [A, B], {"alpha": 2}), Form("Torch", "add", [A, 1.5]),
        Form("Tensor", "add", [A], {"other": V}), Form("Torch", "sub", [A, V]), Form("Torch", "subtract", [A, 2]),
        Form("Torch", "sub", [A, B], {"alpha": 0.5}), Form("Torch", "rsub", [A, B]),
        Form("Torch", "rsub", [A, 2.0], {"alpha": 3}), Form("Torch", "div", [A, P]), Form("Torch", "divide", [A, 3]),
        Form("Torch", "true_divide", [A, P]), Form("Torch", "div", [places(9, 5), 2]),
        Form("Torch", "pow", [P, 2]), Form("Torch", "pow", [P, B]), Form("Torch", "pow", [2.0, A]),
        Form("Torch", "clamp", [A, -0.5, 0.5]), Form("Torch", "clamp", [A], {"min": 0.0}),
        Form("Tensor", "clamp", [A], {"max": V}), Form("Torch", "clip", [A, None, 0.1]),
        Form("Torch", "clamp_min", [A, 0.2]), Form("Torch", "clamp_max", [A, 0.2]),
        Form("Torch", "where", [flags(3, 4), A, B]), Form("Torch", "where", [flags(3, 1), A, 0.0]),
        Form("Tensor", "where", [A, flags(3, 4), B]), Form("Tensor", "masked_fill", [A, flags(3, 4), -1e9]),
        Form("Torch", "masked_fill", [A, flags(4), 0.0]), Form("Torch", "addcmul", [A, B, P], {"value": 0.5}),
        Form("Torch", "addcdiv", [A, B, P]), Form("Torch", "lerp", [A, B, 0.3]), Form("Torch", "lerp", [A, B, P]),
    )  # fmt: skip
    for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "div", "rdiv", "pow", "rpow"):
        yield Form("Tensor", f"__{name}__", [P, positive(3, 4)])
        yield Form("Tensor", f"__{name}__", [P, 1.5])
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield Form("Tensor", f"__{name}__", [A, B])
    for name in ("and", "or", "xor"):
        yield Form("Tensor", f"__{name}__", [flags(3, 4), flags(3, 4)])
    yield from (
        Form("Tensor", "__neg__", [A]),
        Form("Tensor", "__abs__", [A]),
        Form("Tensor", "__invert__", [flags(4)]),
    )


def products() -> Iterator[Form]:
    yield from (
        Form("Torch", "matmul", [A, B.T.copy()]), Form("Torch", "matmul", [X, floats(2, 4, 5)]),
        Form("Torch", "matmul", [A, V]), Form("Torch", "matmul", [V, V]), Form("Torch", "matmul", [Q, floats(4, 3)]),
        Form("Tensor", "matmul", [V, floats(2, 4, 5)]), Form("Tensor", "__matmul__", [A, floats(4, 2)]),
        Form("Tensor", "__rmatmul__", [floats(4, 2), A]),
        Form("Torch", "mm", [A, floats(4, 2)]), Form("Torch", "bmm", [X, floats(2, 4, 5)]),
        Form("Torch", "mv", [A, V]), Form("Torch", "outer", [V, floats(3)]),
        Form("Functional", "linear", [X, floats(5, 4)]), Form("Functional", "linear", [X, floats(5, 4), floats(5)]),
        Form("Functional", "linear", [V, floats(5, 4)], {"bias": floats(5)}),
        Form("Torch", "addmm", [floats(2), A, floats(4, 2)]),
        Form("Torch", "addmm", [floats(3, 2), A, floats(4, 2)], {"beta": 0.5, "alpha": 2}),
        Form("Torch", "baddbmm", [floats(2, 3, 5), X, floats(2, 4, 5)]),
        Form("Torch", "baddbmm", [np.full((2, 3, 5), np.nan), X, floats(2, 4, 5)], {"beta": 0}),
        Form("Torch", "addmv", [floats(3), A, V], {"beta": 0.5, "alpha": 2}), Form("Torch", "dot", [V, floats(4)]),
        Form("Torch", "addbmm", [floats(3, 5), X, floats(2, 4, 5)], {"beta": 0.5, "alpha": 2}),
        Form("Torch", "addbmm", [np.full((3, 5), np.nan), X, floats(2, 4, 5)], {"beta": 0}),
        Form("Torch", "tensordot", [X, floats(3, 4, 2)]), Form("Torch", "tensordot", [X, floats(4, 5)], {"dims": 1}),
        Form("Torch", "tensordot", [X, floats(5, 3)], {"dims": ([1], [1])}), Form("Torch", "kron", [A, floats(2, 3)]),
        Form("Torch", "cross", [A, B]), Form("Torch", "cross", [floats(2, 3, 3), floats(2, 3, 3), 2]),
        Form("Torch", "linalg.cross", [floats(3, 2, 3), floats(3, 2, 3)]),
        Form("Torch", "linalg.cross", [A, B], {"dim": 0}),
        Form("Functional", "bilinear", [A, floats(3, 5), floats(2, 4, 5), floats(2)]),
        Form("Functional", "bilinear", [X, floats(2, 3, 5), floats(6, 4, 5)]),
        Form("Torch", "einsum", ["bij,bjk->bik", X, floats(2, 4, 5)]), Form("Torch", "einsum", ["ij->ji", A]),
        Form("Torch", "einsum", ["...hd,...hd->...h", Q, K]), Form("Torch", "einsum", ["bij->bj", X]),
        Form("Torch", "einsum", ["bhnm,bmd,hdk->bhnk", floats(2, 3, 4, 5), floats(2, 5, 6), floats(3, 6, 2)]),
        Form("Functional", "scaled_dot_product_attention", [Q, K, floats(2, 2, 5, 3)]),
        Form("Functional", "scaled_dot_product_attention", [Q, K, Q], {"is_causal": True}),
        Form("Functional", "scaled_dot_product_attention", [Q, K, Q, floats(5, 5)], {"scale": 0.3}),
        Form("Functional", "scaled_dot_product_attention", [Q, K, Q], {"attn_mask": np.tri(5, dtype=bool)}),
    )  # fmt: skip


def convolutions() -> Iterator[Form]:
    yield from (
        Form("Functional", "conv1d", [SIGNAL, floats(3, 4, 3)]),
        Form("Torch", "conv1d", [SIGNAL, floats(6, 2, 3), floats(6), 2, 1, 2, 2]),
        Form("Torch", "conv2d", [IMAGE, floats(3, 4, 3, 2), floats(3)]),
        Form("Torch", "conv2d", [IMAGE, floats(3, 4, 3, 3), None, (2, 1), (1, 2), (1, 2), 1]),
        Form("Torch", "conv2d", [IMAGE, floats(8, 1, 3, 3), None, 1, 1, 1, 4]),
        Form("Torch", "conv2d", [IMAGE[0], floats(3, 4, 1, 1)]),
        Form("Torch", "conv2d", [IMAGE, floats(3, 4, 3, 5)], {"padding": "same"}),
        Form("Torch", "conv3d", [floats(1, 2, 4, 5, 4), floats(3, 2, 2, 3, 2), floats(3)], {"stride": (1, 2, 1)}),
        Form("Torch", "convolution", [IMAGE, floats(3, 4, 3, 3), None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1]),
        Form("Torch", "convolution", [IMAGE, floats(4, 2, 3, 3), None, (2, 2), (1, 1), (1, 1), True, (1, 1), 1]),
        Form("Torch", "conv_transpose1d", [SIGNAL, floats(4, 3, 3), floats(3), 2, 1, 1]),
        Form("Torch", "conv_transpose2d", [IMAGE, floats(4, 2, 3, 3), None, 2, 1, 1, 2, 2]),
        Form("Torch", "conv_transpose2d", [IMAGE[0], floats(4, 3, 2, 2)]),
        Form("Torch", "conv_transpose3d", [floats(1, 2, 3, 3, 2), floats(2, 2, 2, 2, 2)], {"stride": 2}),
        Form("Torch", "max_pool1d", [SIGNAL, 3, 2, 1]), Form("Torch", "max_pool2d", [IMAGE, 2]),
        Form("Torch", "max_pool2d", [IMAGE, 3, 2, 1, 2]), Form("Torch", "max_pool2d", [IMAGE, (2, 3)], {"stride": 1}),
        Form("Functional", "avg_pool1d", [SIGNAL, 3]), Form("Functional", "avg_pool2d", [IMAGE, 3, 2, 1]),
        Form("Functional", "avg_pool2d", [IMAGE, 3, 2, 1, False, False]),
        Form("Functional", "adaptive_avg_pool1d", [SIGNAL, 4]),
        Form("Functional", "adaptive_avg_pool2d", [IMAGE, (3, None)]),
        Form("Functional", "adaptive_avg_pool2d", [IMAGE, 1]),
        Form("Torch", "max_pool2d", [IMAGE, 3, 2, 1], {"ceil_mode": True}),
        Form("Torch", "max_pool1d", [SIGNAL, 2, 2, 0, 1, True]),
        Form("Torch", "max_pool3d", [VOLUME, 2]), Form("Functional", "avg_pool3d", [VOLUME, (1, 2, 2), 1]),
        Form("Functional", "adaptive_avg_pool3d", [VOLUME, (2, 3, 1)]),
        Form("Functional", "avg_pool2d", [IMAGE, 3, 2, 1, True, True]),
        Form("Functional", "avg_pool2d", [IMAGE, 2, 2, 1, True, False]),
        Form("Functional", "avg_pool2d", [IMAGE, 2], {"divisor_override": 3}),
    )  # fmt: skip


def norms() -> Iterator[Form]:
    mean, var = floats(4), positive(4)
    yield from (
        Form("Functional", "layer_norm", [X, (4,)]), Form("Functional", "layer_norm", [X, (3, 4), floats(3, 4)]),
        Form("Functional", "layer_norm", [X, (4,), V, floats(4), 1e-3]),
        Form("Functional", "rms_norm", [X, (4,), V, 1e-6]), Form("Functional", "rms_norm", [X, (3, 4)], {"eps": 0.1}),
        Form("Functional", "batch_norm", [IMAGE, mean, var]),
        Form("Functional", "batch_norm", [IMAGE, mean, var, V, floats(4), False, 0.1, 1e-3]),
        Form("Functional", "batch_norm", [SIGNAL, None, None, V, floats(4), True, 0.1, 1e-5]),
        Form("Functional", "batch_norm", [A, mean, var]),
        Form("Torch", "batch_norm", [IMAGE, V, floats(4), mean, var, False, 0.1, 1e-5, True]),
        Form("Functional", "group_norm", [IMAGE, 2]), Form("Functional", "group_norm", [SIGNAL, 4, V, floats(4), 1e-3]),
        Form("Functional", "normalize", [X]), Form("Functional", "normalize", [X], {"dim": -1, "eps": 1.5}),
        Form("Functional", "normalize", [A, 1.0, 1]),
        Form("Functional", "instance_norm", [IMAGE]),
        Form("Functional", "instance_norm", [SIGNAL, None, None, V, floats(4), True, 0.1, 1e-3]),
        Form("Functional", "instance_norm", [IMAGE, mean, var], {"use_input_stats": False}),
        Form("Torch", "instance_norm", [IMAGE, V, floats(4), None, None, True, 0.1, 1e-5, True]),
        Form("Functional", "local_response_norm", [IMAGE, 3]),
        Form("Functional", "local_response_norm", [IMAGE, 2, 0.5, 1.5, 2.0]),
        Form("Functional", "cosine_similarity", [X, floats(2, 3, 4)]),
        Form("Functional", "cosine_similarity", [A, floats(1, 4)], {"dim": -1, "eps": 2.0}),
        Form("Functional", "softmin", [A], {"dim": 1}), Form("Functional", "softmin", [X, -1]),
        Form("Functional", "softmax", [A], {"dim": 1}), Form("Functional", "softmax", [X, 0]),
        Form("Torch", "softmax", [np.where(flags(3, 4), -np.inf, A) * 1.0, -1]),
        Form("Tensor", "softmax", [A * 400, -1]), Form("Functional", "log_softmax", [A * 50], {"dim": -1}),
        Form("Torch", "log_softmax", [X, 1]), Form("Functional", "softmax", [A, -1, 3, DtypeName("float64")]),
    )  # fmt: skip


def reductions() -> Iterator[Form]:
    yield from (
        Form("Torch", "sum", [A]), Form("Torch", "sum", [X, 1]), Form("Tensor", "sum", [X, (0, 2), True]),
        Form("Tensor", "sum", [X], {"dim": -1, "keepdim": True}), Form("Torch", "sum", [flags(3, 4)]),
        Form("Torch", "mean", [A]), Form("Tensor", "mean", [X, -1], {"keepdim": True}),
        Form("Tensor", "mean", [X], {"axis": 0}), Form("Torch", "prod", [P]), Form("Torch", "prod", [P, 1, True]),
        Form("Torch", "cumsum", [A, 1]), Form("Torch", "cumsum", [flags(5), 0]),
        Form("Torch", "cumprod", [P, 1]), Form("Torch", "nansum", [np.where(flags(3, 4), np.nan, A)]),
        Form("Torch", "nansum", [np.where(flags(2, 3, 4), np.nan, X), 1, True]),
        Form("Torch", "count_nonzero", [places(2, 3, 4)]), Form("Torch", "count_nonzero", [places(2, 3, 4), 1]),
        Form("Torch", "dist", [A, B]), Form("Torch", "dist", [A, V, 1]),
        Form("Torch", "quantile", [A, 0.3]), Form("Torch", "quantile", [X, np.array([0.1, 0.75]), 1]),
        Form("Torch", "quantile", [A, 0.5, -1, True]), Form("Torch", "var_mean", [X, -1]),
        Form("Torch", "var_mean", [A], {"correction": 0}), Form("Torch", "std_mean", [X, (0, 1)], {"keepdim": True}),
        Form("Torch", "var_mean", [A, False]), Form("Torch", "std_mean", [A]),
        Form("Torch", "var", [A]), Form("Torch", "var", [X, -1], {"unbiased": False}), Form("Tensor", "var", [X, 1]),
        Form("Tensor", "var", [X, (0, 1)], {"correction": 0, "keepdim": True}), Form("Torch", "std", [A, 0]),
        Form("Torch", "std", [A, False]), Form("Torch", "norm", [A]), Form("Torch", "norm", [X, 2, -1, True]),
        Form("Torch", "linalg.vector_norm", [X], {"dim": 1}), Form("Torch", "logsumexp", [A * 300, 1]),
        Form("Torch", "logsumexp", [X, (0, 2), True]), Form("Torch", "all", [flags(3, 4)]),
        Form("Torch", "all", [flags(3, 4), 1]), Form("Torch", "any", [flags(3, 4), 0, True]),
        Form("Torch", "amax", [X, (0, 1)]), Form("Torch", "amin", [A]), Form("Torch", "amax", [A, 1, True]),
        Form("Torch", "max", [A]), Form("Torch", "max", [A, 1]), Form("Torch", "max", [A, B]),
        Form("Tensor", "max", [X], {"dim": -1, "keepdim": True}), Form("Torch", "min", [A, 0, True]),
        Form("Torch", "min", [A]), Form("Torch", "argmax", [A]), Form("Torch", "argmax", [X, -1]),
        Form("Torch", "argmin", [A, 0, True]), Form("Torch", "topk", [X, 2]), Form("Torch", "topk", [X, 2, 1, False]),
        Form("Tensor", "topk", [X, 3], {"dim": 0 if X.shape[0] > 3 else -1}), Form("Torch", "sort", [A]),
        Form("Torch", "sort", [A, 0, True]), Form("Torch", "argsort", [X, 1]),
        Form("Torch", "sort", [places(100, 6) + np.arange(6) * 100], {"descending": True}),
    )  # fmt: skip


def moves() -> Iterator[Form]:
    half = DtypeName("float16")
    yield from (
        Form("Tensor", "clone", [A]), Form("Tensor", "contiguous", [A]), Form("Tensor", "detach", [A]),
        Form("Tensor", "cpu", [A]), Form("Tensor", "reshape", [A, 2, 6]), Form("Torch", "reshape", [A, (6, -1)]),
        Form("Torch", "reshape", [A], {"shape": (4, 3)}), Form("Tensor", "view", [A, -1]),
        Form("Tensor", "view_as", [A, floats(2, 6)]), Form("Tensor", "reshape_as", [A, floats(2, 6)]),
        Form("Torch", "flatten", [X]), Form("Torch", "flatten", [X, 1]), Form("Torch", "flatten", [X, 0, 1]),
        Form("Torch", "transpose", [X, 1, 2]), Form("Tensor", "transpose", [X], {"dim0": 0, "dim1": -1}),
        Form("Torch", "swapaxes", [X, 0, 1]), Form("Torch", "swapdims", [X, 0, 1]), Form("Torch", "t", [A]),
        Form("Tensor", "permute", [X, 2, 0, 1]), Form("Torch", "permute", [X, (1, 0, 2)]),
        Form("Torch", "squeeze", [floats(1, 3, 1)]), Form("Torch", "squeeze", [floats(1, 3, 1), 0]),
        Form("Torch", "unsqueeze", [A, 1]), Form("Tensor", "unsqueeze", [A, -1]),
        Form("Tensor", "expand", [floats(3, 1), 3, 4]), Form("Tensor", "expand", [floats(3, 1), 2, -1, 4]),
        Form("Torch", "broadcast_to", [floats(3, 1), (3, 4)]), Form("Tensor", "expand_as", [floats(3, 1), A]),
        Form("Tensor", "repeat", [A, 2, 1]), Form("Torch", "tile", [A, (2,)]), Form("Tensor", "repeat", [A, 2, 1, 2]),
        Form("Torch", "repeat_interleave", [A, 2]), Form("Torch", "repeat_interleave", [A, 3, 1]),
        Form("Torch", "cat", [[A, B], 1]), Form("Torch", "cat", [[A, floats(2, 4)]]),
        Form("Torch", "concat", [[A, A], -1]),
        Form("Torch", "stack", [[A, B]]), Form("Torch", "stack", [[A, B], -1]), Form("Torch", "split", [A, 2]),
        Form("Torch", "split", [X, [1, 3], 2]), Form("Torch", "chunk", [X, 3, -1]), Form("Torch", "unbind", [X, 1]),
        Form("Torch", "narrow", [X, 2, 1, 2]), Form("Torch", "select", [X, 1, -1]),
        Form("Tensor", "__getitem__", [X, 0]), Form("Tensor", "__getitem__", [X, (slice(None), 1, slice(0, 3, 2))]),
        Form("Tensor", "__getitem__", [X, (..., None)]), Form("Tensor", "__getitem__", [A, flags(3, 4)]),
        Form("Tensor", "__getitem__", [A, (places(3, 2), places(4, 2))]), Form("Torch", "flip", [X, (0, 2)]),
        Form("Torch", "roll", [A, 1]), Form("Torch", "roll", [A, (1, 2), (0, 1)]), Form("Torch", "tril", [A]),
        Form("Torch", "triu", [A, 1]), Form("Functional", "pad", [X, (1, 2)]),
        Form("Functional", "pad", [X, (0, 1, 2, 0), "constant", 1.5]), Form("Torch", "gather", [A, 1, places(4, 3, 2)]),
        Form("Torch", "gather", [A, 0, places(3, 2, 4)]), Form("Torch", "take_along_dim", [A, places(4, 3, 2), 1]),
        Form("Torch", "index_select", [A, 1, places(4, 6)]),
        Form("Functional", "embedding", [places(5, 2, 3), floats(5, 4)]),
        Form("Functional", "embedding", [places(5, 2), floats(5, 4), 0]),
        Form("Torch", "embedding", [floats(5, 4), places(5, 2, 3)]),
        Form("Functional", "embedding_bag", [places(5, 2, 3), floats(5, 4)]),
        Form("Functional", "embedding_bag", [places(5, 2, 3), floats(5, 4)], {"mode": "max"}),
        Form("Functional", "embedding_bag", [places(5, 2, 3), floats(5, 4)],
             {"mode": "sum", "per_sample_weights": floats(2, 3)}),
        Form("Torch", "movedim", [X, 0, 2]), Form("Torch", "moveaxis", [X, (0, 1), (-1, 0)]),
        Form("Torch", "unflatten", [A, 1, (2, 2)]), Form("Tensor", "unflatten", [floats(2, 6), -1, (3, -1)]),
        Form("Torch", "diagonal", [A]), Form("Torch", "diagonal", [X, 1, 1, 2]),
        Form("Functional", "pixel_shuffle", [floats(2, 8, 3, 2), 2]),
        Form("Functional", "pixel_shuffle", [floats(9, 2, 2), 3]),
        Form("Functional", "pixel_unshuffle", [floats(2, 2, 6, 4), 2]),
        Form("Torch", "hstack", [[A, B]]), Form("Torch", "hstack", [[V, V]]), Form("Torch", "vstack", [[A, V]]),
        Form("Functional", "one_hot", [places(4, 2, 3), 4]),
        Form("Functional", "one_hot", [np.array([1, 3, 0])]), Form("Tensor", "to", [A, half]),
        Form("Tensor", "to", [A], {"dtype": DtypeName("float32")}), Form("Tensor", "to", [A * 9, DtypeName("int64")]),
        Form("Tensor", "type", [A, half]), Form("Tensor", "type_as", [places(9, 3), A]), Form("Tensor", "float", [A]),
        Form("Tensor", "double", [places(9, 3)]), Form("Tensor", "half", [A]), Form("Tensor", "bfloat16", [A]),
        Form("Tensor", "int", [A * 9]), Form("Tensor", "long", [flags(3)]), Form("Tensor", "bool", [places(2, 4)]),
    )  # fmt: skip


def losses() -> Iterator[Form]:
    classes, due = floats(6, 5), places(5, 6)
    yield from (
        Form("Functional", "cross_entropy", [classes, due]),
        Form("Functional", "cross_entropy", [classes, due, positive(5)], {"reduction": "sum"}),
        Form("Functional", "cross_entropy", [classes, due], {"label_smoothing": 0.1, "weight": positive(5)}),
        Form("Functional", "cross_entropy", [classes, np.where(due == 0, -100, due)]),
        Form("Functional", "cross_entropy", [floats(2, 5, 3), places(5, 2, 3)], {"reduction": "none"}),
        Form("Functional", "cross_entropy", [classes, positive(6, 5)], {"label_smoothing": 0.2}),
        Form("Functional", "cross_entropy", [floats(2, 5, 3), positive(2, 5, 3)]),
        Form("Functional", "cross_entropy", [floats(5), np.array(2)]),
        Form("Functional", "nll_loss", [classes, due]),
        Form("Functional", "nll_loss", [classes, due, positive(5)], {"ignore_index": 1}),
        Form("Functional", "mse_loss", [A, B]), Form("Functional", "mse_loss", [A, B], {"reduction": "none"}),
        Form("Functional", "l1_loss", [A, B], {"reduction": "sum"}), Form("Functional", "smooth_l1_loss", [A, B]),
        Form("Functional", "smooth_l1_loss", [A, B], {"beta": 0.5}),
        Form("Functional", "binary_cross_entropy", [P / 4, positive(3, 4) / 4]),
        Form("Functional", "binary_cross_entropy", [np.array([0.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.0]), positive(3)],
             {"reduction": "sum"}),
        Form("Functional", "kl_div", [A, P]), Form("Functional", "kl_div", [A, P], {"reduction": "batchmean"}),
        Form("Functional", "kl_div", [A, np.where(flags(3, 4), 0, P)], {"reduction": "none"}),
        Form("Functional", "kl_div", [A, B], {"reduction": "sum", "log_target": True}),
        Form("Functional", "huber_loss", [A, B]), Form("Functional", "huber_loss", [A, B, "none", 0.5]),
        Form("Functional", "pairwise_distance", [A, B]),
        Form("Functional", "pairwise_distance", [A, B, 1.0, 1e-3, True]),
        Form("Functional", "triplet_margin_loss", [A, B, P]),
        Form("Functional", "triplet_margin_loss", [A, B, P], {"margin": 0.1, "swap": True, "reduction": "none"}),
        Form("Functional", "binary_cross_entropy_with_logits", [A * 20, positive(3, 4) / 4]),
        Form("Functional", "binary_cross_entropy_with_logits", [A, P / 4, positive(4)], {"pos_weight": positive(4)}),
    )  # fmt: skip


GROUPS: dict[str, Any] = {
    "elementwise": elementwise, "products": products, "convolutions": convolutions, "norms": norms,
    "reductions": reductions, "moves": moves, "losses": losses,
}  # fmt: skip
