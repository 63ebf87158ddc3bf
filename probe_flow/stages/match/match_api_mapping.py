"""`match.api_mapping`: pair a MindSpore dump with a PyTorch dump by their APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import IsPath, Kind, StageType
from probe_flow.stages.match.match_options import MatchOptions
from probe_flow.work import Context


class Options(MatchOptions):
    """Pair by name after renaming APIs: by a mapping file, then by the built-in table of MindSpore and PyTorch."""

    uses: Literal["match.api_mapping"]
    mapping: Annotated[str, IsPath()] | None = Field(
        None,
        description="YAML file: an object with `ms_api`, `pt_api` and lists of corresponding arguments, or a list of "
        "them. Default: the built-in table only.",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.mappings.api_mapping_file import read_api_mapping
    from probe_flow.matching.mapping.match_mapping import match_api_mapping

    entries = read_api_mapping(options.mapping) if options.mapping else ()
    return options.matched(match_api_mapping, inputs, entries=entries)


STAGE = StageType(
    uses="match.api_mapping",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps whose APIs have other names.",
)
