"""Calls computed again by hand: what is computed, what is left alone and why, and how far a result is from it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from api_calls import Form, arrays_in, call_of

from probe_flow.apis.calls import Call, TensorSpec, UnusableError
from probe_flow.apis.numpy_core import names
from probe_flow.apis.numpy_core.compute import computed, needed_bytes, own_errors, perturbed, wide
from probe_flow.apis.own_error import moved_by, own_error

UNITS = {"float64": 2.0**-40, "float32": 2.0**-20, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def results(kind, api, *args, is_mindspore=False, **kwargs):
    form = Form(kind, api, args, kwargs)
    arrays = {place: wide(each) for place, each in {**arrays_in(args), **arrays_in(kwargs)}.items()}
    function = names.find(kind, api, is_mindspore=is_mindspore)
    return [values for _, values in computed(function, call_of(form, []), arrays)]


def why_not(kind, api, *args, **kwargs):
    with pytest.raises(UnusableError) as caught:
        results(kind, api, *args, **kwargs)
    return caught.value.reason


def test_a_linear_layer_multiplies_by_the_transposed_weight():
    (found,) = results("Functional", "linear", np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]), np.ones(2))
    assert found.tolist() == [[12.0, 18.0]]


def test_a_layer_norm_subtracts_the_mean_and_divides_by_the_root_of_variance_and_eps():
    (found,) = results("Functional", "layer_norm", np.array([[1.0, 3.0]]), (2,), None, None, 3.0)
    assert found.tolist() == [[-0.5, 0.5]]


def test_softmax_of_a_logarithm_is_the_share():
    (found,) = results("Functional", "softmax", np.log([1.0, 3.0]), -1)
    assert found == pytest.approx([0.25, 0.75])


def test_a_convolution_slides_its_kernel():
    (found,) = results("Functional", "conv1d", np.array([[[1.0, 2.0, 3.0]]]), np.array([[[1.0, 10.0]]]))
    assert found.tolist() == [[[21.0, 32.0]]]


def test_cross_entropy_is_the_negative_logarithm_of_the_share_of_the_class_due():
    (found,) = results("Functional", "cross_entropy", np.log([[1.0, 3.0]]), np.array([1]))
    assert float(found) == pytest.approx(-math.log(0.75))


def test_the_npu_operators_are_what_they_are_said_to_compute():
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    values, reciprocal = results("NPU", "npu_rms_norm", x, np.full(4, 2.0), 0.5)
    assert reciprocal.tolist() == [[pytest.approx(1 / math.sqrt(8.0))]]
    assert values == pytest.approx(2 * x / math.sqrt(8.0))
    (swiglu,) = results("NPU", "npu_swiglu", x)
    assert swiglu == pytest.approx(np.array([[1 / (1 + math.exp(-1)) * 3, 2 / (1 + math.exp(-2)) * 4]]))


@pytest.mark.parametrize(
    ("api", "args", "due"),
    [
        ("softmax", [np.log([[1.0, 3.0]])], [[0.25, 0.75]]),
        ("mean", [np.array([[1.0, 3.0]]), -1, True], [[2.0]]),
        ("transpose", [np.array([[1.0, 3.0]]), (1, 0)], [[1.0], [3.0]]),
        ("gather", [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 1]), 0], [[3.0, 4.0], [3.0, 4.0]]),
        ("conv2d", [np.ones((1, 1, 2, 2)), np.ones((1, 1, 2, 2))], [[[[4.0]]]]),
        ("conv2d", [np.ones((1, 1, 1, 1)), np.ones((1, 1, 3, 3)), None, 1, "pad", 1], [[[[1.0]]]]),
        ("mse_loss", [np.array([1.0, 3.0]), np.array([0.0, 0.0])], 5.0),
        ("cross_entropy", [np.log([[1.0, 3.0]]), np.array([0])], -math.log(0.25)),
        ("expand_dims", [np.array([1.0]), 0], [[1.0]]),
        ("tile", [np.array([1.0]), (2,)], [1.0, 1.0]),
        ("split", [np.array([1.0, 2.0]), 2], [1.0, 2.0]),
        ("cumsum", [np.array([1.0, 2.0]), 0], [1.0, 3.0]),
        ("dense", [np.array([1.0, 2.0]), np.array([[3.0, 4.0]])], [11.0]),
        ("select", [np.array([True, False]), np.array([1.0, 1.0]), 0.0], [1.0, 0.0]),
    ],
)
def test_functions_of_mindspore_take_their_own_arguments(api, args, due):
    found = results("Functional", api, *args, is_mindspore=True)
    assert np.asarray(found[0]) == pytest.approx(np.asarray(due))


def test_a_primitive_is_computed_where_it_has_no_attributes():
    (found,) = results("Primitive", "add.Add", np.array([1.0]), np.array([2.0]), is_mindspore=True)
    assert found.tolist() == [3.0]
    assert "attributes" in why_not("Primitive", "matmul.MatMul", np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("kind", "api", "args", "kwargs", "word"),
    [
        ("Functional", "alpha_dropout", [np.ones(2)], {}, "random"),
        ("Torch", "empty", [(2,)], {}, "nobody wrote"),
        ("Torch", "add", [np.ones(2), np.ones(2)], {"out": np.ones(2)}, "writes into"),
        ("Torch", "add", [np.ones(2), np.ones(2)], {"flavour": 3}, "`flavour` is not computed"),
        ("Torch", "add", [np.ones(2), np.ones(2), 3, 4, 5], {}, "not those that are computed"),
        ("Torch", "matmul", [np.ones((2, 3)), np.ones((2, 3))], {}, "do not fit each other"),
        ("Torch", "custom_kernel", [np.ones(2)], {}, "no operator that is computed"),
        ("Functional", "embedding", [np.array([7]), np.ones((3, 2))], {}, "indices lie outside"),
        ("Functional", "scaled_dot_product_attention", [np.ones((1, 2, 2))] * 3, {"dropout_p": 0.1}, "at random"),
        ("Functional", "batch_norm", [np.ones((2, 3)), None, None], {}, "running statistics"),
        ("Torch", "div", [np.ones(2), np.ones(2)], {"rounding_mode": "floor"}, "rounds the quotient"),
        ("Torch", "sort", [np.array([1.0, np.nan])], {}, "NaN"),
        ("Distributed", "all_reduce", [np.ones(2)], {}, "no operator"),
    ],
)
def test_what_the_dump_does_not_hold_or_kernels_decide_is_left_alone(kind, api, args, kwargs, word):
    assert word in why_not(kind, api, *args, **kwargs)


def errors_of(form, dumped, dtype, **more):
    """Return the own errors of a call whose tensors are of an element type, with what its result was dumped as."""
    named = lambda array: dtype if array.dtype.kind == "f" else str(array.dtype)  # noqa: E731
    arrays = arrays_in(tuple(form.args))
    dumped = dumped if isinstance(dumped, list) else [dumped]
    return own_errors(
        names.find(form.kind, form.api), call_of(form, dumped, named), lambda place, _: arrays[place],
        lambda place, _: dumped[place[0]], UNITS, limit_bytes=more.pop("limit_bytes", 2**30),
    )  # fmt: skip


@pytest.mark.parametrize("api", ["add", "sub", "mul", "div"])
def test_of_one_sum_or_product_in_16_bits_nothing_is_rounded_but_the_result(api):
    """A ripple of 0.3 % passes where inputs may be off by a rounding each, as they may be of a product of matrices."""
    chance = np.random.default_rng(1)
    x, y = (chance.uniform(1.0, 2.0, 4096).astype(np.float16).astype(float) for _ in range(2))
    (made,) = results("Torch", api, x, y)
    rounded = made.astype(np.float16).astype(float)
    ripple = 1.0 + 0.003 * np.sin(np.arange(made.size))
    form = Form("Torch", api, [x, y])
    (own,), (wrong,) = errors_of(form, rounded, "float16"), errors_of(form, rounded * ripple, "float16")
    assert own.worst[3] < 0.5
    assert wrong.worst[3] > 2.0
    assert wrong.worst[2] == pytest.approx(2.0**-11, rel=0.01)


def test_a_rounded_result_is_explained_and_a_factor_is_not():
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16).astype(float)
    form = Form("Torch", "matmul", [x, x])
    right = (x @ x).astype(np.float16).astype(float)
    (own,) = errors_of(form, right, "float16")
    assert own.worst[3] < 0.5
    (own,) = errors_of(form, right * 1.02, "float16")
    name, found, explained, score = own.worst
    assert (name, found) == ("gain", pytest.approx(0.02, rel=0.02))
    assert 2.0**-11 <= explained < 2.0**-9
    assert score > 10


def test_what_is_stored_in_eight_bits_is_computed_with_in_sixteen():
    x = np.array([[1.0, -2.0], [0.5, 4.0]])
    call = call_of(Form("Torch", "matmul", [x, x]), [x @ x], lambda _: "float8_e4m3fn")
    for values in perturbed(call, arrays_in((x, x)), {**UNITS, "float8_e4m3fn": 2.0**-4}).values():
        assert np.abs(values / x - 1).max() == UNITS["bfloat16"]


def test_one_wrong_element_shows_in_the_peak():
    x = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32).astype(float)
    wrong = x + x
    wrong[7, 7] += 1e-3
    (own,) = errors_of(Form("Torch", "add", [x, x]), wrong, "float32")
    assert own.worst[0] == "peak"
    assert own.worst[1] == pytest.approx(1e-3)
    assert own.worst[3] > 10


def test_moves_are_exact():
    x = np.arange(6.0).reshape(2, 3)
    (own,) = errors_of(Form("Torch", "transpose", [x, 0, 1]), x.T, "float32")
    assert own.worst[3] == 0.0
    (own,) = errors_of(Form("Torch", "transpose", [x, 0, 1]), x.reshape(3, 2), "float32")
    assert own.worst[3] > 1e4


def test_dropout_is_right_whatever_it_drops_if_the_rest_is_scaled_and_the_share_is_right():
    x = np.random.default_rng(0).standard_normal((50, 40))
    mask = np.random.default_rng(1).random((50, 40)) > 0.25
    form = Form("Functional", "dropout", [x, 0.25, True])
    (own,) = errors_of(form, x / 0.75 * mask, "float32")
    assert own.worst[3] < 0.1
    for wrong in (x * mask, x / 0.75 * mask * 1.02, x / 0.75 * (mask & (x > -0.5)), x / 0.75):
        (own,) = errors_of(form, wrong, "float32")
        assert own.worst[3] > 10
    (own,) = errors_of(Form("Functional", "dropout", [x, 0.25, False]), x, "float32")
    assert own.worst[3] == 0.0


def test_places_of_equal_values_may_stand_in_any_order():
    x = np.array([[1.0, 3.0, 3.0, 2.0]])
    form = Form("Torch", "topk", [x, 2])
    values = np.array([[3.0, 3.0]])
    assert [own.worst[3] for own in errors_of(form, [values, np.array([[2, 1]])], "float16")] == [0.0, 0.0]
    scores = [own.worst[3] for own in errors_of(form, [values, np.array([[2, 3]])], "float16")]
    assert scores == [0.0, math.inf]


@pytest.mark.parametrize(("places", "is_right"), [((2, 1, 3, 0), True), ((1, 2, 3, 0), True), ((1, 1, 3, 0), False)])
def test_each_of_equal_values_is_picked_once(places, is_right):
    form = Form("Torch", "argsort", [np.array([3.0, 1.0, 1.0, 2.0])])
    (own,) = errors_of(form, np.array(places), "int64")
    assert (own.worst[3] == 0.0) == is_right


def test_a_result_that_overflowed_where_its_type_ends_is_right():
    own = own_error(
        (0,), np.array([np.inf, 1.0]), np.array([1e5, 1.0]),
        unit=2.0**-11, step=0.0, largest=65504.0,
    )  # fmt: skip
    assert (own.nonfinite, own.worst[3]) == (0, 0.0)
    own = own_error((0,), np.array([np.nan]), np.array([1.0]), unit=2.0**-11, step=0.0)
    assert own.nonfinite == 1


def test_the_memory_is_known_before_anything_is_computed():
    huge = Call("Torch", "matmul", (TensorSpec("float32", (10**6, 10**6)),) * 2, {}, (TensorSpec("float32", (1,)),))
    function = names.find("Torch", "matmul")
    assert needed_bytes(function, huge) >= 2 * 8 * 10**12
    with pytest.raises(UnusableError, match="MiB are allowed"):
        own_errors(function, huge, pytest.fail, pytest.fail, UNITS, limit_bytes=2**30)


def test_a_result_of_another_shape_than_the_arguments_make_is_left_alone():
    with pytest.raises(UnusableError, match="its arguments make one of shape"):
        errors_of(Form("Torch", "add", [np.ones(3), np.ones(3)]), np.ones(4), "float32")


BEFORE = np.array([[-1.0, 2.0], [3.0, -4.0]])
IN_PLACE = [
    (Form("Tensor", "add_", [BEFORE, np.ones((2, 2))]), BEFORE + 1),
    (Form("Tensor", "__iadd__", [BEFORE, np.ones((2, 2))]), BEFORE + 1),
    (Form("Tensor", "mul_", [BEFORE, 3.0]), BEFORE * 3),
    (Form("Functional", "relu_", [BEFORE]), np.maximum(BEFORE, 0)),
    (Form("Functional", "relu", [BEFORE], {"inplace": True}), np.maximum(BEFORE, 0)),
    (Form("Functional", "leaky_relu", [BEFORE, 0.5, True]), np.where(BEFORE > 0, BEFORE, BEFORE / 2)),
    (Form("Tensor", "masked_fill_", [BEFORE, BEFORE > 0, 9.0]), np.where(BEFORE > 0, 9.0, BEFORE)),
]


@pytest.mark.parametrize(("form", "due"), IN_PLACE, ids=lambda each: each.label if isinstance(each, Form) else "")
def test_a_call_in_place_is_computed_where_the_dump_holds_what_its_input_was(form, due):
    (own,) = errors_of(form, due, "float32")
    assert own.worst[3] <= 1.0
    (own,) = errors_of(form, due * 1.1, "float32")
    assert own.worst[3] > 2.0


@pytest.mark.parametrize(("form", "due"), IN_PLACE, ids=lambda each: each.label if isinstance(each, Form) else "")
def test_a_call_in_place_is_left_alone_where_the_dump_holds_what_its_input_became(form, due):
    after = Form(form.kind, form.api, [due, *form.args[1:]], form.kwargs)
    with pytest.raises(UnusableError, match="what it became"):
        errors_of(after, due, "float32")


def test_what_is_random_is_random_in_place_too():
    assert why_not("Tensor", "normal_", BEFORE) == "its result is random"
    assert "is no operator that is computed" in why_not("Tensor", "index_fill_", BEFORE)


def test_operators_are_known_by_their_type_alone_where_attributes_change_nothing():
    assert names.of_type("Relu") is names.TORCH["relu"]
    assert names.of_type("aten.add.Tensor") is names.TORCH["add"]
    for other in ("MatMulV2", "aten.addmm.default", "aten._softmax.default", "prims.add", "relu"):
        with pytest.raises(UnusableError, match="from its inputs alone"):
            names.of_type(other)


def test_mindspore_adds_a_bias_to_the_channels():
    add = names.find("Primitive", "bias_add.BiasAdd", is_mindspore=True)
    bias = np.array([1.0, 2.0, 3.0])
    assert (add(np.zeros((2, 3)), bias) == [[1, 2, 3], [1, 2, 3]]).all()
    assert (add(np.zeros((1, 3, 2, 2)), bias)[0, :, 1, 1] == bias).all()
    assert (add(np.zeros((1, 2, 2, 3)), bias)[0, 1, 1] == bias).all()


def test_every_function_names_its_arguments_once():
    for table in (names.TORCH, names.PRIMITIVES):
        for name, function in table.items():
            assert callable(function), name


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0,)])
def test_inputs_are_moved_by_one_rounding_each_whatever_their_shape(shape):
    values = np.full(shape, 3.0)
    found = moved_by(0.25, values, seed=1)
    assert found.shape == shape
    assert {*found.ravel().tolist()} <= {2.25, 3.75}
