"""`data_mapping`, `advisor` and `mapping`: what was paired, and advice on offline models."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from probe_flow.records import Comparison
from probe_flow.reports.formats import FileFormat, ReportFile, Request


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
