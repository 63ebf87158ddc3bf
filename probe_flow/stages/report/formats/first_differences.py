"""`diff_analyze`: the first entry of each rank that differs, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated

from pydantic import Field

from probe_flow.errors import Diagnostic, Severity
from probe_flow.reports.formats import FileFormat, ReportFile, Request
from probe_flow.stages.base import Model

Threshold = Annotated[float, Field(gt=0)]


class DifferenceThresholds(Model):
    """From which relative difference of a statistic on an entry differs; one that is absent keeps 0.5."""

    max_diff_rel: Threshold | None = Field(None, description="Of the maximum, e.g. 0.5 for 50 %.")
    min_diff_rel: Threshold | None = Field(None, description="Of the minimum.")
    mean_diff_rel: Threshold | None = Field(None, description="Of the mean.")
    l2norm_diff_rel: Threshold | None = Field(None, description="Of the L2 norm.")


def _files(request: Request, thresholds: Sequence[DifferenceThresholds]) -> Iterable[ReportFile]:
    """Yield the files of every execution, and that of the first difference where there is one."""
    from probe_flow.analysis.first_difference.search import first_differences
    from probe_flow.reports.parts import folder_of, ranks_of
    from probe_flow.reports.tables.dump_json.diff_analyze import write_entries_json, write_first_json

    comparison = request.comparison
    given = thresholds[0].model_dump(exclude_none=True) if thresholds else None
    found = first_differences(comparison, given)
    has_steps = len({each.execution.step for each in found}) > 1
    for each, rank in zip(found, ranks_of(found), strict=True):
        folder = folder_of(each.execution, has_steps=has_steps)
        name = f"{folder}compare_result{request.suffix}_rank{rank}_{request.started:%Y%m%d%H%M%S}.json"
        yield ReportFile(name, partial(write_entries_json, each, comparison))
    if any(each.first for each in found):
        name = f"diff_analyze{request.suffix}_{int(request.started.timestamp() * 1e6)}000.json"
        yield ReportFile(name, partial(write_first_json, found, comparison))
    else:
        message = "no entry differs from the golden, so `diff_analyze` writes no file of first differences"
        request.problems.append(Diagnostic("PF7140", message, severity=Severity.NOTE))


DIFF_ANALYZE = FileFormat(
    "diff_analyze",
    _files,
    DifferenceThresholds,
    "The first entry of each rank that differs, as JSON, by own thresholds. Plain `diff_analyze` takes what the "
    "analysis of the run calls diverging.",
    is_joint=True,
)
