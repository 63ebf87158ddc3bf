"""Remove what a run left: the whole folder where it is one that a run made for itself, else what its record names."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

from msgspec import Struct

from probe_flow.engine.run.output import LOCK_NAME, OWN_FILES, RUNS_FOLDER, open_run_folder
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.record.run_folder import read_run
from probe_flow.runs.found_runs import folder_size


class Removed(Struct, frozen=True):
    """What became of a run's folder.

    Args:
        folder: as it was named.
        freed_bytes: size of the files that are gone.
        left: names in the folder that are no files of the run, and stay.
    """

    folder: Path
    freed_bytes: int
    left: tuple[str, ...]


def remove_run(folder: Path) -> Removed:
    """Remove a run.

    Raises:
        UsageError: PF7110 there is none; PF6013 it is at work; PF6011 its folder cannot be written; PF6016 a link
            stands for the folder.
        IncompleteError: PF7111 its record cannot be read, so that nobody knows what is its own.
    """
    run = read_run(folder)
    path = run.folder
    if path.is_symlink():
        raise UsageError(
            Diagnostic(
                "PF6016",
                f"`{folder}` is a link, and only folders are removed",
                path=str(folder),
                help="name the folder that it leads to",
            )
        )
    before = folder_size(path)
    now = datetime.now(timezone.utc)
    with open_run_folder(path.absolute(), run.record.workflow.name, now=now, cwd=Path.cwd()) as ours:
        if path.absolute().parent.name == RUNS_FOLDER:
            shutil.rmtree(path)
        else:
            ours.clear()
            for name in OWN_FILES:
                (path / name).unlink(missing_ok=True)
    if not path.is_dir():
        return Removed(folder, before, ())
    left = tuple(sorted(each.name for each in path.iterdir() if each.name != LOCK_NAME))
    freed = before - folder_size(path)
    if not left:
        path.rmdir()
    return Removed(folder, freed, left)
