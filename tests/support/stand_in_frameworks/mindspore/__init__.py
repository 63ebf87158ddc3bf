"""A stand-in for MindSpore: the tested side, with functions that do all that a framework can do to its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tape

PYNATIVE_MODE = 1


class _Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name.capitalize()


_DTYPES = {name: _Dtype(name) for name in tape.DTYPES}
globals().update({"bool_" if name == "bool" else name: each for name, each in _DTYPES.items()})


class Tensor(tape.Tensor):
    def __init__(self, values: Any, parents: Any = (), *, dtype: _Dtype | None = None) -> None:
        super().__init__(values if dtype is None else np.asarray(values).astype(dtype.name), parents)

    @property
    def dtype(self) -> _Dtype:
        return _DTYPES[str(self.values.dtype)]

    def asnumpy(self) -> Any:
        return self.values

    def __add__(self, other: Any) -> Any:
        return _FUNCTIONS["add"](self, other)


def set_context(*, mode: int) -> None:
    assert mode == PYNATIVE_MODE


def get_context(name: str) -> str:
    assert name == "device_target"
    return "CPU"


class runtime:  # noqa: N801 (MindSpore's name)
    @staticmethod
    def launch_blocking() -> None:
        """Nothing runs later here."""


class GradOperation:
    def __init__(self, *, get_all: bool, sens_param: bool) -> None:
        assert get_all
        assert sens_param

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def differentiated(*given: Any) -> tuple[Tensor, ...]:
            *inputs, sens = given
            results = function(*inputs)
            results, sens = ((each if isinstance(each, tuple) else (each,)) for each in (results, sens))
            found = tape.reversed_gradients(results, inputs, sens)
            # MindSpore gives zeros where nothing depends on an argument.
            return tuple(
                Tensor(np.zeros_like(each.values) if gradient is None else gradient)
                for each, gradient in zip(inputs, found, strict=True)
            )

        return differentiated


_FUNCTIONS = tape.functions(Tensor)
for _name, _function in _FUNCTIONS.items():
    setattr(Tensor, _name, _function)

from mindspore import mint as mint  # noqa: E402 (they need what is above)
from mindspore import ops as ops  # noqa: E402
