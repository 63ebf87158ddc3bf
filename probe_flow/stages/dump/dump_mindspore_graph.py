"""`dump.mindspore_graph`: adopt a kernel dump of a MindSpore program in graph mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import DumpPath, IsPath, Kind, Select, StageOptions, StageType
from probe_flow.work import Context


class Options(StageOptions):
    """Adopt a kernel dump (`rank_0/{net}/{graph}/{iteration}`) of a MindSpore program in graph mode."""

    uses: Literal["dump.mindspore_graph"]
    path: DumpPath = Field(description="The folder that holds `rank_0`, or any one below it down to one iteration.")
    select: Select = Field(default_factory=Select, description="Ranks, steps (iterations), graphs or nodes to read.")
    ir: list[Annotated[str, IsPath(is_data=False)]] = Field(
        default_factory=list,
        description="IR texts of the program, or folders of them, whose lines of code are shown as stacks. Default: "
        "those that the dump has in `rank_{r}/graphs`, which come first in any case.",
        examples=[["/data/ir/graph_build_0.ir"]],
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump."""
    from pathlib import Path

    from probe_flow.dumps.mindspore_graph.reader import read_mindspore_graph

    return read_mindspore_graph(
        options.path,
        side=context.stage,
        select=options.select.selection,
        ir=[Path(path) for path in options.ir],
    )


STAGE = StageType(
    uses="dump.mindspore_graph",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a kernel dump of a MindSpore program in graph mode.",
)
