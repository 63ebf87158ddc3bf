"""`match.data_mapping`: pair the tensors that a file names, the others by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import CatalogOf, Context, IsPath, Kind, StageOptions, StageType


class Options(StageOptions):
    """Pair item by item as a file says; items that it does not name pair by name. Dtypes are not checked."""

    uses: Literal["match.data_mapping"]
    target: CatalogOf = Field(description="Stage that read the target dump.")
    golden: CatalogOf = Field(description="Stage that read the golden dump.")
    mapping: Annotated[str, IsPath()] = Field(
        description="YAML file of `target item: golden item`, or `N/A` for none, e.g. `Tensor.add.0.forward.output.0: "
        "Torch.add.0.forward.output.0`."
    )
    pair_ranks: dict[int, int] | None = Field(
        None, description="Target rank -> golden rank, where the numbers differ; default: equal numbers."
    )
    step_offset: int = Field(0, description="Golden step = target step + this offset.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.formats.mapping_file import read_flat_mapping
    from probe_flow.matching.mapping_data import match_data_mapping

    return match_data_mapping(
        inputs["target"][0],
        inputs["golden"][0],
        entries=read_flat_mapping(options.mapping, what="data mapping"),
        pair_ranks=options.pair_ranks,
        step_offset=options.step_offset,
    )


STAGE = StageType(
    uses="match.data_mapping",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair the tensors that a file names, the others by name.",
)
