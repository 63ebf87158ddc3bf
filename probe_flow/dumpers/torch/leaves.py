"""What a dump.json says of tensors, dtypes and devices of torch, and the files of tensors.

Statistics are computed where the tensor is, in its own dtype. Mean and norm of types that msprobe leaves without one
(float64, integers) are computed in float64. Of a complex tensor they are those of the absolute values, of a bool
whether any and whether all elements are true. A tensor without dimensions has its value in all four places, as msprobe
writes it. NaN and infinities go through.
"""

from __future__ import annotations

import weakref
import zlib
from typing import Any

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.dumpers.dump_json.encoding import UNKNOWN, array_statistics
from probe_flow.dumpers.dump_json.options import DumpOptions
from probe_flow.dumpers.dump_json.recorder import StepLeaves
from probe_flow.dumpers.dump_json.step_files import StepFiles
from probe_flow.dumpers.torch.pt_files import pt_parts
from probe_flow.dumpers.torch.special_tensors import dense

_Figures = tuple[Any, Any, Any, Any]
"""Max, Min, Mean, Norm: None, numbers, or tensors without dimensions that are still on the device."""

_NONE: _Figures = (None, None, None, None)
_HAS_MEAN = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_PART = 1 << 20
"""Integers are brought to float64 so many at a time."""
_SUFFIX = ".pt"
_DTYPE_KEYS = frozenset({"dtype", "output_dtype"})
_FORMATS = {
    torch.contiguous_format: "contiguous_format",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
    torch.preserve_format: "preserve_format",
}
_NAMES = ("Max", "Min", "Mean", "Norm")
_NO_STATISTICS = frozenset(
    getattr(torch, name)
    for name in dir(torch)
    if isinstance(getattr(torch, name), torch.dtype) and (name.startswith(("float8", "float4")))
)


class _Known(Struct):
    """What was found out about a tensor, as long as it lives and keeps its version."""

    tensor: weakref.ref[torch.Tensor]
    version: int
    figures: _Figures | None = None
    checksum: str | None = None
    file: str | None = None


class TorchLeaves(StepLeaves):
    """Encodes the values of a step. A tensor that several calls pass on is read once, as long as it does not change."""

    def __init__(self, files: StepFiles, options: DumpOptions) -> None:
        super().__init__(files, options)
        self._known: dict[int, _Known] = {}
        self._unsteady: set[int] = set()
        self._waiting: list[tuple[dict[str, Any], _Figures]] = []

    def leaf(self, value: Any, item: str, key: object) -> object:
        if isinstance(value, torch.Tensor) and key != "device" and key not in _DTYPE_KEYS:
            return self._tensor(value, item)
        if value is None or (isinstance(value, (list, tuple, dict)) and not isinstance(value, torch.Size)):
            return UNKNOWN
        if key == "device" and isinstance(value, (int, str, torch.device)):
            return {"type": "torch.device", "value": _device(value) if isinstance(value, torch.device) else value}
        if key in _DTYPE_KEYS and isinstance(value, (torch.dtype, str, int, float)):
            return {"type": "torch.dtype", "value": str(value)}
        if isinstance(value, torch.Size):
            return {"type": "torch.Size", "value": [int(each) for each in value]}
        if isinstance(value, torch.memory_format):
            return {"type": "torch.memory_format", "format": _FORMATS.get(value)}
        if isinstance(value, (torch.dtype, torch.device)):
            return {}
        return _communication(value, self, item)

    def array(self, array: NDArray[Any], item: str) -> dict[str, Any]:
        found = {"type": "numpy.ndarray", "dtype": str(array.dtype), "shape": list(array.shape)}
        found |= array_statistics(array)
        if self.options.writes_tensors and array.dtype.kind in "biufc":
            tensor = torch.from_numpy(array)
            facts = {"dtype": str(array.dtype), "shape": list(array.shape)}
            if name := self.files.write(item, _SUFFIX, lambda: pt_parts(tensor), facts):
                found["data_name"] = name
        return found

    def finish(self) -> None:
        for leaf, figures in self._waiting:
            leaf.update(zip(_NAMES, map(_plain, figures), strict=True))
        self._waiting.clear()
        self._known.clear()

    def forget(self, tensor: torch.Tensor) -> None:
        self._unsteady.add(_memory(tensor))

    def _tensor(self, tensor: torch.Tensor, item: str) -> dict[str, Any]:
        options = self.options
        kind, held, why, extra = dense(tensor)
        leaf: dict[str, Any] = {"type": kind, "dtype": str(tensor.dtype), "shape": list(held.shape)}
        known = self._lookup(tensor)
        data = held.detach() if why is None else None
        if options.writes_statistics:
            leaf |= dict.fromkeys(_NAMES)
            if data is not None:
                if known.figures is None:
                    known.figures = self._figures(data, item)
                self._waiting.append((leaf, known.figures))
        leaf["requires_grad"] = tensor.requires_grad
        leaf |= extra
        if options.writes_checksums and data is not None:
            if known.checksum is None:
                known.checksum = _checksum(data)
            leaf["md5"] = known.checksum
        if options.writes_tensors:
            self._write(leaf, known, data, why, item)
        return leaf

    def _figures(self, data: torch.Tensor, item: str) -> _Figures:
        if data.dtype in _NO_STATISTICS:
            return _NONE
        try:
            return _statistics(data)
        except (RuntimeError, TypeError) as error:  # a type or a device that lacks a reduction
            self.files.without_figures(item, str(error).splitlines()[0])
            return _NONE

    def _write(
        self, leaf: dict[str, Any], known: _Known, data: torch.Tensor | None, why: str | None, item: str
    ) -> None:
        limit = self.options.max_tensor_bytes
        if data is not None and limit is not None and data.numel() * data.element_size() > limit:
            why = f"it has {data.numel() * data.element_size():,} bytes, more than `max_tensor_bytes`"
        if data is None or why is not None:
            self.files.skip(item, why or "it has no elements in memory")
            return
        facts = {"dtype": str(data.dtype).removeprefix("torch."), "shape": leaf["shape"]}
        name = self.files.link(item, _SUFFIX, known.file, facts) if known.file is not None else None
        if name is None:
            found = data
            name = self.files.write(item, _SUFFIX, lambda: pt_parts(found), facts)
            known.file = name or known.file
        if name is not None:
            leaf["data_name"] = name

    def _lookup(self, tensor: torch.Tensor) -> _Known:
        """Return what is known of a tensor; nothing that lasts where changes are not counted."""
        if tensor.is_inference() or (self._unsteady and _memory(tensor) in self._unsteady):
            return _Known(weakref.ref(tensor), 0)
        version: int = tensor._version
        known = self._known.get(id(tensor))
        if known is None or known.tensor() is not tensor or known.version != version:
            known = self._known[id(tensor)] = _Known(weakref.ref(tensor), version)
        return known


