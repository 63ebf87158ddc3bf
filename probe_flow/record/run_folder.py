"""Read the folder that a run left: its record, and its rows one by one, without the dumps."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, IncompleteError, UsageError, did_you_mean
from probe_flow.files.existing import is_file, is_folder
from probe_flow.files.opening import read_text
from probe_flow.record.line_file import LineFile
from probe_flow.record.older_runs import node_of_1, row_of_1, run_of_1
from probe_flow.record.row_index import FILE as INDEX
from probe_flow.record.row_index import StoredIndex, read_index
from probe_flow.record.stored_rows import ROW, StoredRows
from probe_flow.record.types.nodes import NodeRecord
from probe_flow.record.types.reading import MisfitError, Reader
from probe_flow.record.types.rows import DetailRecord, RowRecord
from probe_flow.record.types.run import RUN_SCHEMA, RunRecord
from probe_flow.records import Phase

RECORD = "run.json"
SCHEMAS = ("probe_flow.run/1", RUN_SCHEMA)
"""Formats of run.json that are read."""

ROWS = "comparison.jsonl"
NODES = "nodes.jsonl"
DETAILS = "details.jsonl"
INNER_FOLDER = "probe_flow"
"""Where the commands with the peer's syntax leave the record, below their output folder."""

MAX_RECORD_BYTES = 256 * 2**20
VERSION = 2
"""Of the files that runs leave now."""

_RUN, _NODE, _DETAIL = Reader(RunRecord), Reader(NodeRecord), Reader(DetailRecord)
_FORMAT = re.compile(r"probe_flow\.run/(\d{1,6})")


class KernelParts(Struct, frozen=True, gc=False):
    """The attributes that name the kernel of a node."""

    kernel: Any = None
    kernel_name: Any = None


class EdgeParts(Struct, frozen=True, gc=False):
    """An edge, whatever else may be said of it."""

    input: int
    producer: str
    call: int
    phase: Phase
    output: int


class NodeParts(Struct):
    """The fields of a node that say what it is called and how it belongs to others.

    Not frozen: its reader adds the comparison, and counts the line that `stack` may name over all of them.
    """

    side: str
    order: int
    rank: int | None
    graph: int | str | None
    step: int | None
    node: str
    name: str
    call: int
    phase: Phase
    op_type: str
    parent: str | None
    edges: tuple[EdgeParts, ...]
    stack: tuple[str, ...] | int
    passes: tuple[str, ...]
    attributes: KernelParts
    comparison: str | None = None


_PARTS = Reader(NodeParts)


