"""`dump.mindspore_graph`: adopt a kernel dump of a MindSpore program in graph mode, or run a model and make one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator

from probe_flow.dumpers.registry import RUNNERS
from probe_flow.stages.base import DumpPath, Forecast, IsPath, Kind, Select, StageType
from probe_flow.stages.dump.model_run import (
    OF_CODE,
    ModelName,
    Patterns,
    RunOptions,
    dump_of_model,
    forecast,
    needs_model,
)
from probe_flow.work import Context

RUNNER = RUNNERS["mindspore_graph"]


class Options(RunOptions):
    """Adopt a kernel dump (`rank_0/{net}/{graph}/{iteration}`) of a MindSpore program in graph mode, or make one."""

    uses: Literal["dump.mindspore_graph"]
    path: DumpPath | None = Field(
        None,
        description="The folder that holds `rank_0`, or any one below it down to one iteration; or give `model`.",
    )
    model: ModelName | None = Field(
        None,
        description="`module:attribute` of a `mindspore.nn.Cell`, or of a function without arguments that returns one; "
        "or a `.py` file or the folder of a package, with `:attribute` (default: `model`). It is compiled and run in "
        "graph mode, in a process of its own, and MindSpore writes what every kernel reads and gives.",
        examples=["net:build", "nets/small.py:build"],
    )
    device: str | None = Field(None, description="Device of MindSpore, e.g. `CPU`, `Ascend`; default: `CPU`.")
    kernels: Patterns | None = Field(
        None,
        min_length=1,
        description="Names of the kernels to dump, with their scope as graph texts have it; default: all.",
        examples=[["Default/fc-Dense/MatMul-op0"]],
    )
    direction: Literal["all", "input", "output"] = Field("all", description="What to dump of a kernel.")
    select: Select = Field(default_factory=Select, description="Ranks, steps (iterations), graphs or nodes to read.")
    ir: list[Annotated[str, IsPath(is_data=False)]] = Field(
        [],
        description="IR texts of the program, or folders of them, whose lines of code are shown as stacks. Default: "
        "those that the dump has in `rank_{r}/graphs`, which come first in any case.",
        examples=[["/data/ir/graph_build_0.ir"]],
    )

    @field_validator("device", "kernels", "direction", mode="after")
    @classmethod
    def _graph_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def of_framework(self) -> dict[str, Any]:
        return {"device": self.device}


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump, which is made first when a model is given."""
    from pathlib import Path

    from probe_flow.dumps.mindspore_graph.reader import read_mindspore_graph

    path: str | Path | None = options.path
    if path is None:
        dump = {"kernels": options.kernels, "direction": options.direction}
        path = dump_of_model(RUNNER, options, dump, context)[0]
    return read_mindspore_graph(
        path,
        side=context.stage,
        select=options.select.selection,
        ir=[Path(path) for path in options.ir],
    )


def _forecast(options: Options) -> Forecast | None:
    found = forecast(RUNNER, options)
    return None if found is None else replace(found, writes=lambda: OF_CODE)


STAGE = StageType(
    uses="dump.mindspore_graph",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a kernel dump of a MindSpore program in graph mode, or run a model and make one.",
    forecast=_forecast,
)
