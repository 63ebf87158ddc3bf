"""`match.data_mapping`: pair the tensors that a file names, the others by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import IsPath, Kind, StageType
from probe_flow.stages.match.match_options import MatchOptions
from probe_flow.work import Context


class Options(MatchOptions):
    """Pair item by item as a file says; items that it does not name pair by name. Dtypes are not checked."""

    uses: Literal["match.data_mapping"]
    mapping: Annotated[str, IsPath()] = Field(
        description="YAML file of `target item: golden item`, or `N/A` for none, e.g. `Tensor.add.0.forward.output.0: "
        "Torch.add.0.forward.output.0`."
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.mappings.mapping_file import read_flat_mapping
    from probe_flow.matching.mapping.data import match_data_mapping

    return options.matched(match_data_mapping, inputs, entries=read_flat_mapping(options.mapping, what="data mapping"))


STAGE = StageType(
    uses="match.data_mapping",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair the tensors that a file names, the others by name.",
)
