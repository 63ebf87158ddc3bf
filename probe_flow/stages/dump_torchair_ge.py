"""`dump.torchair_ge`: adopt a TorchAir GE dump (the device side)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Context, DumpPath, Duplicates, Kind, Select, StageOptions, StageType


class Options(StageOptions):
    """Adopt a TorchAir GE dump folder (`msprobe_ge_dump`), read natively, without CANN."""

    uses: Literal["dump.torchair_ge"]
    path: DumpPath = Field(description="The dump folder, usually `msprobe_ge_dump`.")
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")
    duplicates: Duplicates = Field("newest", description="Which file wins when one operator was dumped twice.")
    time: str | None = Field(
        None,
        pattern=r"^[0-9]{14}$",
        description="The 14-digit folder to read when several dump runs lie in one folder; default: the newest.",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump."""
    from probe_flow.formats.torchair_ge import read_torchair_ge

    return read_torchair_ge(
        options.path,
        side=context.stage,
        ranks=options.select.ranks,
        steps=options.select.steps,
        graphs=options.select.graphs,
        nodes=options.select.nodes,
        duplicates=options.duplicates,
        time=options.time,
    )


STAGE = StageType(
    uses="dump.torchair_ge",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a TorchAir GE dump (device side).",
)
