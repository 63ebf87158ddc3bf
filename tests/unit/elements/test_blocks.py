"""Reading elements block by block, from maps, windows and gathers."""

from __future__ import annotations

from pathlib import Path

import ge_writer
import numpy as np
import pytest
from ge_writer import DumpTensor

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.blocks import SMALL_BYTES, open_tensor
from probe_flow.errors import FormatError, NotComparableError
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.records import Execution, NodeKey, Slot, SlotRole, TensorKind, TensorRef

KEY = NodeKey(Execution(), "op")
LARGE = SMALL_BYTES // 4 + 1001
SLOT = Slot(SlotRole.INPUT, (0,))


def dump_ref(tmp_path, *tensors):
    path = ge_writer.write_dump(tmp_path / "dump", op_name="op", inputs=tensors)
    return tensor_refs(read_ge_header(path), path, KEY)[-1]


def in_blocks(ref, size, io="auto"):
    with open_tensor(ref, io=io) as blocks:
        starts = range(0, blocks.numel, size)
        return np.concatenate([blocks.read(i, min(i + size, blocks.numel)).copy() for i in starts])


@pytest.mark.parametrize("io", ["auto", "mmap", "read"])
@pytest.mark.parametrize("numel", [7, LARGE])
@pytest.mark.parametrize("dtype", ["float32", "int4", "uint1", "float64", "bool"])
def test_blocks_join_to_the_whole(tmp_path, io, numel, dtype):
    data = np.random.default_rng(1).integers(0, 2, numel)
    # A one-byte tensor before it leaves the elements unaligned in the file.
    ref = dump_ref(tmp_path, DumpTensor(np.array([1]), "int8"), DumpTensor(data, dtype))
    np.testing.assert_array_equal(in_blocks(ref, 65537, io), data)


@pytest.mark.parametrize("io", ["auto", "read"])
@pytest.mark.parametrize("shape", [(5, 7), (700, 1001)])
def test_private_layouts_are_gathered(tmp_path, io, shape):
    data = np.random.default_rng(2).integers(-(2**31), 2**31, shape)
    ref = dump_ref(tmp_path, DumpTensor(data, "int32", layout="FRACTAL_NZ"))
    np.testing.assert_array_equal(in_blocks(ref, 4099, io), data.reshape(-1))


