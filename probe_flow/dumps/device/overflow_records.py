"""Read overflow records (`Opdebug.Node_OpDebug.*`): which unit of the device overflowed, in which task, how.

The record is the payload of an output of an ordinary device file. All integers are little endian. New layout: 32-bit
magic, version, then valid, unit, reserved, length of the data, then 64-bit fields that depend on the unit. Old layout:
2048 bytes without a mark, with fixed places for three units. Source: the published layouts.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed

MAGIC = 0x5A5A5A5A
TABLE_BYTES = 2048
"""Size of the old layout."""

_UNITS = ("AIC", "AIV", "AICPU", "SDMA")
_HEAD = struct.Struct("<6I")
_TASK = ("model_id", "stream_id", "task_id", "task_type")
_CORE_FIELDS = (*_TASK, "context_id", "thread_id", "pc_start", "para_base", "core_id", "block_id")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "AIC": _CORE_FIELDS,
    "AIV": _CORE_FIELDS,
    "AICPU": (*_TASK, "context_id", "cpu_id", "thread_id", "status"),
    "SDMA": (*_TASK, "context_id", "thread_id", "src_addr", "dst_addr", "channel_id", "status"),
}
_STATUS_COUNTS = {1: 4}
"""Numbers in the status of a core, by version; one in all others."""

_INFO_FIELDS = (*_TASK, "pc_start", "para_base")
_TABLE = (
    ("DHA Atomic Add", 0, 512, ("status",)),
    ("L2 Atomic Add", 128, 768, ("status",)),
    ("AI Core", 256, 1024, ("kernel_code", "block_idx", "status")),
)
"""Units of the old layout: name, place of the task, place and names of the status."""

_ADDRESSES = frozenset({"pc_start", "para_base", "src_addr", "dst_addr", "kernel_code"})
_UNUSED_ID = 65535
_MAX_RECORD_BYTES = 4096

_CORE_BITS = {
    0x8: "sign inversion of the smallest negative number",
    0x10: "overflow of an integer operation",
    0x20: "overflow of a floating-point operation",
    0x80: "a negative input converted to an unsigned type",
    0x100: "overflow of a conversion to float16",
    0x400: "overflow of an accumulation in the cube",
}
_DHA_CODES = {0x9: "overflow", 0xA: "underflow", 0xB: "NaN in the source", 0xC: "NaN in the destination"}
_DHA_CODES[0xD] = "NaN in source and destination"
_L2_CODES = {1: "overflow", 2: "underflow", 3: "NaN in the source", 4: "NaN in the destination"}
_L2_CODES[5] = "NaN in source and destination"
_CORES = frozenset({"AIC", "AIV", "AI Core"})
_CODED = {"DHA Atomic Add": (8, 0xFF, _DHA_CODES), "L2 Atomic Add": (16, 0x7, _L2_CODES)}
"""Published tables of the device's own tools: the status of a core is a set of bits, that of an adder a code."""

Value = int | tuple[int, ...]


class UnitOverflow(Struct, frozen=True):
    """What one unit of the device reports.

    Args:
        unit: ``AIC``, ``AIV``, ``AICPU`` or ``SDMA``; ``DHA Atomic Add``, ``L2 Atomic Add`` or ``AI Core`` in the old
            layout.
        fields: by the names of the layout, in its order; ``status`` of a core may be several numbers.
    """

    unit: str
    fields: Mapping[str, Value]

    @property
    def has_overflow(self) -> bool:
        """Whether the status says so: any bit of it is set."""
        status = self.fields.get("status", 0)
        return any(status) if isinstance(status, tuple) else status != 0

    @property
    def meanings(self) -> tuple[str, ...]:
        """What the status says, each bit or code with its number, those included that no table knows.

        >>> UnitOverflow("AI Core", {"status": 0x121}).meanings
        ('0x1 unknown', '0x20 overflow of a floating-point operation', '0x100 overflow of a conversion to float16')
        >>> UnitOverflow("DHA Atomic Add", {"status": 0x900}).meanings
        ('0x9 overflow',)
        """
        status = self.fields.get("status", 0)
        words = status if isinstance(status, tuple) else (status,)
        return tuple(dict.fromkeys(meaning for word in words if word for meaning in _of_word(self.unit, word)))

    @property
    def task(self) -> tuple[int, int]:
        """Task and stream, which name the operator's file."""
        return self._number("task_id") or 0, self._number("stream_id") or 0

    @property
    def context(self) -> tuple[int | None, int | None]:
        """Context and thread of an operator in slices; None where it has none."""
        context, thread = self._number("context_id"), self._number("thread_id")
        return None if context == _UNUSED_ID else context, None if thread == _UNUSED_ID else thread

    def _number(self, name: str) -> int | None:
        value = self.fields.get(name)
        return value if isinstance(value, int) else None


class OpDebugRecord(Struct, frozen=True):
    """One overflow record: of one unit in the new layout, of three in the old one.

    Args:
        units: what they report.
        version: of the new layout; None in the old one.
        is_valid: what the record says of itself; the old one says nothing and counts as valid.
        reserved, data_bytes: further fields of the new layout.
    """

    units: tuple[UnitOverflow, ...]
    version: int | None = None
    is_valid: bool = True
    reserved: int = 0
    data_bytes: int = 0


