"""Merging of ranks from its two sources: result tables in a folder, and the ranks of one comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, FormatError, IncompleteError
from probe_flow.records import Comparison
from probe_flow.reports.layout import LAYOUTS
from probe_flow.reports.parts import folder_of, rows_by_execution
from probe_flow.reports.rank_merge.config import MergeConfig
from probe_flow.reports.rank_merge.merge import RankTable, Sheet, merge_tables, too_few
from probe_flow.reports.rank_merge.tables import RankFiles, Ranks, find_tables, opened
from probe_flow.reports.rank_merge.write import merged_files

Merged = Mapping[str, tuple[Sheet, ...]]
"""Folder of the step, with a slash at its end (empty when there is one step) -> merged tables."""


def merge_folder(
    folder: Path, output: Path, config: MergeConfig, *, started: datetime
) -> tuple[list[Path], list[Diagnostic]]:
    """Merge the result tables of ranks that lie in a folder, and in its folders of steps.

    Returns:
        The files written, and what is to say; problems of severity error make the result incomplete.

    Raises:
        UsageError: PF7121 a column of another mode, PF7125 two tables of one rank, PF7128 a package is missing.
        IncompleteError: PF7122 nothing to merge, PF7001 a file cannot be written.
        OSError: the folder cannot be listed.
    """
    found, problems = find_tables(folder)
    paths: list[Path] = []
    for step, ranks in found.items():
        try:
            sheets, said = merge_tables(_tables(ranks, problems), config)
        except IncompleteError as error:
            problems += error.diagnostics
            continue
        problems += said
        for file in merged_files(sheets, started=started):
            paths.append(output / step / file.name)
            file.write(paths[-1])
    if not paths:
        raise IncompleteError(problems if found else [too_few(0), *problems])
    return paths, problems


def merge_comparison(comparison: Comparison, config: MergeConfig) -> tuple[Merged, list[Diagnostic]]:
    """Merge the ranks of one comparison, each step by itself.

    Raises:
        UsageError: PF7121 a column of another mode.
        IncompleteError: PF7122 nothing to merge.
    """
    rows = rows_by_execution(comparison.rows)
    steps: dict[str, list[tuple[int, Comparison]]] = {}
    has_steps = len({execution.step for execution in rows}) > 1
    for execution, found in rows.items():
        if execution.rank is not None:
            part = replace(comparison, rows=found)
            steps.setdefault(folder_of(execution, has_steps=has_steps), []).append((execution.rank, part))
    merged, problems = {}, []
    for step, parts in steps.items():
        tables = (_table(rank, part) for rank, part in sorted(parts, key=lambda item: item[0]))
        merged[step], said = merge_tables(tables, config)
        problems += said
    if not merged:
        raise IncompleteError(too_few(0))
    return merged, problems


def _tables(ranks: Ranks, problems: list[Diagnostic]) -> Iterator[RankTable]:
    """Yield the tables that can be opened, each open until the next one is wanted."""
    for files in ranks:
        yield from _opened(files, problems)


def _opened(files: RankFiles, problems: list[Diagnostic]) -> Iterator[RankTable]:
    try:
        with opened(files) as found:
            yield found
    except FormatError as error:
        problems += error.diagnostics


def _table(rank: int, comparison: Comparison) -> RankTable:
    found = LAYOUTS["dump_json"].make(comparison)
    return RankTable(rank, f"rank {rank}", found.header, (cells for _, cells in found.rows))
