"""Case I: a run is killed in the middle and resumed; what was measured twice, and is the result the same?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.dumps import DumpPair, write_ge_fx
from benchmarks.figures import ROOT, Row, Settings, one, usage_rows
from benchmarks.runs import cache_counts, cache_in, demand_equal, run_words, run_workflow
from benchmarks.timing import Spread, Usage

OPERATORS, QUICK_OPERATORS = 500, 20
ELEMENTS = 200_000
BATCHES = 20
WORKERS = 2
WAY = ("--scheduler", "threads", "--workers", str(WORKERS))


@dataclass(frozen=True)
class Resumed:
    """What came of one killed run: ``lost`` pairs were begun before the kill and measured again."""

    whole: Usage
    usage: Usage
    begun: int
    kept: int

    @property
    def lost(self) -> int:
        return self.begun - self.kept


def killed(settings: Settings) -> list[Row]:
    """Kill a run with SIGKILL in the middle, resume it, and compare it with one that was left alone."""
    operators = QUICK_OPERATORS if settings.is_quick else OPERATORS
    dumps = write_ge_fx(settings.folder("I", operators * ELEMENTS * 12), operators=operators, elements=ELEMENTS)
    tasks = dumps.pairs // BATCHES
    try:
        found = [kill_and_resume(dumps, settings.folder("I_runs"), tasks) for _ in range(settings.runs)]
    finally:
        shutil.rmtree(settings.scratch / "I", ignore_errors=True)
    return [
        Row("I", f"{dumps.pairs} pairs x {ELEMENTS} elements, begun before the kill", "pairs", _spread(found, "begun")),
        Row("I", "kept for --resume", "pairs", _spread(found, "kept")),
        Row("I", f"measured twice, {WORKERS} workers", "pairs", _spread(found, "lost"), f"<= {WORKERS * tasks}"),
        Row("I", "different bytes in the result", "count", one(0), "0"),
        *usage_rows("I", "run that was left alone", [resumed.whole for resumed in found]),
        *usage_rows("I", "--resume", [resumed.usage for resumed in found]),
    ]


def kill_and_resume(dumps: DumpPair, folder: Path, tasks: int) -> Resumed:
    """Run to the end; run until half of the batches of ``tasks`` pairs began, die, resume; compare the results.

    Raises:
        RuntimeError: the victim survived, or the results differ.
    """
    left_alone, output, log = folder / "left_alone", folder / "killed", folder / "begun.txt"
    whole = run_workflow(dumps, left_alone, *WAY, cache=folder / "cache_alone")
    words = run_words(dumps, output, *WAY)
    half = max(1, dumps.pairs // tasks // 2)
    command = [sys.executable, "-m", "benchmarks.victim", str(log), str(tasks), str(half), *words]
    variables = {**os.environ, **cache_in(folder / "cache")}
    done = subprocess.run(command, cwd=ROOT, env=variables, check=False, capture_output=True, text=True)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the victim was not killed, it ended with exit code {done.returncode}:\n{done.stderr}")
    usage = run_workflow(dumps, output, *WAY, "--resume", cache=folder / "cache")
    demand_equal([left_alone, output])
    begun = sum(int(line) for line in log.read_text(encoding="ascii").splitlines())
    kept, _ = cache_counts(output)
    return Resumed(whole, usage, begun, kept)


def _spread(found: list[Resumed], name: str) -> Spread:
    return Spread.of([getattr(resumed, name) for resumed in found])
