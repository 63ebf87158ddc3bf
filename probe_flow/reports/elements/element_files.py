"""The files of an element-wise view, as people know them from the comparison of offline models.

``{prefix}.npy`` (the target in logical order), ``{prefix}_{first index}.csv`` for every so many elements,
``{prefix}_absolute_error_topn.csv``, ``{prefix}_relative_error_topn.csv`` and ``{prefix}_summary.txt``. Numbers have
six decimals, and a tab behind them in tables, which keeps spreadsheets from reading them as something else; a relative
error that is NaN or infinite is ``-``. Names that were too long for files are in ``simple_op_mapping.csv``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from probe_flow.elements.blocks import open_tensor
from probe_flow.elements.converted.values import array_form
from probe_flow.files.arrays.npz import npy_header
from probe_flow.files.atomic import atomic_bytes, atomic_text
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.reports.elements.element_scan import Rows, Scan, scan
from probe_flow.reports.elements.element_view import ElementView, elements_of, short_prefix

NAMES_FILE = "simple_op_mapping.csv"


class ElementFile(NamedTuple):
    """One file: its name and how it is written."""

    name: str
    write: Callable[[Path], None]


def element_files(views: Sequence[ElementView]) -> list[ElementFile]:
    """Return the files of some views, and that of the names that had to be shortened."""
    files = [file for view in views for file in _files(view, short_prefix(view.prefix))]
    shortened = {short: view.prefix for view in views if (short := short_prefix(view.prefix)) != view.prefix}
    return [*files, ElementFile(NAMES_FILE, partial(_write_names, shortened))] if shortened else files


def _files(view: ElementView, prefix: str) -> Iterator[ElementFile]:
    found = cache(lambda: scan(elements_of(view), view.top))
    yield ElementFile(f"{prefix}.npy", partial(_write_array, view))
    if view.has_tables:
        for first in range(0, view.numel, view.lines):
            yield ElementFile(f"{prefix}_{first}.csv", partial(_write_table, view, first))
    yield ElementFile(f"{prefix}_absolute_error_topn.csv", lambda path: _write_top(view, found().absolute, path))
    yield ElementFile(f"{prefix}_relative_error_topn.csv", lambda path: _write_top(view, found().relative, path))
    yield ElementFile(f"{prefix}_summary.txt", lambda path: _write_summary(view, found(), path))


def _write_array(view: ElementView, path: Path) -> None:
    form = array_form(view.target)
    with open_tensor(view.target) as blocks, atomic_bytes(path) as file:
        file.write(npy_header(form.dtype, view.logical_shape))
        for start in range(0, view.numel, BLOCK):
            file.write(blocks.read(start, min(view.numel, start + BLOCK)).astype(form.dtype).tobytes())


def _write_table(view: ElementView, first: int, path: Path) -> None:
    with atomic_text(path) as file:
        file.write(_head(view))
        for run in elements_of(view, first, first + view.lines):
            indices = np.arange(run.start, run.start + run.target.size)
            file.write(_lines(view, indices, run.target, run.golden, run.absolute, run.relative))


def _write_top(view: ElementView, rows: Rows, path: Path) -> None:
    with atomic_text(path) as file:
        file.write(_head(view))
        file.write(_lines(view, *(rows[name] for name in ("index", "target", "golden", "absolute", "relative"))))


def _write_summary(view: ElementView, found: Scan, path: Path) -> None:
    names = "MinAbsoluteError", "MaxAbsoluteError", "MinRelativeError", "MaxRelativeError"
    lines = [
        f"TotalCount:{view.numel}",
        f"NPUDump:{view.target.node.name}",
        f"GroundTruth:{' '.join(view.golden_names)}",
        f"Format:{view.axes}",
        *(f"{name}:{value:.6f}" for name, value in zip(names, found.extremes, strict=True)),
    ]
    with atomic_text(path) as file:
        file.write("".join(f"{line}\n" for line in lines))


def _write_names(shortened: dict[str, str], path: Path) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(shortened.items())
    with atomic_text(path) as file:
        file.write(text.getvalue())


def _head(view: ElementView) -> str:
    return f"Index,{view.axes},NPUDump,GroundTruth,AbsoluteError,RelativeError\n"


def _lines(view: ElementView, indices: Rows, *columns: Rows) -> str:
    grid = view.grid if view.numel else ()
    places = [axis.tolist() for axis in np.unravel_index(indices, grid)] if grid else []
    rows = zip(indices.tolist(), zip(*places, strict=True), *(column.tolist() for column in columns), strict=True)
    return "".join(
        f"{index},{' '.join(map(str, place))},{x:.6f}\t,{y:.6f}\t,{absolute:.6f}\t,{_relative(relative)}\n"
        for index, place, x, y, absolute, relative in rows
    )


def _relative(value: float) -> str:
    return f"{value:.6f}\t" if math.isfinite(value) else "-"
