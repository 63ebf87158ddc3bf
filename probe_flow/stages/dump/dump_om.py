"""`dump.om`: adopt the device dump of an offline model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import DumpPath, Duplicates, Kind, Select, StageOptions, StageType
from probe_flow.work import Context


class Options(StageOptions):
    """Adopt the device dump of an offline model (OM), read natively, without CANN."""

    uses: Literal["dump.om"]
    path: DumpPath = Field(
        description="A folder of device files, any folder of `{time}/{device_id}/{model_name}/{model_id}/"
        "{data_index}`, or one device file."
    )
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


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump."""
    from probe_flow.dumps.offline.om_dump import read_om

    return read_om(
        options.path,
        side=context.stage,
        select=options.select.selection,
        duplicates=options.duplicates,
        time=options.time,
        last_step=options.last_step,
        slices=options.slices,
        quantised=options.quantised,
    )


STAGE = StageType(
    uses="dump.om",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt the device dump of an offline model.",
)
