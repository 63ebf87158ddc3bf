"""Write docs/benchmarks.md from kept figures: ``python -m benchmarks.page FILE...``, files of ``run --json``.

Runs of one kind of installation share a table, so that cases may be measured one by one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES
from benchmarks.figures import ROOT, Row
from benchmarks.timing import Spread

PAGE = ROOT / "docs" / "benchmarks.md"
HEAD = ("case", "figure", "median", "min", "max", "unit", "goal")
LOAD = "load average"
"""Fact that differs between runs on one machine."""


@dataclass(frozen=True)
class Measured:
    """What one run of the benchmarks found, on what machine: names of facts and their texts."""

    machine: Mapping[str, str]
    runs: int
    rows: Sequence[Row]

    def text(self) -> str:
        """Return it as JSON."""
        found = {"machine": dict(self.machine), "runs": self.runs, "rows": [asdict(row) for row in self.rows]}
        return json.dumps(found, indent=2) + "\n"

    @classmethod
    def of(cls, text: str) -> Measured:
        """Return what `text` was made of."""
        found = json.loads(text)
        return cls(found["machine"], found["runs"], [_row(row) for row in found["rows"]])

    @property
    def installation(self) -> dict[str, str]:
        """The facts that are the same in each run here."""
        return {name: fact for name, fact in self.machine.items() if not name.startswith(LOAD)}


def _row(found: Mapping[str, Any]) -> Row:
    value = found["value"]
    return Row(**{**found, "value": None if value is None else Spread(**value)})


def text_table(rows: Sequence[Row]) -> str:
    """Return the rows in columns for the screen."""
    return aligned([HEAD, *(_cells(row) for row in rows)])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def page(measured: Iterable[Measured]) -> str:
    """Return the page of the documentation, with a section for each installation that was measured."""
    sections: list[list[Measured]] = []
    for one in measured:
        section = next((known for known in sections if known[0].installation == one.installation), None)
        if section is None:
            sections.append([one])
        else:
            section.append(one)
    return _PAGE.format(tables="\n\n".join(map(_section, sections)))


def _section(found: Sequence[Measured]) -> str:
    facts = found[0].installation
    loads = sorted({load for one in found for name, load in one.machine.items() if name.startswith(LOAD)}, key=float)
    runs = "/".join(map(str, sorted({one.runs for one in found})))
    texts = [f"{name} {fact}" for name, fact in facts.items()]
    if loads:
        texts.append(f"{LOAD} {loads[0]}" if len(loads) == 1 else f"{LOAD} between {loads[0]} and {loads[-1]}")
    order = list(CASES)
    rows = sorted((row for one in found for row in one.rows), key=lambda row: order.index(row.case))
    table = "\n".join("| " + " | ".join(_cells(row)) + " |" for row in rows)
    kind = f"With numba {facts['numba']}" if "numba" in facts else "With numpy alone"
    return (
        f"## {kind}\n\n{runs} counted runs each. Machine: {', '.join(texts)}.\n\n"
        f"| {' | '.join(HEAD)} |\n| {' | '.join('---' for _ in HEAD)} |\n{table}"
    )


def _cells(row: Row) -> tuple[str, ...]:
    value = row.value
    figures = ("-",) * 3 if value is None else tuple(map(_number, (value.median, value.least, value.largest)))
    return row.case, row.what, *figures, row.unit, row.goal


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


_PAGE = """# Benchmarks

This page is made by `python -m benchmarks.page` from files of `python -m benchmarks.run --json`; do not edit it.
`make bench` measures on your machine.

Subjects of one case run in turn with each other. The machine is shared with other work, so trust ratios of runs made in
turn more than seconds.

{tables}

## What the cases are

- `startup`: `--help`, `version` and `validate` of a workflow; how many heavy modules (numpy, dask ...) they load.
- `bundled`: a workflow on the packaged dumps, 84 KB, with the byte code of our modules kept and without. It loads 342
  modules of ours (`tests/repo/test_lazy_imports.py` counts them; a table above may be of an earlier version), nearly
  all of which do work in it. Against the version before the work on speed began (aaec585a), in turn on a busy machine,
  it takes 0.66 of the CPU time (15 pairs, 0.55 to 0.75; 0.57 of 0.86 s). While it kept results of small pairs, for
  which h5py is loaded, it took 0.12 more than now (11 pairs), 0.80 of the first version without byte code, and 0.69 of
  its instructions.
- `kernel`: the metric kernel on arrays in memory, one thread, by CPU time; the ratio sets the bytes of both tensors a
  second against the bytes that memcpy copies a second. With two threads it says how many times the work of one they do
  in the same time. Figures of numba appear where it is installed.
- `ge_fx`: `probe-flow compare -m torchair` of a float16 device dump and a float32 FX dump, from the command to the
  result files.
- `small`, `D`: the same with tiny tensors: what a pair costs besides its numbers.
- `A`, `B` and their variants: `probe-flow compare` of dumps of tensors in torch files, described by a dump.json: many
  of medium size, and few large ones. The large cases run when they are named.
- `C`: `probe-flow compare` of two dump.json that hold statistics only, from the command to the result files.
- `rows`: what a tensor pair and a row of statistics take beyond a fixed amount of memory, all processes together, from
  a thousand rows to a million, and how much more CPU time twice as many rows take.
- `ranks`: `probe-flow graph_visualize` and `compare` of dumps of 4 and of 16 ranks that do not communicate, statistics
  with modules and stacks: what each further rank of 6,256 nodes (15,640 tensors) takes of memory. `ranks-64`: the same
  of 16 and 64 ranks, when it is named. The first 4 ranks have fewer rows than are put into a file.
- `E`: one huge bfloat16 tensor against float32, with one worker and with two worker processes; the results must be
  equal to the bit. Peak memory is that of the largest process.
- `F`: a run with an empty cache, the same without changes, and after a tenth of the device files changed.
- `I`: a run that is killed with SIGKILL when half of its batches have begun, resumed, and compared with one that was
  left alone; a batch is a twentieth of the pairs.
- `distributed`: a run by two worker processes and by an own Dask cluster of two, with an empty cache: what the cluster
  costs once, from pairs of 256 elements, and how much more the rest of a large run takes.
- `reduce`: `probe-flow reduce` of large arrays (page cache warm) beside a program that only reads them and takes minima
  and maxima with numpy, both with what their processes take to start; of many small device
  files; and the processor time of a watch in which nothing happens.
- `reduced`: `probe-flow compare -m torchair` of two dumps that were reduced to extremes. Rows are the tensors of a
  side; the inputs among the arrays, which are outputs of other operators, are rows as well. The peer cannot read such
  files: it closes each archive before it reads from it.
- `offline`: `probe-flow compare -m offline_data` of a float16 device dump in the layout NC1HWC0 and float32 arrays in
  NCHW, with fusion rules and all metrics of that command. `offline-tf`: the same with arrays in NHWC, as TensorFlow
  leaves them. `offline-inputs`: the same with the inputs of the operators, which are the outputs of others. Both run
  when they are named.
- `probe-flow` starts with an empty cache, `probe-flow again` with what that run kept.
- `peer`: the same command of `msprobe`, when one is named with `--peer`. A ratio of 5 says that it took five times as
  much.
"""

if __name__ == "__main__":
    PAGE.write_text(
        page(Measured.of(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]), encoding="utf-8"
    )
