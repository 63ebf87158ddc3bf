"""`dump.auto`: find out what kind of dump lies at a path, and adopt it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from probe_flow.stages.base import DumpPath, Kind, Select, StageOptions, StageType
from probe_flow.work import Context


def _known(kind: str) -> str:
    from probe_flow.dumps.registry import READERS

    if kind not in READERS:
        problem = READERS.no_such(kind)
        raise ValueError(f"{problem.message}; {problem.help}")
    return kind


class Options(StageOptions):
    """Adopt a dump of any kind that can be read; what it is, is told by the names of its files."""

    uses: Literal["dump.auto"]
    path: DumpPath = Field(
        description="The dump: a `dump.json`, a `.npy` array, or the folder of one dump or of arrays of any name."
    )
    kind: Annotated[str, AfterValidator(_known)] | None = Field(
        None,
        description="What it is: `dump_json`, `torchair_ge`, `torchair_fx`, `mindspore_graph`, `om`, `npy`, "
        "`tfdbg`, `arrays`, or the name of an installed package's reader; default: told by the names of its files.",
    )
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump."""
    from probe_flow.stages.dump.adopt_any import adopt_any

    return adopt_any(options.path, options.select, side=context.stage, kind=options.kind)


STAGE = StageType(
    uses="dump.auto",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Find out what kind of dump lies at a path, and adopt it.",
)
