"""`dump.torchair_ge`: adopt a TorchAir GE dump (the device side), or run a model on the device and make one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import DumpPath, Duplicates, Forecast, Kind, Select, StageType
from probe_flow.stages.dump.model_run import UsedPath, dump_of_model, forecast, needs_model
from probe_flow.stages.dump.torch_model import TorchRunOptions
from probe_flow.work import Context

RUNNER = "torchair_ge"
DEFAULT_DEVICE = "npu"


class Options(TorchRunOptions):
    """Adopt a TorchAir GE dump folder, read natively, without CANN; or run a model on the device and dump it."""

    uses: Literal["dump.torchair_ge"]
    path: DumpPath | None = Field(None, description="The dump folder, usually `msprobe_ge_dump`; or give `model`.")
    mode: Literal["input", "output", "all"] = Field("all", description="What to dump of an operator.")
    steps: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="Steps (tokens) to dump, from 0; default: all."
    )
    layers: list[Annotated[str, Field(min_length=1)]] | None = Field(
        None, description="Names of operators to dump; default: all."
    )
    data: Literal["tensor", "statistics"] = Field(
        "tensor", description="`statistics` writes what the device computes of each tensor in place of the elements."
    )
    quantised: bool = Field(default=False, description="Dump quantised operators too.")
    fusion: Literal["on", "off"] = Field(
        "on", description="`off` compiles without any fusion: a golden side for a dump with fusion."
    )
    fusion_switch_file: UsedPath | None = Field(None, description="A fusion switch file of your own.")
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")
    duplicates: Duplicates = Field("newest", description="Which file wins when one operator was dumped twice.")
    time: str | None = Field(
        None,
        pattern=r"^[0-9]{14}$",
        description="The 14-digit folder to read when several dump runs lie in one folder; default: the newest.",
    )

    @field_validator("mode", "steps", "layers", "data", "quantised", "fusion", "fusion_switch_file")
    @classmethod
    def _ge_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @field_validator("fusion_switch_file")
    @classmethod
    def _one_switch(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("fusion") == "off":
            raise ValueError("`fusion: off` writes a switch file itself; leave one of the two out")
        return value


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump, which is made first when a model is given."""
    from probe_flow.dumps.torchair.ge import read_torchair_ge

    path: str | Path | None = options.path
    if path is None:
        chosen = options if options.device is not None else options.model_copy(update={"device": DEFAULT_DEVICE})
        path = dump_of_model(RUNNER, chosen, _dump_options(options), context)[0]
    return read_torchair_ge(
        path,
        side=context.stage,
        select=options.select.selection,
        duplicates=options.duplicates,
        time=options.time,
    )


def _dump_options(options: Options) -> dict[str, Any]:
    """Return the arguments of `GeDumpOptions`."""
    return {
        "mode": options.mode,
        "steps": options.steps,
        "layers": options.layers or [],
        "data": options.data,
        "quantised": options.quantised,
        "fusion": options.fusion,
        "fusion_switch_file": options.fusion_switch_file,
    }


def _forecast(options: Options) -> Forecast | None:
    return forecast(RUNNER, options)


STAGE = StageType(
    uses="dump.torchair_ge",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a TorchAir GE dump (device side), or run a model on the device and make one.",
    forecast=_forecast,
)
