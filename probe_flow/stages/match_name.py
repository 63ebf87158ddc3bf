"""`match.name`: pair two dumps whose items carry the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import CatalogOf, Context, Kind, StageOptions, StageType


class Options(StageOptions):
    """Pair items of equal name, call and direction; backward calls are paired through their forward."""

    uses: Literal["match.name"]
    target: CatalogOf = Field(description="Stage that read the target dump.")
    golden: CatalogOf = Field(description="Stage that read the golden dump.")
    fuzzy: bool = Field(
        default=False, description="Also pair entries of other names, by order, type and shapes (rule `fuzzy`)."
    )
    pair_ranks: dict[int, int] | None = Field(
        None, description="Target rank -> golden rank, where the numbers differ; default: equal numbers."
    )
    step_offset: int = Field(0, description="Golden step = target step + this offset.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.matching.name import match_name

    return match_name(
        inputs["target"][0],
        inputs["golden"][0],
        pair_ranks=options.pair_ranks,
        step_offset=options.step_offset,
        fuzzy=options.fuzzy,
    )


STAGE = StageType(
    uses="match.name",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps whose items carry the same names.",
)
