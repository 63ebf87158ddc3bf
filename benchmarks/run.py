"""Measure speed and memory: ``python -m benchmarks.run [--case NAME]... [--runs N] [--peer COMMAND] [--quick]``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cases import ALIASES, CASES, ON_REQUEST, peer_command
from benchmarks.figures import ROOT, Row, Settings

PAGE = ROOT / "docs" / "benchmarks.md"
RUNS, QUICK_RUNS = 5, 1
ENOUGH_RUNS = 5
"""From fewer runs than these no figure is held against its goal."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    rows: list[Row] = []
    facts = machine()
    with tempfile.TemporaryDirectory(prefix="probe_flow_bench_", dir=options.scratch) as scratch:
        settings = Settings(runs, options.quick, peer_command(options.peer), Path(scratch))
        for name in chosen(options.case):
            print(f"{name}: {CASES[name].__doc__}", file=sys.stderr, flush=True)
            rows += CASES[name](settings)
    facts["load average after"] = _load()
    print(text_table(rows))
    print(f"\n{runs} runs of each; " + ", ".join(f"{key} {value}" for key, value in facts.items()))
    if runs < ENOUGH_RUNS:
        print(f"Fewer than {ENOUGH_RUNS} runs: too few to say whether a goal is met.")
    if options.json:
        found = {"machine": facts, "runs": runs, "rows": [dataclasses.asdict(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if options.write:
        PAGE.write_text(page(rows, facts, runs), encoding="utf-8")
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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="folder for the generated dumps (temporary)")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    return parser


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    import numpy as np

    model = platform.processor() or platform.machine()
    with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    return {
        "CPU": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "load average before": _load(),
    }


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _cells(row: Row) -> tuple[str, ...]:
    value = row.value
    figures = ("-",) * 3 if value is None else tuple(map(_number, (value.median, value.least, value.largest)))
    return row.case, row.what, *figures, row.unit, row.goal


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


HEAD = ("case", "figure", "median", "min", "max", "unit", "goal")


def text_table(rows: Sequence[Row]) -> str:
    """Return the rows in columns for the screen."""
    cells = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    lines = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells)
    return "\n".join(lines)


def page(rows: Sequence[Row], facts: dict[str, str], runs: int) -> str:
    """Return the page of the documentation."""
    table = "\n".join("| " + " | ".join(_cells(row)) + " |" for row in rows)
    facts_text = ", ".join(f"{key} {value}" for key, value in facts.items())
    return _PAGE.format(
        head=" | ".join(HEAD), rule=" | ".join("---" for _ in HEAD), table=table, facts=facts_text, runs=runs
    )


_PAGE = """# Benchmarks

This page is made by `python -m benchmarks.run --write`; do not edit it. `make bench` measures on your machine.

Figures are of {runs} counted runs each, in turn with each other. Machine: {facts}. It is shared with other work, so
trust ratios of runs made in turn more than seconds.

| {head} |
| {rule} |
{table}

- `startup`: `--help`, `version` and `validate` of a workflow; how many heavy modules (numpy, dask ...) they load.
- `kernel`: the metric kernel on arrays in memory, one thread, by CPU time; the ratio sets the bytes of both tensors a
  second against the bytes that memcpy copies a second. With two threads it says how many times the work of one they do
  in the same time. Figures of numba appear where it is installed.
- `ge_fx`: `probe-flow compare -m torchair` of a float16 device dump and a float32 FX dump, from the command to the
  result files.
- `small`, `D`: the same with tiny tensors: what a pair costs besides its numbers.
- `A`, `B` and their variants: `probe-flow compare` of dumps of tensors in torch files, described by a dump.json: many
  of medium size, and few large ones. The large cases run when they are named.
- `C`: `probe-flow compare` of two dump.json that hold statistics only, from the command to the result files.
- `E`: one huge bfloat16 tensor against float32, with one worker and with two worker processes; the results must be
  equal to the bit. Peak memory is that of the largest process.
- `F`: a run with an empty cache, the same without changes, and after a tenth of the device files changed.
- `I`: a run that is killed with SIGKILL when half of its batches have begun, resumed, and compared with one that was
  left alone; a batch is a twentieth of the pairs.
- `reduce`: `probe-flow reduce` of large arrays (page cache warm) beside a program that only reads them and takes minima
  and maxima with numpy, both with what their processes take to start; of many small device
  files; and the processor time of a watch in which nothing happens.
- `reduced`: `probe-flow compare -m torchair` of two dumps that were reduced to extremes. Rows are the tensors of a
  side; the inputs among the arrays, which are outputs of other operators, are rows as well. The peer cannot read such
  files: it closes each archive before it reads from it.
- `offline`: `probe-flow compare -m offline_data` of a float16 device dump in the layout NC1HWC0 and float32 arrays in
  NCHW, with fusion rules and all metrics of that command. `offline-inputs`: the same with the inputs of the operators,
  which are the outputs of others. It runs when it is named.
- `probe-flow` starts with an empty cache, `probe-flow again` with what that run kept.
- `peer`: the same command of `msprobe`, when one is named with `--peer`. A ratio of 5 says that it took five times as
  much.
"""

if __name__ == "__main__":
    sys.exit(main())
