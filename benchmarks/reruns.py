"""Case F: the same comparison with an empty cache, again without changes, and after a tenth of the files changed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.dumps import DEVICE_FOLDER, WRITTEN_AT, DumpPair, write_ge_fx
from benchmarks.figures import Row, Settings, one, usage_rows, wall
from benchmarks.runs import cache_counts, run_workflow
from benchmarks.timing import Usage, ratios

OPERATORS, QUICK_OPERATORS = 500, 20
ELEMENTS = 200_000
SHARE = 10
"""Every so many-th device file is touched."""

COLD, WARM, TOUCHED = "empty cache", "nothing changed", "10 % of the device files changed"


@dataclass(frozen=True)
class Rerun:
    """What one run took, what it found in the cache and what it measured."""

    usage: Usage
    hits: int
    misses: int


def reruns(settings: Settings) -> list[Row]:
    """Compare again with what was kept: unchanged, and with 10 % of the files changed."""
    operators = QUICK_OPERATORS if settings.is_quick else OPERATORS
    dumps = write_ge_fx(settings.folder("F", operators * ELEMENTS * 12), operators=operators, elements=ELEMENTS)
    try:
        rounds = [round_of(dumps, settings.folder("F_runs"), number) for number in range(settings.runs + 1)][1:]
    finally:
        shutil.rmtree(settings.scratch / "F", ignore_errors=True)
    rows = []
    changed = 2 * -(-operators // SHARE)
    expected = {COLD: dumps.pairs, WARM: 0, TOUCHED: changed}
    for name, misses in expected.items():
        size = f"{name} ({dumps.pairs} pairs x {ELEMENTS} elements)" if name == COLD else name
        rows += usage_rows("F", size, [taken[name].usage for taken in rounds])
        rows.append(Row("F", f"{name}, pairs measured", "count", one(rounds[-1][name].misses), str(misses)))
    for name, goal in ((WARM, "<= 0.25"), (TOUCHED, "")):
        again = ratios([taken[COLD].usage for taken in rounds], [taken[name].usage for taken in rounds], wall)
        rows.append(Row("F", f"{name} to {COLD}, wall", "ratio", again, goal))
    return rows


def round_of(dumps: DumpPair, folder: Path, number: int) -> dict[str, Rerun]:
    """Run with an empty cache below ``folder``, again, and once more after touching files.

    Raises:
        RuntimeError: a run measured other than what had changed.
    """
    found = {}
    changed = 0
    for step, name in enumerate((COLD, WARM, TOUCHED)):
        if name == TOUCHED:
            changed = touch_some(dumps, WRITTEN_AT + 1 + number)
        output = folder / f"output_{step}"
        usage = run_workflow(dumps, output, cache=folder / "cache")
        found[name] = Rerun(usage, *cache_counts(output))
    measured = [found[name].misses for name in (COLD, WARM, TOUCHED)]
    if measured != [dumps.pairs, 0, 2 * changed]:
        raise RuntimeError(f"{measured} pairs were measured instead of {[dumps.pairs, 0, 2 * changed]}")
    return found


def touch_some(dumps: DumpPair, seconds: int) -> int:
    """Give every tenth device file another time of change; return how many. Each holds an input and an output."""
    files = sorted((dumps.target / DEVICE_FOLDER).iterdir())[::SHARE]
    for path in files:
        os.utime(path, (seconds, seconds))
    return len(files)