def read_op_debug(path: Path | str) -> tuple[OpDebugRecord, ...]:
    """Return the record of every output of an overflow file.

    Raises:
        FormatError: PF3001/PF3002 unreadable, PF3010 to PF3018 no device file, PF3310 no overflow record in it.
    """
    dump = read_ge_header(path)
    records = []
    with BinaryFile(path) as file:
        for output in dump.outputs:
            if output.size == 0:
                continue
            content = file.read_at(output.offset, min(output.size, _MAX_RECORD_BYTES))
            records.append(parse_op_debug(content, path, output.offset))
    if not records:
        raise _no_record(path, "it has no output", None)
    return tuple(records)


def parse_op_debug(content: bytes, path: Path | str, offset: int = 0) -> OpDebugRecord:
    """Parse one record.

    Args:
        content: its bytes; more than it needs are tolerated in the new layout.
        path: the file, for errors.
        offset: place of the record in the file, for errors.

    Raises:
        FormatError: PF3310 when it is in neither layout, is cut off, or comes from an unknown unit.
    """
    if len(content) >= 4 and int.from_bytes(content[:4], "little") == MAGIC:
        return _parse_record(content, path, offset)
    if len(content) != TABLE_BYTES:
        raise _no_record(path, f"{len(content)} bytes neither begin with {MAGIC:#x} nor are {TABLE_BYTES}", offset)
    units = []
    for name, place, status_place, status_names in _TABLE:
        fields: dict[str, Value] = _numbers(content, place, _INFO_FIELDS)
        units.append(UnitOverflow(name, fields | _numbers(content, status_place, status_names)))
    return OpDebugRecord(tuple(units))


def _parse_record(content: bytes, path: Path | str, offset: int) -> OpDebugRecord:
    if len(content) < _HEAD.size:
        raise _no_record(path, f"it ends after {len(content)} bytes, its head has {_HEAD.size}", offset)
    _, version, valid, number, reserved, data_bytes = _HEAD.unpack_from(content)
    if number >= len(_UNITS):
        raise _no_record(path, f"the unit {number} is unknown (0 to {len(_UNITS) - 1} are)", offset + 12)
    unit = _UNITS[number]
    names = _FIELDS[unit]
    is_core = unit in ("AIC", "AIV")
    count = _STATUS_COUNTS.get(version, 1) if is_core else 0
    needed = 8 * (len(names) + count)
    if needed > min(data_bytes, len(content) - _HEAD.size):
        there = f"{data_bytes} are announced, {len(content) - _HEAD.size} are there"
        raise _no_record(path, f"the data of `{unit}` need {needed} bytes, {there}", offset + _HEAD.size)
    fields: dict[str, Value] = _numbers(content, _HEAD.size, names)
    if is_core:
        status = struct.unpack_from(f"<{count}Q", content, _HEAD.size + 8 * len(names))
        fields["status"] = status if count > 1 else status[0]
    return OpDebugRecord((UnitOverflow(unit, fields),), version, valid != 0, reserved, data_bytes)


def _numbers(content: bytes, place: int, names: tuple[str, ...]) -> dict[str, Value]:
    return dict(zip(names, struct.unpack_from(f"<{len(names)}Q", content, place), strict=True))


def op_debug_json(record: OpDebugRecord) -> str:
    """Return a record as JSON text in the form that the device's own tools write; addresses are hexadecimal.

    ``acc_type`` names the unit, ``acc_list`` holds its record.
    """
    if record.version is None:
        found: dict[str, object] = {unit.unit: _values(unit) for unit in record.units}
        return json.dumps(found, indent=4)
    (unit,) = record.units
    entry = {
        "valid": int(record.is_valid),
        "acc_type": unit.unit,
        "rsv": record.reserved,
        "data_len": record.data_bytes,
        "data": _values(unit),
    }
    return json.dumps({"magic": f"{MAGIC:#x}", "version": record.version, "acc_list": entry}, indent=4)


def _values(unit: UnitOverflow) -> dict[str, object]:
    return {
        name: hex(value) if name in _ADDRESSES and isinstance(value, int) else value
        for name, value in unit.fields.items()
    }


def _no_record(path: Path | str, what: str, offset: int | None) -> FormatError:
    return malformed(
        "PF3310",
        path,
        f"`{Path(path).name}` holds no overflow record: {what}",
        help_text="dump again with overflow detection on; a file that is no overflow record needs another name",
        offset=offset,
    )


def _of_word(unit: str, word: int) -> Iterator[str]:
    if unit in _CODED:
        shift, mask, codes = _CODED[unit]
        code, rest = word >> shift & mask, word & ~(mask << shift)
        if code:
            yield f"{code:#x} {codes.get(code, 'unknown')}"
        if rest:
            yield f"{rest:#x} unknown"
        return
    if unit not in _CORES:
        yield f"{word:#x}, of which no table is published"
        return
    for bit in range(word.bit_length()):
        if word >> bit & 1:
            yield f"{1 << bit:#x} {_CORE_BITS.get(1 << bit, 'unknown')}"
