"""`dump.torchair_fx`: adopt a TorchAir FX dump (the golden side)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Context, DumpPath, Duplicates, Kind, Select, StageOptions, StageType


class Options(StageOptions):
    """Adopt a TorchAir FX dump folder (`msprobe_fx_dump` or `data_dump`)."""

    uses: Literal["dump.torchair_fx"]
    path: DumpPath = Field(description="The dump folder, `msprobe_fx_dump` or `data_dump`.")
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")
    duplicates: Duplicates = Field("newest", description="Which file wins when one operator was dumped twice.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump."""
    from probe_flow.formats.torchair_fx import read_torchair_fx

    return read_torchair_fx(
        options.path,
        side=context.stage,
        ranks=options.select.ranks,
        steps=options.select.steps,
        graphs=options.select.graphs,
        nodes=options.select.nodes,
        duplicates=options.duplicates,
    )


STAGE = StageType(
    uses="dump.torchair_fx",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a TorchAir FX dump (golden side).",
)
