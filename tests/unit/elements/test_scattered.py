"""Layouts of their own, read by stretches of the file: the right elements, few reads, no map of a file that shrinks."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import ge_writer
import numpy as np
import pytest
from ge_writer import DumpTensor
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements import scattered
from probe_flow.elements.blocks import open_tensor
from probe_flow.elements.scattered import stored_range
from probe_flow.files.binary_file import BinaryFile
from probe_flow.records import Execution, NodeKey

CASES = {
    "NC1HWC0": ((3, 40, 20, 30), "float32"),  # many channels a block
    "FRACTAL_NZ": ((3, 400, 200), "float64"),
}


def dumped(tmp_path, layout, shape, dtype):
    data = (np.arange(np.prod(shape)) % 2039).astype(dtype).reshape(shape)
    path = ge_writer.write_dump(tmp_path / "dump", op_name="op", inputs=[DumpTensor(data, dtype, layout)])
    return data.reshape(-1), tensor_refs(read_ge_header(path), path, NodeKey(Execution(), "op"))[0]


@pytest.mark.parametrize("spread", [0, 2, 1000])
@pytest.mark.parametrize("whole", [0, 1 << 30])
@pytest.mark.parametrize("ahead", [0, 5000, 1 << 20])
@pytest.mark.parametrize("layout", ["NC1HWC0", "FRACTAL_NZ"])
def test_blocks_of_any_size_and_order_are_those_of_the_tensor(tmp_path, monkeypatch, layout, ahead, whole, spread):
    monkeypatch.setattr(scattered, "AHEAD_BYTES", ahead)
    monkeypatch.setattr(scattered, "WHOLE_BYTES", whole)
    monkeypatch.setattr(scattered, "MAX_SPREAD", spread)
    monkeypatch.setattr("probe_flow.elements.blocks.SMALL_BYTES", 0)
    shape, dtype = CASES[layout]
    data, ref = dumped(tmp_path, layout, shape, dtype)
    rng = np.random.default_rng(5)
    with open_tensor(ref) as blocks:
        for size in (1, 77, 4096, 30000):
            for start in (0, size, *rng.integers(0, data.size - size, 5), data.size - size):
                np.testing.assert_array_equal(blocks.read(int(start), int(start) + size), data[start : start + size])


def test_a_front_to_back_reading_reads_little_twice(tmp_path, monkeypatch):
    data, ref = dumped(tmp_path, "NC1HWC0", (2, 64, 128, 128), "float16")
    read: list[int] = []
    original = BinaryFile.read_into

    def counted(self: BinaryFile, offset: int, buffer: memoryview) -> int:
        read.append(len(buffer))
        return original(self, offset, buffer)

    monkeypatch.setattr(BinaryFile, "read_into", counted)
    with open_tensor(ref) as blocks:
        found = np.concatenate([blocks.read(i, i + 65536) for i in range(0, data.size, 65536)])
    np.testing.assert_array_equal(found, data)
    assert sum(read) <= 1.5 * ref.extents[0].nbytes
    assert max(read) <= scattered.WHOLE_BYTES


axes = st.lists(st.integers(0, 50), min_size=1, max_size=5)


@given(st.lists(axes, min_size=1, max_size=4), st.data())
def test_the_range_holds_every_stored_index_and_is_one_that_axes_take(offsets, data):
    vectors = tuple(np.array(vector, dtype=np.int64) for vector in offsets)
    stored = [sum(places) for places in itertools.product(*offsets)]
    start = data.draw(st.integers(0, len(stored) - 1))
    stop = data.draw(st.integers(start + 1, len(stored)))
    low, high = stored_range(vectors, start, stop)
    assert low <= min(stored[start:stop]) <= max(stored[start:stop]) <= high
    assert min(stored) <= low <= high <= max(stored)
    if stop == start + 1:
        assert low == high == stored[start]


READER = """
    import sys
    from probe_flow.errors import FormatError
    from probe_flow.files.binary_file import BinaryFile
    from probe_flow.elements.blocks import open_tensor
    from probe_flow.dumps.device.device_file import read_ge_header
    from probe_flow.dumps.device.refs import tensor_refs
    from probe_flow.records import Execution, NodeKey

    def never(self):
        raise AssertionError("the file is mapped")

    BinaryFile.map = never
    path = sys.argv[1]
    with open_tensor(tensor_refs(read_ge_header(path), path, NodeKey(Execution(), "op"))[0]) as blocks:
        print("reads", flush=True)
        try:
            while True:
                for start in range(0, blocks.numel, 65536):
                    blocks.read(start, min(start + 65536, blocks.numel))
        except FormatError as error:
            print(error.diagnostic.code)
"""


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("NC1HWC0", (9, 64, 100, 100)),
        ("FRACTAL_NZ", (9, 1000, 700)),
        ("FRACTAL_NZ", (2000, 3000)),
        ("NHWC", (8, 64, 100, 99)),
    ],
)
def test_a_process_survives_that_a_file_shrinks_while_it_reads(tmp_path, layout, shape):
    _, ref = dumped(tmp_path, layout, shape, "float32")
    path = Path(ref.extents[0].file)
    command = [sys.executable, "-c", dedent(READER), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "reads\n"
        with path.open("r+b") as file:
            file.truncate(1000)
        out, err = child.communicate(timeout=300)
    assert (child.returncode, out) == (0, "PF3101\n"), err
