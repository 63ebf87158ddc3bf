"""`dump.arrays`: adopt a folder of arrays that any program wrote under names of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import DumpPath, Kind, Select, StageOptions, StageType
from probe_flow.work import Context


class Options(StageOptions):
    """Adopt `.npy` arrays of any name, each of which stands for itself: no graph, no order."""

    uses: Literal["dump.arrays"]
    path: DumpPath = Field(description="The folder of the arrays (those in folders below it too), or one `.npy` file.")
    select: Select = Field(
        default_factory=Select, description="Arrays to read, by `nodes`: `layer1/weight` is `layer1/weight.npy`."
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the arrays."""
    from probe_flow.dumps.arrays import read_arrays

    return read_arrays(options.path, side=context.stage, select=options.select.selection)


STAGE = StageType(
    uses="dump.arrays",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt arrays of any program, each of which stands for itself.",
)
