"""The folder of a run: where it is, that it is ours, and what an earlier run left in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.reports.schemas import RUN_SCHEMA

RUNS_FOLDER = "probe_flow_runs"
RECORD_NAME = "run.json"
EVENTS_NAME = "events.jsonl"

_MAX_RECORD_BYTES = 256 * 2**20
_MAX_SAME_SECOND = 1000


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run.

    Args:
        path: absolute, exists.
        run_id: unique among the runs of one place: workflow name and start time.
        previous: files of an earlier run in the same folder, relative to it.
        started: start of the run that is resumed, as its record says; None for a new run.
    """

    path: Path
    run_id: str
    previous: tuple[str, ...] = ()
    started: str | None = None

    def forget_previous(self, current: Iterable[str]) -> None:
        """Delete result files of the earlier run that this one did not write again, so that no stale result stays."""
        root = self.path.resolve()
        for name in set(self.previous) - set(current):
            path = self.path / name
            # The list comes from a file: nothing outside the folder, nothing through a link.
            if path.is_file() and not path.is_symlink() and path.resolve().is_relative_to(root):
                path.unlink()


def open_run_folder(output: Path | None, workflow: str, *, now: datetime, cwd: Path) -> RunFolder:
    """Create or take over the folder of a run.

    Args:
        output: the folder asked for, relative to `cwd`; None = a new ``probe_flow_runs/<workflow>-<time>``.
        workflow: name of the workflow.
        now: start of the run.
        cwd: working directory.

    Raises:
        UsageError: PF6010 when `output` holds something that is no run, PF6011 when it cannot be created.
    """
    stem = f"{_as_file_name(workflow)}-{now:%Y%m%d-%H%M%S}"
    try:
        if output is None:
            path = _create_unique(cwd / RUNS_FOLDER, stem)
            return RunFolder(path, path.name)
        path = cwd / output
        previous = _check_ours(path) if path.exists() else ()
        path.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(
            Diagnostic(
                "PF6011",
                f"the output folder cannot be used: {exc.strerror or exc}",
                path=str(output or cwd / RUNS_FOLDER),
                help="name a folder that you may write with `--output`",
            )
        ) from exc
    return RunFolder(path, stem, previous)


def reopen_run_folder(output: Path | None, workflow: str, *, cwd: Path) -> RunFolder:
    """Take over the folder of a run that did not end: the one asked for, or the newest of this workflow.

    Raises:
        UsageError: PF6012 when there is no such run, or it is one of another workflow.
    """
    path = cwd / output if output is not None else _newest(cwd / RUNS_FOLDER, workflow)
    record = _read_record(path / RECORD_NAME) if path is not None else None
    if path is None or record is None or _workflow_of(record) != workflow:
        where = str(path or cwd / RUNS_FOLDER)
        raise UsageError(
            Diagnostic(
                "PF6012",
                f"there is no run of workflow `{workflow}` to resume",
                path=where,
                help="name its folder with `--output`, or leave out `--resume`",
            )
        )
    started = record.get("timings", {}).get("started")
    return RunFolder(path, str(record.get("run_id", path.name)), _check_ours(path), started)


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
    for number in range(1, _MAX_SAME_SECOND):
        path = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue  # another run began in the same second
        return path
    raise FileExistsError(f"{_MAX_SAME_SECOND} runs began in the same second")


def _check_ours(path: Path) -> tuple[str, ...]:
    """Return the files of the earlier run in `path`; refuse a folder that holds anything but a run."""
    if not path.is_dir():
        raise UsageError(
            Diagnostic("PF6010", "the output is a file, not a folder", path=str(path), help="name a folder")
        )
    if not any(path.iterdir()):
        return ()
    record = _read_record(path / RECORD_NAME)
    if record is None:
        raise UsageError(
            Diagnostic(
                "PF6010",
                "the output folder is not empty and holds no run of probe_flow",
                path=str(path),
                help="name an empty or a new folder; results never replace files of other origin",
            )
        )
    artifacts = record.get("artifacts")
    return tuple(name for name in artifacts if isinstance(name, str)) if isinstance(artifacts, list) else ()


def _read_record(path: Path) -> dict[str, Any] | None:
    """Return the record of a run, None when there is none that we wrote."""
    if not path.is_file() or path.stat().st_size > _MAX_RECORD_BYTES:
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("schema") == RUN_SCHEMA else None


def _as_file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "run"
