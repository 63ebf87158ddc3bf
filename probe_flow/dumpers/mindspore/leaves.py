"""What a dump.json says of tensors and dtypes of MindSpore, and the files of tensors. Statistics are numpy's.

MindSpore's own norm has no kernel on CPUs. Tensors of bfloat16 and of 8 bits are brought to float32 first, in files and
checksums too, as msprobe does; ``dtype`` keeps their true name.
"""

from __future__ import annotations

import io
import zlib
from typing import Any

import mindspore
import numpy as np
from numpy.typing import NDArray

from probe_flow.dumpers.dump_json.encoding import UNKNOWN, array_statistics
from probe_flow.dumpers.dump_json.recorder import StepLeaves

_SUFFIX = ".npy"
_NUMBER = type(mindspore.float32).__mro__[-3]
"""The class of all dtypes of numbers."""


def host_array(tensor: Any) -> NDArray[Any]:
    """Return the elements of a tensor; types that numpy lacks as float32."""
    name = str(tensor.dtype)
    if name == "BFloat16" or "Float8" in name or name == "HiFloat8":
        tensor = tensor.astype(mindspore.float32)
    found: NDArray[Any] = tensor.asnumpy()
    return found


class MindSporeLeaves(StepLeaves):
    """Encodes the values of a step; each tensor is brought to the host when it is recorded, and dropped."""

    def leaf(self, value: Any, item: str, key: object) -> object:
        if isinstance(value, mindspore.Tensor):
            return self._tensor(value, item)
        if isinstance(value, mindspore._c_expression.typing.Type):
            return {"type": "mindspore.dtype", "value": str(value)}
        if key == "dtype" and isinstance(value, (str, int, float)):
            return {"type": "mindspore.dtype", "value": str(value)}
        return UNKNOWN

    def array(self, array: NDArray[Any], item: str) -> dict[str, Any]:
        found = {"type": "numpy.ndarray", "dtype": str(array.dtype), "shape": list(array.shape)}
        found |= array_statistics(array)
        if self.options.writes_tensors and array.dtype.kind in "biufc":
            self._write(found, array, item)
        return found

    def finish(self) -> None:
        """Nothing is left on the device."""

    def _tensor(self, tensor: Any, item: str) -> dict[str, Any]:
        leaf: dict[str, Any] = {
            "type": "mindspore.Tensor",
            "dtype": str(tensor.dtype),
            "shape": [int(size) for size in tensor.shape],
        }
        array = host_array(tensor)
        if self.options.writes_statistics:
            leaf |= _statistics(array)
        if self.options.writes_checksums:
            leaf["md5"] = f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}" if array.size else "00000000"
        if self.options.writes_tensors:
            self._write(leaf, array, item)
        return leaf

    def _write(self, leaf: dict[str, Any], array: NDArray[Any], item: str) -> None:
        limit = self.options.max_tensor_bytes
        if limit is not None and array.nbytes > limit:
            self.files.skip(item, f"it has {array.nbytes:,} bytes, more than `max_tensor_bytes`")
            return
        facts = {"dtype": str(leaf["dtype"]), "shape": leaf["shape"]}
        if name := self.files.write(item, _SUFFIX, lambda: _content(array), facts):
            leaf["data_name"] = name


def _content(array: NDArray[Any]) -> tuple[memoryview, ...]:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return (buffer.getbuffer(),)


def _statistics(array: NDArray[Any]) -> dict[str, Any]:
    """Return the statistics; of a bool tensor its extremes, of one without dimensions its value in all places."""
    if array.size and array.dtype.kind == "b":
        return {"Max": bool(array.any()), "Min": bool(array.all()), "Mean": None, "Norm": None}
    if array.size and not array.ndim and array.dtype.kind in "iuf":
        return dict.fromkeys(("Max", "Min", "Mean", "Norm"), array.item())
    return array_statistics(array)
