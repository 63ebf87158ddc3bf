"""Read the folder that a run left: its record, and its rows one by one, without the dumps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from probe_flow.errors import Diagnostic, IncompleteError, UsageError, did_you_mean
from probe_flow.files.existing import is_file, is_folder
from probe_flow.files.opening import open_bytes, read_text
from probe_flow.record.run_json import with_lists
from probe_flow.record.run_schema import RUN_SCHEMA, run_schema
from probe_flow.record.stored_records import NODE, ROW, Types, is_detail, misfit, wrong_key

RECORD = "run.json"
ROWS = "comparison.jsonl"
NODES = "nodes.jsonl"
DETAILS = "details.jsonl"
INNER_FOLDER = "probe_flow"
"""Where the commands with the peer's syntax leave the record, below their output folder."""

MAX_RECORD_BYTES = 256 * 2**20
MAX_LINE_BYTES = 64 * 2**20
"""No record of ours comes near; a file without line ends must not fill the memory."""

_WHAT = {ROWS: "pair", NODES: "node"}
_Complaint = Callable[[Path, str], IncompleteError]
_FORMAT = re.compile(r"probe_flow\.run/(\d{1,6})")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as its folder tells it.

    Args:
        folder: where the record lies.
        record: what ``run.json`` says.
    """

    folder: Path
    record: Mapping[str, Any]

    @property
    def comparisons(self) -> tuple[str, ...]:
        """Names of the stages that compared, in the order of their rows."""
        return tuple(self.record.get("comparisons") or ())

    def rows(self, *, comparison: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the records of all pairs, or those of one comparison, in execution order; none when nothing compared.

        With several comparisons every record has its stage as ``comparison``.

        Raises:
            UsageError: PF7114 when no stage of that name compared.
            IncompleteError: PF7113 when a file is missing, ends or goes wrong in the middle, or has not as many records
                as the run counted.
        """
        self.check_comparison(comparison)
        several = len(self.comparisons) > 1
        for name in self.comparisons:
            if comparison is None or name == comparison:
                for row in _read_rows(self.file(ROWS, comparison=name), self._counted(name)):
                    yield {"comparison": name, **row} if several else row

    def _counted(self, comparison: str) -> int | None:
        """Return how many rows a comparison had, None when its record does not say."""
        counts = self.record["comparisons"][comparison].get("counts")
        return None if counts is None else sum(counts.values())

    def _counted_nodes(self, comparison: str) -> int | None:
        count: int | None = self.record["comparisons"][comparison].get("nodes")
        return count

    def nodes(self, *, lines: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the records of all nodes with their numbers, counted over all comparisons; or only those of `lines`.

        Raises:
            IncompleteError: PF7204 when a file is missing, ends or goes wrong in the middle, or has not as many records
                as the run counted.
        """
        several = len(self.comparisons) > 1
        total = 0
        for name in self.comparisons:
            file = self.file(NODES, comparison=name)
            number = 0
            for number, line in enumerate(_whole_lines(file, _nodes_unreadable), start=1):
                if lines is None or total in lines:
                    node = _record(line, number, file, _nodes_unreadable, NODE)
                    yield total, {"comparison": name, **node} if several else node
                total += 1
            _check_count(number, self._counted_nodes(name), file, _nodes_unreadable)

    def detail(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the closer look that the run took at a row, None when it took none or the file is gone or damaged."""
        comparison = row.get("comparison") or next(iter(self.comparisons), "")
        try:
            for line in _whole_lines(self.file(DETAILS, comparison=comparison), _nodes_unreadable):
                found = json.loads(line)
                if isinstance(found, dict) and found.get("order") == row.get("order"):
                    return found if is_detail(found) else None
        except (IncompleteError, ValueError, RecursionError):  # runs of earlier versions have no such file
            return None
        return None

    def file(self, name: str, *, comparison: str) -> Path:
        """Return where a file of a comparison lies: in a folder of its own when the run has several."""
        return self.folder / comparison / name if len(self.comparisons) > 1 else self.folder / name

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
    if record["schema"] != RUN_SCHEMA:
        raise UsageError(_other_version(file, record, int(known[1])))
    lacking = [key for key in ("verdict", "exit_code", "counts", "coverage", "stages") if key not in record]
    if lacking:
        raise _unreadable(file, f"it lacks `{lacking[0]}`")
    whole = run_schema()
    wrong = misfit(record, whole, whole["$defs"])
    if wrong is not None:
        raise _unreadable(file, wrong)
    return StoredRun(file.parent, with_lists(record))


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
    is_newer = version > int(RUN_SCHEMA.rpartition("/")[2])
    versions = record.get("versions")
    writer = versions.get("probe_flow") if isinstance(versions, Mapping) else None
    age = "newer" if is_newer else "older"
    by = f", written by probe_flow {writer}" if isinstance(writer, str) else ""
    return Diagnostic(
        "PF7112",
        f"`{file.name}` has the {age} format `{record['schema']}`{by}; this probe_flow reads `{RUN_SCHEMA}`",
        path=str(file),
        help="update probe_flow" if is_newer else "repeat the run with this probe_flow, or use the one that wrote it",
    )


def _read_rows(file: Path, counted: int | None) -> Iterator[dict[str, Any]]:
    number = 0
    for number, line in enumerate(_whole_lines(file, _rows_unreadable), start=1):
        yield _record(line, number, file, _rows_unreadable, ROW)
    _check_count(number, counted, file, _rows_unreadable)


def _check_count(number: int, counted: int | None, file: Path, unreadable: _Complaint) -> None:
    """Raise when a file has another number of records than its run; runs of earlier versions did not count nodes."""
    if counted is not None and number != counted:
        raise unreadable(file, f"it has {number} records, the run had {counted}")


def _whole_lines(file: Path, unreadable: _Complaint) -> Iterator[bytes]:
    try:
        with open_bytes(file) as lines:
            for number, line in enumerate(_lines(lines, file, unreadable), start=1):
                if not line.endswith(b"\n"):
                    raise unreadable(file, f"it ends in the middle of line {number}")
                yield line
    except FileNotFoundError as exc:
        raise unreadable(file, "it is missing") from exc
    except OSError as exc:
        raise unreadable(file, exc.strerror or str(exc)) from exc


def _lines(file: IO[bytes], path: Path, unreadable: _Complaint) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise unreadable(path, f"a line is longer than {MAX_LINE_BYTES // 2**20} MiB")
        yield line


def _record(line: bytes, number: int, file: Path, unreadable: _Complaint, types: Types) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise unreadable(file, f"line {number} is no record: {exc}") from exc
    wrong = wrong_key(record, types)
    if wrong is not None:
        where = f": `{wrong}`" if wrong else ""
        raise unreadable(file, f"line {number} is no record of a {_WHAT[file.name]}{where}")
    found: dict[str, Any] = record
    return found


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
