"""`match.structure`: pair two dumps of one model whose names differ, without a mapping file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import CatalogOf, Context, Kind, StageOptions, StageType


class Options(StageOptions):
    """Pair calls by module tree, order, shapes, parameters and recorded values; names are weak evidence only."""

    uses: Literal["match.structure"]
    target: CatalogOf = Field(description="Stage that read the target dump.")
    golden: CatalogOf = Field(description="Stage that read the golden dump.")
    pair_ranks: dict[int, int] | None = Field(
        None, description="Target rank -> golden rank, where the numbers differ; default: equal numbers."
    )
    step_offset: int = Field(0, description="Golden step = target step + this offset.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.matching.structure import match_structure

    return match_structure(
        inputs["target"][0],
        inputs["golden"][0],
        pair_ranks=options.pair_ranks,
        step_offset=options.step_offset,
    )


STAGE = StageType(
    uses="match.structure",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps whose names differ, by structure, order, shapes and values.",
)
