"""Kernel dumps of MindSpore for tests: the stored real ones, and a `statistic.csv` computed from their tensors.

The table is written from the format's description (columns, rows that end with a comma, six significant digits), not
from the reader.
"""

from __future__ import annotations

import ast
import csv
import io
import tarfile
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[1] / "data" / "mindspore_graph"

STATISTIC_COLUMNS = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,Avg Value,"
    "Negative Inf Count,Positive Inf Count,NaN Count,L2Norm Value"
)


def unpack(name: str, folder: Path) -> Path:
    """Unpack a stored dump into a folder and return that."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def read_array(file: Path) -> np.ndarray:
    """Return the values of an array, bfloat16 (which numpy cannot name) as float32."""
    raw = file.read_bytes()
    end = 10 + int.from_bytes(raw[8:10], "little")
    header = ast.literal_eval(raw[10:end].decode())
    if header["descr"] == "<E2":
        bits = np.frombuffer(raw, "<u2", offset=end).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(header["shape"])
    return np.load(io.BytesIO(raw))


def turn_into_statistics(folder: Path, *, keep_tensors: bool = False) -> Path:
    """Replace the tensors of a dump by a `statistic.csv` per iteration."""
    for iteration in {file.parent for file in folder.rglob("*.npy")}:
        files = sorted(iteration.glob("*.npy"), key=lambda file: file.name.split(".")[4])
        rows = [statistic_row(file) for file in files]
        (iteration / "statistic.csv").write_text("".join(f"{line}\n" for line in (STATISTIC_COLUMNS, *rows)))
        if not keep_tensors:
            for file in files:
                file.unlink()
    return folder


def statistic_row(file: Path) -> str:
    """Return the row of one tensor file."""
    op_type, name, task, stream, time, role, slot, _, dtype, _ = file.name.split(".")
    stored = read_array(file)
    values = stored.astype(np.float64)
    finite = values[np.isfinite(values)]
    shape = "(" + ",".join(map(str, stored.shape)) + ")"
    infinite = [np.sum(np.isinf(values) & (np.sign(values) == sign)) for sign in (-1, 1)]
    numbers = [f"{value:.6g}" for value in (values.max(), values.min(), values.mean())]
    cells = [op_type, name, task, stream, time, role, slot, stored.nbytes, dtype.lower(), shape, *numbers]
    cells += [*infinite, np.sum(np.isnan(values)), f"{np.linalg.norm(finite):.6g}"]
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue() + ","
