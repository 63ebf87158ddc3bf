"""`match.structure`: pair two dumps of one model whose names differ, without a mapping file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.match.match_options import MatchOptions
from probe_flow.work import Context


class Options(MatchOptions):
    """Pair calls by module tree, order, shapes, parameters and recorded values; names are weak evidence only."""

    uses: Literal["match.structure"]


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.matching.structure.match_structure import match_structure

    return options.matched(match_structure, inputs)


STAGE = StageType(
    uses="match.structure",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps whose names differ, by structure, order, shapes and values.",
)
