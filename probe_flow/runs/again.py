"""Reports of a finished run: its comparisons, and its record as it was when its own reports were made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.record.comparison_file import FILE, read_comparison
from probe_flow.record.run_folder import DETAILS, NODES, RECORD, ROWS, StoredRun
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison

_STEM, _, _ENDING = FILE.partition(".")
_NAME = re.compile(rf"{_STEM}(_(?P<number>[1-9]\d*))?\.{_ENDING}")
_BEFORE_REPORTS = frozenset({RECORD, "events.jsonl", ROWS, NODES, DETAILS})


def comparisons(run: StoredRun) -> list[Comparison]:
    """Return the comparisons that a run left for reports, in the order in which it numbered them.

    Raises:
        UsageError: PF7117 when there is none, or one of other records than those of this probe_flow.
        IncompleteError: PF7116 when one is damaged.
    """
    found = {int(match["number"] or 0): path for path, match in _files(run.folder)}
    if not found:
        raise UsageError(
            Diagnostic(
                "PF7117",
                f"no report can be made of `{run.folder}`: it has no `{FILE}`",
                path=str(run.folder),
                help="add `record` to `formats` of the report stage and repeat the run; with its cache nothing is "
                "measured again",
            )
        )
    return [read_comparison(path) for _, path in sorted(found.items())]


def _files(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None:
            yield path, match


def before_reports(record: RunRecord) -> RunRecord:
    """Return the record of a run as its first report stage had it, so that a report says the same now as then."""
    names = [stage.name for stage in record.stages]
    end = next((place for place, stage in enumerate(record.stages) if stage.uses == "report"), len(names))
    later = {*names[end:], "run"}
    return replace(
        record,
        status="running",
        verdict="incomplete",
        exit_code=3,
        incomplete=("the run has not ended",),
        stages=record.stages[:end],
        timings=replace(record.timings, wall_s=None),
        artifacts=tuple(name for name in record.artifacts if name.rpartition("/")[2] in _BEFORE_REPORTS),
        problems=tuple(problem for problem in record.problems if problem.stage not in later),
        cache=None,
    )
