"""Tensors that are more than elements in memory: what msprobe calls them, and the dense tensor that they hold."""

from __future__ import annotations

from typing import Any

import torch

_TENSOR = "torch.Tensor"
_FAKE = "torch._subclasses.fake_tensor.FakeTensor"
_NO_MEMORY = "it has no elements in memory"


def dense(tensor: torch.Tensor) -> tuple[str, torch.Tensor, str | None, dict[str, Any]]:
    """Return name of the type, dense tensor, why it has no elements that can be read, and what else is said of it."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        functorch = torch._C._functorch
        if functorch.is_batchedtensor(tensor):
            return "torch._C._functorch.BatchedTensor", tensor, "it stands for a batch (vmap)", {}
        if functorch.is_gradtrackingtensor(tensor):
            return "torch._C._functorch.GradTrackingTensor", functorch.get_unwrapped(tensor), None, {}
        return _TENSOR, tensor, _why_not(tensor), {}
    name = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
    if name == _FAKE:
        return name, tensor, _NO_MEMORY, {}
    if type(tensor).__name__ == "DTensor" and hasattr(tensor, "to_local"):
        local = tensor.to_local()
        return "torch.distributed.tensor.DTensor", local, _why_not(local), _placements(tensor)
    if type(tensor).__name__ == "AsyncCollectiveTensor":
        return "torch.distributed._functional_collectives.AsyncCollectiveTensor", tensor, "it is not there yet", {}
    if type(tensor).__name__ == "NestedTensor" and hasattr(tensor, "values"):
        values = tensor.values()
        return "torch.nested._internal.nested_tensor.NestedTensor", values, _why_not(values), {}
    return _TENSOR, tensor, _why_not(tensor), {}


def _why_not(tensor: torch.Tensor) -> str | None:
    """Return why the elements of a tensor cannot be read; None if they can."""
    if tensor.is_meta:
        return _NO_MEMORY
    if tensor.layout != torch.strided:
        return f"its layout is {tensor.layout}"
    if tensor.is_quantized:
        return "it is quantised"
    if tensor.is_nested:
        return "it is a list of tensors of several shapes"
    if tensor.numel() and not tensor.untyped_storage().nbytes():
        return "its memory was given back"
    return None


def _placements(tensor: Any) -> dict[str, Any]:
    """Return where the parts of a distributed tensor are."""
    found: list[dict[str, Any]] = []
    for placement in tensor.placements:
        if placement.is_shard():
            found.append({"Shard": {"dim": placement.dim}})
        elif placement.is_replicate():
            found.append({"Replicate": {}})
        elif placement.is_partial():
            found.append({"Partial": {"reduce_op": str(placement.reduce_op)}})
    return {"device_mesh": tensor.device_mesh.mesh.tolist(), "placements": found}
