"""`match.api_mapping`: pair a MindSpore dump with a PyTorch dump by their APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import CatalogOf, Context, IsPath, Kind, StageOptions, StageType


class Options(StageOptions):
    """Pair by name after renaming APIs: by a mapping file, then by the built-in table of MindSpore and PyTorch."""

    uses: Literal["match.api_mapping"]
    target: CatalogOf = Field(description="Stage that read the target dump.")
    golden: CatalogOf = Field(description="Stage that read the golden dump.")
    mapping: Annotated[str, IsPath()] | None = Field(
        None,
        description="YAML file: an object with `ms_api`, `pt_api` and lists of corresponding arguments, or a list of "
        "them. Default: the built-in table only.",
    )
    pair_ranks: dict[int, int] | None = Field(
        None, description="Target rank -> golden rank, where the numbers differ; default: equal numbers."
    )
    step_offset: int = Field(0, description="Golden step = target step + this offset.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.formats.mapping_file_api import read_api_mapping
    from probe_flow.matching.mapping import match_api_mapping

    entries = read_api_mapping(options.mapping) if options.mapping else ()
    return match_api_mapping(
        inputs["target"][0],
        inputs["golden"][0],
        entries=entries,
        pair_ranks=options.pair_ranks,
        step_offset=options.step_offset,
    )


STAGE = StageType(
    uses="match.api_mapping",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps whose APIs have other names.",
)
