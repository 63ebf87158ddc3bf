"""`analysis.op_debug`: which operators overflowed, by the records of a run with overflow detection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.files.existing import is_folder
from probe_flow.stages.analysis.examination_options import JudgedOptions
from probe_flow.stages.base import ComparisonOf, IsPath, Kind, StageType
from probe_flow.work import Context


class Options(JudgedOptions):
    """Say which operators overflowed and how, the first in time first, from the records of the device.

    Alone it fails where anything overflowed. With `comparison` it gives that comparison back, which then says first
    that the run overflowed, and fails.
    """

    uses: Literal["analysis.op_debug"]
    path: Annotated[str, IsPath(must_exist=False)] = Field(
        description="The folder of the overflow run: `Opdebug.Node_OpDebug.*` and the dumps of the operators."
    )
    comparison: ComparisonOf | None = Field(None, description="Comparison to which the findings are added.")
    optional: bool = Field(
        default=False, description="With `comparison`: a folder that is not there changes nothing, and is no mistake."
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the examination, or the comparison with what was found."""
    from probe_flow.analysis.search.op_debug import with_overflows
    from probe_flow.comparing.examine import examine_nonfinite
    from probe_flow.dumps.offline.overflow_run import read_overflow_run

    given = inputs.get("comparison")
    if given and options.optional and not is_folder(options.path):
        return given[0]
    found = read_overflow_run(options.path, side=context.stage)
    examined = examine_nonfinite(found.catalog, options.asked(context.place), context)
    return with_overflows(given[0] if given else examined, found, examined.rows)


STAGE = StageType(
    uses="analysis.op_debug",
    produces=Kind.COMPARISON,
    options=Options,
    run=run,
    summary="Say which operators overflowed, by the records of the device.",
    extends="comparison",
)
