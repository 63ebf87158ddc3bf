"""What the numpy core lacks, computed by the framework on the processor, in float64 where it has such a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import isbuiltin
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import DtypeName, UnusableError, shown_path
from probe_flow.apis.operators import SIDE_EFFECTS
from probe_flow.apis.side import Held, Side, replaced, tensors_of

Array = NDArray[Any]

_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*){0,2}")
_HOMES = (
    "torch._C", "torch._VF", "torch._ops", "torch._tensor", "torch.functional", "torch.nn.functional", "mindspore.",
)  # fmt: skip
"""Modules whose functions take tensors and give tensors, as those do that are written in C."""


PLACED = frozenset(("grid_sample", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"))
"""APIs that find places in the precision of what they read, and jump from pixel to pixel: others are as right."""


class FrameworkFunction:
    """An API of a framework as a function of arrays.

    Args:
        side: the framework, on the processor.
        kind, api: parts of the name of the API.

    Raises:
        UnusableError: the framework has none of that name, or it is none that computes.
    """

    def __init__(self, side: Side, kind: str, api: str) -> None:
        self.check_name(api)
        self._side = side
        self._function, self.name = side.find(kind, api)
        module = getattr(self._function, "__module__", None)
        if module is not None and not module.startswith(_HOMES) and not isbuiltin(self._function):
            raise UnusableError(f"`{api}` is no operator that is computed", is_expected=True)
        self.dtype = "float64"

    @staticmethod
    def check_name(api: str) -> None:
        """Raise where an API is none that computes, since dumps may name anything, or none whose result is one alone.

        Raises:
            UnusableError: its name says so.
        """
        name = api.rpartition(".")[2].strip("_")
        if name in PLACED:
            raise UnusableError(f"what `{api}` picks depends on the last bits of the places", is_expected=True)
        if not _NAME.fullmatch(api) or name in SIDE_EFFECTS:
            raise UnusableError(f"`{api}` is no operator that is computed", is_expected=True)

    @property
    def shown(self) -> str:
        """What computed it, for people."""
        return f"{self._side.name}, in {self.dtype}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results as arrays."""
        return self._in_wide(lambda: self._called(args, kwargs))

    def rule(self, given: Mapping[str, Any], gradient: Array) -> dict[str, Array]:
        """Return the gradients of the arguments, by their places as text."""
        return self._in_wide(lambda: self._differentiated(given.get("args", ()), given.get("kwargs", {}), gradient))

    def _in_wide(self, compute: Callable[[], Any]) -> Any:
        """Compute in float64, or in float32 where the framework lacks a kernel for that."""
        try:
            return compute()
        except (RuntimeError, TypeError, ValueError):
            if self.dtype != "float64":
                raise
        self.dtype = "float32"
        try:
            return compute()
        except (RuntimeError, TypeError, ValueError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UnusableError(f"{self._side.name} refuses it: {lines[0]}") from error

    def _called(self, args: Any, kwargs: Any) -> Any:
        given, named = self._tensors(args, kwargs)
        return self._arrays(self._side.call(self._function, given, named))

    def _differentiated(self, args: Any, kwargs: Any, gradient: Array) -> dict[str, Array]:
        given, named = self._tensors(args, kwargs)
        incoming = [self._side.tensor(Held(gradient.astype(self.dtype), self.dtype))]
        found = self._side.gradients(self._function, given, named, incoming, copies=True)
        return {shown_path(place): self._arrays(each) for place, each in found if each is not None}

    def _tensors(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arrays = tensors_of(args, kwargs, lambda value: isinstance(value, np.ndarray | DtypeName))
        return replaced(args, kwargs, {place: self._tensor(value) for place, value in arrays})

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, DtypeName):
            return self._side.dtype(self.dtype if "float" in value.dtype else value.dtype)
        dtype = self.dtype if value.dtype.kind == "f" else str(value.dtype)
        return self._side.tensor(Held(value.astype(dtype), dtype))  # a copy, for it may be written to

    def _arrays(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return tuple(self._arrays(each) for each in value)
        held = self._side.hold(value)
        if held is None:
            return value
        values: Array = held.values
        kind = values.dtype.kind
        return values.astype(np.float64) if kind == "f" else values.astype(np.int64) if kind in "iu" else values
