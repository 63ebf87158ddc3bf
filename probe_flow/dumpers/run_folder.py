"""The folder that a run of a model writes to: new, or that of an earlier run which may be replaced."""

from __future__ import annotations

import shutil
from pathlib import Path

from probe_flow.dumpers.dump_files import make_folder
from probe_flow.dumpers.model_job import FX_FOLDER, GE_FOLDER, INPUT_FOLDER, JOB_FILE, LOG_FILE, RUN_FILE
from probe_flow.dumpers.torchair.ge import FUSION_FILE
from probe_flow.errors import Diagnostic, UsageError

REPEAT = "repeat_"
"""Beginning of the names of folders with repeated runs."""

_OURS = frozenset({FX_FOLDER, GE_FOLDER, INPUT_FOLDER, JOB_FILE, LOG_FILE, RUN_FILE, FUSION_FILE})


def prepare_output(folder: Path, *, may_replace: bool) -> None:
    """Make the folder, and remove from it what an earlier run of a model left, if it may be replaced.

    Raises:
        UsageError: PF6321 if it holds anything else, or must not be replaced.
        IncompleteError: PF6326 when it cannot be made.
    """
    if folder.exists():
        _clear(folder, may_replace=may_replace)
    make_folder(folder)


def _clear(folder: Path, *, may_replace: bool) -> None:
    if not folder.is_dir():
        raise _refusal(folder, "is a file, not a folder", "name a new folder with `output`")
    entries = sorted(folder.iterdir())
    foreign = [entry.name for entry in entries if entry.name not in _OURS and not entry.name.startswith(REPEAT)]
    if foreign or (entries and not (folder / JOB_FILE).is_file()):
        held = f"`{foreign[0]}`, which no run of a model left" if foreign else "a dump of another program"
        raise _refusal(folder, f"holds {held}", "name a new or an empty folder with `output`")
    if entries and not may_replace:
        raise _refusal(folder, "holds an earlier dump", "set `overwrite: replace`, or name a new folder with `output`")
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _refusal(folder: Path, what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6321", f"the output folder `{folder.name}` {what}", help=cure, path=str(folder)))
