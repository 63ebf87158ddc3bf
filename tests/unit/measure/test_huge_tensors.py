"""Tensors of more than 2^31 elements in files of more than 2 GiB: sparse files, of which only a few blocks are read."""

from __future__ import annotations

import resource
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ge_writer import DATA_TYPES, FORMATS, container, field_bytes, field_varint, shape_message

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.blocks import open_tensor
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.measure.batches import measure_batch, plan_batches, plan_tasks
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.records import Execution, NodeKey, Slot, SlotRole, TensorRef

KEY = NodeKey(Execution(), "op")
SLOT = Slot(SlotRole.OUTPUT, (0,))
ROWS, COLUMNS = 2049, 1 << 20
NUMEL = ROWS * COLUMNS
LAST = NUMEL - 5
MEMORY_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Hole:
    """A tensor whose bytes are holes in a file but for some values: (stored index, byte)."""

    dtype: str
    shape: tuple[int, ...]
    logical: tuple[int, ...]
    layout: str = "ND"
    values: tuple[tuple[int, int], ...] = ()

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * (2 if self.dtype == "float16" else 1)

    def message(self, *, is_output: bool) -> bytes:
        first = 5 if is_output else 4
        body = field_varint(1, DATA_TYPES[self.dtype]) + field_varint(2, FORMATS[self.layout])
        body += field_bytes(3, shape_message(self.shape)) + field_varint(first + 1, self.nbytes)
        return body + field_bytes(first + 2, shape_message(self.logical))


def write_holes(path: Path, inputs: tuple[Hole, ...] = (), outputs: tuple[Hole, ...] = ()) -> list[TensorRef]:
    header = b"".join(field_bytes(3, hole.message(is_output=True)) for hole in outputs)
    header += b"".join(field_bytes(4, hole.message(is_output=False)) for hole in inputs)
    start = container(header + field_bytes(6, b"op"))
    position = len(start)
    with path.open("wb") as file:
        file.write(start)
        for hole in (*inputs, *outputs):
            for index, value in hole.values:
                file.seek(position + index)
                file.write(bytes([value]))
            position += hole.nbytes
        file.truncate(position)
    assert path.stat().st_blocks * 512 < 2**20
    return tensor_refs(read_ge_header(path), path, KEY)


def write_array(path: Path, dtype: str, values: tuple[tuple[int, int], ...]) -> TensorRef:
    with path.open("wb") as file:
        header = {"descr": dtype, "fortran_order": False, "shape": (ROWS, COLUMNS)}
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()
        for index, value in values:
            file.seek(start + index)
            file.write(bytes([value]))
        file.truncate(start + NUMEL)
    return npy_tensor_ref(path, KEY, SLOT)


@pytest.fixture
def memory():
    """Fail when the test body allocates more than a few blocks."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_BYTES


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("io", ["auto", "mmap"])
def test_blocks_beyond_two_gib_are_read_where_they_lie(tmp_path, io):
    first = Hole("int8", (ROWS, COLUMNS), (ROWS, COLUMNS), values=((LAST, 7),))
    second = Hole("int8", (3,), (3,), values=((1, 9),))
    behind = write_holes(tmp_path / "dump", (first, second), (second,))
    with open_tensor(behind[0], io=io) as blocks:
        assert blocks.numel == NUMEL > 2**31
        assert blocks.read(NUMEL - 8, NUMEL).tolist() == [0, 0, 0, 7, 0, 0, 0, 0]
        assert not blocks.read(2**31 - 3, 2**31 + 3).any()
    for ref in behind[1:]:
        with open_tensor(ref, io=io) as blocks:
            assert blocks.read(0, 3).tolist() == [0, 9, 0]


@pytest.mark.usefixtures("memory")
def test_a_private_layout_of_more_than_2_31_elements_is_gathered(tmp_path):
    # (C1, N1, N0, C0) of a matrix with 2^16 rows and 2^15 + 16 columns.
    rows, columns = 1 << 16, (1 << 15) + 16
    stored = (columns // 16, rows // 16, 16, 16)
    row, column = rows - 1, columns - 2
    flat = ((column // 16 * (rows // 16) + row // 16) * 16 + row % 16) * 16 + column % 16
    hole = Hole("float16", stored, (rows, columns), "FRACTAL_NZ", ((2 * flat + 1, 0x3C),))
    (ref,) = write_holes(tmp_path / "dump", outputs=(hole,))
    with open_tensor(ref) as blocks:
        assert blocks.numel > 2**31
        assert blocks.read(blocks.numel - 4, blocks.numel).tolist() == [0, 0, 1, 0]


def test_the_last_task_of_a_huge_pair_finds_its_error_with_the_memory_of_a_block(tmp_path):
    hole = Hole("int8", (ROWS, COLUMNS), (ROWS, COLUMNS), values=((LAST, 7),))
    (target,) = write_holes(tmp_path / "dump", outputs=(hole,))
    golden = write_array(tmp_path / "array.npy", "|i1", ((LAST, 5),))
    options = MeasureOptions()
    tasks = list(plan_tasks(0, target, golden, options))
    assert sum(task.n_blocks for task in tasks) * 65536 >= NUMEL
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (batch,) = plan_batches(tasks[-1:], options, io="auto", batch_bytes=1)
    (result,) = measure_batch(batch)
    assert result.failure is None
    assert str(LAST) in repr(result.record)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 4 * MEMORY_BYTES
