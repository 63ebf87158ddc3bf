"""Where the model definitions lie in an offline model (``.om``): its header and tables of partitions.

Source: the published layout of the model file. A header of 256 bytes is followed, once for each model, by a table of
partitions and the partitions themselves. Two tables are in use: one of 32-bit and one of 64-bit places.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from probe_flow.dumps.rules.problems import broken_model
from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed

MODEL_DEFINITION = 0
"""Partition type of the graph with its operators."""

_HEADER_BYTES = 256
_MAX_HEADER_BYTES = 1 << 16
_MAX_MODELS = 1024
_MAX_PARTITIONS = 32
_MODEL_COUNT_VERSION = 0x20000000
"""First version whose header says how many models follow and how long they are."""
_FLOW_MODEL = 3

_PLACES = struct.Struct("<III")
_WIDE_PLACES = struct.Struct("<IIQQ")


class Partition(Struct, frozen=True):
    """One partition; ``offset`` counts from the beginning of the file."""

    kind: int
    offset: int
    size: int


def model_definitions(file: BinaryFile) -> tuple[Partition, ...]:
    """Return the partitions that hold model definitions, in file order; empty ones do not count.

    Raises:
        FormatError: PF4306 when header and tables do not fit into the file, PF4307 for an encrypted model.
    """
    header = _Header.read(file)
    position = header.size
    found: list[Partition] = []
    for _ in range(header.models):
        table = _table(file, position, is_wide_first=header.is_wide)
        found += [partition for partition in table if partition.kind == MODEL_DEFINITION and partition.size]
        position = max(partition.offset + partition.size for partition in table)
    return tuple(found)


class _Header(Struct, frozen=True):
    size: int
    models: int
    is_wide: bool

    @classmethod
    def read(cls, file: BinaryFile) -> _Header:
        raw = file.read_at(0, _HEADER_BYTES)
        if len(raw) < _HEADER_BYTES:
            raise broken_model(file.path, f"it has {len(raw)} bytes, its header alone has {_HEADER_BYTES}")
        size, version = struct.unpack_from("<II", raw, 4)
        if not _HEADER_BYTES <= size <= _MAX_HEADER_BYTES:
            raise broken_model(file.path, f"its header claims to have {size} bytes", 4)
        if raw[80]:
            raise _encrypted(file.path)
        models, model_length = 1, 0
        if version >= _MODEL_COUNT_VERSION:
            models = max(1, struct.unpack_from("<I", raw, 156)[0])
            model_length = struct.unpack_from("<Q", raw, 184)[0]
        if models > _MAX_MODELS:
            raise broken_model(file.path, f"its header claims {models} models", 156)
        return cls(size, models, is_wide=model_length != 0 or raw[82] == _FLOW_MODEL)


def _table(file: BinaryFile, position: int, *, is_wide_first: bool) -> tuple[Partition, ...]:
    """Return the partitions of the table at ``position``; the header's hint decides only when both forms fit."""
    raw = file.read_at(position, 8 + _WIDE_PLACES.size * _MAX_PARTITIONS)
    forms = (_wide, _narrow) if is_wide_first else (_narrow, _wide)
    for form in forms:
        table = form(raw, position, file.size)
        if table is not None:
            return table
    raise broken_model(file.path, "the table of its partitions does not fit into the file", position)


def _narrow(raw: bytes, position: int, file_size: int) -> tuple[Partition, ...] | None:
    return _places(raw, position, file_size, head=4, entry=_PLACES)


def _wide(raw: bytes, position: int, file_size: int) -> tuple[Partition, ...] | None:
    return _places(raw, position, file_size, head=8, entry=_WIDE_PLACES)


def _places(
    raw: bytes, position: int, file_size: int, *, head: int, entry: struct.Struct
) -> tuple[Partition, ...] | None:
    """Return the partitions of one form of table; None when the bytes make no sense as one."""
    count = int.from_bytes(raw[:4], "little")
    end = head + count * entry.size
    if not 0 < count <= _MAX_PARTITIONS or len(raw) < end:
        return None
    rows = [entry.unpack_from(raw, head + i * entry.size) for i in range(count)]
    begin = position + end
    table = tuple(Partition(row[0], begin + row[-2], row[-1]) for row in rows)
    kinds = {partition.kind for partition in table}
    is_table = len(kinds) == count and max(kinds) < _MAX_PARTITIONS and any(partition.size for partition in table)
    if not is_table or any(partition.offset + partition.size > file_size for partition in table):
        return None
    return table


def _encrypted(path: str) -> FormatError:
    return malformed(
        "PF4307",
        path,
        f"the offline model `{path.rpartition('/')[2]}` is encrypted",
        help_text="name the JSON of the model, or a model that was built without encryption",
        offset=80,
    )
