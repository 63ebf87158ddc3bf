"""`detail`: chosen tensors element by element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from probe_flow.reports.formats import FileFormat, ReportFile, Request
from probe_flow.stages.report.report_detail import Detail


def _files(request: Request, details: Sequence[Detail]) -> Iterable[ReportFile]:
    from probe_flow.reports.elements.element_files import element_files
    from probe_flow.stages.report.element_views import views_of

    views, problems = views_of(request.comparison, details)
    request.problems.extend(problems)
    folder = f"comparison{request.suffix}/" if request.suffix else ""
    for file in element_files(views):
        yield ReportFile(f"{folder}{file.name}", file.write)


DETAIL = FileFormat(
    "detail",
    _files,
    Detail,
    "Element-wise view of chosen tensors: the target as `.npy` in logical order, tables of all elements, the largest "
    "errors, and a summary. With `html` in the same list the report maps their errors.",
    stands_alone=False,
    is_joint=True,
)
