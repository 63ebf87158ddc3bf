"""`dump.tfdbg`: adopt what the TensorFlow debugger wrote of a session, read without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field

from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.existing import is_folder
from probe_flow.records import Catalog
from probe_flow.stages.base import DumpPath, Kind, Select, StageOptions, StageType
from probe_flow.work import Context

RUNS, ARRAYS = "tf_debug", "dump"
"""Folders of the golden side in `precision_data/tf`."""


class Options(StageOptions):
    """Adopt runs of the TensorFlow debugger (`DumpingDebugWrapperSession`, `DumpingDebugHook`), read natively."""

    uses: Literal["dump.tfdbg"]
    path: DumpPath = Field(
        description="The folder given to the debugger, which holds `run_*`, or one of these; or the folder `tf` of "
        "`precision_data`: its `tf_debug`, or else the arrays in its `dump`."
    )
    run: Literal["last", "all"] | Annotated[int, Field(ge=0)] = Field(
        "last",
        description="Which `session.run` to read: `last`, or its number from 0 in order of time. It has no step number "
        "and is compared with every step of the target. `all` reads each as a step.",
    )
    select: Select = Field(default_factory=Select, description="Nodes to read, and steps where all runs are.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the runs."""
    from probe_flow.dumps.offline.npy_folder import read_npy_folder
    from probe_flow.dumps.tfdbg.reader import read_tfdbg

    place = Path(options.path)
    runs, arrays = place / RUNS, place / ARRAYS
    select = options.select.selection
    if _holds_something(runs):
        found = read_tfdbg(runs, side=context.stage, select=select, run=options.run)
        return _with_note(found, arrays) if _holds_something(arrays) else found
    if is_folder(arrays):
        return read_npy_folder(arrays, side=context.stage, select=select)
    return read_tfdbg(place, side=context.stage, select=select, run=options.run)


def _holds_something(folder: Path) -> bool:
    return is_folder(folder) and next(folder.iterdir(), None) is not None


def _with_note(catalog: Catalog, arrays: Path) -> Catalog:
    note = Diagnostic(
        "PF3447",
        f"the runs in `{RUNS}` are read, not the arrays in `{ARRAYS}` that were extracted from some",
        severity=Severity.NOTE,
        help=f"read the arrays with `dump.npy` and the path `{arrays}` if these are meant",
        path=str(arrays),
    )
    return replace(catalog, problems=(*catalog.problems, note))


STAGE = StageType(
    uses="dump.tfdbg",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt runs of the TensorFlow debugger (tfdbg).",
)