class StoredRun(Struct, frozen=True):
    """A run as its folder has it.

    Args:
        folder: where the record lies.
        record: what ``run.json`` says.
        version: of the format of its files.
    """

    folder: Path
    record: RunRecord
    version: int = VERSION

    @property
    def comparisons(self) -> tuple[str, ...]:
        """Names of the stages that compared, in the order of their rows."""
        return tuple(self.record.comparisons)

    def rows(self, *, comparison: str | None = None) -> Iterator[RowRecord]:
        """Yield the records of all pairs, or those of one comparison, in execution order; none when nothing compared.

        With several comparisons every record has its stage as ``comparison``.

        Raises:
            UsageError: PF7114 when no stage of that name compared.
            IncompleteError: PF7113 when a file is missing, ends or goes wrong in the middle, or has not as many records
                as the run counted.
        """
        has_several = self._has_several
        for name in self._chosen(comparison):
            for row in self._rows_file(name).records(ROW, counted=self._counted(name)):
                yield replace(row, comparison=name) if has_several else row

    def stored_rows(self, *, comparison: str | None = None) -> Iterator[StoredRows]:
        """Yield the rows of each comparison, or of one, for questions that need few of them.

        Raises:
            UsageError: PF7114 when no stage of that name compared.
        """
        for name in self._chosen(comparison):
            file, index = self._rows_file(name), self._index(name)
            written = index.rows if index is not None and index.rows.digest.is_of(file.path) else None
            yield StoredRows(name if self._has_several else None, file, written, self._counted(name))

    def _chosen(self, comparison: str | None) -> tuple[str, ...]:
        self.check_comparison(comparison)
        return self.comparisons if comparison is None else (comparison,)

    @property
    def _has_several(self) -> bool:
        return len(self.comparisons) > 1

    def _rows_file(self, comparison: str) -> LineFile:
        upgrade = row_of_1 if self.version == 1 else None
        return LineFile(self.file(ROWS, comparison=comparison), "pair", _rows_unreadable, upgrade)

    def _nodes_file(self, comparison: str) -> LineFile:
        upgrade = node_of_1 if self.version == 1 else None
        return LineFile(self.file(NODES, comparison=comparison), "node", _nodes_unreadable, upgrade)

    def _index(self, comparison: str) -> StoredIndex | None:
        """Return the index that a comparison left, which may be of other files; it is smaller than its rows."""
        rows = self.file(ROWS, comparison=comparison)
        try:
            return read_index(rows.with_name(INDEX), limit=rows.stat().st_size)
        except OSError:
            return None

    def _counted(self, comparison: str) -> int | None:
        """Return how many rows a comparison had, None when its record does not say."""
        counts = self.record.comparisons[comparison].counts
        return sum(counts.values()) if counts else None

    def nodes(self, *, lines: Collection[int] | None = None) -> Iterator[tuple[int, NodeRecord]]:
        """Yield the records of all nodes with their numbers, counted over all comparisons; or only those of `lines`.

        Where a record points to another for its stack, it does so by number.

        Raises:
            IncompleteError: PF7204 when a file is missing, ends or goes wrong in the middle, or has not as many records
                as the run counted.
        """
        total = 0
        for name in self.comparisons:
            file = self._nodes_file(name)
            first, number = total, 0
            read = file.reading(_NODE)
            for number, line in enumerate(file.lines(), start=1):
                if lines is None or total in lines:
                    node = read(line, number)
                    if isinstance(node.stack, int):
                        node = replace(node, stack=_earlier(first + node.stack - 1, total, file.path))
                    yield total, replace(node, comparison=name) if self._has_several else node
                total += 1
            file.check_count(number, self.record.comparisons[name].nodes)

    def node_parts(self) -> Iterator[NodeParts]:
        """Yield what the records of all nodes say of how nodes belong together; the same order as `nodes`.

        Raises:
            IncompleteError: as `nodes`.
        """
        number, has_several = 0, self._has_several
        for name in self.comparisons:
            file, index, first = self._nodes_file(name), self._index(name), number
            check = None if index is not None and index.nodes.is_of(file.path) else _NODE
            for part in file.records(_PARTS, counted=self.record.comparisons[name].nodes, check=check):
                if has_several:
                    part.comparison = name
                if isinstance(part.stack, int):
                    part.stack = _earlier(first + part.stack - 1, number, file.path)
                yield part
                number += 1

    def detail(self, row: RowRecord) -> DetailRecord | None:
        """Return the closer look that the run took at a row, None when it took none or the file is gone or damaged."""
        comparison = row.comparison or next(iter(self.comparisons), "")
        try:
            for line in LineFile(self.file(DETAILS, comparison=comparison), "row", _rows_unreadable).lines():
                found = _DETAIL.read(line)
                if found.order == row.order:
                    return found
        except (IncompleteError, ValueError, RecursionError):
            return None
        return None

    def file(self, name: str, *, comparison: str) -> Path:
        """Return where a file of a comparison lies: in its own folder when the run was to have several."""
        has_own = self._has_several or f"{comparison}/{name}" in self.record.artifacts
        return self.folder / comparison / name if has_own else self.folder / name

    def check_comparison(self, comparison: str | None) -> None:
        """Raise PF7114 when a comparison is named that the run does not have."""
        names = self.comparisons
        if comparison is not None and comparison not in names:
            hint = did_you_mean(comparison, names) or "stages that compared: " + (", ".join(names) or "none")
            raise UsageError(
                Diagnostic("PF7114", f"no stage `{comparison}` compared in this run", help=hint, path=str(self.folder))
            )


