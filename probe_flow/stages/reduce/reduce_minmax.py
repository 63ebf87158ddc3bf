"""`reduce.minmax`: reduce a dump to minimum and maximum of each tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.reduce.reduce_options import ReduceOptions, forecast
from probe_flow.work import Context


class Options(ReduceOptions):
    """Replace tensors by their minimum and maximum, in the files and under the keys of the published script."""

    uses: Literal["reduce.minmax"]


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump as it is then."""
    from probe_flow.stages.reduce.reduce_stage import run_reduce

    return run_reduce(options, ("min", "max"), inputs, context)


STAGE = StageType(
    uses="reduce.minmax",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Reduce a dump to minimum and maximum of each tensor.",
    forecast=forecast,
)
