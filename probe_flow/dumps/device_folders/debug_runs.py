"""Runs of a device side by side in one folder: `debug_0`, `debug_1`, ... of `precision_data/npu`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.existing import is_folder
from probe_flow.records import Problem

DUMP = "dump"
_RUN = re.compile(r"debug_(\d{1,6})")
_MAX_LISTED = 8


def not_compared(used: Iterable[str]) -> Iterator[Problem]:
    """Yield a note (PF4412) for the runs that lie beside those of a comparison and take no part in it.

    Args:
        used: paths of what is compared or says what was run, such as `debug_0/dump` and `debug_0/graph`.
    """
    folders = dict.fromkeys(Path(path).absolute().parent for path in used)
    runs = [folder for folder in folders if _RUN.fullmatch(folder.name)]
    taken = {folder.resolve() for folder in folders}
    for parent in dict.fromkeys(run.parent for run in runs):
        others = [each for each in _runs_in(parent) if each.resolve() not in taken]
        if others:
            yield _listed(others, [run.name for run in runs if run.parent == parent])


def _runs_in(parent: Path) -> list[Path]:
    """Return the runs with a dump in a folder, by number."""
    try:
        found = [(int(match[1]), each) for each in parent.iterdir() if (match := _RUN.fullmatch(each.name))]
    except OSError:
        return []
    return [each for _, each in sorted(found) if _holds_something(each / DUMP)]


def _holds_something(folder: Path) -> bool:
    try:
        return is_folder(folder) and next(folder.iterdir(), None) is not None
    except OSError:
        return False


def _listed(others: list[Path], compared: list[str]) -> Problem:
    names = ", ".join(f"`{each.name}`" for each in others[:_MAX_LISTED]) + (" ..." if len(others) > _MAX_LISTED else "")
    told = " and ".join(f"`{name}`" for name in dict.fromkeys(compared))
    verb = "is another run" if len(others) == 1 else "are other runs"
    return Diagnostic(
        "PF4412",
        f"{names} beside {told} {verb} of the device, and not compared here",
        severity=Severity.NOTE,
        help=f"`--set debug={others[0].name}` takes another run in `tf_training.yaml`; `tf_training_two_runs.yaml` "
        "compares two of them",
        path=str(others[0]),
    )