def _memory(tensor: torch.Tensor) -> int:
    """Return where a tensor's memory is, 0 for one that has none."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


def _device(device: torch.device) -> str:
    return device.type if device.index is None else f"{device.type}:{device.index}"


def _checksum(tensor: torch.Tensor) -> str:
    """Return the CRC-32 of the elements' bytes, which msprobe calls md5."""
    if not tensor.numel():
        return "00000000"
    held = tensor.resolve_conj().resolve_neg().cpu().contiguous()
    return f"{zlib.crc32(held.reshape(-1).view(torch.uint8).numpy()):08x}"


def _communication(value: Any, leaves: TorchLeaves, item: str) -> object:
    """Return process groups, reductions and transfers as msprobe writes them."""
    if not torch.distributed.is_available():
        return UNKNOWN
    distributed = torch.distributed
    if isinstance(value, distributed.ProcessGroup):
        return {"type": "torch.ProcessGroup", **_group(value)}
    if isinstance(value, distributed.ReduceOp):
        return {"type": "torch.distributed.ReduceOp", "value": str(value)}
    if isinstance(value, distributed.P2POp):
        group = value.group or distributed.distributed_c10d._get_default_group()
        return {
            "class_type": "torch.distributed.P2POp",
            "tensor": leaves._tensor(value.tensor, item),
            "op": getattr(value.op, "__name__", str(value.op)),
            "peer": value.peer,
            "tag": value.tag,
            "group_id": _group(group)["group_id"],
        }
    return UNKNOWN


def _group(group: Any) -> dict[str, Any]:
    ranks = torch.distributed.get_process_group_ranks(group)
    return {"group_ranks": ranks, "group_id": f"{zlib.crc32(str(ranks).encode()):08x}"}


def _statistics(tensor: torch.Tensor) -> _Figures:
    """Return the statistics of a dense tensor that needs no gradient; nothing of its size is kept or made."""
    dtype = tensor.dtype
    if not tensor.numel():
        return _NONE
    if dtype.is_complex:
        values = np.abs(tensor.resolve_conj().resolve_neg().cpu().numpy())
        return values.max().item(), values.min().item(), values.mean().item(), float(np.linalg.norm(values.reshape(-1)))
    if dtype == torch.bool:
        return tensor.any(), tensor.all(), None, None
    if not tensor.dim():
        value = tensor.clone()
        return value, value, value, value
    least, largest = torch.aminmax(tensor)
    if dtype in _HAS_MEAN:
        return largest, least, tensor.mean(), torch.linalg.vector_norm(tensor)
    if dtype.is_floating_point:
        return _NONE
    total, squares = 0, 0.0
    for part in tensor.reshape(-1).split(_PART):
        total += int(part.sum(dtype=torch.int64))
        squares += float(part.double().square().sum())
    return largest, least, total / tensor.numel(), squares**0.5


def _plain(figure: Any) -> Any:
    """Return a figure as a number."""
    return figure.item() if isinstance(figure, torch.Tensor) else figure
