"""`dump.torchair_fx`: adopt a TorchAir FX dump (the golden side), or run a model node by node and write one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import DumpPath, Duplicates, Forecast, Kind, Select, StageType
from probe_flow.stages.dump.model_run import OF_CODE, NodeFilter, dump_of_model, forecast, needs_model
from probe_flow.stages.dump.torch_model import TorchRunOptions
from probe_flow.work import Context

RUNNER = "torchair_fx"


class Options(TorchRunOptions):
    """Adopt a TorchAir FX dump folder, or run a model and dump each node of its graphs."""

    uses: Literal["dump.torchair_fx"]
    path: DumpPath | None = Field(
        None, description="The dump folder to adopt, `msprobe_fx_dump` or `data_dump`; or give `model`."
    )
    steps: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="Executions of each graph to dump, from 0; default: all."
    )
    filter: NodeFilter | None = Field(None, description="Nodes to dump; default: all.")
    direction: list[Literal["input", "output"]] | None = Field(
        None, min_length=1, description="What to dump of a node; default: both."
    )
    data: Literal["tensor", "statistics", "both"] = Field(
        "tensor",
        description="`statistics` writes minimum, maximum, mean and L2 norm in place of the elements; `both` writes "
        "them beside the elements.",
    )
    precision: Literal["float64"] | None = Field(
        None,
        description="`float64` computes each graph in float64: a reference for both sides.",
    )
    peer_compatible: bool = Field(
        default=False,
        description="Write arguments that are no tensors too, and no keyword arguments, as TorchAir does.",
    )
    max_tensor_bytes: int | None = Field(None, gt=0, description="Larger tensors are left out, with a warning.")
    repeat: int = Field(
        1,
        gt=0,
        le=10,
        description="Run the model so often, each in a process of its own; what differs is not deterministic.",
    )
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")
    duplicates: Duplicates = Field("newest", description="Which file wins when one operator was dumped twice.")

    @field_validator(
        "steps", "filter", "direction", "data", "precision", "peer_compatible", "max_tensor_bytes", "repeat"
    )
    @classmethod
    def _fx_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump, which is made first when a model is given."""
    from probe_flow.dumps.torchair.fx import read_torchair_fx

    folders: list[Path] = []
    if options.model is not None:
        folders = dump_of_model(RUNNER, options, _dump_options(options), context, repeat=options.repeat)
        _report_noise(folders, context)
    path = options.path if options.path is not None else folders[0]
    catalog = read_torchair_fx(
        path,
        side=context.stage,
        select=options.select.selection,
        duplicates=options.duplicates,
    )
    return catalog.with_repeats(folders[1:])


def _dump_options(options: Options) -> dict[str, Any]:
    """Return the arguments of `torchair_fx_backend`."""
    chosen = options.filter.model_dump(exclude_none=True) if options.filter is not None else {}
    return {
        **chosen,
        "steps": options.steps,
        "direction": options.direction or ["input", "output"],
        "data": options.data,
        "precision": options.precision,
        "peer_compatible": options.peer_compatible,
        "max_tensor_bytes": options.max_tensor_bytes,
    }


def _report_noise(folders: Sequence[Path], context: Context) -> None:
    from probe_flow.dumpers.arrays.repeats import largest, not_deterministic
    from probe_flow.dumpers.torchair.fx_folder import unequal_arrays

    found = largest(each for other in folders[1:] for each in unequal_arrays(folders[0], other))
    if found:
        context.report([not_deterministic(found)])


def _forecast(options: Options) -> Forecast | None:
    found = forecast(RUNNER, options, repeat=options.repeat)
    return None if found is None else replace(found, writes=lambda: OF_CODE)


STAGE = StageType(
    uses="dump.torchair_fx",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a TorchAir FX dump (golden side), or run a model and write one.",
    forecast=_forecast,
)
