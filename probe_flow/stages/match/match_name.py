"""`match.name`: pair two dumps whose items carry the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.match.match_options import MatchOptions
from probe_flow.work import Context


class Options(MatchOptions):
    """Pair items of equal name, call and direction; backward calls are paired through their forward."""

    uses: Literal["match.name"]
    fuzzy: bool = Field(
        default=False, description="Also pair entries of other names, by order, type and shapes (rule `fuzzy`)."
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.matching.name.match_name import match_name

    return options.matched(match_name, inputs, fuzzy=options.fuzzy)


STAGE = StageType(
    uses="match.name",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps whose items carry the same names.",
)
