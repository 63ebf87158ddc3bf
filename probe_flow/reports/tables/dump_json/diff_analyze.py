"""First differences as the JSON files that readers of the published analysis know.

``compare_result_rank<R>_<time>.json`` holds every entry of a rank with its rows, ``diff_analyze_<time>.json``
the first difference per rank. Keys and nesting are those of the published files; ``difference``, ``received`` and
``explanation`` are ours. NaN and infinities are text, so that every JSON parser reads the files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from probe_flow.files.atomic import atomic_text
from probe_flow.record.rows import stack_of
from probe_flow.records import Comparison, Row, SlotRole, TensorKind, TensorRef
from probe_flow.records.differences import Differences, EntryDifference, ExecutionDifferences
from probe_flow.reports.dump_json_columns import (
    ABSENT,
    CHECKSUMS,
    CONSISTENT,
    DIFFERENCES,
    PREFIX,
    STACK,
    STATISTICS,
    Layout,
)
from probe_flow.reports.parts import ranks_of
from probe_flow.reports.tables.dump_json.layout import PUBLISHED, facts, layout_of, sides_of
from probe_flow.reports.tables.dump_json.sides import Side

_STATES: Mapping[SlotRole, str] = MappingProxyType(
    {
        SlotRole.INPUT: "input",
        SlotRole.OUTPUT: "output",
        SlotRole.PARAMETER: "parameters",
        SlotRole.PARAMETER_GRAD: "parameters_grad",
        SlotRole.BUFFER: "input",
        SlotRole.DEBUG: "debug",
        SlotRole.CALL: "call",
    }
)
_SHOWN_STATISTICS = STATISTICS[:4]
_SHOWN_CHECKSUM = CHECKSUMS[0]
_PEER = "NPU P2POp peer"
_SIDES = ("NPU", "Bench")
_NO_P2P: Mapping[str, object] = MappingProxyType(
    {f"{side} P2POp {field}": "None" for field in ("op", "peer") for side in _SIDES}
)


def write_entries_json(found: ExecutionDifferences, comparison: Comparison, path: Path) -> None:
    """Write every entry of an execution with its rows, one line per entry.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        opening = "{\n"
        for name, entry in _named(found, comparison):
            value = {
                "is_same": entry.kind is None,
                "op_items": _items(entry, comparison),
                "difference": entry.kind.value if entry.kind else None,
            }
            file.write(f"{opening}{json.dumps(name)}: {json.dumps(value, allow_nan=False)}")
            opening = ",\n"
        file.write("\n}\n" if opening != "{\n" else "{}\n")


