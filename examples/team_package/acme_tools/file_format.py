"""A file format: one line with the number of rows, in words that the option chooses."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from probe_flow.files.atomic import atomic_text
from probe_flow.reports.formats import FileFormat, ReportFile, Request


def files(request: Request, language: str | None) -> Iterable[ReportFile]:
    """Return the only file."""

    def write(path: Path) -> None:
        word = "Zeilen" if language == "german" else "rows"
        with atomic_text(path) as file:
            file.write(f"{len(request.comparison.rows)} {word}\n")

    return request.one("acme_summary", ".txt", write)


FORMAT = FileFormat("acme_text", files, Literal["english", "german"], "Language of the summary.")
