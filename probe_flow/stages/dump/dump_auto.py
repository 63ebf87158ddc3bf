"""`dump.auto`: find out what kind of dump lies at a path, and adopt it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import DumpPath, Kind, Select, StageOptions, StageType
from probe_flow.work import Context


class Options(StageOptions):
    """Adopt a dump of any kind that can be read; what it is, is told by the names of its files."""

    uses: Literal["dump.auto"]
    path: DumpPath = Field(description="The dump: a `dump.json`, a `.npy` array, or the folder of one dump.")
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump."""
    from probe_flow.stages.dump.adopt_any import adopt_any

    return adopt_any(options.path, options.select, side=context.stage)


STAGE = StageType(
    uses="dump.auto",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Find out what kind of dump lies at a path, and adopt it.",
)