@pytest.mark.parametrize("io", ["auto", "read"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_large_fortran_arrays_are_gathered(tmp_path, io, dtype):
    data = np.random.default_rng(3).normal(size=(9, 200, 301)).astype(dtype)
    np.save(tmp_path / "array.npy", np.asfortranarray(data))
    ref = npy_tensor_ref(tmp_path / "array.npy", KEY, SLOT)
    np.testing.assert_array_equal(in_blocks(ref, 65536, io), data.reshape(-1))


@pytest.mark.parametrize("io", ["mmap", "read"])
def test_blocks_are_aligned_and_native(tmp_path, io):
    data = np.arange(LARGE, dtype=">f4")
    np.save(tmp_path / "array.npy", data)
    refs = [npy_tensor_ref(tmp_path / "array.npy", KEY, SLOT)]
    refs.append(dump_ref(tmp_path, DumpTensor(np.array([1]), "int8"), DumpTensor(data, "float32")))
    for ref in refs:
        with open_tensor(ref, io=io) as blocks:
            block = blocks.read(3, 1003)
            assert block.flags.aligned
            assert block.dtype == blocks.block_dtype == np.dtype("=f4")
            np.testing.assert_array_equal(block, data[3:1003])


def test_maps_are_read_only_and_outlive_the_tensor(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(LARGE, dtype="f4"))
    with open_tensor(npy_tensor_ref(tmp_path / "array.npy", KEY, SLOT), io="mmap") as blocks:
        block = blocks.read(0, LARGE)
    assert not block.flags.writeable
    assert block[-1] == LARGE - 1


def test_closed_tensors_hold_no_file(tmp_path):
    ref = dump_ref(tmp_path, DumpTensor(np.zeros(LARGE), "float32"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for io in ("mmap", "read"):
        blocks = open_tensor(ref, io=io)
        blocks.read(0, 10)
        blocks.close()
        blocks.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("io", ["mmap", "read"])
@pytest.mark.parametrize("numel", [10, LARGE])
def test_a_file_that_shrank_is_an_error_and_no_crash(tmp_path, io, numel):
    ref = dump_ref(tmp_path, DumpTensor(np.zeros(numel), "float32"))
    with Path(ref.extents[0].file).open("r+b") as file:
        file.truncate(ref.extents[0].offset + ref.extents[0].nbytes - 1)
    with pytest.raises(FormatError) as caught:
        open_tensor(ref, io=io)
    assert caught.value.diagnostic.code == "PF3101"
    assert caught.value.diagnostic.path == ref.extents[0].file
    assert caught.value.diagnostic.help


def test_a_file_that_shrinks_between_windows_is_an_error(tmp_path):
    ref = dump_ref(tmp_path, DumpTensor(np.zeros(LARGE), "float32"))
    with open_tensor(ref, io="read") as blocks:
        blocks.read(0, 10)
        with Path(ref.extents[0].file).open("r+b") as file:
            file.truncate(1000)
        with pytest.raises(FormatError, match="PF3101"):
            blocks.read(LARGE - 10, LARGE)


def test_a_file_that_vanished_is_an_error(tmp_path):
    ref = dump_ref(tmp_path, DumpTensor(np.zeros(3), "float32"))
    (tmp_path / "dump").unlink()
    with pytest.raises(FormatError, match="PF3001"):
        open_tensor(ref)


def test_empty_tensors_open_no_file():
    ref = TensorRef.of(KEY, SLOT, TensorKind.TENSOR, dtype="float16", shape=(0, 3), logical_shape=(0, 3))
    with open_tensor(ref) as blocks:
        assert (blocks.numel, blocks.read(0, 0).dtype) == (0, np.float16)


def test_ranges_outside_the_tensor_are_refused(tmp_path):
    ref = dump_ref(tmp_path, DumpTensor(np.zeros(3), "float32"))
    with open_tensor(ref) as blocks:
        for start, stop in ((-1, 2), (0, 4), (2, 1)):
            with pytest.raises(IndexError):
                blocks.read(start, stop)


@pytest.mark.parametrize("kind", [kind for kind in TensorKind if kind is not TensorKind.TENSOR])
def test_only_tensors_can_be_opened(kind):
    ref = TensorRef.of(KEY, SLOT, kind, shape=(2,), reason="it is what it is")
    with pytest.raises(NotComparableError, match="it is what it is") as caught:
        open_tensor(ref)
    assert caught.value.diagnostic.code == "PF3102"


def test_elements_without_an_extent_are_refused(tmp_path):
    ref = dump_ref(tmp_path, DumpTensor(np.zeros(4), "float32"))
    with pytest.raises(NotComparableError, match="PF3103"):
        open_tensor(ref.changed(extents=()))


def test_layouts_without_conversion_are_not_comparable(tmp_path):
    ref = dump_ref(tmp_path, DumpTensor(np.zeros((2, 3, 4)), "float32"))
    with pytest.raises(NotComparableError, match="PF5110"):
        open_tensor(ref.changed(layout="FRACTAL_ZN_LSTM"))
    with pytest.raises(NotComparableError, match="PF5113"):
        open_tensor(ref.changed(layout="FRACTAL_NZ"))


@pytest.mark.parametrize("io", ["auto", "read", "mmap"])
@pytest.mark.parametrize("layout", ["ND", "FRACTAL_NZ"])
def test_a_file_that_is_cut_off_while_it_is_read_is_an_error_and_not_a_crash(tmp_path, io, layout):
    # Small tensors in layouts of their own are read whole at first; this one is not.
    data = (np.arange(9 * 1024 * 1024) % 2039).astype(np.float16).reshape(1024, 9216)
    ref = dump_ref(tmp_path, DumpTensor(data, "float16", layout))
    with open_tensor(ref, io=io) as blocks:
        first = np.array(blocks.read(0, 65536))
        np.testing.assert_array_equal(first, data.ravel()[:65536])
        with Path(ref.extents[0].file).open("r+b") as file:
            file.truncate(4096)
        with pytest.raises(FormatError) as caught:
            blocks.read(data.size - 65536, data.size)
    assert caught.value.diagnostic.code == "PF3101"
