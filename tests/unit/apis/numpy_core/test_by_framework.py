"""What the numpy core lacks is computed by a framework: what is asked of one, what is not, and in which precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from api_calls import Form, arrays_in, call_of

from probe_flow.apis.calls import DtypeName, Gradients, TensorSpec, UnusableError
from probe_flow.apis.numpy_core.by_framework import FrameworkFunction
from probe_flow.apis.numpy_core.compute import computed, own_errors, wide
from probe_flow.apis.numpy_core.gradients.errors import own_gradient_errors
from probe_flow.apis.side import Held

UNITS = {"float32": 2.0**-20, "float16": 2.0**-11}
X = np.random.default_rng(5).standard_normal((4, 6))


class ToySide:
    """A framework of arrays."""

    name, device = "toy", "cpu"

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self.functions = functions
        self.seen: list[np.dtype] = []

    def find(self, kind: str, api: str) -> tuple[Any, str]:
        if api not in self.functions:
            raise UnusableError("toy has none")
        return self.functions[api], f"{kind}.{api}"

    def tensor(self, held: Held) -> np.ndarray:
        self.seen.append(held.values.dtype)
        return held.values

    def dtype(self, name: str) -> str:
        return f"toy.{name}"

    def hold(self, tensor: Any) -> Held | None:
        return Held(tensor, str(tensor.dtype)) if isinstance(tensor, np.ndarray) else None

    def call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return function(*args, **kwargs)

    def autocast(self, function: Any, dtype: str) -> Any:
        raise NotImplementedError

    def gradients(self, function, args, kwargs, incoming, *, copies):
        return [((0,), incoming[0] * 2 * args[0]), ((1,), None)]


def square(x: np.ndarray, *_: Any) -> np.ndarray:
    x *= x  # in place: what it was given is its own
    return x


def single_only(x: np.ndarray) -> np.ndarray:
    if x.dtype != np.float32:
        raise RuntimeError("\"own\" not implemented for 'Double'\nin line 7")
    return x * 3


def function_of(side: ToySide, api: str) -> FrameworkFunction:
    return FrameworkFunction(side, "Torch", api)


square.__module__ = single_only.__module__ = "torch._C"
SIDE_FUNCTIONS = {"square_": square, "own": single_only, "sorted": lambda x: (np.sort(x), np.argsort(x))}
SIDE_FUNCTIONS["sorted"].__module__ = "torch.functional"


def test_it_is_computed_in_float64_on_copies():
    side = ToySide(SIDE_FUNCTIONS)
    form, before = Form("Torch", "square_", [X]), X.copy()
    ((_, found),) = computed(function_of(side, "square_"), call_of(form, [X]), arrays_in((X,)))
    assert side.seen == [np.float64]
    np.testing.assert_array_equal(found, before**2)
    np.testing.assert_array_equal(X, before)


def test_where_there_is_no_kernel_for_float64_it_is_float32_and_said():
    side = ToySide(SIDE_FUNCTIONS)
    function = function_of(side, "own")
    ((_, found),) = computed(function, call_of(Form("Torch", "own", [X]), [X]), arrays_in((X,)))
    assert found == pytest.approx(X * 3, rel=1e-6)
    assert found.dtype == np.float64
    assert function.shown == "toy, in float32"


def test_a_call_that_a_framework_refuses_says_so():
    side = ToySide({"own": lambda x: np.linalg.inv(x[:, :2])})
    side.functions["own"].__module__ = "torch._C"
    with pytest.raises(UnusableError, match="toy refuses it: "):
        computed(function_of(side, "own"), call_of(Form("Torch", "own", [X]), [X]), arrays_in((X,)))


def test_results_are_judged_and_places_of_equal_ones_are_not():
    function = function_of(ToySide(SIDE_FUNCTIONS), "sorted")
    values, places = np.sort(X), np.zeros(X.shape, np.int64)
    call = call_of(
        Form("Torch", "sorted", [X]), [values, places], lambda array: "float32" if array.dtype.kind == "f" else "int64"
    )
    dumped = [values, places]
    (own,) = own_errors(function, call, lambda *_: X, lambda place, _: dumped[place[0]], UNITS, limit_bytes=2**30)
    assert (own.place, own.worst[3]) == ((0,), 0.0)


def test_gradients_are_those_of_the_framework():
    function = function_of(ToySide(SIDE_FUNCTIONS), "square_")
    spec = TensorSpec("float32", X.shape)
    call = call_of(Form("Torch", "square", [X, 2]), [X], lambda _: "float32")
    gradients = Gradients((spec,), (spec,))
    for factor, is_right in ((1.0, True), (1.1, False)):
        dumped = {"input": X, "output": 2 * X * X * factor}
        (own,) = own_gradient_errors(
            function, call, gradients, lambda *_: X, lambda end, *_, held=dumped: held[end], UNITS, limit_bytes=2**30
        )
        assert (own.worst[3] <= 1.0) == is_right


def test_element_types_are_those_that_it_computes_in():
    side = ToySide({"cast": lambda x, dtype: np.array([str(dtype) == "toy.float64"])})
    side.functions["cast"].__module__ = "torch._C"
    form = Form("Torch", "cast", [X, DtypeName("float16")])
    ((_, found),) = computed(function_of(side, "cast"), call_of(form, [X]), {(0,): wide(X)})
    assert found.tolist() == [True]


@pytest.mark.parametrize(
    "api",
    ["load", "save", "hub.load", "jit.save", "from_file", "__reduce__", "_C._load", "Own", "a b", "apply_", "storage",
     "ops.aten.add.deep", "tofile", "register_hook"],
)  # fmt: skip
def test_what_may_do_more_than_compute_is_never_asked(api):
    with pytest.raises(UnusableError, match="is no operator that is computed"):
        FrameworkFunction.check_name(api)


def test_a_function_of_another_module_is_never_called():
    side = ToySide({"own": lambda _: pytest.fail("it was called")})
    side.functions["own"].__module__ = "torch.serialization"
    with pytest.raises(UnusableError, match="is no operator that is computed"):
        function_of(side, "own")


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("kind", "api", "args"),
    [("Torch", "logaddexp", [X, X[::-1].copy()]), ("Torch", "cdist", [X, X + 1]), ("Torch", "linalg.pinv", [X]),
     ("Functional", "logsigmoid", [X]), ("Tensor", "norm", [X, 1]), ("Torch", "cumprod", [X, 1])],
)  # fmt: skip
def test_torch_computes_what_the_core_lacks(kind, api, args):
    torch = pytest.importorskip("torch")
    from probe_flow.apis.torch_side import TorchSide

    function = FrameworkFunction(TorchSide(), kind, api)
    home = {"Torch": torch, "Functional": torch.nn.functional, "Tensor": torch.Tensor}[kind]
    for part in api.split("."):
        home = getattr(home, part)
    due = home(*(torch.from_numpy(each.copy()) if isinstance(each, np.ndarray) else each for each in args)).numpy()
    ((_, found),) = computed(function, call_of(Form(kind, api, args), [due]), arrays_in(tuple(args)))
    np.testing.assert_allclose(found, due, rtol=1e-12)
    assert function.shown == "torch, in float64"


@pytest.mark.frameworks
@pytest.mark.parametrize("api", ["load", "hub.load", "compile", "set_default_dtype", "jit.load", "save"])
def test_torch_is_never_asked_for_what_does_not_compute(api):
    pytest.importorskip("torch")
    from probe_flow.apis.torch_side import TorchSide

    with pytest.raises(UnusableError):
        FrameworkFunction(TorchSide(), "Torch", api)
