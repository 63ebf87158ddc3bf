"""The two tables that msprobe's `op_generate` leaves for MindSpore: rows and rules are those of `acc_check`.

Every iteration adds its rows. The benchmark is rounded to the tested type before it is judged: what
the type cannot hold is no error of the operator.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from types import MappingProxyType

import numpy as np

from probe_flow.apis.acc_check import Judgement, judge
from probe_flow.apis.run import Direction
from probe_flow.apis.side import Held, Result
from probe_flow.apis.values import to_bfloat16

FOLDER = "op_result_output"
"""Of the tables, in the working directory, as msprobe has it."""

RESULT_COLUMNS = ("API Name", "Forward Test Success", "Backward Test Success", "Message")
DETAILS_COLUMNS = (
    "API Name",
    "Bench Dtype",
    "Tested Dtype",
    "Shape",
    "Cosine",
    "MaxAbsErr",
    "MaxRelativeErr",
    "Status",
    "Message",
)

_SPELT: Mapping[str, str] = MappingProxyType({"bfloat16": "BFloat16"})


def write_tables(name: str, propagation: str, runs: Sequence[Direction], folder: str = FOLDER) -> list[str]:
    """Write both tables and return their paths.

    Args:
        name: of the API, with its number.
        propagation: ``forward`` or ``backward``.
        runs: the iterations.
        folder: made where it is missing.

    Raises:
        OSError: they cannot be written.
    """
    results, details = [], []
    for run in runs:
        rows = [] if run.skipped is not None else list(_details(f"{name}.{propagation}.output", run))
        details += rows
        failing = [row for row in rows if row[-2] != "pass"]
        status = "SKIP" if run.skipped is not None else "error" if failing else "pass"
        states = (status, "") if propagation == "forward" else ("", status)
        message = str(run.skipped) if run.skipped is not None else " ".join(f"{row[-1]};" for row in failing if row[-1])
        results.append((name, *states, message))
    place = FilePath(folder)
    place.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d%H%M%S")
    written = []
    for word, columns, lines in (("result", RESULT_COLUMNS, results), ("details", DETAILS_COLUMNS, details)):
        path = place / f"accuracy_checking_{word}_{stamp}.csv"
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows([columns, *lines])
        written.append(str(path))
    return written


def _details(start: str, run: Direction) -> Iterator[tuple[str, ...]]:
    for number, checked in enumerate(run.checked):
        tested, benchmark = checked.tested, checked.benchmark
        near = _near(benchmark, tested.dtype)
        found: Judgement = judge(tested, near)
        shape = benchmark.value.values.shape if isinstance(benchmark.value, Held) else ()
        figures = (found.figures.cosine, found.figures.max_abs, found.figures.max_rel)
        yield (
            f"{start}.{number}",
            _word(benchmark),
            _word(tested),
            str(tuple(shape)),
            *("" if each is None else repr(each) for each in figures),
            "pass" if found.is_right else "error",
            found.message,
        )


def _word(result: Result) -> str:
    dtype = result.dtype
    if not isinstance(result.value, Held):
        return dtype
    return _SPELT.get(dtype) or (f"UI{dtype[2:]}" if dtype.startswith("uint") else dtype.capitalize())


def _near(benchmark: Result, dtype: str) -> Result:
    """Return a result with its elements rounded to the tested type, where that is a narrower float."""
    held = benchmark.value
    if not isinstance(held, Held) or held.values.dtype.kind != "f" or dtype not in ("float16", "bfloat16", "float32"):
        return benchmark
    with np.errstate(all="ignore"):
        values = held.values.astype("float32" if dtype == "bfloat16" else dtype)
        if dtype == "bfloat16":
            values = to_bfloat16(values)
    return Result(benchmark.place, Held(values, dtype))
