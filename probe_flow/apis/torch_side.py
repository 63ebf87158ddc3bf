"""PyTorch: the benchmark of every call, and the tested side of PyTorch dumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np

from probe_flow.apis.calls import FLOATS, Path, UnusableError
from probe_flow.apis.fused import ATTENTIONS, FUSED
from probe_flow.apis.operators import operator
from probe_flow.apis.side import Held, flat_results, replaced, tensors_of
from probe_flow.apis.values import numpy_dtype

_HOMES: Mapping[str, str] = MappingProxyType(
    {
        "Mint": "torch",
        "MintFunctional": "torch.nn.functional",
        "Torch": "torch",
        "Functional": "torch.nn.functional",
        "Tensor": "torch.Tensor",
        "Aten": "torch.ops.aten",
    }
)
"""Where the APIs of a kind are."""

_PACKAGES = (
    "torch._C", "torch._VF", "torch._jit_internal", "torch._linalg_utils", "torch._lobpcg", "torch._lowrank",
    "torch._ops.aten", "torch._tensor", "torch.functional", "torch.nn.functional", "torch.sparse", "torch_npu",
)  # fmt: skip
"""Modules whose functions take tensors and give tensors: torch's, and torch_npu's, which stand in their place there."""


def transpose(tensor: Any, *axes: Any, **named: Any) -> Any:
    """Exchange two axes, or put all in an order (by default the reverse), as the method of MindSpore does as well."""
    if named or len(axes) == 2:
        return tensor.transpose(*axes, **named)
    return tensor.permute(*(axes or reversed(range(tensor.ndim))))


class TorchSide:
    """APIs of torch on one device.

    Args:
        device: as torch names it.
        is_benchmark: whether fused operators of the NPU are what they compute, not the operators themselves.
    """

    def __init__(self, device: str = "cpu", *, is_benchmark: bool = True) -> None:
        self._torch: Any = import_module("torch")
        self._is_benchmark = is_benchmark
        self.device = device
        self.name = "torch" if device == "cpu" else f"torch on {device}"

    def find(self, kind: str, api: str) -> tuple[Callable[..., Any], str]:
        """Return the function of an API, and its full name."""
        if kind == "NPU" or (kind == "Functional" and api in ATTENTIONS):
            return self._find_fused(api)
        home = _HOMES.get(kind)
        if home is None:
            raise UnusableError(f"APIs of kind `{kind}` have no counterpart in torch", is_expected=True)
        name = f"{home}.{api}"
        place: Any = self._torch
        for part in home.split(".")[1:]:
            place = getattr(place, part)
        if (kind, api) == ("Tensor", "transpose"):
            return transpose, name
        found = operator(place, api, _PACKAGES, is_registry=kind == "Aten")
        if found is None and kind == "Functional":  # `mindspore.ops` has what torch has in two places
            found = operator(self._torch, api, _PACKAGES)
            name = f"torch.{api}" if found is not None else name
        if found is None:
            raise UnusableError(f"torch has no `{name}`", is_expected=True)
        return found, name

    def _find_fused(self, api: str) -> tuple[Callable[..., Any], str]:
        if self._is_benchmark:
            if api not in FUSED:
                raise UnusableError(f"there is no benchmark of `{api}`", is_expected=True)
            return FUSED[api], f"what `{api}` computes"
        if find_spec("torch_npu") is None:
            raise UnusableError("`torch_npu` is not installed, whose kernel it is")
        found = getattr(import_module("torch_npu"), api, None)
        if not callable(found):
            raise UnusableError(f"torch_npu has no `{api}`")
        if api in ATTENTIONS:  # what follows are seeds, and sums that only its gradient needs
            return lambda *args, **kwargs: found(*args, **kwargs)[0], f"torch_npu.{api}"
        return found, f"torch_npu.{api}"

    def tensor(self, held: Held) -> Any:
        """Return a tensor of these values."""
        values = np.ascontiguousarray(held.values)
        if not values.flags.writeable or values.shape != held.values.shape:
            values = held.values.copy()
        return self._torch.from_numpy(values).to(self.device, self.dtype(held.dtype))

    def dtype(self, name: str) -> Any:
        """Return an element type."""
        found = getattr(self._torch, name, None)
        if not isinstance(found, self._torch.dtype):
            raise UnusableError(f"torch has no element type `{name}`", is_expected=True)
        return found

    def hold(self, tensor: Any) -> Held | None:
        """Return the elements of a tensor."""
        if not isinstance(tensor, self._torch.Tensor):
            return None
        dtype = str(tensor.dtype).removeprefix("torch.")
        dense = tensor.detach().to("cpu")
        if dense.layout is not self._torch.strided or dense.is_quantized:
            raise UnusableError(f"a result is no dense tensor but `{dense.layout}`", is_expected=True)
        wide = dense.to(getattr(self._torch, numpy_dtype(dtype))).resolve_conj().resolve_neg().contiguous()
        return Held(wide.numpy().copy(), dtype)

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function."""
        with self._torch.no_grad():
            return function(*args, **kwargs)

    def autocast(self, function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
        """Return a function that does the same with automatic casts to an element type."""

        def cast(*args: Any, **kwargs: Any) -> Any:
            with self._torch.autocast(self.device.partition(":")[0], dtype=self.dtype(dtype)):
                return function(*args, **kwargs)

        return cast

    def gradients(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        incoming: Sequence[Any],
        *,
        copies: bool,
    ) -> list[tuple[Path, Any]]:
        """Return the gradient of each float tensor of the arguments, all results in one pass."""
        inputs = [(place, tensor.detach().clone()) for place, tensor in tensors_of(args, kwargs, self._has_gradient)]
        for _, tensor in inputs:
            tensor.requires_grad_()
        given = {place: tensor.clone() if copies else tensor for place, tensor in inputs}
        new_args, new_kwargs = replaced(args, kwargs, given)
        results = [value for _, value in flat_results(function(*new_args, **new_kwargs))]
        # The node of a norm has more results than its function: what reaches those is nothing.
        if any(gradient is not None for gradient in incoming[len(results) :]):
            raise UnusableError(f"the dump records {len(incoming)} gradients, and the call has {len(results)} results")
        pairs = [
            (result, gradient)
            for result, gradient in zip(results, incoming, strict=False)
            if gradient is not None and isinstance(result, self._torch.Tensor) and result.requires_grad
        ]
        if not pairs:
            raise UnusableError("none of its results has a gradient that reaches an argument")
        found = self._torch.autograd.grad(
            [result for result, _ in pairs],
            [tensor for _, tensor in inputs],
            [gradient.to(result.dtype) for result, gradient in pairs],
            allow_unused=True,
        )
        return [(place, gradient) for (place, _), gradient in zip(inputs, found, strict=True)]

    def _has_gradient(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor) and str(value.dtype).removeprefix("torch.") in FLOATS
