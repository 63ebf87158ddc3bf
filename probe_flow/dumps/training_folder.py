"""The golden side of `precision_data`: runs of the debugger, or arrays that were extracted; with a manifest if ours."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from probe_flow.dumps.manifest import ManifestError, manifest_problems, read_manifest, unreadable_manifest
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.selection import EVERYTHING, Selection
from probe_flow.dumps.tfdbg.reader import read_tfdbg
from probe_flow.dumps.tfdbg.runs import RunChoice
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.existing import is_file, is_folder
from probe_flow.records import Catalog, Problem

RUNS, ARRAYS = "tf_debug", "dump"
"""Folders of the golden side in `precision_data/tf`."""


def read_training_folder(path: str, *, side: str, select: Selection = EVERYTHING, run: RunChoice = "last") -> Catalog:
    """Describe the golden side of a training step.

    Args:
        path: the folder ``tf`` of `precision_data`: its runs, or else the arrays in its ``dump``; or runs themselves.
        side: name of the stage.
        select: nodes to read, and steps where all runs are.
        run: which run, see `read_tfdbg`.

    Raises:
        UsageError, IncompleteError: as `read_tfdbg` and `read_npy_folder` do.
    """
    place = Path(path)
    runs, arrays = place / RUNS, place / ARRAYS
    if _holds_something(runs):
        found = read_tfdbg(runs, side=side, select=select, run=run)
        notes = [_not_the_arrays(arrays)] if _holds_something(arrays) else []
        return replace(found, problems=(*found.problems, *notes, *_of_manifest(place)))
    if is_folder(arrays):
        return read_npy_folder(arrays, side=side, select=select)
    if is_folder(runs):  # it is empty, which its own name says best
        place = runs
    found = read_tfdbg(str(place), side=side, select=select, run=run)
    return replace(found, problems=(*found.problems, *_of_manifest(place.parent))) if place.name == RUNS else found


def _holds_something(folder: Path) -> bool:
    return is_folder(folder) and next(folder.iterdir(), None) is not None


def _of_manifest(folder: Path) -> list[Problem]:
    """Return how a dump of ours differs from its manifest."""
    try:
        manifest = read_manifest(folder)
    except ManifestError as error:
        return [unreadable_manifest(folder, error)]
    names = {each.file for each in manifest.tensors if is_file(folder / each.file)} if manifest is not None else set()
    # What holds no numbers is said by the reader, tensor by tensor.
    return [each for each in manifest_problems(folder, manifest, names) if each.code != "PF6341"]


def _not_the_arrays(arrays: Path) -> Problem:
    return Diagnostic(
        "PF3447",
        f"the runs in `{RUNS}` are read, not the arrays in `{ARRAYS}` that were extracted from some",
        severity=Severity.NOTE,
        help=f"read the arrays with `dump.npy` and the path `{arrays}` if these are meant",
        path=str(arrays),
    )
