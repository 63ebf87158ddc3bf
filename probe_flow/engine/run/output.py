"""The folder of a run: where it is, that it is ours alone, and what earlier runs left in it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from probe_flow.engine.cache import PARTIAL
from probe_flow.engine.run.events import FILE_BEGUN
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.existing import is_file
from probe_flow.files.leftovers import is_temporary, remove_leftovers
from probe_flow.files.lock_file import RUN_LOCK, STALE_S, HeldError, LockFile
from probe_flow.files.opening import open_bytes, read_text

if TYPE_CHECKING:
    from typing_extensions import Self

RUNS_FOLDER = "probe_flow_runs"
RECORD_NAME = "run.json"
EVENTS_NAME = "events.jsonl"
LOCK_NAME = RUN_LOCK

MAX_RECORD_BYTES = 256 * 2**20
"""Bytes of a run.json or events.jsonl of an earlier run that are read."""

MAX_EVENTS = 1_000_000
"""Events of an earlier run that are searched for files that it began."""

MAX_SAME_SECOND = 1000
"""Runs of one workflow in one place that may begin in the same second."""


class RunFolder(Struct, frozen=True):
    """The folder of one run, which no other run uses as long as this object is not closed. Use it in ``with``.

    Args:
        path: absolute, exists.
        run_id: unique among the runs of one place: workflow name and start time.
        lock: keeps other runs out.
        previous: result files of earlier runs in the same folder, relative to it.
        started: start of the run that is resumed, as its record says; None for a new run.
        is_resumed: whether it continues an earlier run.
    """

    path: Path
    run_id: str
    lock: LockFile
    previous: tuple[str, ...] = ()
    started: str | None = None
    is_resumed: bool = False

    def clear(self) -> None:
        """Delete what earlier runs left, so that no stale result stays: result files, and temporary ones.

        A run that is resumed keeps what it measured.
        """
        if self.lock.was_left:
            remove_leftovers(self.path, is_ours=True)
        if not self.is_resumed:
            shutil.rmtree(self.path / PARTIAL, ignore_errors=True)
        root = self.path.resolve()
        for name in self.previous:
            path = self.path / name
            # The list comes from a file: nothing outside the folder, nothing through a link.
            if name not in OWN_FILES and is_file(path) and not path.is_symlink():
                inside = path.resolve()
                if inside.is_relative_to(root):
                    with suppress(OSError):
                        path.unlink()
                        _remove_empty(inside.parent, root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.lock.release()


OWN_FILES = (RECORD_NAME, EVENTS_NAME)
"""Files of every run."""


def open_run_folder(output: Path | None, workflow: str, *, now: datetime, cwd: Path) -> RunFolder:
    """Create or take over the folder of a run.

    Args:
        output: the folder asked for, relative to `cwd`; None = a new ``probe_flow_runs/<workflow>-<time>``.
        workflow: name of the workflow.
        now: start of the run.
        cwd: working directory.

    Raises:
        UsageError: PF6010 when `output` holds something that is no run, PF6011 when it cannot be created, PF6013
            when another process runs in it.
    """
    stem = f"{_as_file_name(workflow)}-{now:%Y%m%d-%H%M%S}"
    try:
        if output is None:
            path = _create_unique(cwd / RUNS_FOLDER, stem)
            return RunFolder(path, path.name, _locked(path))
        path = cwd / output
        if path.exists():
            _check_ours(path)
        path.mkdir(parents=True, exist_ok=True)
        lock = _locked(path)
    except OSError as exc:
        raise _unusable(output or cwd / RUNS_FOLDER, exc) from exc
    try:
        return RunFolder(path, stem, lock, previous_files(path))
    except BaseException:
        lock.release()
        raise


def reopen_run_folder(output: Path | None, workflow: str, *, cwd: Path) -> RunFolder:
    """Take over the folder of a run that did not end: the one asked for, or the newest of this workflow.

    A run that was killed before it had a record left an empty folder, and begins anew.

    Raises:
        UsageError: PF6012 when there is no such run, or it is one of another workflow; PF6011 and PF6013 as
            `open_run_folder`.
    """
    path = cwd / output if output is not None else _newest(cwd / RUNS_FOLDER, workflow)
    if path is None or not path.is_dir() or not _is_of(path, workflow):
        raise UsageError(
            Diagnostic(
                "PF6012",
                f"there is no run of workflow `{workflow}` to resume",
                path=str(path or cwd / RUNS_FOLDER),
                help="name its folder with `--output`, or leave out `--resume`",
            )
        )
    try:
        lock = _locked(path)
    except OSError as exc:
        raise _unusable(path, exc) from exc
    try:
        record = _read_record(path / RECORD_NAME) or {}
        timings = record.get("timings")
        started = timings.get("started") if isinstance(timings, dict) else None
        run_id = str(record.get("run_id", path.name))
        return RunFolder(path, run_id, lock, previous_files(path), started, is_resumed=True)
    except BaseException:
        lock.release()
        raise


def _is_of(path: Path, workflow: str) -> bool:
    """Tell whether a folder has a run of this workflow, or one that was killed before it could say so."""
    record = _read_record(path / RECORD_NAME)
    return _is_bare(path) if record is None else _workflow_of(record) == workflow


def _locked(path: Path) -> LockFile:
    """Return the lock of a run's folder; raise PF6013 when another process has it."""
    try:
        return LockFile(path / LOCK_NAME)
    except HeldError as exc:
        raise UsageError(
            Diagnostic(
                "PF6013",
                f"a run is at work in the output folder: {exc.holder}",
                path=str(path),
                help="wait until it has ended, end it, or name another folder with `--output`",
                notes=(
                    f"the folder of a run that was killed is free at once, on another machine after {STALE_S:.0f} s",
                ),
            )
        ) from exc


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF6011",
            f"the output folder cannot be used: {error.strerror or error}",
            path=str(path),
            help="name a folder that you may write with `--output`",
        )
    )


