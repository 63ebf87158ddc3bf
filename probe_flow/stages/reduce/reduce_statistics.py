"""`reduce.statistics`: reduce a dump to statistics of each tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.reduce.reduce_options import ReduceOptions, Statistic, forecast
from probe_flow.work import Context


class Options(ReduceOptions):
    """Replace tensors by statistics of your choice."""

    uses: Literal["reduce.statistics"]
    statistics: list[Statistic] = Field(
        ["min", "max", "mean", "l2norm", "count", "nan_count", "inf_count"],
        min_length=1,
        description="What each tensor is reduced to, in the order of the reduced files. `crc32` is that of the "
        "logical bytes, bfloat16 as float32.",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump as it is then."""
    from probe_flow.stages.reduce.reduce_stage import run_reduce

    return run_reduce(options, options.statistics, inputs, context)


STAGE = StageType(
    uses="reduce.statistics",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Reduce a dump to statistics of each tensor.",
    forecast=forecast,
)
