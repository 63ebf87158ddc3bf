"""Read the header of a `.pt` file with one tensor, without torch: what it is, and where its bytes lie in the file.

`torch.save` writes a zip archive whose members are stored as they are: ``data.pkl`` says how to put the tensor
together, ``data/<key>`` holds the bytes of its storage. Nothing is unpickled or run. Tensors that do not lie in the
file as plain numbers (sparse, quantised, packed or in the format before version 1.6) are left to torch, see
`torch_load`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import cast

from msgspec import Struct

from probe_flow.errors import FormatError
from probe_flow.files.arrays.zip_members import DAMAGED, FIRST_BYTES, ZipArchive
from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.files.torch.torch_pickle import (
    MAX_BYTES,
    Call,
    MalformedError,
    Name,
    Persistent,
    RefusedError,
    described,
)
from probe_flow.tensors.encoding import strided

LEGACY_NUMBER = 0x1950A86A20F9469CFC6C
"""What the first pickle of a file in the format before version 1.6 holds."""

_STORAGES: Mapping[str, str] = MappingProxyType(
    {
        "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
        "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
        "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
        "ComplexFloatStorage": "complex64",
    }
)  # fmt: skip
_ITEM_BYTES: Mapping[str, int] = MappingProxyType(
    {"complex128": 16}
    | dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8)
    | dict.fromkeys(("float32", "int32", "uint32", "complex32"), 4)
    | dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2)
    | dict.fromkeys(("int8", "uint8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0"), 1)
    | dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz"), 1)
)
_RENAMED = MappingProxyType({"float8_e8m0fnu": "float8_e8m0"})
_BIG = b"big"
_MAX_RANK = 64
_MAX_ELEMENTS = 2**59
_REMEMBERED_BYTES = 2048
_MAX_REPEATED = 2**24
"""Elements of a view that shows the same ones again and again; more cannot come from a dump, but from a prank."""


class TorchHeader(Struct, frozen=True):
    """What a torch file holds.

    Args:
        dtype: canonical dtype; None when only torch can tell.
        shape: logical shape; None when only torch can tell.
        encoding: how the elements lie, see `probe_flow.tensors.encoding`; ``torch``: torch has to load them.
        offset: first byte of the elements; 0 when torch has to load them.
        nbytes: bytes from the first to the last element; the whole file when torch has to load them.
        reason: why torch has to load them.
    """

    dtype: str | None
    shape: tuple[int, ...] | None
    encoding: str
    offset: int
    nbytes: int
    reason: str | None = None


class _View(Struct, frozen=True):
    """A dense tensor as its pickle describes it: elements ``offset + sum(index * stride)`` of a storage."""

    dtype: str
    storage: str
    storage_bytes: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def reach(self) -> int:
        """Elements from the first to the last one."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))


def read_torch_header(path: Path | str) -> TorchHeader:
    """Read and check the header of one file; the elements stay on disk.

    Raises:
        FormatError: PF3001/PF3002 unreadable, PF3421 damaged, PF3422 no tensor, PF3423 refused because it names
            something that could be run.
    """
    with BinaryFile(path) as file:
        head = file.read_at(0, len(FIRST_BYTES))
        if head == FIRST_BYTES:
            return _of_archive(file)
        if head[:1] == b"\x80":
            return _of_legacy(file)
    what = "it is empty" if not file.size else "it does not begin like one"
    raise _damaged(file.path, f"{what} ({file.size} bytes)", 0)


def _of_archive(file: BinaryFile) -> TorchHeader:
    archive = ZipArchive(file)
    pickles = [name for name in archive.names if name.endswith("/data.pkl")]
    member = archive.member(pickles[0]) if len(pickles) == 1 else None
    if member is None:
        raise _damaged(file.path, f"it holds {len(pickles)} `data.pkl` instead of one", 0)
    if not member.is_stored:
        return _left_to_torch(file, "its members are packed")
    if member.size > MAX_BYTES:
        raise _no_tensor(file.path, f"something that takes {member.size} bytes to describe")
    view = _understood(file.path, archive.read(member))
    if isinstance(view, str):
        return _left_to_torch(file, view)
    return _placed(file, archive, view, member.name.removesuffix("data.pkl"))


def _placed(file: BinaryFile, archive: ZipArchive, view: _View, root: str) -> TorchHeader:
    """Find the elements of a tensor in the file, and check that they are all there."""
    member = archive.member(f"{root}data/{view.storage}")
    if member is None:
        raise _damaged(file.path, f"the elements (`{root}data/{view.storage}`) are missing", 0)
    if not member.is_stored:
        return _left_to_torch(file, "its members are packed")
    item, reach = _ITEM_BYTES[view.dtype], view.reach
    needed = max(view.storage_bytes, (view.offset + reach) * item)
    if member.size < needed:
        what = f"shape {list(view.shape)} of `{view.dtype}` needs {needed} bytes, {member.size} are there"
        raise _damaged(file.path, what, 0)
    numel = math.prod(view.shape)
    if numel > max(reach, _MAX_REPEATED):
        raise _no_tensor(file.path, f"{reach} elements that stand for {numel}")
    order = archive.member(f"{root}byteorder")
    is_big = order is not None and order.is_stored and order.size == len(_BIG) and archive.read(order) == _BIG
    encoding = strided("raw-big" if is_big and item > 1 else "raw", view.shape, view.strides)
    return TorchHeader(view.dtype, view.shape, encoding, archive.payload(member) + view.offset * item, reach * item)