def _newest(runs: Path, workflow: str) -> Path | None:
    """Return the newest run folder of a workflow, by name: they end in their start time."""
    stem = _as_file_name(workflow)
    found = [path for path in runs.glob(f"{stem}-[0-9]*") if path.is_dir()] if runs.is_dir() else []
    return max(found, key=lambda path: path.name, default=None)


def _workflow_of(record: dict[str, Any]) -> object:
    workflow = record.get("workflow")
    return workflow.get("name") if isinstance(workflow, dict) else workflow


def _create_unique(parent: Path, stem: str) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, MAX_SAME_SECOND):
        path = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue  # another run began in the same second
        return path
    raise FileExistsError(f"{MAX_SAME_SECOND} runs began in the same second")


def _is_bare(path: Path) -> bool:
    """Tell whether nothing lies in a folder but what a run leaves that is killed before its first record."""
    return all(entry.name == LOCK_NAME or is_temporary(entry.name) for entry in path.iterdir())


def _check_ours(path: Path) -> None:
    """Refuse a folder that holds anything but a run."""
    if not path.is_dir():
        raise UsageError(
            Diagnostic("PF6010", "the output is a file, not a folder", path=str(path), help="name a folder")
        )
    if not _is_bare(path) and _read_record(path / RECORD_NAME) is None:
        raise UsageError(
            Diagnostic(
                "PF6010",
                "the output folder is not empty and holds no run of probe_flow",
                path=str(path),
                help="name an empty or a new folder; results never replace files of other origin",
            )
        )


def previous_files(path: Path) -> tuple[str, ...]:
    """Return the result files of the earlier runs in a folder, as their records name them.

    A run that was killed may have put files in place that its record does not name yet: its events do.
    """
    record = _read_record(path / RECORD_NAME) or {}
    artifacts = record.get("artifacts")
    listed = [name for name in artifacts if isinstance(name, str)] if isinstance(artifacts, list) else []
    return tuple(dict.fromkeys((*listed, *_begun_files(path / EVENTS_NAME))))


def _begun_files(events: Path) -> Iterator[str]:
    if not is_file(events) or events.stat().st_size > MAX_RECORD_BYTES:
        return
    with open_bytes(events) as lines:
        for line in islice(lines, MAX_EVENTS):
            if FILE_BEGUN.encode() in line:
                with suppress(ValueError, RecursionError):
                    event = json.loads(line)
                    if isinstance(event, dict) and isinstance(event.get("file"), str):
                        yield event["file"]


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove a folder that holds nothing any more, and those above it, up to the run's own."""
    while folder != root:
        folder.rmdir()
        folder = folder.parent


def _read_record(path: Path) -> dict[str, Any] | None:
    """Return the record of a run, None when there is none that we wrote."""
    if not is_file(path) or path.stat().st_size > MAX_RECORD_BYTES:
        return None
    from probe_flow.record.run_folder import SCHEMAS

    try:
        record = json.loads(read_text(path))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("schema") in SCHEMAS else None


def _as_file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "run"
