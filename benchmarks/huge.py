"""Case E: one huge tensor that several workers share, and whether they give the same bits as one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np

from benchmarks.dumps import (
    DEVICE_FOLDER,
    GRAPH_DTYPES,
    GRAPH_FILE,
    RANK_FOLDER,
    START_FX,
    START_GE,
    STRIDE,
    TARGET,
    WRITERS,
    Array,
    DumpPair,
    base_values,
    make_private,
)
from benchmarks.figures import Row, Settings, one, ratio_rows, usage_rows
from benchmarks.runs import demand_equal, run_workflow
from benchmarks.timing import Usage, interleave

ELEMENTS, QUICK_ELEMENTS = 500_000_000, 40_000_000  # the smaller is still split in two
CHUNK = 2**20
NODE = f"relu_0-{TARGET}"
ONE_WORKER, TWO_WORKERS = "1 worker", "2 worker processes"
WAYS = {
    ONE_WORKER: ("--scheduler", "sync", "--workers", "1"),
    TWO_WORKERS: ("--scheduler", "processes", "--workers", "2"),
}


def huge(settings: Settings) -> list[Row]:
    """Compare one huge bfloat16 tensor with one worker and with two: time, memory and equal bits."""
    elements = QUICK_ELEMENTS if settings.is_quick else ELEMENTS
    dumps = write_huge(settings.folder("E", elements * (2 + 4)), elements)
    cache = settings.scratch / "E_cache"  # stays empty: --no-cache
    outputs = {name: settings.scratch / f"E_output_{number}" for number, name in enumerate(WAYS)}

    def subject(name: str) -> Callable[[], Usage]:
        def run() -> Usage:
            shutil.rmtree(outputs[name], ignore_errors=True)
            return run_workflow(dumps, outputs[name], "--no-cache", *WAYS[name], cache=cache)

        return run

    try:
        found = interleave({name: subject(name) for name in WAYS}, settings.runs)
    finally:
        shutil.rmtree(settings.scratch / "E", ignore_errors=True)
    demand_equal(list(outputs.values()))
    rows = [Row("E", f"1 pair x {elements} elements, different bits", "count", one(0), "0")]
    for name, usages in found.items():
        rows += usage_rows("E", name, usages)
    goals = ("", "", "")
    return rows + ratio_rows("E", f"{ONE_WORKER} to {TWO_WORKERS}", found[TWO_WORKERS], found[ONE_WORKER], goals=goals)


def write_huge(root: Path, elements: int) -> DumpPair:
    """Write the output of one operator as bfloat16 device dump and float32 FX dump, a piece at a time."""
    sys.path.insert(0, str(WRITERS))
    from ge_graph_writer import GraphOp, OutputDesc, graph_text  # type: ignore[import-not-found]
    from ge_writer import container, file_name  # type: ignore[import-not-found]

    pair = DumpPair(root / "msprobe_ge_dump", root / "msprobe_fx_dump", 1, elements)
    device, host = pair.target / DEVICE_FOLDER, pair.golden / RANK_FOLDER / "graph_1" / "0"
    for folder in (device, host):
        folder.mkdir(parents=True)
    dtype = GRAPH_DTYPES["bfloat16"]
    ops = [
        GraphOp("arg0_1", "Data", (), (OutputDesc(dtype, (elements,)),)),
        GraphOp("Relu_0", "Relu", ("arg0_1:0",), (OutputDesc(dtype, (elements,), f"{NODE}.OUTPUT.0"),)),
    ]
    (pair.target / GRAPH_FILE).write_text(graph_text("graph_1", ops), encoding="utf-8")
    described = {"descr": "<f4", "fortran_order": False, "shape": (elements,)}
    with (
        (device / file_name("Relu", "Relu_0", 1, 7, START_GE)).open("wb") as target,
        (host / f"{NODE}.OUTPUT.0.{START_FX}.npy").open("wb") as golden,
    ):
        target.write(container(_header(elements)))
        np.lib.format.write_array_header_1_0(golden, described)
        for piece in pieces(elements):
            target.write(piece.astype(ml_dtypes.bfloat16).tobytes())
            golden.write(piece.tobytes())
    make_private(root)
    return pair


def pieces(elements: int) -> Iterator[Array]:
    """Yield the float32 values, at most `CHUNK` at a time."""
    base = base_values(min(CHUNK, elements))
    for start in range(0, elements, CHUNK):
        number = start // CHUNK
        value = np.roll(base, STRIDE * number) * np.float32(1 + 0.001 * (number % 100))
        yield value[: elements - start]


def _header(elements: int) -> bytes:
    """Return the message before the payload: one output whose bytes are not in the message."""
    from ge_writer import DATA_TYPES, FORMATS, field_bytes, field_varint, shape_message

    shape = shape_message((elements,))
    output = (
        field_varint(1, DATA_TYPES["bfloat16"])
        + field_varint(2, FORMATS["ND"])
        + field_bytes(3, shape)
        + field_varint(6, 2 * elements)
        + field_bytes(7, shape)
    )
    header: bytes = field_bytes(1, b"2.0") + field_varint(2, START_GE) + field_bytes(3, output)
    return header + bytes(field_bytes(6, b"Relu_0"))
