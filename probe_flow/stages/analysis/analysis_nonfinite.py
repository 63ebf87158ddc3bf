"""`analysis.nonfinite`: where NaN and infinity begin in one dump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from probe_flow.stages.analysis.examination_options import ExaminationOptions
from probe_flow.stages.base import Kind, StageType
from probe_flow.work import Context


class Options(ExaminationOptions):
    """Find where NaN and infinity begin in one dump, and tell that from what inherits them; nothing is compared."""

    uses: Literal["analysis.nonfinite"]


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the examination, which reports, gates and other commands take as they take a comparison."""
    from probe_flow.comparing.examine import examine_nonfinite

    return examine_nonfinite(inputs["catalog"][0], options.asked(context.place), context)


STAGE = StageType(
    uses="analysis.nonfinite",
    produces=Kind.COMPARISON,
    options=Options,
    run=run,
    summary="Find where NaN and infinity begin in one dump.",
)
