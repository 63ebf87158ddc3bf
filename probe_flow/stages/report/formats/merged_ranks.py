"""`rank_merge`: one table per measure for all ranks of the comparison."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from probe_flow.errors import ProbeFlowError
from probe_flow.reports.formats import FileFormat, ReportFile, Request
from probe_flow.stages.base import IsPath


def _files(request: Request, path: str) -> Iterable[ReportFile]:
    """Yield the merged tables of every step; those of several configurations are told apart by their names."""
    from probe_flow.reports.rank_merge.config import read_merge_config
    from probe_flow.reports.rank_merge.sources import merge_comparison
    from probe_flow.reports.rank_merge.write import merged_files

    try:
        merged, problems = merge_comparison(request.comparison, read_merge_config(path))
    except ProbeFlowError as error:
        request.problems.extend(error.diagnostics)
        return
    request.problems.extend(problems)
    is_one = sum(each.format.word == "rank_merge" for each in request.chosen) == 1
    suffix = request.suffix if is_one else f"{request.suffix}_{Path(path).stem}"
    for folder, sheets in merged.items():
        for file in merged_files(sheets, started=request.started, suffix=suffix):
            yield ReportFile(f"{folder}{file.name}", file.write)


RANK_MERGE = FileFormat(
    "rank_merge",
    _files,
    Annotated[str, IsPath()],
    "Merge the ranks into one table per measure: a YAML file with `api` (leading parts of row names) and perhaps "
    "`compare_index` (columns). A workbook with the extra `xlsx`, else CSV.",
    stands_alone=False,
)
