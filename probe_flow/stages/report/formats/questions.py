"""Formats that answer one question and do not list rows: where NaN begins, what differs first, what was paired.

`anomaly_analyze` has the calls in which NaN or infinity begins, `diff_analyze` the first entry of each rank that
differs, `detail` chosen tensors element by element; `data_mapping`, `advisor` and `mapping` say what was paired, and
what that means for offline models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from probe_flow.errors import Diagnostic, Severity
from probe_flow.records import Comparison
from probe_flow.reports.formats import FileFormat, ReportFile, Request
from probe_flow.stages.base import Model
from probe_flow.stages.report.report_detail import Detail


def _anomalies(request: Request, _option: None) -> Iterable[ReportFile]:
    """Yield the file where there is anything to say; no file is the answer of a dump in which all is finite."""
    from probe_flow.reports.anomalies import begins, write_anomalies

    found = begins(request.comparison)
    if found:
        name = f"anomaly_analyze{request.suffix}_{int(request.started.timestamp() * 1e6)}000.json"
        yield ReportFile(name, partial(write_anomalies, found, request.comparison))
    else:
        message = "NaN and infinity begin nowhere, so `anomaly_analyze` writes no file"
        request.problems.append(Diagnostic("PF7141", message, severity=Severity.NOTE))


ANOMALY_ANALYZE = FileFormat("anomaly_analyze", _anomalies)


Threshold = Annotated[float, Field(gt=0)]


class DifferenceThresholds(Model):
    """From which relative difference of a statistic on an entry differs; one that is absent keeps 0.5."""

    max_diff_rel: Threshold | None = Field(None, description="Of the maximum, e.g. 0.5 for 50 %.")
    min_diff_rel: Threshold | None = Field(None, description="Of the minimum.")
    mean_diff_rel: Threshold | None = Field(None, description="Of the mean.")
    l2norm_diff_rel: Threshold | None = Field(None, description="Of the L2 norm.")


def _first_differences(request: Request, thresholds: Sequence[DifferenceThresholds]) -> Iterable[ReportFile]:
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
    _first_differences,
    DifferenceThresholds,
    "The first entry of each rank that differs, as JSON, by own thresholds. Plain `diff_analyze` takes what the "
    "analysis of the run calls diverging.",
    is_joint=True,
)


def _details(request: Request, details: Sequence[Detail]) -> Iterable[ReportFile]:
    from probe_flow.reports.elements.element_files import element_files
    from probe_flow.stages.report.element_views import views_of

    views, problems = views_of(request.comparison, details)
    request.problems.extend(problems)
    folder = f"comparison{request.suffix}/" if request.suffix else ""
    for file in element_files(views):
        yield ReportFile(f"{folder}{file.name}", file.write)


DETAIL = FileFormat(
    "detail",
    _details,
    Detail,
    "Element-wise view of chosen tensors: the target as `.npy` in logical order, tables of all elements, the largest "
    "errors, and a summary. With `html` in the same list the report maps their errors.",
    stands_alone=False,
    is_joint=True,
)


def _data_mapping(request: Request, _option: None) -> tuple[ReportFile, ...]:
    def write(path: Path) -> None:
        from probe_flow.files.atomic import atomic_text
        from probe_flow.mappings.mapping_file import data_mapping_text

        with atomic_text(path) as file:
            file.write(data_mapping_text(request.comparison.pairs))

    return request.one("data_mapping", f"_{request.started:%Y%m%d%H%M%S}.yaml", write)


def _advisor(request: Request, _option: None) -> Iterable[ReportFile]:
    from probe_flow.reports.parts import by_model
    from probe_flow.reports.tables.offline.advisor import write_advisor

    for part in by_model(request.comparison):
        name = f"{part.prefix}advisor_summary{request.suffix}.txt"
        yield ReportFile(name, partial(write_advisor, part.comparison))


def _mapping(request: Request, _option: None) -> Iterable[ReportFile]:
    from probe_flow.reports.parts import by_model

    for part in by_model(request.comparison):
        name = f"{part.prefix}mapping{request.suffix}_{request.started:%Y%m%d%H%M%S}.csv"
        yield ReportFile(name, partial(_write_mapping, part.comparison))


def _write_mapping(comparison: Comparison, path: Path) -> None:
    from probe_flow.reports.tables.offline.mapping import write_mapping

    write_mapping(comparison.pairs, path, rows=comparison.rows)


DATA_MAPPING = FileFormat("data_mapping", _data_mapping, needs_rows=False)
ADVISOR = FileFormat("advisor", _advisor)
MAPPING = FileFormat("mapping", _mapping, needs_rows=False)
