"""`dump.om`: adopt the device dump of an offline model, or run the model where CANN is and make one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import DumpPath, Duplicates, Forecast, Kind, Select, StageType
from probe_flow.stages.dump.declared_model import SHAPES, DeclaredInputs, shapes_in
from probe_flow.stages.dump.model_run import ModelName, RunOptions, dump_of_model, forecast, needs_model
from probe_flow.work import Context

RUNNER = "om"


class Options(RunOptions):
    """Adopt the device dump of an offline model (OM), read natively, without CANN; or run the model and dump it."""

    uses: Literal["dump.om"]
    path: DumpPath | None = Field(
        None,
        description="A folder of device files, any folder of `{time}/{device_id}/{model_name}/{model_id}/"
        "{data_index}`, or one device file; or give `model`.",
    )
    model: ModelName | None = Field(
        None,
        description="An `.om` file. It runs where CANN is (`ASCEND_TOOLKIT_HOME`), by `tool`, in a process of its own.",
        examples=["net.om"],
    )
    inputs: ModelName | DeclaredInputs | None = Field(  # type: ignore[assignment]  # other inputs than of code
        None,
        description="Inputs of the model: `files`, `named`, `random`; a file; a folder whose files are named as the "
        "inputs are; or `module:attribute` of a function that returns them. Default: drawn from `seed` by the dtypes "
        "and shapes of the model.",
        examples=["x.npy", {"files": ["a.bin", "b.bin"]}],
    )
    input_shape: dict[str, list[Annotated[int, Field(ge=0)]]] | Annotated[str, Field(pattern=SHAPES)] | None = Field(
        None,
        description="Sizes that ATC left open, or one of the gears of the model; also as text, `x:1,3,224,224;y:1,5`.",
        examples=["x:1,3,224,224"],
    )
    output_size: str | None = Field(
        None,
        pattern=r"^[0-9]{1,12}(,[0-9]{1,12})*$",
        description="Bytes to set aside for each output of a model with open sizes; default 90,000,000 each.",
        examples=["10000,10000"],
    )
    device: int = Field(0, ge=0, description="Number of the device that runs the model.")
    tool: list[Annotated[str, Field(min_length=1)]] | None = Field(
        None,
        min_length=1,
        description="Program that runs the model and takes the options of ais_bench; default: the module `ais_bench` "
        "of the running interpreter.",
        examples=[["/usr/bin/python3", "-m", "ais_bench"]],
    )
    calls: Literal[1] = Field(1, description="Such a model has no state: it runs once.")
    select: Select = Field(
        default_factory=Select,
        description="Ranks (device ids), steps (data indices), graphs (model ids or names) or nodes to read.",
    )
    duplicates: Duplicates = Field("newest", description="Which file wins when one operator was dumped twice.")
    time: str | None = Field(
        None,
        pattern=r"^[0-9]{14}$",
        description="The 14-digit folder to read when several dump runs lie in one folder; default: the newest.",
    )
    last_step: bool = Field(default=False, description="Read only the last step (data index) of each model.")
    slices: Literal["joined", "separate"] = Field(
        "joined",
        description="`separate` keeps the slices apart that the device cut an operator into, to compare them singly.",
    )
    quantised: bool | None = Field(
        None, description="Whether the model is quantised; default: told by the names and types of its operators."
    )

    @field_validator("input_shape", "output_size", "device", "tool", mode="after")
    @classmethod
    def _om_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump, which is made first when a model is given."""
    from probe_flow.dumps.offline.om_dump import read_om

    path: str | Path | None = options.path
    if path is None:
        path = dump_of_model(RUNNER, options, _dump_options(options), context)[0] / "dump_data"
    return read_om(
        path,
        side=context.stage,
        select=options.select.selection,
        duplicates=options.duplicates,
        time=options.time,
        last_step=options.last_step,
        slices=options.slices,
        quantised=options.quantised,
    )


def _dump_options(options: Options) -> dict[str, Any]:
    return {
        "input_shape": shapes_in(options.input_shape),
        "output_size": options.output_size,
        "device": options.device,
        "tool": options.tool,
    }


def _forecast(options: Options) -> Forecast | None:
    from probe_flow.dumpers.om.machine import tool_problems

    found = forecast(RUNNER, options)
    if found is None:
        return None
    does = f"runs `{options.model}` on device {options.device} in a child process and writes a dump to "
    where = options.output or "the run's folder"
    return replace(found, does=does + where, problems=(*found.problems, *tool_problems(options.tool)))


STAGE = StageType(
    uses="dump.om",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt the device dump of an offline model, or run the model where CANN is and make one.",
    forecast=_forecast,
)
