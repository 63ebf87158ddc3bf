"""The file formats of reports: ours, and those of installed packages (entry point `probe_flow.formats`)."""

from __future__ import annotations

from probe_flow.packages import PackageError, Registry
from probe_flow.reports.formats import FileFormat


def _accept(word: str, found: object) -> FileFormat:
    if not isinstance(found, FileFormat):
        raise PackageError(f"it is no `FileFormat` but a `{type(found).__name__}`")
    if found.word != word:
        raise PackageError(f"its format is called `{found.word}`")
    if not callable(found.files):
        raise PackageError("its format has no `files` function")
    return found


_OURS = "probe_flow.stages.report.formats"

FORMATS: Registry[FileFormat] = Registry(
    ("file format", "file formats"),
    "probe_flow.formats",
    {
        "jsonl": f"{_OURS}.pages:JSONL",
        "html": f"{_OURS}.pages:HTML",
        "junit": f"{_OURS}.pages:JUNIT",
        "csv": f"{_OURS}.tables:CSV",
        "xlsx": f"{_OURS}.tables:XLSX",
        "markdown": f"{_OURS}.pages:MARKDOWN",
        "annotations": f"{_OURS}.pages:ANNOTATIONS",
        "sarif": f"{_OURS}.pages:SARIF",
        "rank_merge": f"{_OURS}.merged_ranks:RANK_MERGE",
        "diff_analyze": f"{_OURS}.first_differences:DIFF_ANALYZE",
        "anomaly_analyze": f"{_OURS}.anomalies:ANOMALY_ANALYZE",
        "detail": f"{_OURS}.details:DETAIL",
        "data_mapping": f"{_OURS}.model_files:DATA_MAPPING",
        "advisor": f"{_OURS}.model_files:ADVISOR",
        "mapping": f"{_OURS}.model_files:MAPPING",
    },
    _accept,
    unknown="PF1204",
    unusable="PF7004",
)
"""Every word of `formats:`."""
