"""The runs of a session under the TensorFlow debugger: a folder each, and which of them are read.

Every ``session.run`` leaves ``run_{microseconds}_{number}``, with one folder a device in it. Which of them is the step
that was meant nobody can tell from outside: a session initialises, evaluates and saves in runs of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.files.opening import open_bytes
from probe_flow.files.walk import dump_root
from probe_flow.records import Problem

RUN_NAME = re.compile(r"run_(\d{1,20})_(\d{1,9})")
DEVICE_PREFIX = "_tfdbg_device_"
METADATA_PREFIX = "_tfdbg_"
GRAPH_PREFIX = "_tfdbg_graph_"
FETCHES_FILE = "_tfdbg_fetches_info_"

RunChoice: TypeAlias = Literal["last", "all"] | int

_MAX_LISTED = 8
_MAX_FETCHES_BYTES = 4096
_FETCH = re.compile(rb"<tf\.(?:Tensor|Operation) '([^']{1,256})'")


class Run(Struct, frozen=True):
    """One run: its folder, its number from 0 in order of time, and its step (None where one run was chosen)."""

    folder: Path
    number: int
    step: int | None = None


def chosen_runs(path: str, choice: RunChoice, problems: list[Problem]) -> tuple[Path, list[Run]]:
    """Return the folder, with links resolved, and the runs to read.

    Args:
        path: a run's folder, or one of runs.
        choice: ``last``, ``all``, or the number of a run from 0.
        problems: gets which run was chosen of several.

    Raises:
        UsageError: PF3201 no such folder, PF3442 no such run.
        IncompleteError: PF3202 no run in it.
    """
    root = dump_root(path)
    if _is_run(root):
        return root, [Run(root, 0, 0 if choice == "all" else None)]
    found = [folder for folder in _folders(root) if _is_run(folder)]
    runs = [Run(folder, number) for number, folder in enumerate(sorted(found, key=_when))]
    if not runs:
        raise IncompleteError(_no_run(root))
    if choice == "all":
        return root, [Run(run.folder, run.number, run.number) for run in runs]
    number = len(runs) - 1 if choice == "last" else choice
    if not 0 <= number < len(runs):
        raise UsageError(_no_such_run(root, number, runs))
    if len(runs) > 1:
        problems.append(_one_of(runs, runs[number]))
    return root, [runs[number]]


def _is_run(folder: Path) -> bool:
    return RUN_NAME.fullmatch(folder.name) is not None or any(
        each.name.startswith(DEVICE_PREFIX) for each in _folders(folder)
    )


def _folders(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]
    except OSError:
        return []


def _when(folder: Path) -> tuple[int, int, str]:
    found = RUN_NAME.fullmatch(folder.name)
    return (int(found[1]), int(found[2]), "") if found is not None else (0, 0, folder.name)


def fetches_of(run: Run) -> str:
    """Return names of what a run was asked for, as far as its record tells them."""
    try:
        with open_bytes(run.folder / FETCHES_FILE) as stream:
            names = [
                name.decode("utf-8", "backslashreplace") for name in _FETCH.findall(stream.read(_MAX_FETCHES_BYTES))
            ]
    except (OSError, ValueError):
        return ""
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_LISTED])
    return shown + (" ..." if len(names) > _MAX_LISTED else "")


def _one_of(runs: Sequence[Run], chosen: Run) -> Problem:
    fetched = fetches_of(chosen)
    return Diagnostic(
        "PF3443",
        f"run {chosen.number} (`{chosen.folder.name}`) of runs 0 to {len(runs) - 1} is read"
        + (f"; it was asked for {fetched}" if fetched else ""),
        severity=Severity.NOTE,
        help="choose another with `run: NUMBER`, or read all as steps with `run: all`",
        notes=tuple(f"run {run.number}: {fetches_of(run) or 'unknown'}" for run in runs[-_MAX_LISTED:]),
        path=str(chosen.folder),
    )


def _no_such_run(root: Path, number: int, runs: Sequence[Run]) -> Diagnostic:
    return Diagnostic(
        "PF3442",
        f"`{root.name}` has no run {number}: it has runs 0 to {len(runs) - 1}",
        help="count from 0 in order of time, or give `run: last`",
        path=str(root),
    )


def _no_run(root: Path) -> Diagnostic:
    return Diagnostic(
        "PF3202",
        f"`{root.name}` holds no run of the TensorFlow debugger",
        help="give the folder that was passed to `DumpingDebugWrapperSession` or `DumpingDebugHook`; arrays that were "
        "extracted from one are read with `dump.npy`",
        notes=("looked for `run_{time}_{number}` with a folder for each device",),
        path=str(root),
    )