def write_first_json(differences: Differences, comparison: Comparison, path: Path) -> None:
    """Write the first difference of each rank that has one; ranks without a number count from 0.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    has_steps = len({found.execution.step for found in differences}) > 1
    content: dict[str, list[object]] = {}
    for found, rank in zip(differences, ranks_of(differences), strict=True):
        if found.first is None:
            continue
        entry = found.first.entry
        value: dict[str, object] = {
            "op_name": entry_name(entry, comparison),
            "data_info": _data(entry, comparison),
            "stack_info": list(_frames(entry, comparison)),
            "difference": entry.kind.value if entry.kind else None,
            "received": found.first.received,
            "explanation": found.first.explanation,
        }
        if has_steps:
            value["step"] = found.execution.step
        content.setdefault(f"rank_{rank}", []).append(value)
    with atomic_text(path) as file:
        json.dump(content, file, indent=2, allow_nan=False)
        file.write("\n")


def entry_name(entry: EntryDifference, comparison: Comparison) -> str:
    """Return the name of an entry as its dump writes it."""
    catalog = comparison.pairs.golden if entry.is_golden_only else comparison.pairs.target
    node = catalog.nodes.get(entry.node)
    return (node.entry if node else None) or entry.node.name


def _named(found: ExecutionDifferences, comparison: Comparison) -> Iterator[tuple[str, EntryDifference]]:
    """Yield the entries with keys: an entry of the golden alone may be named like another one of the target."""
    seen: set[str] = set()
    for entry in found.entries:
        name = entry_name(entry, comparison)
        while name in seen:
            name += " (golden)"
        seen.add(name)
        yield name, entry


def _items(entry: EntryDifference, comparison: Comparison) -> list[dict[str, object]]:
    has_stacks = bool(comparison.pairs.target.stacks or comparison.pairs.target.attrs.get("has_stacks"))
    frames: object = list(_frames(entry, comparison)) or ABSENT
    items = []
    for position in entry.rows:
        item = _columns(comparison.rows[position], comparison)
        if has_stacks:
            item[STACK] = frames
            frames = ABSENT
        item["state"] = _STATES[comparison.rows[position].pair.shown.slot.role]
        item["api_origin_name"] = entry_name(entry, comparison)
        item.update(_p2p_columns(comparison.rows[position]))
        items.append(item)
    return items


def _columns(row: Row, comparison: Comparison) -> dict[str, object]:
    """Return the columns of a row: those of statistics for dumps of tensors too."""
    is_checksum = layout_of(comparison) is Layout.CHECKSUM
    sides = sides_of([row], PUBLISHED)
    header = (*PREFIX, *(CHECKSUMS if is_checksum else (*DIFFERENCES, *STATISTICS)))
    cells = facts([row], Layout.CHECKSUM if is_checksum else Layout.STATISTICS, PUBLISHED)
    columns: dict[str, object] = {name: cell for name, (cell,) in zip(header, cells, strict=True)}
    ((target,), (golden,)) = sides
    for name, tensor in zip(PREFIX[:2], (row.pair.target, row.pair.golden), strict=True):
        columns[name] = _item_name(tensor)
    if not is_checksum:
        columns.update((name, str(columns[name])) for name in DIFFERENCES)
        values = (*_values(row.pair.target, target), *_values(row.pair.golden, golden))
        columns.update(zip(STATISTICS, values, strict=True))
    columns[CONSISTENT] = target.grad == golden.grad
    columns["Result"], columns["Err_message"] = _result(row, columns, is_checksum=is_checksum)
    return columns


def _result(row: Row, columns: Mapping[str, object], *, is_checksum: bool) -> tuple[str, str]:
    if row.pair.target is None or row.pair.golden is None:
        return ABSENT, row.pair.reason.text if row.pair.reason else ""
    if not is_checksum:
        return "", ""
    return ("pass" if columns[CHECKSUMS[0]] == columns[CHECKSUMS[1]] else "Different"), ""


def _item_name(tensor: TensorRef | None) -> str:
    if tensor is None:
        return ABSENT
    item = tensor.item
    return tensor.id if item is None else str(item)


def _values(tensor: TensorRef | None, side: Side) -> Iterator[object]:
    """Yield the statistics of a side as JSON holds them: NaN, infinities and extremes of truth values as text."""
    is_plain = tensor is not None and tensor.kind is TensorKind.SCALAR
    for value in side.values:
        is_number = isinstance(value, (int, float)) and math.isfinite(value)
        yield value if is_number and (is_plain or not isinstance(value, bool)) else str(value)


def _p2p_columns(row: Row) -> dict[str, object]:
    """Return operation and peer of a point-to-point operation; the text ``None`` where there is none."""
    columns = dict(_NO_P2P)
    for side, tensor in zip(_SIDES, (row.pair.target, row.pair.golden), strict=True):
        operation = tensor.facts.peers if tensor is not None else None
        if operation is not None:
            found = {field: operation.get(field) for field in ("op", "peer")}
            columns.update((f"{side} P2POp {field}", value) for field, value in found.items() if value is not None)
    return columns


def _data(entry: EntryDifference, comparison: Comparison) -> dict[str, dict[str, object]]:
    """Return what is shown of the inputs and outputs of an entry (gradients of parameters are outputs)."""
    data: dict[str, dict[str, object]] = {"input": {}, "output": {}}
    for position in entry.rows:
        row = comparison.rows[position]
        state = {"parameters_grad": "output", "debug": "output"}.get(
            _STATES[row.pair.shown.slot.role], _STATES[row.pair.shown.slot.role]
        )
        if state in data:
            columns = {**_columns(row, comparison), **_p2p_columns(row)}
            names = (_SHOWN_CHECKSUM,) if _SHOWN_CHECKSUM in columns else _SHOWN_STATISTICS
            data[state][_item_name(row.pair.shown)] = {name: columns[name] for name in (*names, _PEER)}
    return data


def _frames(entry: EntryDifference, comparison: Comparison) -> tuple[str, ...]:
    catalog = comparison.pairs.golden if entry.is_golden_only else comparison.pairs.target
    return stack_of(catalog, entry.node)
