"""Read `.npy` files without trusting them: own header parser, no pickle, size checked before anything is allocated.

Source: the public NPY format description, versions 1.0, 2.0 and 3.0.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.records import Extent, NodeKey, Slot, TensorKind, TensorRef

MAGIC = b"\x93NUMPY"

_MAX_HEADER_BYTES = 64 * 1024
_MAX_NESTING = 32
_MAX_RANK = 64
_MAX_BYTES = 2**63 - 1
_FIRST_READ_BYTES = 256
_SHORT_TEXT = 256
"""Characters of nearly all headers; it bounds what is remembered of them."""

_PREFIXES = {1: (2, "latin-1"), 2: (4, "latin-1"), 3: (4, "utf-8")}
_DIM = r"(?:0|[1-9]\d{0,18})"
_PLAIN_HEADER = re.compile(
    r"\{'descr': '([^'\\]*)', 'fortran_order': (True|False), "
    rf"'shape': \(((?:{_DIM},|{_DIM}(?:, ?{_DIM})+,?)?)\), \}}\s*"
)
"""A header as numpy or MindSpore writes it; any other spelling goes through Python's own parser, which takes longer."""

_DESCR = re.compile(r"([<>|=]?)([a-zA-Z?])(\d{0,9})(?:\[\w+\])?")

_DTYPES = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
    "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64",
    "c16": "complex128", "E2": "bfloat16",  # E2: as MindSpore writes them; numpy itself has no such letter
}  # fmt: skip

_OPAQUE_KINDS = {
    "O": "pickled Python objects (`None` is stored so); they are never unpickled",
    "U": "text",
    "S": "byte strings",
    "a": "byte strings",
    "V": "raw bytes without a numeric type (arrays of bfloat16 lose their type in this format)",
    "M": "dates",
    "m": "time spans",
}


class NpyHeader(Struct, frozen=True):
    """What the header of a `.npy` file says, checked against the size of the file.

    Args:
        descr: element type as written, e.g. ``<f4``; ``structured`` for records.
        dtype: canonical dtype; None when the array is no tensor, and then ``reason`` says what it is.
        shape: logical shape.
        is_fortran_order: column-major bytes (only where that differs from C order).
        is_big_endian: bytes of an element are swapped.
        offset: first data byte.
        nbytes: bytes of the array; 0 when it is no tensor.
        reason: why it is no tensor.
    """

    descr: str
    dtype: str | None
    shape: tuple[int, ...]
    is_fortran_order: bool = False
    is_big_endian: bool = False
    offset: int = 0
    nbytes: int = 0
    reason: str | None = None

    @property
    def encoding(self) -> str:
        """The word of `probe_flow.records.Extent.encoding` for these bytes."""
        return "raw" + ("-big" if self.is_big_endian else "") + ("-fortran" if self.is_fortran_order else "")


def read_npy_header(path: Path | str) -> NpyHeader:
    """Read and check the header of one file; the data stay on disk.

    Arrays of objects, text, bytes and records come back with ``dtype`` None.

    Raises:
        FormatError: PF3001/PF3002 unreadable, PF3020 not a `.npy` file, PF3021 bad header, PF3022 data cut off, PF3027
            more behind the array.
    """
    with BinaryFile(path) as file:
        return npy_header(file)


def npy_header(file: BinaryFile) -> NpyHeader:
    """Return the header of a file that is open already; see `read_npy_header`."""
    text, offset = _header_text(file)
    header = _known_header(text, offset) if len(text) <= _SHORT_TEXT else None
    if header is None:
        header = _header_of(file.path, _plain_fields(text) or _parse_literal(file.path, text), offset)
    if header.nbytes > file.size - offset:
        raise malformed(
            "PF3022",
            file.path,
            f"`{Path(file.path).name}` is cut off: shape {list(header.shape)} of `{header.descr}` needs "
            f"{header.nbytes} bytes, {max(0, file.size - offset)} are there",
            help_text="wait until the dump is written, or dump again",
            offset=offset,
        )
    surplus = file.size - offset - header.nbytes
    if surplus and header.dtype is not None:
        raise malformed(
            "PF3027",
            file.path,
            f"`{Path(file.path).name}` goes on for {surplus} bytes behind its array of shape {list(header.shape)}",
            help_text="save each array in a file of its own, or dump again",
            offset=offset + header.nbytes,
        )
    return header


def npy_tensor_ref(path: Path | str, node_key: NodeKey, slot: Slot, *, item: str | None = None) -> TensorRef:
    """Describe the array of one file as a tensor of a dump.

    Numbers of any rank (0-d and empty too) are tensors; objects, text and bytes are opaque, with the reason. ``item``
    is the dump's own name of the tensor.

    Raises:
        FormatError: as `read_npy_header`.
    """
    header = read_npy_header(path)
    source = str(path)
    if header.dtype is None:
        return TensorRef.of(
            node_key,
            slot,
            TensorKind.OPAQUE,
            dtype=header.descr,
            stored_dtype=header.descr,
            shape=header.shape,
            source=source,
            reason=header.reason,
            item=item,
        )
    return TensorRef.of(
        node_key,
        slot,
        TensorKind.TENSOR,
        header.dtype,
        header.descr,
        header.shape,
        header.shape,
        extents=(Extent(source, header.offset, header.nbytes, header.encoding),),
        item=item,
    )


