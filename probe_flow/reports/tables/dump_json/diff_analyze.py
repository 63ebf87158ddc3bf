"""First differences as the JSON files that readers of the published analysis know.

``compare_result_rank<R>_<time>.json`` holds every entry of a rank with its rows, ``diff_analyze_<time>.json``
the first difference per rank. Keys and nesting are those of the published files; ``difference``, ``received`` and
``explanation`` are ours. NaN and infinities are text, so that every JSON parser reads the files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
from probe_flow.reports.tables.dump_json.layout import PUBLISHED, batches, both_sides, facts, layout_of
from probe_flow.reports.tables.dump_json.sides import Value

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
        columns = _columns(chain.from_iterable(entry.rows for entry in found.entries), comparison)
        for name, entry in _named(found, comparison):
            value = {
                "is_same": entry.kind is None,
                "op_items": _items(entry, comparison, columns),
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


def _items(
    entry: EntryDifference, comparison: Comparison, columns: Iterator[dict[str, object]]
) -> list[dict[str, object]]:
    """Return what is said of the rows of an entry, whose columns come next."""
    has_stacks = bool(comparison.pairs.target.stacks or comparison.pairs.target.attrs.get("has_stacks"))
    frames: object = list(_frames(entry, comparison)) or ABSENT
    items = []
    for position, item in zip(entry.rows, columns, strict=False):
        if has_stacks:
            item[STACK] = frames
            frames = ABSENT
        item["state"] = _STATES[comparison.rows[position].pair.shown.slot.role]
        item["api_origin_name"] = entry_name(entry, comparison)
        item.update(_p2p_columns(comparison.rows[position]))
        items.append(item)
    return items


def _columns(positions: Iterable[int], comparison: Comparison) -> Iterator[dict[str, object]]:
    """Yield the columns of rows: those of statistics for dumps of tensors too."""
    is_checksum = layout_of(comparison) is Layout.CHECKSUM
    layout = Layout.CHECKSUM if is_checksum else Layout.STATISTICS
    header = (*PREFIX, *(CHECKSUMS if is_checksum else (*DIFFERENCES, *STATISTICS)))
    for rows in batches([comparison.rows[position] for position in positions]):
        sides = both_sides(rows, PUBLISHED)
        consistent = [target == golden for target, golden in zip(*(side.grads for side in sides), strict=True)]
        values = zip(*(column for side in sides for column in side.values), strict=True)
        cells = zip(*facts(rows, layout, PUBLISHED), strict=True)
        for row, found, given, is_consistent in zip(rows, cells, values, consistent, strict=True):
            columns: dict[str, object] = dict(zip(header, found, strict=True))
            tensors = row.pair.target, row.pair.golden
            columns.update(zip(PREFIX[:2], map(_item_name, tensors), strict=True))
            if not is_checksum:
                columns.update((name, str(columns[name])) for name in DIFFERENCES)
                shown = (*_values(tensors[0], given[:4]), *_values(tensors[1], given[4:]))
                columns.update(zip(STATISTICS, shown, strict=True))
            columns[CONSISTENT] = is_consistent
            columns["Result"], columns["Err_message"] = _result(row, columns, is_checksum=is_checksum)
            yield columns


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


def _values(tensor: TensorRef | None, values: Sequence[Value]) -> Iterator[object]:
    """Yield the statistics of a side as JSON holds them: NaN, infinities and extremes of truth values as text."""
    is_plain = tensor is not None and tensor.kind is TensorKind.SCALAR
    for value in values:
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
    for position, found in zip(entry.rows, _columns(entry.rows, comparison), strict=True):
        row = comparison.rows[position]
        state = {"parameters_grad": "output", "debug": "output"}.get(
            _STATES[row.pair.shown.slot.role], _STATES[row.pair.shown.slot.role]
        )
        if state in data:
            columns = {**found, **_p2p_columns(row)}
            names = (_SHOWN_CHECKSUM,) if _SHOWN_CHECKSUM in columns else _SHOWN_STATISTICS
            data[state][_item_name(row.pair.shown)] = {name: columns[name] for name in (*names, _PEER)}
    return data


def _frames(entry: EntryDifference, comparison: Comparison) -> tuple[str, ...]:
    catalog = comparison.pairs.golden if entry.is_golden_only else comparison.pairs.target
    return stack_of(catalog, entry.node)
