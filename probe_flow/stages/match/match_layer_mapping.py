"""`match.layer_mapping`: pair two dumps by the places of their modules in the tree of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import IsPath, Kind, StageType
from probe_flow.stages.match.match_options import LayerNameOptions
from probe_flow.work import Context


class Options(LayerNameOptions):
    """Pair modules by their place in the tree of layers, and APIs by the layer that called them."""

    uses: Literal["match.layer_mapping"]
    mapping: Annotated[str, IsPath()] | None = Field(
        None,
        description="YAML file: per class of the target (`TopLayer` for the outermost layers) `child: child in the "
        "golden`. Default: layers of equal names only.",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.mappings.mapping_file import read_layer_mapping
    from probe_flow.matching.mapping.layers import match_layer_mapping

    entries = read_layer_mapping(options.mapping) if options.mapping else ()
    return options.matched(match_layer_mapping, inputs, entries=entries, aliases=options.aliases)


STAGE = StageType(
    uses="match.layer_mapping",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps by their trees of layers.",
)
