"""The runs below a folder, the newest first: for `runs`, and for `show`, `diff` and `shell` where none is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, ProbeFlowError, UsageError
from probe_flow.files.existing import first_names, is_file
from probe_flow.record.run_folder import INNER_FOLDER, RECORD, StoredRun, read_run

RUNS_FOLDER = "probe_flow_runs"
"""Where runs go for which nobody names a folder."""

MAX_FOLDERS = 10_000
"""Folders that are looked into."""


class FoundRun(Struct, frozen=True):
    """A folder that holds the record of a run.

    Args:
        folder: as the user would type it.
        written_s: when its record was written last, in seconds since 1970.
    """

    folder: Path
    written_s: float


def found_runs(start: Path) -> list[FoundRun]:
    """Return the runs of a folder, the newest first.

    Looked at are the folder itself, what lies in it and in its ``probe_flow_runs``, and of each of these the folder
    ``probe_flow``, in which commands in msprobe's syntax leave theirs.

    Args:
        start: the folder, as the user would type it; ``Path()`` is the working directory.
    """
    found = {}
    for folder in _candidates(start):
        record = folder / RECORD
        try:
            if is_file(record):
                found[folder] = FoundRun(folder, record.stat().st_mtime)
        except OSError:  # it went away while we looked
            continue
    return sorted(found.values(), key=lambda each: (-each.written_s, str(each.folder)))


def newest_run(start: Path) -> Path:
    """Return the folder of the newest run.

    Raises:
        UsageError: PF7119 when there is none.
    """
    runs = found_runs(start)
    if not runs:
        raise UsageError(_nothing(start))
    return runs[0].folder


def newest_pair(start: Path, golden: Path | None = None) -> tuple[Path, Path]:
    """Return what a difference is made of where it is not said: an earlier run and the newest one of the same workflow.

    Args:
        start: where to look.
        golden: the earlier run, if that is known; then any other run may be the newest.

    Raises:
        UsageError: PF7119 when there are not two.
    """
    runs = [each.folder for each in found_runs(start)]
    if golden is not None:
        named = golden.resolve()
        later = [run for run in runs if named not in (run.resolve(), run.resolve().parent)]
        if later:
            return golden, later[0]
    elif runs:
        wanted = _workflow(runs[0])
        earlier = next((run for run in runs[1:] if wanted is not None and _workflow(run) == wanted), None)
        if earlier is not None:
            return earlier, runs[0]
    raise UsageError(_nothing(start, what="are no two runs of one workflow"))


def _candidates(start: Path) -> Iterator[Path]:
    yield start
    for name in sorted(first_names(start, limit=MAX_FOLDERS)):
        yield start / name
        yield start / name / INNER_FOLDER
    for name in sorted(first_names(start / RUNS_FOLDER, limit=MAX_FOLDERS)):
        yield start / RUNS_FOLDER / name
        yield start / RUNS_FOLDER / name / INNER_FOLDER


def _workflow(folder: Path) -> str | None:
    run = readable_run(folder)
    return None if run is None else run.record.workflow.name


def readable_run(folder: Path) -> StoredRun | None:
    """Return the run in a folder, None where its record cannot be read."""
    try:
        return read_run(folder)
    except ProbeFlowError:
        return None


def _nothing(start: Path, *, what: str = "is no run") -> Diagnostic:
    return Diagnostic(
        "PF7119",
        f"there {what} here to look at",
        path=str(start),
        help="name the folder of a run: what `--output` named; `probe-flow runs ls DIR` lists those below a folder",
    )


def folder_size(folder: Path) -> int:
    """Return how many bytes the files in a folder have; what cannot be looked at counts nothing."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - a path of each name takes longer
    return size
