"""Comparing dumps that were reduced to extremes: tens of thousands of small files, and no tensor."""

from __future__ import annotations

import shutil

from benchmarks.figures import Row, Settings, probe_flow, usage_row, usage_rows
from benchmarks.reduced_dumps import ReducedPair, write_reduced
from benchmarks.timing import Usage, interleave, run_command

OPERATORS, STEPS = 2000, 10
QUICK_OPERATORS, QUICK_STEPS = 40, 3
FILE_BYTES = 4096


def reduced(settings: Settings) -> list[Row]:
    """Compare a reduced device dump with a reduced FX dump: the whole command. The peer cannot read such files."""
    operators, steps = (QUICK_OPERATORS, QUICK_STEPS) if settings.is_quick else (OPERATORS, STEPS)
    folder = settings.folder("reduced", FILE_BYTES * 4 * operators * steps)
    pair = write_reduced(folder, operators=operators, steps=steps)
    try:
        found = interleave({"probe-flow": lambda: _compare(settings, pair)}, settings.runs)["probe-flow"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    size = f"{pair.tensors} rows of {pair.files} files"
    rows = usage_rows("reduced", f"probe-flow, {size}", found, wall_goal="<= 10")
    return [*rows, usage_row("reduced", "a row", "us", found, lambda usage: usage.wall_s / pair.tensors * 1e6)]


def _compare(settings: Settings, pair: ReducedPair) -> Usage:
    output = settings.folder("reduced_output")
    variables = {"PROBE_FLOW_CACHE": str(settings.folder("reduced_cache"))}
    paths = ("-tp", str(pair.target), "-gp", str(pair.golden), "-o", str(output))
    return run_command([*probe_flow(), "compare", "-m", "torchair", *paths], cwd=output, variables=variables)