def _of_legacy(file: BinaryFile) -> TorchHeader:
    """Look into a file that begins with a pickle: the fourth one describes the tensor, if the first is the number."""
    content = file.read_at(0, MAX_BYTES)
    first, end = _described(file.path, content)
    if first != LEGACY_NUMBER or isinstance(first, bool):
        raise _no_tensor(file.path, _kind_of(first))
    for _ in range(2):  # version of the format, facts about the machine
        _, taken = _described(file.path, content[end:])
        end += taken
    view = _understood(file.path, content[end:])
    return _left_to_torch(file, view if isinstance(view, str) else "it has the format from before version 1.6")


def _described(path: str, pickle: bytes) -> tuple[object, int]:
    try:
        return described(pickle)
    except RefusedError as error:
        raise malformed(
            "PF3423",
            path,
            f"`{Path(path).name}` is refused: loading it would use `{error}`, which no tensor needs",
            help_text="nothing of it was run; dump the tensor again, and find out where the file comes from",
        ) from error
    except MalformedError as error:
        raise _damaged(path, f"its description is malformed: {error}", 0) from error


def _understood(path: str, pickle: bytes) -> _View | str:
    """Return the tensor that a pickle describes, or why only torch can decode it."""
    meaning = _meaning(pickle) if len(pickle) <= _REMEMBERED_BYTES else None
    if meaning is not None:
        return meaning
    value, _ = _described(path, pickle)
    while isinstance(value, Call) and value.function.name == "_rebuild_parameter" and value.arguments:
        value = value.arguments[0]
    if not isinstance(value, Call) or not value.function.name.startswith("_rebuild_"):
        raise _no_tensor(path, _kind_of(value))
    if value.function.name == "_rebuild_meta_tensor_no_storage":
        raise _no_tensor(path, "a tensor of device `meta`, which has no elements")
    try:
        return _view(value)
    except (TypeError, ValueError, IndexError) as error:
        raise _damaged(path, f"its description is malformed: {error}", 0) from error


@lru_cache(maxsize=1024)
def _meaning(pickle: bytes) -> _View | None:
    """Return the tensor that a pickle describes, None where it is not simply one.

    Tensors of one shape and dtype have the same pickle: most files of a dump are known after a few.
    """
    try:
        value, _ = described(pickle)
        view = _view(value) if isinstance(value, Call) else None
    except (RefusedError, MalformedError, TypeError, ValueError, IndexError):
        return None
    return view if isinstance(view, _View) else None


def _view(call: Call) -> _View | str:
    """Take the arguments of a call apart: storage, offset, shape, strides, gradient, hooks, dtype, metadata."""
    name = call.function.name
    if name not in ("_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_tensor"):
        return f"`{name.removeprefix('_rebuild_')}` is no plain layout"
    storage, offset, shape, strides, *rest = call.arguments
    if not isinstance(storage, Persistent) or not isinstance(storage.id, tuple) or len(storage.id) < 5:
        raise ValueError("the storage is not named")
    _, kind, key, _, count = storage.id[:5]
    if not isinstance(kind, Name) or not isinstance(key, str) or not _is_count(count) or not _is_count(offset):
        raise ValueError("the storage is described wrongly")
    if not _are_counts(shape) or not _are_counts(strides) or len(shape) != len(strides):  # type: ignore[arg-type]
        raise ValueError("shape or strides are no counts")
    shape, strides = cast("tuple[int, ...]", shape), cast("tuple[int, ...]", strides)
    if len(shape) > _MAX_RANK or math.prod(max(size, 1) for size in shape) > _MAX_ELEMENTS:
        raise ValueError("the shape is no size")
    extras = rest[3:] if name == "_rebuild_tensor_v3" else rest[2:]
    if any(extras):
        return "it has metadata such as a pending conjugation"
    dtype = _dtype(name, kind, rest)
    if dtype is None:
        return f"`{kind.name}` is no plain numbers"
    size = cast("int", count) * (1 if kind.name == "UntypedStorage" else _ITEM_BYTES[dtype])
    return _View(dtype, key, size, cast("int", offset), shape, strides)


def _dtype(name: str, kind: Name, rest: Sequence[object]) -> str | None:
    if name != "_rebuild_tensor_v3":
        return _STORAGES.get(kind.name)
    dtype = rest[2]
    if not isinstance(dtype, Name):
        raise TypeError("the dtype is not named")
    canonical = _RENAMED.get(dtype.name, dtype.name)
    return canonical if canonical in _ITEM_BYTES else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _are_counts(value: object) -> bool:
    return isinstance(value, tuple) and all(_is_count(each) for each in value)


def _kind_of(value: object) -> str:
    if isinstance(value, Call):
        return f"the result of `{value.function}`"
    if isinstance(value, Name):
        return f"the name `{value}`"
    return "no value" if value is None else f"a {type(value).__name__}"


def _left_to_torch(file: BinaryFile, reason: str) -> TorchHeader:
    return TorchHeader(None, None, "torch", 0, file.size, reason)


def _no_tensor(path: str, found: str) -> FormatError:
    return malformed(
        "PF3422",
        path,
        f"`{Path(path).name}` holds {found} instead of a tensor",
        help_text="a tensor file of a dump holds one tensor; dump again",
    )


def _damaged(path: str, what: str, offset: int) -> FormatError:
    return malformed(
        DAMAGED,
        path,
        f"`{Path(path).name}` is a damaged torch file: {what}",
        help_text="wait until the dump is written; if it is, copy the file again, or dump again",
        offset=offset,
    )
