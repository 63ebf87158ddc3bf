"""What surely takes little: by the shapes of tensors, where no other argument can ask for more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from probe_flow.apis.calls import Call, Plain, TensorSpec
from probe_flow.apis.numpy_core import names
from probe_flow.apis.numpy_core.bounded import COPIES, surely_bytes
from probe_flow.apis.numpy_core.compute import WIDE, computed


def call_of(kind, api, shapes, result, *rest, **kwargs):
    specs = [TensorSpec("float32" if each != "axes" else "int64", each if each != "axes" else (1,)) for each in shapes]
    plain = {name: Plain(value) for name, value in kwargs.items()}
    call = Call(kind, api, (*specs, *map(Plain, rest)), plain, (TensorSpec("float32", result),))
    return names.find(kind, api), call


@pytest.mark.parametrize(
    ("kind", "api", "shapes", "result", "rest", "kwargs", "largest"),
    [
        ("Torch", "add", [(4, 1), (1, 5)], (4, 5), [], {}, 20),
        ("Functional", "layer_norm", [(4, 8)], (4, 8), [(8,)], {}, 32),
        ("Torch", "sum", [(4, 8)], (4,), [1], {}, 32),
        ("Torch", "matmul", [(4, 8), (8, 5)], (4, 5), [], {}, 72),
        ("Torch", "addmm", [(50,), (40, 8), (8, 50)], (40, 50), [], {}, 2000),
        ("Functional", "linear", [(40, 8), (50, 8), (50,)], (40, 50), [], {}, 2000),
        (names.DEVICE, "MatMulV2", [(40, 8), (50, 8)], (40, 50), [], {"transpose_x2": True}, 2000),
        (names.DEVICE, "ReduceSum", [(4, 8), "axes"], (4,), [], {}, 32),
    ],
)
def test_the_largest_tensor_bounds_it(kind, api, shapes, result, rest, kwargs, largest):
    function, call = call_of(kind, api, shapes, result, *rest, **kwargs)
    assert surely_bytes(function, call) == WIDE * COPIES * largest
    arrays = {
        (place,): np.zeros(leaf.shape) if leaf.dtype != "int64" else np.ones(leaf.shape, int)
        for place, leaf in enumerate(call.args)
        if isinstance(leaf, TensorSpec)
    }
    assert all(values.size <= largest for _, values in computed(function, call, arrays))


@pytest.mark.parametrize(
    ("kind", "api", "shapes", "rest"),
    [
        ("Tensor", "repeat", [(2, 2)], [10**9, 1]),
        ("Functional", "pad", [(2, 2)], [(10**9, 0)]),
        ("Torch", "conv2d", [(1, 1, 4, 4), (1, 1, 2, 2)], [None, 1, 10**6]),
        ("Functional", "one_hot", [(2,)], [10**9]),
        ("Torch", "einsum", [(2, 2)], []),
        ("Torch", "add", [(2, 3), (4, 5)], []),
        (names.DEVICE, "TileD", [(2, 2)], []),
        (names.DEVICE, "Conv2D", [(1, 1, 4, 4), (1, 1, 2, 2)], []),
        (names.DEVICE, "GatherV2", [(2, 2), (2, 2), (1,)], []),
    ],
)
def test_what_other_arguments_decide_is_not_bounded(kind, api, shapes, rest):
    assert surely_bytes(*call_of(kind, api, shapes, (2, 2), *rest)) is None


def test_an_outer_product_counts_as_what_it_makes():
    function, call = call_of("Torch", "matmul", [(10**6, 1), (1, 10**6)], (2, 2))
    assert surely_bytes(function, call) == WIDE * COPIES * 10**12
    function, call = call_of("Torch", "mul", [(10**6, 1), (1, 10**6)], (2, 2))
    assert surely_bytes(function, call) == WIDE * COPIES * math.prod((10**6, 10**6))
