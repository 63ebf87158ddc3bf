"""What rows hold: the bytes that each further one adds to a run, counted by Python itself.

Not what the system gives to the process, which `benchmarks --case rows` measures, and not what it takes for a moment:
the number of bytes in use when a comparison is made and when its reports are, which is the same whenever it is counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.dumps import write_ge_fx
from benchmarks.eager_cases import compare_words
from benchmarks.eager_dumps import write_statistics
from benchmarks.runs import run_words

ROOT = Path(__file__).resolve().parents[2]

MOST_BEFORE_A_PAIR_IS_MEASURED, MOST_A_PAIR = 1100, 1550
"""Bytes; 1000 and 1430 were counted. Of each two pairs there is a third row, of what only the golden dumps."""

MOST_A_STATISTICS_ROW = 900
"""Bytes; 815 were counted."""

COUNTED = """
import gc, json, sys, tracemalloc
from probe_flow.cli.main import main
from probe_flow.engine.run.results import Results
from probe_flow.files.small_files import SmallFiles

SmallFiles.add = lambda *_: None  # at most 16 MiB of a run, whatever its rows
add, held = Results.add, {}

def counted(self, planned, result, keep):
    add(self, planned, result, keep)
    gc.collect()
    held[planned.stage.name] = tracemalloc.get_traced_memory()[0]

Results.add = counted
tracemalloc.start()
sys.argv[0] = "probe-flow"
code = main()
print(json.dumps(held), file=sys.stderr)
sys.exit(code)
"""


def held_after_stages(words: list[str], scratch: Path) -> dict[str, int]:
    """Run a command and return the bytes in use after each of its stages."""
    variables = {**os.environ, "PROBE_FLOW_CACHE": str(scratch / "cache"), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", COUNTED, *words], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode in (0, 1), ran.stderr
    return json.loads(ran.stderr.splitlines()[-1])


def a_row(fewer: dict[str, int], more: dict[str, int], rows: int) -> dict[str, float]:
    return {stage: (more[stage] - held) / rows for stage, held in fewer.items()}


def test_a_pair_of_device_and_fx_tensors_holds_no_more_than_it_did(tmp_path):
    held = []
    for pairs in (200, 1200):
        folder = tmp_path / str(pairs)
        folder.mkdir()
        dumps = write_ge_fx(folder, operators=pairs // 2, elements=16, dtype="float32")
        held.append(held_after_stages(run_words(dumps, folder / "out"), folder))
    found = a_row(*held, 1000)
    assert found["pairs"] < MOST_BEFORE_A_PAIR_IS_MEASURED, found
    assert found["result"] < MOST_A_PAIR, found
    assert found["report"] < MOST_A_PAIR, found


def test_a_row_of_statistics_holds_no_more_than_it_did(tmp_path):
    held = []
    for rows in (500, 2500):
        folder = tmp_path / str(rows)
        folder.mkdir()
        held.append(held_after_stages(compare_words(write_statistics(folder, rows=rows), folder / "out"), folder))
    found = a_row(*held, 2000)
    assert found["result"] < MOST_A_STATISTICS_ROW, found
    assert found["report"] < MOST_A_STATISTICS_ROW, found
