"""`analysis.graph`: types and layouts of two graphs of one step, and casts that lose values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field

from probe_flow.errors import FormatError, UsageError
from probe_flow.stages.base import ComparisonOf, IsPath, Kind, StageOptions, StageType
from probe_flow.work import Context

GraphPath = Annotated[str, IsPath()]


class Options(StageOptions):
    """Look for casts that lose values, and for operators that have other types, layouts or shapes in another graph.

    It fails nothing. With `comparison` the findings are added to that one, whose values tell which casts to float16
    overflow.
    """

    uses: Literal["analysis.graph"]
    graph: GraphPath = Field(
        description="Text or JSON of a graph, an `.om`, or a folder of them, as `match.fusion_rule` takes them."
    )
    other: GraphPath | None = Field(None, description="The same of another build of the model, e.g. with fusion off.")
    comparison: ComparisonOf | None = Field(None, description="Comparison to which the findings are added.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the comparison with what was found; alone one of nothing but findings."""
    from probe_flow.analysis.search.graph_types import findings_alone, graph_findings
    from probe_flow.dumps.rules.rule_file import read_rule_files

    given = inputs.get("comparison")
    try:
        one = read_rule_files(options.graph)[0]
        other = read_rule_files(options.other)[0] if options.other is not None else ()
    except FormatError as error:
        raise UsageError(error.diagnostic) from error
    found = graph_findings(one, other, given[0] if given else None)
    return replace(given[0], findings=(*given[0].findings, *found)) if given else findings_alone(found, context.stage)


STAGE = StageType(
    uses="analysis.graph",
    produces=Kind.COMPARISON,
    options=Options,
    run=run,
    summary="Compare types and layouts of two graphs, and find casts that lose values.",
    extends="comparison",
)
