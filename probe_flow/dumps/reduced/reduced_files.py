"""Reduced dump files: the statistics of a dumped file's tensors, under the names and keys of the seed's script.

`{stem}{suffix}.npy` stands for an FX array `{stem}.npy`: the plain vector [min, max], or, with other statistics, one
record with a float64 field each and with the dtype and the shape of the array. `{file}{suffix}.npz` stands for a device
file: `inputs` and `outputs`, a row for each tensor, a column for each of `stat_names` (absent: min, max), and what the
device said of the tensors and the operator.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed

if TYPE_CHECKING:
    from probe_flow.files.arrays.npz import Member

MIN_MAX = ("min", "max")
MAX_REDUCED_BYTES = 16 * 2**20
"""Of one file, packed and unpacked: they hold kilobytes; those of an operator with thousands of inputs some more."""

MAX_TENSORS = 100_000
"""Of one device file, inputs or outputs. Each takes some hundred bytes of memory, in the file eight or fewer."""

_MAX_FIGURES = 4096
_MAX_RANK = 64
_FIGURE_BYTES = 8
_SHORT_BYTES = 4096
_UNKNOWN_SHAPE = "?"
_DTYPE_FIELD, _SHAPE_FIELD = "dtype", "shape"
_BROKEN = (
    ValueError,
    TypeError,
    OverflowError,
    KeyError,
    EOFError,
    RuntimeError,
    SyntaxError,
    RecursionError,
    MemoryError,
    NotImplementedError,
    struct.error,
    zlib.error,
)

Array = NDArray[Any]
Found = TypeVar("Found")


class ReducedTensor(Struct, frozen=True, gc=False):
    """One tensor: a figure for each statistic, and canonical dtype and logical shape where they are known."""

    figures: tuple[float, ...]
    dtype: str | None = None
    shape: tuple[int, ...] | None = None


class ReducedArray(Struct, frozen=True, gc=False):
    """What stands for an FX array: the names of the statistics, and the tensor."""

    names: tuple[str, ...]
    tensor: ReducedTensor

    @classmethod
    def read(cls, path: Path | str) -> ReducedArray:
        """Read a reduced FX array.

        Raises:
            FormatError: PF3001/PF3002 unreadable, PF3230 something else.
        """
        return _read(path, _as_array)

    def to_bytes(self) -> bytes:
        """Return the `.npy` file: a plain vector for min and max alone, else a record that names its fields."""
        from probe_flow.files.arrays.npz import npy_bytes

        tensor = self.tensor
        if self.names == MIN_MAX:
            return npy_bytes(np.array(tensor.figures, np.float64))
        fields: list[Any] = [(name, "<f8") for name in self.names]
        values: list[Any] = list(tensor.figures)
        if tensor.dtype is not None:
            fields.append((_DTYPE_FIELD, f"<U{len(tensor.dtype)}"))
            values.append(tensor.dtype)
        if tensor.shape is not None:
            fields.append((_SHAPE_FIELD, f"<U{max(1, len(_shape_text(tensor.shape)))}"))
            values.append(_shape_text(tensor.shape))
        return npy_bytes(np.array(tuple(values), np.dtype(fields)))


class ReducedDevice(Struct, frozen=True, gc=False):
    """What stands for a device file; operator and time are empty or 0 where the file does not give them."""

    names: tuple[str, ...]
    inputs: tuple[ReducedTensor, ...]
    outputs: tuple[ReducedTensor, ...]
    op_name: str = ""
    op_type: str = ""
    timestamp: int = 0

    @classmethod
    def read(cls, path: Path | str) -> ReducedDevice:
        """Read a reduced device file, ours or one of the seed's script.

        Raises:
            FormatError: PF3001/PF3002 unreadable, PF3230 something else.
        """
        return _read(path, _as_device)

    def to_bytes(self) -> bytes:
        """Return the `.npz` file; the same content gives the same bytes."""
        from probe_flow.files.arrays.npz import joined, member, npy_bytes

        members: list[Member] = []
        for key, prefix, tensors in (("inputs", "in", self.inputs), ("outputs", "out", self.outputs)):
            rows = [tensor.figures for tensor in tensors]
            figures = np.array(rows, np.float64).reshape(len(rows), len(self.names))
            members += (
                member(key, npy_bytes(figures)),
                _texts_member(f"{prefix}_dtypes", tuple(tensor.dtype or "" for tensor in tensors)),
                _texts_member(f"{prefix}_shapes", tuple(_shape_text(tensor.shape) for tensor in tensors)),
            )
        members += (
            _texts_member("stat_names", self.names),
            member("op_name", npy_bytes(np.array(self.op_name, np.str_))),
            _texts_member("op_type", self.op_type),
            member("timestamp", npy_bytes(np.array(self.timestamp, np.uint64))),
        )
        return joined(members)


@lru_cache(maxsize=4096)
def _texts_member(key: str, texts: str | tuple[str, ...]) -> Member:
    """Return a member that holds a text or some: most files of a dump have one that another has too."""
    from probe_flow.files.arrays.npz import member, npy_bytes

    return member(key, npy_bytes(np.array(texts, np.str_)))


def _read(path: Path | str, take: Callable[[bytes], Found]) -> Found:
    with BinaryFile(path) as file:
        if file.size > MAX_REDUCED_BYTES:
            raise _no_reduced_file(path, f"it has {file.size} bytes; at most {MAX_REDUCED_BYTES} are read")
        content = file.read_at(0, file.size)
    try:
        return take(content)
    except _BROKEN as exc:
        raise _no_reduced_file(path, str(exc) or type(exc).__name__) from exc


def _as_array(content: bytes) -> ReducedArray:
    from probe_flow.files.arrays.npz import array_of

    found = array_of(content)
    if found.dtype.names is None:
        if not found.size:
            raise ValueError("it holds no number")
        values = _figures(found.reshape(1, -1), len(MIN_MAX))[0]
        # The first scripts wrote the extremes in the type of the array; ours are float64, which says nothing.
        return ReducedArray(MIN_MAX, ReducedTensor(values, None if found.dtype == np.float64 else found.dtype.name))
    if found.size != 1:
        raise ValueError(f"{found.size} records are no statistics of one tensor")
    record = found.reshape(-1)[0]
    names = tuple(name for name in found.dtype.names if name not in (_DTYPE_FIELD, _SHAPE_FIELD))
    texts = {name: str(record[name]) for name in found.dtype.names if name not in names}
    figures = tuple(float(record[name]) for name in names)
    shape = _parse_shape(texts.get(_SHAPE_FIELD, _UNKNOWN_SHAPE))
    return ReducedArray(names, ReducedTensor(figures, texts.get(_DTYPE_FIELD) or None, shape))


def _as_device(content: bytes) -> ReducedDevice:
    from probe_flow.files.arrays.npz import array_of, contents_of

    arrays = contents_of(content, MAX_REDUCED_BYTES)
    names = _texts_of(arrays["stat_names"], _MAX_FIGURES) if "stat_names" in arrays else MIN_MAX
    if not names:
        raise ValueError("it names no statistics")
    return ReducedDevice(
        names,
        _tensors(arrays, "inputs", "in", len(names)),
        _tensors(arrays, "outputs", "out", len(names)),
        _text(arrays, "op_name"),
        _text(arrays, "op_type"),
        int(array_of(arrays["timestamp"])) if "timestamp" in arrays else 0,
    )


def _tensors(arrays: Mapping[str, bytes], key: str, prefix: str, columns: int) -> tuple[ReducedTensor, ...]:
    from probe_flow.files.arrays.npz import array_of

    rows = _figures(array_of(arrays[key]), columns)
    dtypes = _texts(arrays, f"{prefix}_dtypes", "", len(rows))
    shapes = _texts(arrays, f"{prefix}_shapes", _UNKNOWN_SHAPE, len(rows))
    return tuple(
        ReducedTensor(row, dtype or None, _parse_shape(shape))
        for row, dtype, shape in zip(rows, dtypes, shapes, strict=True)
    )


def _figures(values: Array, columns: int) -> list[tuple[float, ...]]:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"`{values.dtype}` elements are no statistics")
    if not values.size:
        return []
    if values.ndim != 2 or values.shape[1] != columns:
        raise ValueError(f"an array of shape {list(values.shape)} does not hold {columns} statistics for each tensor")
    if len(values) > MAX_TENSORS or values.size > MAX_REDUCED_BYTES // _FIGURE_BYTES:
        raise ValueError(f"{values.size} statistics of {len(values)} tensors are too many")
    return [tuple(row) for row in values.astype(np.float64).tolist()]


def _texts(arrays: Mapping[str, bytes], key: str, default: str, count: int) -> Sequence[str]:
    if key not in arrays:
        return [default] * count
    found = _texts_of(arrays[key], count)
    if len(found) != count:
        raise ValueError(f"`{key}` describes {len(found)} of {count} tensors")
    return found


def _text(arrays: Mapping[str, bytes], key: str) -> str:
    (found,) = _texts_of(arrays[key], 1) if key in arrays else ("",)
    return found


def _texts_of(content: bytes, most: int) -> tuple[str, ...]:
    return (_known_texts if len(content) <= _SHORT_BYTES else _known_texts.__wrapped__)(content, most)


@lru_cache(maxsize=4096)
def _known_texts(content: bytes, most: int) -> tuple[str, ...]:
    """Return the texts of an array: most files of a dump have one that another has too."""
    from probe_flow.files.arrays.npz import array_of

    found = array_of(content)
    if found.size > most:
        raise ValueError(f"{found.size} texts stand where {most} should")
    return tuple(str(text) for text in found.reshape(-1))


def _shape_text(shape: Sequence[int] | None) -> str:
    return _UNKNOWN_SHAPE if shape is None else ",".join(map(str, shape))


@lru_cache(maxsize=4096)
def _parse_shape(text: str) -> tuple[int, ...] | None:
    if text == _UNKNOWN_SHAPE:
        return None
    parts = text.split(",") if text else []
    if len(parts) > _MAX_RANK or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
        raise ValueError(f"`{text[:40]}` is no shape")
    return tuple(int(part) for part in parts)


def _no_reduced_file(path: Path | str, why: str) -> FormatError:
    return malformed(
        "PF3230",
        path,
        f"`{Path(path).name}` is named like a reduced file and is none: {why}",
        help_text="reduce the dumped file again, or dump again",
    )
