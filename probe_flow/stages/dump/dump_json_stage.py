"""The stages that adopt a dump.json dump differ in the framework that they expect, and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from probe_flow.stages.base import DumpPath, Select, StageOptions
from probe_flow.work import Context


class DumpJsonOptions(StageOptions):
    """Which dump.json to adopt, and what of it."""

    path: DumpPath = Field(
        description="A `dump.json` or `debug.json`, or a folder that holds one (`step0/rank0`, `step0`, the root)."
    )
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")


def run(options: DumpJsonOptions, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump."""
    from probe_flow.stages.dump.adopt_dump_json import adopt

    return adopt(options.path, options.select, side=context.stage, uses=options.uses)