def _header_text(file: BinaryFile) -> tuple[str, int]:
    head = file.read_at(0, _FIRST_READ_BYTES)
    if head[: len(MAGIC)] != MAGIC or len(head) < len(MAGIC) + 4:
        raise malformed(
            "PF3020",
            file.path,
            f"`{Path(file.path).name}` ({file.size} bytes) does not begin like a `.npy` file",
            help_text="wait until the dump is written; if it is, the file is damaged: dump again",
            offset=0,
        )
    major = head[6]
    if major not in _PREFIXES:
        raise _bad_header(file.path, f"version {major} is unknown (1, 2 and 3 are)", 6)
    width, encoding = _PREFIXES[major]
    begin = 8 + width
    length = int.from_bytes(head[8:begin], "little")
    if length > _MAX_HEADER_BYTES:
        raise _bad_header(file.path, f"the header claims {length} bytes; at most {_MAX_HEADER_BYTES} are read", 8)
    if begin + length > file.size:
        raise _bad_header(file.path, f"the header claims {length} bytes, {file.size - begin} are there", 8)
    text = head[begin : begin + length] if begin + length <= len(head) else file.read_at(begin, length)
    try:
        return text.decode(encoding), begin + length
    except UnicodeDecodeError as exc:
        raise _bad_header(file.path, "it is not text", begin) from exc


@lru_cache(maxsize=4096)
def _known_header(text: str, offset: int) -> NpyHeader | None:
    """Return a header by its text: the arrays of a model have the same few shapes, in every step the same.

    None when it is spelt in another way, or wrong; whoever reads it with its file can say where.
    """
    fields = _plain_fields(text)
    try:
        return None if fields is None else _header_of("", fields, offset)
    except FormatError:
        return None


def _header_of(path: str, fields: Mapping[str, object], offset: int) -> NpyHeader:
    descr, shape, fortran = _check_fields(path, fields)
    return _classify(descr, shape, offset, fortran=fortran)


def _plain_fields(text: str) -> dict[str, object] | None:
    found = _PLAIN_HEADER.fullmatch(text)
    if found is None:
        return None
    descr, order, dims = found.groups()
    shape = tuple(int(dim) for dim in dims.rstrip(",").split(",")) if dims else ()
    return {"descr": descr, "fortran_order": order == "True", "shape": shape}


def _parse_literal(path: str, text: str) -> dict[str, object]:
    # The parser of Python itself may run out of stack on deeply nested brackets; real headers nest a few deep.
    depth = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if depth > _MAX_NESTING:
            raise _bad_header(path, "its brackets nest too deep", len(MAGIC))
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as exc:
        raise _bad_header(path, "it is not a literal", len(MAGIC)) from exc
    if not isinstance(value, dict) or set(value) != {"descr", "fortran_order", "shape"}:
        raise _bad_header(path, "it must hold exactly `descr`, `fortran_order` and `shape`", len(MAGIC))
    return value


def _check_fields(path: str, fields: Mapping[str, object]) -> tuple[str, tuple[int, ...], bool]:
    descr, shape, fortran = fields["descr"], fields["shape"], fields["fortran_order"]
    if isinstance(descr, list):
        descr = "structured"
    elif not isinstance(descr, str) or not _DESCR.fullmatch(descr):
        raise _bad_header(path, f"the element type {str(descr)[:40]!r} is unknown", len(MAGIC))
    if not isinstance(fortran, bool):
        raise _bad_header(path, "`fortran_order` is neither True nor False", len(MAGIC))
    if not isinstance(shape, tuple) or len(shape) > _MAX_RANK:
        raise _bad_header(path, f"`shape` is not a tuple of at most {_MAX_RANK} dimensions", len(MAGIC))
    dims: list[int] = []
    for dim in shape:
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 0:
            raise _bad_header(path, f"the dimension {str(dim)[:40]} is not a count", len(MAGIC))
        dims.append(dim)
    # Zero dimensions hide absurd ones from the size check, so they count as one here (16: widest element).
    if math.prod(max(dim, 1) for dim in dims) > _MAX_BYTES // 16:
        raise _bad_header(path, "the array would exceed any memory", len(MAGIC))
    return descr, tuple(dims), fortran


def _classify(descr: str, shape: tuple[int, ...], offset: int, *, fortran: bool) -> NpyHeader:
    match = _DESCR.fullmatch(descr)
    order, kind, size = match.groups() if match else ("", "", "")
    if kind == "?":
        kind, size = "b", "1"
    dtype = _DTYPES.get(kind + size) if match else None
    if dtype is None:
        what = _OPAQUE_KINDS.get(kind, f"`{descr}` elements" if match else "records")
        return NpyHeader(descr, None, shape, offset=offset, reason=f"the array holds {what}, not a tensor")
    width = int(size)
    # Column-major differs from row-major only when two axes are longer than one.
    permuted = fortran and sum(dim > 1 for dim in shape) > 1
    return NpyHeader(
        descr,
        dtype,
        shape,
        is_fortran_order=permuted,
        is_big_endian=order == ">" and width > 1,
        offset=offset,
        nbytes=math.prod(shape) * width,
    )


def _bad_header(path: str, what: str, offset: int) -> FormatError:
    return malformed(
        "PF3021",
        path,
        f"the header of `{Path(path).name}` is malformed: {what}",
        help_text="the file is damaged or was not written by numpy: dump again",
        offset=offset,
    )
