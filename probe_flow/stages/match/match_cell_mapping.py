"""`match.cell_mapping`: pair two dumps whose modules have other names, by a cell mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import IsPath, Kind, StageType
from probe_flow.stages.match.match_options import LayerNameOptions
from probe_flow.work import Context


class Options(LayerNameOptions):
    """Pair by name after renaming modules; `Cell` is `Module`, and the frameworks' APIs meet by a built-in table."""

    uses: Literal["match.cell_mapping"]
    mapping: Annotated[str, IsPath()] | None = Field(
        None,
        description="YAML file of `target part: golden part`, e.g. `fc2.Dense: fc2.Linear`; parts are whole segments "
        "of module names. Default: only `Cell` becomes `Module`.",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.mappings.mapping_file import read_flat_mapping
    from probe_flow.matching.mapping.match_mapping import match_cell_mapping

    entries = read_flat_mapping(options.mapping, what="cell mapping") if options.mapping else ()
    return options.matched(match_cell_mapping, inputs, entries=entries, aliases=options.aliases)


STAGE = StageType(
    uses="match.cell_mapping",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps whose modules have other names.",
)
