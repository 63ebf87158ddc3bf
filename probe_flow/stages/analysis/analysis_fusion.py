"""`analysis.fusion`: which fusion passes stand behind the operators where errors begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field

from probe_flow.errors import FormatError, UsageError
from probe_flow.files.existing import is_file
from probe_flow.stages.base import ComparisonOf, IsPath, Kind, StageOptions, StageType
from probe_flow.work import Context


class Options(StageOptions):
    """Rank the fusion passes by the operators of theirs where errors begin, each with the switch that turns it off."""

    uses: Literal["analysis.fusion"]
    comparison: ComparisonOf = Field(description="Comparison to which the findings are added.")
    path: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None,
        description="The `fusion_result.json` of the run, which tells how many times each pass took effect. Default: "
        "the names of passes in the graphs alone.",
    )
    optional: bool = Field(default=False, description="A file that is not there is no mistake: the graphs are enough.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the comparison with what was found."""
    from probe_flow.analysis.search.fusion_passes import fusion_findings
    from probe_flow.dumps.rules.fusion_result import read_fusion_result

    comparison = inputs["comparison"][0]
    is_left = options.path is None or (options.optional and not is_file(options.path))
    try:
        effects = () if is_left or options.path is None else read_fusion_result(options.path)
    except FormatError as error:
        raise UsageError(error.diagnostic) from error
    return replace(comparison, findings=(*comparison.findings, *fusion_findings(comparison, effects)))


STAGE = StageType(
    uses="analysis.fusion",
    produces=Kind.COMPARISON,
    options=Options,
    run=run,
    summary="Rank the fusion passes behind the operators where errors begin.",
    extends="comparison",
)
