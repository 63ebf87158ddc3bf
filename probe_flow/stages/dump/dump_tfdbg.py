"""`dump.tfdbg`: adopt what the TensorFlow debugger wrote of a session, read without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import DumpPath, Kind, Select, StageOptions, StageType
from probe_flow.work import Context


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
    from probe_flow.dumps.training_folder import read_training_folder

    return read_training_folder(options.path, side=context.stage, select=options.select.selection, run=options.run)


STAGE = StageType(
    uses="dump.tfdbg",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt runs of the TensorFlow debugger (tfdbg).",
)
