"""Read what a run with overflow detection left: records of units that overflowed, and dumps of the operators."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from probe_flow.dumps.device.overflow_records import read_op_debug
from probe_flow.dumps.device_folders.layout import is_time
from probe_flow.dumps.file_names import parse_ge_name
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.dumps.offline.om_files import OP_DEBUG, sort_om_files
from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.files.walk import dump_root, fingerprint, list_dump
from probe_flow.records import Catalog, DeviceFacts, Flow, NodeKey, Problem
from probe_flow.records.frameworks import OM

_NO_ID = frozenset({2**64 - 1, 2**32 - 1})
"""What stands for an id that the device does not know: -1."""


class Overflow(Struct, frozen=True):
    """One unit that reported an overflow.

    Args:
        unit: its name.
        said: what its status says, each bit with its number.
        time: of its record, in microseconds; which overflow came first.
        task_id, stream_id: of the task.
        file: the record's file, below the folder.
        node: the operator that ran this task; None where its dump is not there.
    """

    unit: str
    said: tuple[str, ...]
    time: int
    task_id: int | None
    stream_id: int | None
    file: str
    node: NodeKey | None = None


class OverflowRun(Struct, frozen=True):
    """The dump of the operators, without any where none was dumped, and the overflows in their order."""

    catalog: Catalog
    overflows: tuple[Overflow, ...]


def read_overflow_run(path: str | os.PathLike[str], *, side: str) -> OverflowRun:
    """Read the records of overflows and what was dumped beside them.

    Of several runs (folders named by a time) the newest counts, as of dumps.

    Raises:
        UsageError: PF3201 no such folder.
        IncompleteError: PF3202 it holds neither records nor dumps.
    """
    root = dump_root(path)
    listing = list_dump(root)
    sorted_files = sort_om_files(listing)
    if sorted_files.op_debug and not sorted_files.folders:
        problems = tuple(sorted_files.problems)
        catalog = Catalog(
            side, OM, "tensor", str(root), {}, (), problems=problems, fingerprint=fingerprint(listing.files),
            flow=Flow.GRAPH,
        )  # fmt: skip
    else:
        catalog = read_om(root, side=side)
    bad: list[Problem] = []
    files = _of_newest_run(sorted_files.op_debug, bad)
    found = sorted(_overflows(root, files, catalog, bad), key=lambda each: (each.time, each.file))
    known = (*catalog.problems, *bad)
    return OverflowRun(
        Catalog(
            side, OM, catalog.task, catalog.root, catalog.nodes, catalog.tensors, problems=known,
            fingerprint=catalog.fingerprint, attrs=catalog.attrs, flow=catalog.flow,
        ),
        tuple(found),
    )  # fmt: skip


def _of_newest_run(files: Sequence[str], problems: list[Problem]) -> list[str]:
    times = {parts[0] for parts in (file.split("/") for file in files) if is_time(parts[0])}
    if len(times) < 2:
        return list(files)
    newest = max(times)
    problems.append(
        Diagnostic(
            "PF3207",
            f"the folder holds overflow records of {len(times)} runs; those of the newest, `{newest}`, are read",
            severity=Severity.WARNING,
            help="give the folder of one run",
        )
    )
    return [file for file in files if file.startswith(f"{newest}/")]


def _overflows(root: Path, files: Sequence[str], catalog: Catalog, problems: list[Problem]) -> Iterator[Overflow]:
    owners: dict[tuple[int | None, int | None], NodeKey] = {}
    for key, node in sorted(catalog.nodes.items(), key=lambda item: item[1].order):
        facts = node.facts
        if isinstance(facts, DeviceFacts) and node.op_type != OP_DEBUG:
            owners.setdefault((facts.task_id, facts.stream_id), key)
    for file in files:
        name = parse_ge_name(file.rpartition("/")[2])
        try:
            records = read_op_debug(root / file)
        except FormatError as error:
            problems.append(error.diagnostic)
            continue
        for record in records:
            for unit in record.units:
                if record.is_valid and unit.has_overflow:
                    task, stream = unit.task
                    task_id = name.task_id if task in _NO_ID and name is not None else task
                    stream_id = name.stream_id if stream in _NO_ID and name is not None else stream
                    time = name.timestamp if name is not None else 0
                    owner = owners.get((task_id, stream_id))
                    yield Overflow(unit.unit, unit.meanings, time, task_id, stream_id, file, owner)
