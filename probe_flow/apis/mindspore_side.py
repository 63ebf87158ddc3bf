"""MindSpore in PyNative mode, by its own names and by those of MSAdapter: the tested side of their dumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from probe_flow.apis.calls import FLOATS, Path, UnusableError, canonical_dtype
from probe_flow.apis.operators import operator
from probe_flow.apis.side import Held, flat_results, replaced, tensors_of

_OWN_HOMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "Mint": ("mindspore.mint", ""),
        "MintFunctional": ("mindspore.mint.nn.functional", ""),
        "Tensor": ("mindspore", "Tensor"),
        "Functional": ("mindspore.ops", ""),
    }
)
"""Where the APIs of a kind are: module, and class in it."""

_ADAPTED_HOMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"Torch": ("torch", ""), "Functional": ("torch.nn.functional", ""), "Tensor": ("torch", "Tensor")}
)
"""The same of MSAdapter, whose package is named like that of PyTorch."""


def _nothing_to_wait_for() -> None:
    """Return at once: the processor has no stream, and is asked to run each kernel when it is called."""


class MindSporeSide:
    """APIs of MindSpore on its current device, one call after the other.

    Args:
        device_id: number of the device; the processor has one.
    """

    homes = _OWN_HOMES
    packages: tuple[str, ...] = ("mindspore",)
    library = "MindSpore"

    def __init__(self, device_id: int = 0) -> None:
        self._mindspore: Any = import_module("mindspore")
        module = self._mindspore
        module.set_context(mode=module.PYNATIVE_MODE)
        target = module.get_context("device_target")
        if target != "CPU":
            module.set_device(target, device_id)
        # Kernels run behind the calls: what one of them raises would be said of a later call.
        module.runtime.launch_blocking()
        self._settle = module.runtime.synchronize if target != "CPU" else _nothing_to_wait_for
        self.device = target
        self.name = f"mindspore on {target}" if target == "CPU" else f"mindspore on {target} {device_id}"
        self._dtypes = {
            str(getattr(module, name)).lower().removesuffix("_"): getattr(module, name)
            for name in (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool_", *_FLOATS)
            if hasattr(module, name)
        }

    def find(self, kind: str, api: str) -> tuple[Callable[..., Any], str]:
        """Return the function of an API, and its full name."""
        if kind not in self.homes:
            raise UnusableError(f"APIs of kind `{kind}` are not checked", is_expected=True)
        module, owner = self.homes[kind]
        home = import_module(module)
        name = ".".join(part for part in (module, owner, api) if part)
        found = operator(getattr(home, owner) if owner else home, api, self.packages)
        if found is None:
            raise UnusableError(f"{self.library} has no `{name}` that can be called")
        return found, name

    def tensor(self, held: Held) -> Any:
        """Return a tensor of these values."""
        return self._mindspore.Tensor(held.values, dtype=self.dtype(held.dtype))

    def dtype(self, name: str) -> Any:
        """Return an element type."""
        if name not in self._dtypes:
            raise UnusableError(f"MindSpore has no element type `{name}` here", is_expected=True)
        return self._dtypes[name]

    def hold(self, tensor: Any) -> Held | None:
        """Return the elements of a tensor."""
        if not isinstance(tensor, self._mindspore.Tensor):
            return None
        dtype = canonical_dtype(str(tensor.dtype))
        wide = tensor.astype(self._mindspore.float32) if dtype == "bfloat16" else tensor
        return Held(wide.asnumpy().copy(), dtype)

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function."""
        try:
            return function(*args, **kwargs)
        finally:
            self._settle()

    def autocast(self, function: Callable[..., Any], dtype: str) -> Callable[..., Any]:  # noqa: ARG002
        """Return the function: casts are a property of cells, and none of calls."""
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
        """Return the gradient of each float tensor of the arguments, by a function of these tensors alone."""
        inputs = tensors_of(args, kwargs, self._has_gradient)
        if not inputs:
            raise UnusableError("none of its arguments has a gradient")
        chosen = [number for number, gradient in enumerate(incoming) if gradient is not None]
        if not chosen:
            raise UnusableError("the dump records no gradient of any of its results")

        def of_tensors(*tensors: Any) -> Any:
            given = {
                place: tensor + 0 if copies else tensor for (place, _), tensor in zip(inputs, tensors, strict=True)
            }
            new_args, new_kwargs = replaced(args, kwargs, given)
            results = [value for _, value in flat_results(function(*new_args, **new_kwargs))]
            if chosen[-1] >= len(results):
                raise UnusableError(
                    f"the dump records {len(incoming)} gradients, and the call has {len(results)} results"
                )
            found = tuple([results[number] for number in chosen])
            return found if len(found) > 1 else found[0]

        ops = self._mindspore.ops
        differentiate = ops.GradOperation(get_all=True, sens_param=True)(of_tensors)
        given = tuple([incoming[number] for number in chosen])
        try:
            found = differentiate(*[tensor for _, tensor in inputs], given if len(given) > 1 else given[0])
        finally:
            self._settle()
        return [(place, gradient) for (place, _), gradient in zip(inputs, found, strict=True)]

    def _has_gradient(self, value: Any) -> bool:
        return isinstance(value, self._mindspore.Tensor) and canonical_dtype(str(value.dtype)) in FLOATS


class MSAdapterSide(MindSporeSide):
    """APIs of MSAdapter: functions of a package named `torch`, whose tensors are those of MindSpore.

    Args:
        device_id: number of the device.

    Raises:
        ImportError: MindSpore or a package `torch` is not installed.
        UnusableError: the `torch` that is found first is not MSAdapter.
    """

    homes = _ADAPTED_HOMES
    packages = ("mindspore", "mindtorch", "msadapter", "torch")
    library = "MSAdapter"

    def __init__(self, device_id: int = 0) -> None:
        super().__init__(device_id)
        self._torch: Any = import_module("torch")
        self.name = f"MSAdapter, {self.name}"
        if not isinstance(self._torch.tensor(0.0), self._mindspore.Tensor):
            raise UnusableError(
                f"the `torch` that is found first, {self._torch.__file__}, is not MSAdapter: put the folder of that "
                "first on PYTHONPATH"
            )

    def tensor(self, held: Held) -> Any:
        """Return a tensor of these values."""
        return self._torch.from_numpy(np.array(held.values)).to(self.dtype(held.dtype))

    def dtype(self, name: str) -> Any:
        """Return an element type."""
        found = getattr(self._torch, name, None)
        if found is None:
            raise UnusableError(f"MSAdapter has no element type `{name}`", is_expected=True)
        return found


_FLOATS = ("float16", "float32", "float64", "bfloat16", "complex64", "complex128")
