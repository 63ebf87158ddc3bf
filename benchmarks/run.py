"""Measure speed and memory: ``python -m benchmarks.run [--case NAME]... [--runs N] [--peer COMMAND] [--quick]``."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.cases import ALIASES, CASES, ON_REQUEST, peer_command
from benchmarks.figures import Row, Settings, probe_flow
from benchmarks.page import LOAD, Measured, text_table
from benchmarks.timing import run_command

RUNS, QUICK_RUNS = 7, 1
ENOUGH_RUNS = 7
"""From fewer runs than these no figure is held against its goal."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    rows: list[Row] = []
    facts = machine()
    with tempfile.TemporaryDirectory(prefix="probe_flow_bench_", dir=options.scratch) as scratch:
        settings = Settings(runs, options.quick, peer_command(options.peer), Path(scratch))
        if find_spec("numba"):  # what is measured is what every run but the first finds
            run_command([*probe_flow(), "doctor", "--warm-up"], cwd=settings.scratch)
        for name in chosen(options.case):
            print(f"{name}: {CASES[name].__doc__}", file=sys.stderr, flush=True)
            rows += CASES[name](settings)
    facts[f"{LOAD} after"] = _load()
    print(text_table(rows))
    print(f"\n{runs} runs of each; " + ", ".join(f"{key} {value}" for key, value in facts.items()))
    if runs < ENOUGH_RUNS:
        print(f"Fewer than {ENOUGH_RUNS} runs: too few to say whether a goal is met.")
    if options.json:
        options.json.write_text(Measured(facts, runs, rows).text(), encoding="utf-8")
    return 0


def chosen(named: Sequence[str] | None) -> list[str]:
    """Return the cases to run, each once: those that are named (by letter or name), else all but the largest."""
    if named:
        return list(dict.fromkeys(ALIASES.get(name, name) for name in named))
    return [name for name in CASES if name not in ON_REQUEST]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "--case", action="append", choices=sorted({*CASES, *ALIASES}), help="only this case (repeat for several)"
    )
    parser.add_argument("--runs", type=int, help=f"counted runs of each subject ({RUNS}; {QUICK_RUNS} with --quick)")
    parser.add_argument("--peer", metavar="COMMAND", help="`msprobe` command to compare with, run in turn with ours")
    parser.add_argument("--quick", action="store_true", help="small inputs, to see that everything works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, for benchmarks.page")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="folder for the generated dumps (temporary)")
    return parser


def machine() -> dict[str, str]:
    """Return what the figures depend on; ``numba`` only where it is installed."""
    import numpy as np

    model = platform.processor() or platform.machine()
    with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    facts = {
        "CPU": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "Python": platform.python_version(),
        "numpy": np.__version__,
    }
    if find_spec("numba"):
        facts["numba"] = version("numba")
    return {**facts, f"{LOAD} before": _load()}


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main())
