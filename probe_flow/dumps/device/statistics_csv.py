"""Read device statistics: the `.csv` that a device writes for each operator when it is told to dump statistics only.

The header names the columns; `Input/Output` and `Index` are always there, of the others only those that were asked for.
Source: the public description of the dump data type `stats`. Shapes are stored ones: a private layout pads, and the
statistics are of the padded tensor.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from probe_flow.dumps.reduced.reduced_files import ReducedTensor
from probe_flow.dumps.reduced.reduced_tensors import recorded_ref
from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.records import NodeKey, Slot, SlotRole, TensorKind, TensorRef
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES, DEVICE_DTYPES, DTYPES
from probe_flow.tensors.layouts import PLAIN_LAYOUTS

MAX_STATISTICS_BYTES = 16 * 2**20
"""These files hold some lines; an operator with thousands of inputs some hundred kilobytes."""

_ROLE, _INDEX = "Input/Output", "Index"
_ROLES = {"input": SlotRole.INPUT, "output": SlotRole.OUTPUT}
_FIGURES = {
    "max value": "max",
    "min value": "min",
    "avg value": "mean",
    "l2norm": "l2norm",
    "count": "count",
    "nan count": "nan_count",
}
_INFINITE = ("negative inf count", "positive inf count")
_DTYPES = {name: DEVICE_DTYPES[number] for number, name in DEVICE_DTYPE_NAMES.items()}
_MAX_RANK = 64
_DIGITS = 6
"""Significant digits of a figure, as C++ prints a number where nobody asks for more."""


class _Rows(Struct):
    """The tensors of one file by slot, in file order."""

    path: Path | str
    tensors: dict[Slot, Mapping[str, str]] = field(default_factory=dict)


def read_device_statistics(path: Path | str, node_key: NodeKey) -> list[TensorRef]:
    """Return one tensor per line, inputs before outputs in the order of their indices.

    Raises:
        FormatError: PF3001/PF3002 unreadable, PF3251 no such table.
    """
    with BinaryFile(path) as file:
        if file.size > MAX_STATISTICS_BYTES:
            raise _no_table(path, f"it has {file.size} bytes; at most {MAX_STATISTICS_BYTES} are read")
        content = file.read_at(0, file.size)
    rows = _Rows(path)
    lines = csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline=""))
    try:
        header = [name.strip().casefold() for name in next(lines, [])]
        if _ROLE.casefold() not in header or _INDEX.casefold() not in header:
            raise _no_table(path, f"its first line does not name `{_ROLE}` and `{_INDEX}`")
        for cells in lines:
            if cells:
                _take(rows, header, [cell.strip() for cell in cells], lines.line_num)
    except csv.Error as exc:
        raise _no_table(path, str(exc)) from exc
    if not rows.tensors:
        raise _no_table(path, "it describes no tensor")
    return [
        _tensor(node_key, slot, row, str(path))
        for slot, row in sorted(rows.tensors.items(), key=lambda item: (item[0].role is SlotRole.OUTPUT, item[0].path))
    ]


def _take(rows: _Rows, header: list[str], cells: list[str], line: int) -> None:
    if len(cells) != len(header):
        raise _no_table(rows.path, f"line {line} has {len(cells)} cells, the first line {len(header)}")
    row = dict(zip(header, cells, strict=True))
    role, index = _ROLES.get(row[_ROLE.casefold()].casefold()), row[_INDEX.casefold()]
    if role is None or not (index.isascii() and index.isdigit() and len(index) <= 6):
        raise _no_table(rows.path, f"line {line} names neither input nor output, or no index")
    slot = Slot(role, (int(index),))
    if slot in rows.tensors:
        raise _no_table(rows.path, f"line {line} describes {slot} again")
    rows.tensors[slot] = row


def _tensor(node_key: NodeKey, slot: Slot, row: Mapping[str, str], source: str) -> TensorRef:
    stored_dtype = row.get("data type", "")
    dtype = _DTYPES.get(stored_dtype.upper(), stored_dtype.lower())
    layout = row.get("format", "").upper() or "ND"
    shape = _shape(row.get("shape"))
    figures = {name: number for column, name in _FIGURES.items() if (number := _number(row.get(column))) is not None}
    infinite = [number for column in _INFINITE if (number := _number(row.get(column))) is not None]
    if infinite:
        figures["inf_count"] = sum(infinite)
    if not figures:
        return TensorRef.of(
            node_key,
            slot,
            TensorKind.UNREADABLE,
            reason="the device wrote no statistic of it that is a number",
            source=source,
        )
    names = tuple(figures)
    ref = recorded_ref(node_key, slot, names, ReducedTensor(tuple(figures.values()), dtype, shape), source=source)
    is_plain = layout in PLAIN_LAYOUTS
    reason = None if is_plain else f"statistics of the stored tensor, whose layout {layout} may pad it with zeros"
    kind = TensorKind.OPAQUE if dtype in DTYPES and not DTYPES[dtype].bits else TensorKind.STATISTICS
    return ref.changed(
        kind=kind,
        stored_dtype=stored_dtype,
        logical_shape=shape if is_plain else None,
        layout=layout,
        reason=reason,
        digits=_DIGITS,
        **({} if is_plain else {"count": None}),
    )


def _number(text: str | None) -> float | None:
    """Return a number as devices print it, None for anything else."""
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value


def _shape(text: str | None) -> tuple[int, ...] | None:
    if not text:
        return None
    parts = text.strip("[]()").replace(",", "x").split("x")
    if len(parts) > _MAX_RANK or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
        return None
    shape = tuple(int(part) for part in parts)
    return shape if math.prod(max(1, dim) for dim in shape) < 2**63 else None


def _no_table(path: Path | str, why: str) -> FormatError:
    return malformed(
        "PF3251",
        path,
        f"`{Path(path).name}` is named like device statistics and is no such table: {why}",
        help_text="wait until the dump is written, or dump again",
    )
