"""A framework in numpy: a dozen functions with their gradients by hand, for the tests of pre-checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from probe_flow.apis.calls import FLOATS, Path, UnusableError
from probe_flow.apis.side import Held, flat_results, replaced, tensors_of

Gradient = Callable[..., dict[Path, Any]]
"""Of the incoming gradients and the arguments -> gradient of some arguments, by their places."""


class Kernel:
    """A function with its gradient; both maybe wrong by a factor."""

    def __init__(self, api: str, forward: Callable[..., Any], backward: Gradient | None, factor: float = 1.0) -> None:
        self.api, self._forward, self._backward, self._factor = api, forward, backward, factor

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._scaled(self._forward(*args, **kwargs))

    def backward(self, incoming: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[Path, Any]:
        if self._backward is None:
            raise RuntimeError(f"{self.api} is not differentiable")
        found = self._backward(incoming, *args, **kwargs)
        return {place: self._scaled(value) for place, value in found.items()}

    def _scaled(self, value: Any) -> Any:
        if self._factor != 1 and isinstance(value, np.ndarray) and dtype_of(value) in FLOATS:
            return (value.astype(np.float64) * self._factor).astype(value.dtype)
        return value


def _add_in_place(x: Any, y: Any) -> Any:
    x += y
    return x


def _largest(x: Any) -> Any:
    return x.max(-1), x.argmax(-1)


def _of_largest(incoming: Sequence[Any], x: Any) -> dict[Path, Any]:
    found = np.zeros_like(x)
    np.put_along_axis(found, x.argmax(-1)[..., None], np.asarray(incoming[0])[..., None], -1)
    return {(0,): found}


def _of_halves(incoming: Sequence[Any], x: Any) -> dict[Path, Any]:
    parts = [np.zeros(x.size // 2, x.dtype) if each is None else each for each in incoming]
    return {(0,): np.concatenate(parts)}


def _fail(*_args: Any) -> Any:
    raise ZeroDivisionError("the device is on fire\nin line 7 of its source")


def _of_cat(incoming: Sequence[Any], parts: Sequence[Any]) -> dict[Path, Any]:
    ends = np.cumsum([part.size for part in parts])[:-1]
    return {(0, number): each for number, each in enumerate(np.split(incoming[0], ends))}


FUNCTIONS: dict[str, tuple[Callable[..., Any], Gradient | None]] = {
    "add": (lambda x, y: x + y, lambda g, _x, _y: {(0,): g[0], (1,): g[0]}),
    "mul": (lambda x, y: x * y, lambda g, x, y: {(0,): g[0] * y, (1,): g[0] * x}),
    "scale": (lambda x, by: x * by, lambda g, x, by: {(0,): g[0] * by, ("by",): (g[0] * x).sum(keepdims=True)}),
    "square": (lambda x: x * x, lambda g, x: {(0,): 2 * g[0] * x}),
    "exp": (np.exp, lambda g, x: {(0,): g[0] * np.exp(x)}),
    "sqrt": (np.sqrt, None),
    "cat": (lambda parts: np.concatenate(parts), _of_cat),
    "halves": (lambda x: [x[: x.size // 2], x[x.size // 2 :]], _of_halves),
    "max": (_largest, _of_largest),
    "add_": (_add_in_place, lambda g, _x, _y: {(0,): g[0], (1,): g[0]}),
    "to": (lambda x, dtype: x.astype(dtype), None),
    "where": (lambda mask, x, y: np.where(mask, x, y), None),
    "numel": (lambda x: x.size, None),
    "shape": (lambda x: x.shape, None),
    "nothing": (lambda _x: None, None),
    "fail": (_fail, None),
}


class NumpySide:
    """Args: factors: of the kernels that are wrong; without: the APIs that it lacks; others: functions of its own."""

    def __init__(
        self,
        name: str = "numpy",
        factors: Mapping[str, float] | None = None,
        without: Sequence[str] = (),
        others: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.name = name
        self.device = f"{name}:0"
        self.calls: list[str] = []
        self._factors, self._without, self._others = factors or {}, without, others or {}

    def find(self, kind: str, api: str) -> tuple[Callable[..., Any], str]:
        name = f"{kind}.{api}"
        if api in self._without or api not in FUNCTIONS:
            raise UnusableError(f"{self.name} has no `{name}`", is_expected=True)
        forward, backward = FUNCTIONS[api]
        return Kernel(api, self._others.get(api, forward), backward, self._factors.get(api, 1.0)), name

    def tensor(self, held: Held) -> Any:
        with np.errstate(all="ignore"):
            return held.values.astype(self.dtype(held.dtype))

    def dtype(self, name: str) -> Any:
        return np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)

    def hold(self, tensor: Any) -> Held | None:
        if not isinstance(tensor, np.ndarray | np.generic):
            return None
        dtype = dtype_of(tensor)
        return Held(np.array(tensor, "float32" if dtype == "bfloat16" else None), dtype)

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        assert isinstance(function, Kernel)
        self.calls.append(function.api)
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    def autocast(self, function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
        self.calls.append(f"autocast {dtype}")
        return function

    def gradients(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        incoming: Sequence[Any],
        *,
        copies: bool,
    ) -> list[tuple[Path, Any]]:
        assert isinstance(function, Kernel)
        inputs = tensors_of(args, kwargs, lambda each: isinstance(each, np.ndarray) and dtype_of(each) in FLOATS)
        new_args, new_kwargs = replaced(args, kwargs, {place: each.copy() for place, each in inputs} if copies else {})
        with np.errstate(all="ignore"):
            results = flat_results(function(*new_args, **new_kwargs))
            assert len(incoming) <= len(results)
            found = function.backward(incoming, args, kwargs)
        return [(place, found.get(place)) for place, _ in inputs]


def dtype_of(values: Any) -> str:
    return str(values.dtype)
