"""`analysis.overflow`: NaN, infinities and sudden growth in one dump, with the level of every call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.relations.levels import GROWTH
from probe_flow.stages.analysis.examination_options import ExaminationOptions
from probe_flow.stages.base import Kind, StageType
from probe_flow.work import Context


class Options(ExaminationOptions):
    """Find where NaN, infinity and sudden growth begin in one dump, with a level for every call; nothing is compared.

    `critical`: a call read finite values and wrote others. `high`: it read such values and wrote such, or what it wrote
    is much larger than what it read. `medium`: it read such values and wrote finite ones. Growth fails nothing.
    """

    uses: Literal["analysis.overflow"]
    growth: float = Field(
        GROWTH,
        gt=1.0,
        description="A result whose norm is more than this many times the largest norm of what its call read is sudden "
        "growth; where a dump records no norm, the largest element counts.",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the examination, which reports, gates and other commands take as they take a comparison."""
    from probe_flow.comparing.examine import examine_overflow

    return examine_overflow(inputs["catalog"][0], options.asked(context.place), context, growth=options.growth)


STAGE = StageType(
    uses="analysis.overflow",
    produces=Kind.COMPARISON,
    options=Options,
    run=run,
    summary="Find NaN, infinity and sudden growth in one dump, with a level for every call.",
)
