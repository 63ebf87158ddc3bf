"""One call on both sides, with a framework in numpy: what is compared with what, and what is no result at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy_side import Kernel, NumpySide

from probe_flow.apis.calls import Call as CallOf
from probe_flow.apis.calls import DeviceArgument, DtypeName, Gradients, Plain, TensorSpec, read_call, read_gradients
from probe_flow.apis.run import Direction, How, Runner
from probe_flow.apis.side import flat_results, is_shape
from probe_flow.apis.values import of_files, per_slot

N = 1000


def spec(dtype: str = "float32", *shape: int, low: object = -2.0, high: object = 2.0, **more: Any) -> TensorSpec:
    return TensorSpec(dtype, shape or (N,), low, high, **more)


def call(api: str, *args: Any, results: tuple[Any, ...] = (), **kwargs: Any) -> CallOf:
    return CallOf("Mint", api, args, kwargs, results)


def runner(
    tested: NumpySide | None = None, benchmark: NumpySide | None = None, mode: str = "float64_rounded", **how: Any
) -> Runner:
    return Runner(
        tested or NumpySide("tested"), benchmark or NumpySide("benchmark"), per_slot("Mint.a.0"), How(mode, **how)
    )


def of(direction: Direction) -> list[tuple[Any, Any]]:
    """Return the values of both sides."""
    found = []
    for each in direction.checked:
        values = [getattr(side.value, "values", side.value) for side in (each.tested, each.benchmark)]
        found.append((values[0], values[1]))
    return found


def inputs(spec: TensorSpec, place: str) -> Any:
    kind = ml_dtypes.bfloat16 if spec.dtype == "bfloat16" else spec.dtype
    return per_slot("Mint.a.0")(spec, place).astype(kind)


def gradients(*incoming: Any) -> Gradients:
    return Gradients(incoming, ())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_benchmark_is_float64_of_the_same_values_rounded_to_the_tested_type(dtype: str) -> None:
    one, two = spec(dtype), spec(dtype, low=-9.0, high=9.0)
    found = runner().run(call("mul", one, two))
    assert found.is_right, "a correct kernel passes in every type"
    ((tested, benchmark),) = of(found)
    x, y = inputs(one, "input.0"), inputs(two, "input.1")
    exact = x.astype(np.float64) * y.astype(np.float64)
    assert np.array_equal(benchmark, exact.astype(x.dtype).astype(np.float64))
    assert np.array_equal(tested, (x * y).astype(np.float64))
    assert found.checked[0].judgement.figures.max_abs == 0.0
    assert (found.checked[0].tested.dtype, found.checked[0].benchmark.dtype) == (dtype, "float64")
    assert found.ran == "Mint.mul of tested"
    assert found.inputs == {}


@pytest.mark.parametrize(
    ("benchmark", "dtype", "expected"),
    [
        ("same", "float16", "float16"),
        ("same", "bfloat16", "bfloat16"),
        ("raise_one", "float16", "float32"),
        ("raise_one", "bfloat16", "float32"),
        ("raise_one", "float32", "float64"),
        ("float64", "bfloat16", "float64"),
        ("float64_rounded", "float32", "float64"),
        ("float64", "int64", "int64"),
        ("same", "int32", "int32"),
    ],
)
def test_precisions_of_the_benchmark(benchmark: str, dtype: str, expected: str) -> None:
    found = runner(mode=benchmark).run(call("mul", spec(dtype), spec(dtype)))
    assert [each.benchmark.dtype for each in found.checked] == [expected]
    is_rounded = benchmark in ("same", "float64_rounded") or dtype not in ("float16", "bfloat16")
    assert found.is_right is is_rounded, "what is not rounded shows the rounding of the narrow type as an error"


def test_element_types_that_are_arguments_are_raised_on_the_benchmark_alone() -> None:
    found = runner().run(call("to", spec("float32"), DtypeName("float16")))
    assert [(each.tested.dtype, each.benchmark.dtype) for each in found.checked] == [("float16", "float64")]
    assert found.is_right
    assert runner().run(call("to", spec("float32"), DtypeName("int32"))).checked[0].benchmark.dtype == "int32"


def test_a_side_may_be_its_own_benchmark() -> None:
    side = NumpySide("one")
    found = runner(side, side).run(call("to", spec("float32"), DtypeName("float16")))
    assert [(each.tested.dtype, each.benchmark.dtype) for each in found.checked] == [("float16", "float64")]


def test_a_kernel_that_is_wrong_by_one_percent_is_found_and_no_other() -> None:
    wrong = runner(NumpySide("tested", {"mul": 1.01}))
    for api in ("add", "mul"):
        one = call(api, spec(), spec())
        forward, backward = wrong.run(one), wrong.run(one, gradients(spec()))
        assert forward.is_right is backward.is_right is (api != "mul")
        if api == "mul":
            (checked,) = forward.checked
            largest = np.abs(checked.benchmark.value.values).max()  # type: ignore[union-attr]
            assert checked.judgement.figures.max_abs == pytest.approx(0.01 * largest, rel=1e-4)
            assert checked.judgement.figures.max_rel == pytest.approx(0.01, rel=1e-4)
    assert all(wrong.run(call(api, spec())).is_right for api in ("square", "exp", "max", "halves"))


def test_inputs_and_gradients_of_what_fails_come_along() -> None:
    wrong = runner(NumpySide("tested", {"mul": 1.01}))
    one = call("mul", spec("float16"), spec("float16"))
    found = wrong.run(one, gradients(spec("float16")))
    assert list(found.inputs) == [(0,), (1,)]
    assert found.inputs[0,].dtype == "float16"
    assert np.array_equal(found.inputs[0,].values, inputs(spec("float16"), "input.0").astype(np.float64))
    assert len(found.incoming) == 1


def test_backward_by_hand() -> None:
    found = runner().run(call("mul", spec(), spec()), gradients(spec(low=0.0, high=1.0)))
    assert found.is_right
    g = inputs(spec(low=0.0, high=1.0), "gradient.0")
    y = inputs(spec(), "input.1")
    assert np.array_equal(of(found)[0][0], g * y)
    assert [each.tested.place for each in found.checked] == [(0,), (1,)]


def test_an_in_place_call_gets_copies_and_its_inputs_are_those_before() -> None:
    side = NumpySide("tested", {"add_": 1.01})
    found = runner(side).run(call("add_", spec(), spec()))
    assert not found.is_right
    before = inputs(spec(), "input.0")
    assert np.array_equal(found.inputs[0,].values, before.astype(np.float64))
    assert runner().run(call("add_", spec(), spec())).is_right
    assert runner().run(call("add_", spec(), spec()), gradients(spec())).is_right


def test_nested_lists_and_keyword_tensors_have_gradients() -> None:
    parts = (spec("float32", 3), spec("float32", 4))
    found = runner().run(call("cat", parts), gradients(spec("float32", 7)))
    assert found.is_right
    assert [each.tested.place for each in found.checked] == [(0, 0), (0, 1)]
    assert [value.shape for value, _ in of(found)] == [(3,), (4,)]

    found = runner(NumpySide("tested")).run(call("scale", spec(), by=spec("float32", 1)), gradients(spec()))
    assert [each.tested.place for each in found.checked] == [(0,), ("by",)]
    assert found.checked[0].judgement.is_right


def test_integers_and_booleans_have_no_gradients() -> None:
    mask = TensorSpec("bool", (N,), False, True)
    assert runner().run(call("where", mask, spec(), spec())).is_right
    found = runner().run(call("add", spec("int64"), spec()), gradients(spec()))
    assert [each.tested.place for each in found.checked] == [(1,)]


def test_several_results_and_gradients_that_are_null() -> None:
    found = runner().run(call("halves", spec()))
    assert found.is_right
    assert [each.tested.place for each in found.checked] == [(0,), (1,)]

    largest = call("max", spec("float32", 4, 5))
    found = runner().run(largest)
    assert [each.tested.dtype for each in found.checked] == ["float32", "int64"]
    found = runner().run(largest, gradients(spec("float32", 4), Plain(None)))
    assert found.is_right
    found = runner().run(call("halves", spec()), gradients(Plain(None), spec("float32", N // 2)))
    assert found.is_right
    assert np.count_nonzero(of(found)[0][0]) == N // 2


def test_a_gradient_of_several_tensors_as_one_is_refused() -> None:
    found = runner().run(call("halves", spec()), gradients((spec(), spec())))
    assert found.skipped is not None
    assert "recorded as one" in found.skipped.reason


def test_plain_results_are_values() -> None:
    found = runner().run(call("numel", spec("float32", 3, 4)))
    assert of(found) == [(12, 12)]
    assert [each.tested.dtype for each in found.checked] == ["int"]
    found = runner().run(call("shape", spec("float32", 3, 4)))
    assert of(found) == [((3, 4), (3, 4))]
    assert found.is_right


def test_results_that_differ_in_number_are_no_comparison() -> None:
    three = NumpySide("tested", others={"halves": lambda x: (x, x, x)})
    found = runner(three).run(call("halves", spec()))
    assert found.skipped is not None
    assert found.skipped.reason == "the tested side gives 3 results, the benchmark 2"
    assert not found.skipped.is_expected
    assert not found.is_right


def test_a_call_without_a_result_is_not_right_for_nothing_was_compared() -> None:
    found = runner().run(call("nothing", spec()))
    assert found.skipped is not None
    assert not found.is_right
    assert found.skipped.is_expected


def test_a_device_is_that_of_each_side_wherever_it_was_recorded() -> None:
    seen: list[str] = []

    def place(x: Any, device: str) -> Any:
        seen.append(device)
        return x

    sides = [NumpySide(name, others={"mul": place}) for name in ("tested", "benchmark")]
    assert runner(*sides).run(call("mul", spec(), device=DeviceArgument())).is_right
    assert seen == ["tested:0", "benchmark:0"]


def test_arguments_without_any_gradient_are_nothing_to_compare() -> None:
    no_gradient = spec(has_gradient=False)
    found = runner(is_pytorch=True).run(call("mul", no_gradient, no_gradient), gradients(spec()))
    assert found.skipped is not None
    assert found.skipped.is_expected


class OfTheFirstOnly(NumpySide):
    """As torch is with a batch norm: what asks for the gradient of its statistics gets none at all."""

    def gradients(self, function: Any, args: Any, kwargs: Any, incoming: Any, *, copies: bool) -> Any:
        if isinstance(args[1], np.ndarray):
            raise RuntimeError("not differentiable with respect to argument 1")
        assert function(*args, **kwargs).shape == incoming[0].shape
        return [((0,), incoming[0])]


def test_only_what_had_a_gradient_is_differentiated() -> None:
    sides = OfTheFirstOnly("tested"), OfTheFirstOnly("benchmark")
    found = runner(*sides, is_pytorch=True).run(call("add", spec(), spec(has_gradient=False)), gradients(spec()))
    assert found.skipped is None
    assert [each.tested.place for each in found.checked if each.tested.value is not None] == [(0,)]


@pytest.mark.parametrize("api", ["normal", "multinomial", "bernoulli_", "aten.randn"])
def test_what_is_drawn_is_nothing_to_compare(api: str) -> None:
    found = runner().run(call(api, spec()))
    assert found.skipped is not None
    assert (found.skipped.reason, found.skipped.is_expected) == ("its result is random", True)


@pytest.mark.parametrize(
    ("args", "kwargs", "is_drawn"),
    [
        ((), {}, True),
        ((0.1,), {}, True),
        ((0.1, False), {}, False),
        ((), {"p": 0.0}, False),
        ((), {"p": 0.3, "training": False}, False),
        ((), {"p": 0.3, "training": True}, True),
    ],
)
def test_a_dropout_is_drawn_where_it_drops(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_drawn: bool) -> None:
    given = call("dropout", spec(), *map(Plain, args), **{name: Plain(value) for name, value in kwargs.items()})
    assert given.is_random == is_drawn
    reasons = [str(found.skipped) for found in (runner().run(given), runner(counts_zeros=True).run(given))]
    assert [reason == "its result is random" for reason in reasons] == [is_drawn, False]


def test_what_a_framework_raises_is_the_reason() -> None:
    found = runner().run(call("fail", spec()))
    assert found.skipped is not None
    assert found.skipped.reason == "ZeroDivisionError: the device is on fire\nin line 7 of its source"
    found = runner().run(call("sqrt", spec()), gradients(spec()))
    assert found.skipped is not None
    assert found.skipped.reason == "RuntimeError: sqrt is not differentiable"
    found = runner().run(call("add", spec("float32", 3), spec("float32", 4)))
    assert found.skipped is not None
    assert found.skipped.reason.startswith("ValueError: operands could not be broadcast")


def test_an_api_that_a_side_lacks() -> None:
    for sides in ((NumpySide("a", without=["add"]), None), (None, NumpySide("a", without=["add"]))):
        found = runner(*sides).run(call("add", spec(), spec()))
        assert found.skipped is not None
        assert found.skipped.reason == "a has no `Mint.add`"


def test_a_tensor_that_takes_too_much_is_never_made() -> None:
    side = NumpySide("tested")
    large = spec("float32", 10**6, 25_000)  # 100 GB of float32
    found = runner(side, memory_bytes=2**33).run(call("square", large))
    assert found.skipped is not None
    assert "1,200,000,000,000 bytes, and there are 8,589,934,592" in found.skipped.reason
    assert side.calls == []
    found = runner(side, memory_bytes=2**20).run(call("square", spec(), results=(large,)))
    assert found.skipped is not None
    found = runner(side, memory_bytes=2**20).run(call("square", spec()), gradients(large))
    assert found.skipped is not None
    assert runner(side, memory_bytes=8 * 6 * N).run(call("square", spec())).is_right


def test_a_tensor_without_a_range_is_a_reason() -> None:
    found = runner().run(call("square", spec(low=None, high=None)))
    assert found.skipped is not None
    assert "no range of values of `input.0`" in found.skipped.reason


def test_infinite_results_on_both_sides_pass() -> None:
    assert runner().run(call("sqrt", spec(low=-4.0, high=4.0))).is_right
    assert runner().run(call("exp", spec("float16", low=0.0, high=20.0)), None).checked[0].benchmark.value is not None
    assert runner().run(call("square", spec("float16", low=300.0, high=400.0))).is_right, "both are infinite in float16"


class TestDumpsWithTensors:
    """Nothing runs on the tested side: its results are the files of the dump."""

    def run(self, folder: Path, one: CallOf, found: Gradients | None = None) -> Direction:
        return Runner(None, NumpySide("benchmark"), of_files(str(folder)), How()).run(one, found)

    def file(self, folder: Path, name: str, values: Any, dtype: str = "float32") -> TensorSpec:
        np.save(folder / f"{name}.npy", values)
        return TensorSpec(dtype, values.shape, file=f"{name}.npy")

    def add(self, folder: Path, tampered: float = 0.0) -> CallOf:
        x, y = (np.linspace(low, 5, 12, dtype=np.float32).reshape(3, 4) for low in (1, 2))
        z = x + y
        z[1, 2] += tampered
        x, y, z = (self.file(folder, name, each) for name, each in (("x", x), ("y", y), ("z", z)))
        return call("add", x, y, results=(z,))

    def test_results_of_the_dump_are_the_tested_ones(self, tmp_path: Path) -> None:
        found = self.run(tmp_path, self.add(tmp_path))
        assert found.is_right
        assert found.ran == "values of the dump"

    def test_one_tampered_value_is_found(self, tmp_path: Path) -> None:
        found = self.run(tmp_path, self.add(tmp_path, 0.01))
        assert not found.is_right
        assert found.checked[0].judgement.figures.max_abs == pytest.approx(0.01, rel=1e-3)

    def test_bfloat16_lies_in_files_of_float32(self, tmp_path: Path) -> None:
        x = np.linspace(1, 2, 64).astype(ml_dtypes.bfloat16)
        given = self.file(tmp_path, "x", x.astype(np.float32), "bfloat16")
        result = self.file(tmp_path, "y", (x * x).astype(np.float32), "bfloat16")
        assert self.run(tmp_path, call("square", given, results=(result,))).is_right

    def test_gradients_of_the_dump(self, tmp_path: Path) -> None:
        one = self.add(tmp_path)
        g = np.full((3, 4), 0.5, np.float32)
        incoming = self.file(tmp_path, "g", g)
        assert self.run(tmp_path, one, Gradients((incoming,), (incoming, incoming))).is_right
        wrong = self.file(tmp_path, "wrong", 2 * g)
        found = self.run(tmp_path, one, Gradients((incoming,), (incoming, wrong)))
        assert [each.judgement.is_right for each in found.checked] == [True, False]

    @pytest.mark.parametrize("first", [True, False])
    def test_a_gradient_that_nobody_asked_for_does_not_shift_the_others(self, first: bool, tmp_path: Path) -> None:
        x, y, g = (np.linspace(low, 3, 6, dtype=np.float32) for low in (1, 2, -1))
        given = [self.file(tmp_path, name, each) for name, each in (("x", x), ("y", y))]
        one = call("mul", *given, results=(self.file(tmp_path, "z", x * y),))
        kept = self.file(tmp_path, "kept", g * (y if first else x))
        results = (kept, Plain(None)) if first else (Plain(None), kept)
        found = self.run(tmp_path, one, Gradients((self.file(tmp_path, "g", g),), results))
        assert found.is_right
        assert len(found.checked) == 1

    def test_a_dump_that_lacks_the_results_is_a_gap(self, tmp_path: Path) -> None:
        parts = tuple(self.file(tmp_path, name, np.ones(3, np.float32)) for name in "xy")
        g = self.file(tmp_path, "g", np.ones(6, np.float32))
        found = self.run(tmp_path, call("cat", parts), Gradients((g,), ()))
        assert found.skipped is not None
        assert found.skipped.reason == "the tested side gives 0 results, the benchmark 2"
        assert not found.skipped.is_expected

    def test_a_file_that_is_missing_is_a_reason(self, tmp_path: Path) -> None:
        one = self.add(tmp_path)
        (tmp_path / "z.npy").unlink()
        found = self.run(tmp_path, one)
        assert found.skipped is not None
        assert found.skipped.reason == "`z.npy` of `output.0` is not there, or no file"

    def test_plain_results_of_the_dump(self, tmp_path: Path) -> None:
        x = self.file(tmp_path, "x", np.ones((3, 4), np.float32))
        assert self.run(tmp_path, call("numel", x, results=(Plain(12),))).is_right
        assert not self.run(tmp_path, call("numel", x, results=(Plain(13),))).is_right


def test_an_entry_of_a_dump_runs_as_it_is() -> None:
    element: Mapping[str, Any] = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [5], "Max": 1.0, "Min": -1.0}
    one = read_call("Mint", "mul", {"input_args": [element, {"type": "float", "value": 0.5}], "output": [element]})
    assert runner().run(one).is_right
    assert runner().run(call("mul", spec(), Plain(math.pi)), None).checked != ()
    assert read_gradients({"input": [element]}).incoming == (TensorSpec("float32", (5,), -1.0, 1.0),)


def test_what_several_results_are() -> None:
    assert flat_results(3) == [((0,), 3)]
    assert flat_results(("a", ["b", ("c",)])) == [((0,), "a"), ((1, 0), "b"), ((1, 1, 0), "c")]
    assert flat_results((2, 3)) == [((0,), (2, 3))], "a shape is one value"
    assert flat_results(()) == []
    assert is_shape((1, True)) is False


@pytest.mark.parametrize(("gradient", "is_right"), [(0.0, True), (1.0, False)])
def test_a_gradient_that_torch_does_not_have_is_zero(gradient: float, is_right: bool, monkeypatch: Any) -> None:
    def of_like(incoming: Any, _x: Any, like: Any, *, zeros: bool) -> Any:
        return {(0,): incoming[0], **({(1,): np.full_like(like, gradient)} if zeros else {})}

    benchmark, tested = NumpySide("benchmark"), NumpySide("tested")
    for side, zeros in ((benchmark, False), (tested, True)):
        monkeypatch.setattr(
            side,
            "find",
            lambda *_, zeros=zeros: (Kernel("like", lambda x, _: x, partial(of_like, zeros=zeros)), "Mint.like"),
        )
    found = runner(tested, benchmark).run(call("like", spec(), spec()), gradients(spec()))
    assert found.skipped is None
    assert [each.judgement.is_right for each in found.checked] == [True, is_right]


def test_what_says_a_type_is_asked_in_the_recorded_one(monkeypatch: Any) -> None:
    side = NumpySide("both")
    monkeypatch.setattr(side, "find", lambda *_: (Kernel("type", lambda x: str(x.dtype), None), "Tensor.type"))
    found = runner(side, side).run(CallOf("Tensor", "type", (spec("float16"),), {}, ()))
    assert of(found) == [("float16", "float16")]
