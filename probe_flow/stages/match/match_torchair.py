"""`match.torchair`: pair a TorchAir GE dump with an FX dump, or with a GE dump made with fusion off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import CatalogOf, Kind, StageType
from probe_flow.stages.match.match_options import MatchOptions
from probe_flow.work import Context


class Options(MatchOptions):
    """Pair GE tensors with FX tensors, or with those of a GE dump made with fusion off, through the graph text."""

    uses: Literal["match.torchair"]
    target: CatalogOf = Field(description="Stage that read the GE dump.")
    golden: CatalogOf = Field(description="Stage that read the FX dump, or the GE dump made with fusion off.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.matching.torchair.match_torchair import match_torchair

    return options.matched(match_torchair, inputs)


STAGE = StageType(
    uses="match.torchair",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair a TorchAir GE dump with an FX dump, or with one made with fusion off, through the graph text.",
)
