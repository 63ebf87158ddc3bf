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

PAIRS, QUICK_PAIRS = (1_000, 10_000, 100_000), (200, 1_000)
STATISTICS, QUICK_STATISTICS = (1_000, 10_000, 100_000), (200, 1_000)
ELEMENTS = 256
FIXED_BYTES = 120 * MIB
"""What a run takes whatever it compares: Python, numpy, the program."""


def row_memory(settings: Settings) -> list[Row]:
    """Compare more and more tensor pairs, and rows of statistics: what each row takes beyond a fixed amount."""
    pairs, statistics = (QUICK_PAIRS, QUICK_STATISTICS) if settings.is_quick else (PAIRS, STATISTICS)
    rows = []
    for kind, counts, run in (("tensor pairs", pairs, _pairs), ("statistics rows", statistics, _statistics)):
        for count in counts:
            rows += _figures(settings, f"{count} {kind}", count, run)
    return rows


def _figures(settings: Settings, what: str, count: int, run: Callable[[Settings, int], TreeMemory]) -> list[Row]:
    try:
        found = run(settings, count)
    finally:
        shutil.rmtree(settings.scratch / "rows", ignore_errors=True)
    a_row = (found.total_bytes - FIXED_BYTES) / count
    return [
        Row("rows", f"{what}, all processes", "MiB", one(found.total_bytes / MIB)),
        Row("rows", f"{what}, largest process", "MiB", one(found.largest_bytes / MIB)),
        Row("rows", f"{what}, a row beyond {FIXED_BYTES // MIB} MiB", "KB", one(a_row / 1000)),
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
