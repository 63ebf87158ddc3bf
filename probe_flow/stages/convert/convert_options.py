"""The options that all `convert` stages share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from probe_flow.stages.base import CatalogOf, Forecast, IsPath, StageOptions


class ConvertOptions(StageOptions):
    """What every `convert` stage can be told."""

    dump: CatalogOf = Field(description="The dump stage whose tensors are converted.")
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder of the converted files. Default: `converted/<stage>` in the run's folder."
    )
    nodes: list[str] | None = Field(
        None,
        description="Glob patterns of node names: only their tensors are converted, the others stay as they are.",
        examples=[["MatMul*"]],
    )
    replace: bool = Field(
        default=False,
        description="Replace files that have the names of converted ones and hold something else.",
    )


def forecast(options: ConvertOptions) -> Forecast:
    """Say where a convert stage would write."""
    return Forecast(f"writes the converted tensors to {f'`{options.output}`' if options.output else 'the run folder'}")