def read_run(path: Path) -> StoredRun:
    """Return the run in a folder.

    Args:
        path: the folder, its ``run.json``, or the output folder of a command with the peer's syntax.

    Raises:
        UsageError: PF7110 when there is none, PF7112 when its record is of another version.
        IncompleteError: PF7111 when its record cannot be read.
    """
    file = _record_file(path)
    record = _parse(file)
    known = _FORMAT.fullmatch(record["schema"]) if isinstance(record.get("schema"), str) else None
    if known is None:
        raise _none_at(path, f"`{file.name}` is no record of a run of probe_flow")
    version = int(known[1])
    if record["schema"] not in SCHEMAS:
        raise UsageError(_other_version(file, record, version))
    try:
        return StoredRun(file.parent, _RUN.convert(run_of_1(record) if version == 1 else record), version)
    except MisfitError as error:
        raise _unreadable(file, str(error)) from error


def _record_file(path: Path) -> Path:
    if is_file(path):
        return path
    for folder in (path, path / INNER_FOLDER):
        if is_file(folder / RECORD):
            return folder / RECORD
    raise _none_at(path, f"there is no `{RECORD}` in it" if is_folder(path) else "there is no such folder")


def _none_at(path: Path, why: str) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF7110",
            f"`{path}` holds no run: {why}",
            path=str(path),
            help="name the folder of a run: what `--output` named, or one below `probe_flow_runs`",
        )
    )


def _parse(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > MAX_RECORD_BYTES:
            raise _unreadable(file, f"it is larger than {MAX_RECORD_BYTES // 2**20} MiB")
        text = read_text(file)
        record = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as exc:
        at_end = not text[exc.pos :].strip()
        place = f"line {exc.lineno}, column {exc.colno}"
        why = f"it ends in the middle ({place})" if at_end else f"{exc.msg} ({place})"
        raise _unreadable(file, why) from exc
    except OSError as exc:
        raise _unreadable(file, exc.strerror or str(exc)) from exc
    except (ValueError, RecursionError) as exc:
        raise _unreadable(file, str(exc)) from exc
    if not isinstance(record, dict):
        raise _unreadable(file, "it holds no JSON object")
    return record


def _no_number(word: str) -> None:
    raise ValueError(f"`{word}` is no number of JSON")


def _unreadable(file: Path, why: str) -> IncompleteError:
    return IncompleteError(
        Diagnostic(
            "PF7111",
            f"`{file.name}` is no record of a run: {why}",
            path=str(file),
            help="copy the folder again, or repeat the run",
        )
    )


def _other_version(file: Path, record: Mapping[str, Any], version: int) -> Diagnostic:
    is_newer = version > VERSION
    versions = record.get("versions")
    writer = versions.get("probe_flow") if isinstance(versions, Mapping) else None
    age = "newer" if is_newer else "older"
    read = " and ".join(f"`{name}`" for name in SCHEMAS)
    by = f", written by probe_flow {writer}" if isinstance(writer, str) else ""
    return Diagnostic(
        "PF7112",
        f"`{file.name}` has the {age} format `{record['schema']}`{by}; this probe_flow reads {read}",
        path=str(file),
        help="update probe_flow" if is_newer else "repeat the run with this probe_flow, or use the one that wrote it",
    )


def _earlier(line: int, before: int, file: Path) -> int:
    """Return the number of a record that a later one points to."""
    if not line < before:
        raise _nodes_unreadable(file, f"record {before + 1} has the stack of a record that is not before it")
    return line


def _rows_unreadable(file: Path, why: str) -> IncompleteError:
    return IncompleteError(
        Diagnostic(
            "PF7113",
            f"the rows of the run cannot be read from `{file.name}`: {why}",
            path=str(file),
            help="copy the folder again, or repeat the run",
        )
    )


def _nodes_unreadable(file: Path, why: str) -> IncompleteError:
    return IncompleteError(
        Diagnostic(
            "PF7204",
            f"the nodes of the run cannot be read from `{file.name}`: {why}",
            path=str(file),
            help="copy the folder again, or repeat the run; questions about rows are answered without it",
        )
    )
