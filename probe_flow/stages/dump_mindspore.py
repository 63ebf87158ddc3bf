"""`dump.mindspore`: adopt a dump.json dump of a MindSpore program in PyNative mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Context, DumpPath, Kind, Select, StageOptions, StageType


class Options(StageOptions):
    """Adopt a `dump.json` (or the folder that holds it) of a MindSpore program in PyNative mode."""

    uses: Literal["dump.mindspore"]
    path: DumpPath = Field(
        description="A `dump.json` or `debug.json`, or a folder that holds one (`step0/rank0`, `step0`, the root)."
    )
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump."""
    from probe_flow.stages.adopt_dump_json import adopt

    return adopt(options.path, options.select, side=context.stage, uses=options.uses)


STAGE = StageType(
    uses="dump.mindspore",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a dump.json dump of a MindSpore program in PyNative mode.",
)
