"""What rows cost: the memory of a run by the number of its rows, all processes together."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from benchmarks.dumps import write_ge_fx
from benchmarks.eager_cases import NOISE_FOUND, compare_words
from benchmarks.eager_dumps import write_statistics
from benchmarks.figures import ROOT, Row, Settings, one, probe_flow
from benchmarks.runs import cache_in, run_words
from benchmarks.timing import MIB
from benchmarks.tree_memory import TreeMemory, tree_memory

PAIRS, QUICK_PAIRS = (1_000, 10_000, 50_000, 100_000), (200, 1_000)
STATISTICS, QUICK_STATISTICS = (1_000, 10_000, 50_000, 100_000, 1_000_000), (200, 1_000)
PAIR_GOALS = {100_000: "<= 300"}
STATISTICS_GOALS = {1_000_000: "<= 1024"}
"""What all processes may take, in MiB, by the number of rows."""
PAIR_KB, STATISTICS_KB = "<= 1.5", "<= 0.8"
"""What a row may take beyond the fixed amount."""
TWICE = "<= 2.1"
"""How many times as much CPU time twice as many rows may take."""
ELEMENTS = 256
FIXED_BYTES = 120 * MIB
"""What a run takes whatever it compares: Python, numpy, the program."""


def row_memory(settings: Settings) -> list[Row]:
    """Compare more and more tensor pairs, and rows of statistics: what each row takes beyond a fixed amount."""
    pairs, statistics = (QUICK_PAIRS, QUICK_STATISTICS) if settings.is_quick else (PAIRS, STATISTICS)
    rows = []
    for kind, counts, run, totals, a_row in (
        ("tensor pairs", pairs, _pairs, PAIR_GOALS, PAIR_KB),
        ("statistics rows", statistics, _statistics, STATISTICS_GOALS, STATISTICS_KB),
    ):
        found = {}
        for count in counts:
            found[count] = _measured(settings, count, run)
            rows += _figures(f"{count} {kind}", count, found[count], totals.get(count, ""), a_row)
        for count in found.keys() & {2 * count for count in found}:
            ratio = found[count].cpu_s / found[count // 2].cpu_s
            rows.append(Row("rows", f"{count} to {count // 2} {kind}, CPU", "ratio", one(ratio), TWICE))
    return rows


def _measured(settings: Settings, count: int, run: Callable[[Settings, int], TreeMemory]) -> TreeMemory:
    try:
        return run(settings, count)
    finally:
        shutil.rmtree(settings.scratch / "rows", ignore_errors=True)


def _figures(what: str, count: int, found: TreeMemory, total_goal: str, row_goal: str) -> list[Row]:
    a_row = (found.total_bytes - FIXED_BYTES) / count
    return [
        Row("rows", f"{what}, all processes", "MiB", one(found.total_bytes / MIB), total_goal),
        Row("rows", f"{what}, largest process", "MiB", one(found.largest_bytes / MIB)),
        Row("rows", f"{what}, a row beyond {FIXED_BYTES // MIB} MiB", "KB", one(a_row / 1000), row_goal),
        Row("rows", f"{what}, CPU", "s", one(found.cpu_s)),
    ]


def _pairs(settings: Settings, count: int) -> TreeMemory:
    folder = settings.folder("rows", count * ELEMENTS * 8)
    dumps = write_ge_fx(folder, operators=count // 2, elements=ELEMENTS, dtype="float32")
    command = [*probe_flow(), *run_words(dumps, folder / "out")]
    return tree_memory(command, cwd=ROOT, variables=cache_in(folder / "cache"))


def _statistics(settings: Settings, count: int) -> TreeMemory:
    folder = settings.folder("rows")
    pair = write_statistics(folder, rows=count)
    command = [*probe_flow(), *compare_words(pair, folder / "out")]
    return tree_memory(command, cwd=ROOT, variables=cache_in(folder / "cache"), accepted=(0, NOISE_FOUND))
