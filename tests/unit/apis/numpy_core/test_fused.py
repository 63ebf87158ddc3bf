"""A fused operator of a device, computed as its parts one behind the other."""

from __future__ import annotations

import numpy as np
import pytest

from probe_flow.apis.calls import Call, TensorSpec, UnusableError
from probe_flow.apis.numpy_core.bounded import surely_bytes
from probe_flow.apis.numpy_core.compute import own_errors
from probe_flow.apis.numpy_core.fused import Fused, Part
from probe_flow.apis.numpy_core.names import DEVICE

UNITS = {"float32": 2.0**-24, "float16": 2.0**-11}
X, Y, Z = (np.array(each, np.float64) for each in ([[1, 2, 3], [4, 5, 6]], [10, 20, 30], [[0.5], [0.25]]))
MUL_ADD = Fused((Part("Mul", (0, 1)), Part("Add", ((0, 0), 2))), ((1, 0),))


def test_each_part_reads_inputs_of_the_whole_and_results_of_parts():
    due = [[10.5, 40.5, 90.5], [40.25, 100.25, 180.25]]  # by hand
    np.testing.assert_array_equal(MUL_ADD(X, Y, Z), due)


def test_what_leaves_in_the_middle_is_a_result_too():
    product, total = Fused(MUL_ADD.parts, ((0, 0), (1, 0)))(X, Y, Z)
    np.testing.assert_array_equal(product, [[10, 40, 90], [40, 100, 180]])
    np.testing.assert_array_equal(total - product, [[0.5] * 3, [0.25] * 3])


def test_parts_take_their_attributes():
    softmax = Fused((Part("Mul", (0, 1)), Part("SoftmaxV2", ((0, 0),), (("axes", (0,)),))), ((1, 0),))
    np.testing.assert_allclose(softmax(X, np.zeros(3)), np.full((2, 3), 0.5))


def test_values_between_parts_may_be_rounded_and_the_last_is_not():
    inner = MUL_ADD.rounded(0.01)(X, Y, np.float64(0))
    np.testing.assert_allclose(np.abs(inner / (X * Y) - 1), 0.01)
    np.testing.assert_array_equal(Fused((Part("Mul", (0, 1)),), ((0, 0),)).rounded(0.01)(X, Y), X * Y)


def test_nothing_computes_a_part_that_is_not_known():
    with pytest.raises(UnusableError, match="`Nobody` is no operator that is computed"):
        _ = Fused((Part("Mul", (0, 1)), Part("Nobody", ((0, 0),))), ((1, 0),)).functions


def spec(values, dtype):
    return TensorSpec(dtype, values.shape)


def call_of(dumped):
    return Call(DEVICE, "Mul+Add", (spec(X, "float16"), spec(Y, "float16"), spec(Z, "float16")), {},
                (spec(dumped, "float16"),))  # fmt: skip


def error_of(dumped):
    arrays = {(0,): X, (1,): Y, (2,): Z}
    (own,) = own_errors(MUL_ADD, call_of(dumped), lambda at, _: arrays[at], lambda *_: dumped, UNITS, limit_bytes=2**20)
    return own


def test_a_factor_of_a_fused_result_is_its_own_error():
    assert error_of(MUL_ADD(X, Y, Z) * 1.05).worst[3] > 2
    assert error_of(MUL_ADD(X, Y, Z).astype(np.float16)).worst[3] <= 1


def test_a_cancellation_behind_an_inner_rounding_is_none():
    # 10.003 - 10 is 0.003, and 0 where float16 keeps the product: its neighbours there are 1/128 apart.
    product = np.array([[10.003] * 64])
    parts = Fused((Part("Mul", (0, 1)), Part("Sub", ((0, 0), 2))), ((1, 0),))
    arrays = {(0,): product, (1,): np.ones(64), (2,): np.full(64, 10.0)}
    dumped = product.astype(np.float16).astype(np.float64) - 10
    call = Call(DEVICE, "Mul+Sub", tuple(spec(each, "float32") for each in arrays.values()), {},
                (spec(dumped, "float16"),))  # fmt: skip
    (own,) = own_errors(parts, call, lambda at, _: arrays[at], lambda *_: dumped, UNITS, limit_bytes=2**20)
    assert abs(dumped).max() == 0.0
    assert own.worst[3] <= 1


def test_elementwise_parts_take_no_more_than_their_shapes_say():
    assert surely_bytes(MUL_ADD, call_of(X)) is not None
    unbounded = Fused((Part("Mul", (0, 1)), Part("Tile", ((0, 0), 2))), ((1, 0),))
    assert surely_bytes(unbounded, call_of(X)) is None


@pytest.mark.parametrize(("behind", "is_bounded"), [("Add", True), ("ReduceSum", False), ("MatMulV2", False)])
def test_a_product_with_elementwise_parts_behind_it_takes_no_more_than_its_result(behind, is_bounded):
    left, right, bias, result = (TensorSpec("float16", shape) for shape in ((24, 64), (64, 128), (128,), (24, 128)))
    call = Call(DEVICE, f"MatMulV2+{behind}", (left, right, bias), {}, (result,))
    parts = Fused((Part("MatMulV2", (0, 1)), Part(behind, ((0, 0), 2))), ((1, 0),))
    found = surely_bytes(parts, call)
    assert (found is not None) is is_bounded
    assert found is None or found >= 8 * (24 * 64 + 64 * 128 + 24 * 128)  # what it holds at least, in float64
