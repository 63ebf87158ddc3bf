"""What is done with calls of PyTorch before they run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy_side import NumpySide

from probe_flow.apis.calls import Call, Plain, TensorSpec
from probe_flow.apis.pytorch_rules import (
    as_torch_takes,
    autocast_type,
    class_type,
    float_types,
    of_known_classes,
    raised,
    rounded_input,
    with_known_mask,
)
from probe_flow.apis.run import How, Runner
from probe_flow.apis.values import hf32, per_slot


def spec(dtype: str = "float32", *shape: int, **more: Any) -> TensorSpec:
    return TensorSpec(dtype, shape or (4,), -2.0, 2.0, **more)


def call(api: str, *args: Any, results: tuple[Any, ...] = (), **kwargs: Any) -> Call:
    return Call("Torch", api, args, kwargs, results)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 1.0),
        (1 + 2**-11, 1 + 2**-11),  # the last bit that is kept
        (1 + 2**-12, 1 + 2**-11),  # half a unit: away from zero, not to even
        (-1 - 2**-12, -1 - 2**-11),
        (1 + 2**-12 - 2**-23, 1.0),
        (1 + 3 * 2**-12, 1 + 2**-10),
        (2 - 2**-23, 2.0),
        (0.0, 0.0),
        (math.inf, math.inf),
    ],
)
def test_float32_becomes_hf32(value: float, expected: float) -> None:
    assert hf32(np.array([[value]])).tolist() == [[expected]]


def test_nan_stays_nan() -> None:
    assert np.isnan(hf32(np.array([np.nan, -np.nan], np.float32))).all()


def test_inputs_of_convolutions_alone_are_rounded() -> None:
    values = np.array([1 + 2**-12])
    assert rounded_input(call("conv2d"), spec(), values).tolist() == [1 + 2**-11]
    assert rounded_input(call("conv2d"), spec("float16"), values).tolist() == values.tolist()
    assert rounded_input(call("conv3d"), spec(), values).tolist() == values.tolist()


def test_compressed_masks_are_made_as_the_operator_wants_them() -> None:
    mask = TensorSpec("bool", (2048, 2048), False, True)
    made = np.zeros(mask.shape, bool)

    def given(mode: int | None, of: TensorSpec = mask) -> Any:
        more = {} if mode is None else {"sparse_mode": Plain(mode)}
        return with_known_mask(call("npu_fusion_attention", atten_mask=of, **more), "atten_mask", of, made)

    for mode in (2, 3, 4):
        found = given(mode)
        assert (found[0].sum(), found[-1].sum(), found[5, 5], found[5, 6]) == (2047, 0, False, True)
    for other in (given(0), given(None), given(2, TensorSpec("bool", (8, 8))), given(2, spec(file="mask.npy"))):
        assert other is made


def test_types_that_torch_does_not_take_are_changed() -> None:
    changed = as_torch_takes(call("cross_entropy", spec(), TensorSpec("int32", (4,), -100, 9)))
    assert changed.args == (spec(), TensorSpec("int64", (4,), 0, 9))
    assert as_torch_takes(call("histc", spec("int64"))).args == (spec("float32"),)
    for other in (call("mse_loss", spec("int32")), call("nll_loss", spec("float32"))):
        assert as_torch_takes(other) == other


@pytest.mark.parametrize("api", ["cross_entropy", "nll_loss"])
def test_classes_of_mindspore_keep_their_type_on_its_side_alone(api: str) -> None:
    loss = call(api, spec(), TensorSpec("int32", (4,), -100, 9))
    assert of_known_classes(loss).args == (spec(), TensorSpec("int32", (4,), 0, 9))
    assert [class_type(loss, dtype) for dtype in ("int32", "int64", "float16")] == ["int64", "int64", "float16"]
    other = call("mul", spec(), TensorSpec("int32", (4,), -100, 9))
    assert (of_known_classes(other), class_type(other, "int32")) == (other, "int32")


@pytest.mark.parametrize("api", ["cross_entropy", "nll_loss"])
def test_classes_to_ignore_make_no_range_of_classes(api: str) -> None:
    for low, high, expected in ((-100, 9, (0, 9)), (2, 9, (2, 9)), (-100, -100, (0, 0))):
        _, classes = as_torch_takes(call(api, spec(), TensorSpec("int64", (4,), low, high))).args
        assert classes == TensorSpec("int64", (4,), *expected)


@pytest.mark.parametrize(
    ("api", "types", "dtype", "expected"),
    [
        ("mul", ["float16"], "float16", "RAISED"),
        ("mul", ["float16", "float32"], "float16", "float32"),
        ("mul", ["float16", "float32"], "float32", "float32"),
        ("mul", ["float32", "int64"], "int64", "RAISED"),
        ("mul", ["float32", "float8_e5m2"], "float32", "RAISED"),
        ("type_as", ["float32"], "float32", "float32"),
        ("conv1d", ["float32"], "float32", "float32"),
        ("conv1d", ["float16"], "float16", "RAISED"),
    ],
)
def test_precision_of_the_benchmark(api: str, types: list[str], dtype: str, expected: str) -> None:
    assert raised(call(api, *map(spec, types)), dtype, "RAISED") == expected


@pytest.mark.parametrize(
    ("args", "result", "expected"),
    [
        (["float32"], "float32", None),
        (["float16"], "float16", None),
        (["float32"], "float16", "float16"),
        (["float32"], "bfloat16", "bfloat16"),
        (["float16"], "float32", None),
        (["float32"], "int64", None),
        (["float16", "float32"], "float16", "float16"),
        (["float32", "bfloat16"], "float32", "bfloat16"),
        (["bfloat16", "float16"], "float16", "bfloat16"),
        (["int64"], "float16", None),
        ([], "float16", None),
    ],
)
def test_what_tells_of_automatic_casts(args: list[str], result: str, expected: str | None) -> None:
    assert autocast_type(call("linear", *map(spec, args), results=(spec(result),))) == expected


def test_tensors_in_lists_have_types_too() -> None:
    assert float_types(call("cat", (spec("float16"), spec("float32")), dim=Plain(0))) == {"float16", "float32"}


@pytest.mark.parametrize(("is_pytorch", "expected"), [(True, ["autocast float16", "add"]), (False, ["add"])])
def test_only_the_tested_side_of_pytorch_casts(is_pytorch: bool, expected: list[str]) -> None:
    tested, benchmark = NumpySide("tested"), NumpySide("benchmark")
    run = Runner(tested, benchmark, per_slot("a"), How("raise_one", is_pytorch=is_pytorch))
    found = run.run(call("add", spec("float16"), spec("float32")))
    assert tested.calls == expected
    assert benchmark.calls == ["add"]
    assert found.checked[0].benchmark.dtype == ("float32" if is_pytorch else "float64")


def test_only_calls_of_pytorch_have_inputs_as_the_device_rounds_them() -> None:
    benchmark = NumpySide("benchmark", others={"exp": lambda x: x})
    for is_pytorch in (True, False):
        tested = NumpySide("tested", others={"exp": lambda x: x})
        run = Runner(tested, benchmark, lambda _spec, _place: np.array([1 + 2**-12]), How(is_pytorch=is_pytorch))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("probe_flow.apis.pytorch_rules._CONVOLUTIONS", frozenset({"exp"}))
            (found,) = run.run(call("exp", spec("float32", 1))).checked
        assert found.tested.value.values.tolist() == [1 + (2**-11 if is_pytorch else 2**-12)]  # type: ignore[union-attr]
