"""Reading tensors that lie in several files as the one array they were cut from."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import ge_writer
import numpy as np
import pytest
from msgspec.structs import replace

from probe_flow.elements.blocks import SMALL_BYTES, open_tensor
from probe_flow.elements.joined_blocks import MAX_OPEN_PARTS
from probe_flow.errors import FormatError, NotComparableError
from probe_flow.files.binary_file import BinaryFile
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef

KEY = NodeKey(Execution(), "op")
SLOT = Slot(SlotRole.OUTPUT, (0,))


def cut(folder, stored, cuts, axis, dtype="float32", *, before=b"", **fields):
    """Write a stored array in parts, each in a file of its own, and return the tensor that joins them."""
    extents = []
    for number, part in enumerate(np.split(stored, cuts, axis)):
        content = ge_writer.encode(part, dtype)
        path = folder / f"part{number}"
        path.write_bytes(before + content + b"surplus")
        extents.append(Extent(str(path), len(before), len(content), part=(axis, number)))
    shape = stored.shape
    given = {"logical_shape": shape} | fields
    return TensorRef.of(KEY, SLOT, TensorKind.TENSOR, dtype=dtype, shape=shape, extents=tuple(extents), **given)


def in_blocks(ref, size, io="auto"):
    with open_tensor(ref, io=io) as blocks:
        starts = range(0, blocks.numel, size)
        return np.concatenate([blocks.read(i, min(i + size, blocks.numel)).copy() for i in starts])


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [1, 7, 60, 1000])
def test_parts_join_along_every_axis(tmp_path, axis, size):
    data = np.random.default_rng(axis).normal(size=(3, 5, 4, 6)).astype("f4")
    # Unequal parts, one of them empty, unaligned in their files.
    ref = cut(tmp_path, data, [1, 1, 3], axis, before=b"x")
    np.testing.assert_array_equal(in_blocks(ref, size), data.reshape(-1))


@pytest.mark.parametrize("io", ["auto", "read", "mmap"])
@pytest.mark.parametrize("axis", [0, 1])
def test_large_parts_are_read_in_blocks(tmp_path, io, axis):
    data = np.random.default_rng(1).normal(size=(1001, 1203)).astype("f4")
    ref = cut(tmp_path, data, [400, 900], axis)
    assert max(extent.nbytes for extent in ref.extents) > SMALL_BYTES
    np.testing.assert_array_equal(in_blocks(ref, 65536, io), data.reshape(-1))


@pytest.mark.parametrize(("dtype", "high"), [("int4", 8), ("uint1", 2), ("bool", 2), ("float64", 100)])
def test_packed_and_wide_elements_join(tmp_path, dtype, high):
    data = np.random.default_rng(2).integers(0, high, (6, 4, 8))
    ref = cut(tmp_path, data, [3, 4], 1, dtype)
    np.testing.assert_array_equal(in_blocks(ref, 13), data.reshape(-1))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("size", [5, 777, 10**6])
def test_private_layouts_are_joined_and_then_undone(tmp_path, axis, size):
    data = np.random.default_rng(3).integers(-(2**31), 2**31, (3, 50, 70))
    stored = ge_writer.to_layout(data, "FRACTAL_NZ")
    ref = cut(tmp_path, stored, [1, 2], axis, "int32", layout="FRACTAL_NZ", logical_shape=data.shape)
    np.testing.assert_array_equal(in_blocks(ref, size), data.reshape(-1))


def test_a_private_layout_in_many_parts_is_gathered(tmp_path):
    data = np.random.default_rng(4).integers(-(2**31), 2**31, (600, 20))
    stored = ge_writer.to_layout(data, "FRACTAL_NZ")
    ref = cut(tmp_path, stored, range(1, stored.shape[1]), 1, "int32", layout="FRACTAL_NZ", logical_shape=data.shape)
    assert len(ref.extents) > 30
    np.testing.assert_array_equal(in_blocks(ref, 1000), data.reshape(-1))


def test_the_order_of_the_extents_is_that_of_their_numbers(tmp_path):
    data = np.arange(12, dtype="f4").reshape(3, 4)
    ref = cut(tmp_path, data, [1, 2], 1)
    np.testing.assert_array_equal(in_blocks(ref.changed(extents=ref.extents[::-1]), 5), data.reshape(-1))


def test_more_parts_than_may_be_open_are_read(tmp_path):
    count = 3 * MAX_OPEN_PARTS
    large = np.zeros((2, count * 4), "f4")
    large[:] = np.arange(large.size).reshape(large.shape)
    ref = cut(tmp_path, large, range(4, count * 4, 4), 1)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with open_tensor(ref) as blocks:
        np.testing.assert_array_equal(blocks.read(0, large.size), large.reshape(-1))
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + MAX_OPEN_PARTS
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_memory_is_that_of_the_block_and_not_of_the_tensor(tmp_path):
    # Two sparse files of 3 GiB: 1.5 * 2^31 elements each, together beyond any 32-bit count.
    half = 3 << 30
    extents = []
    for number in range(2):
        path = tmp_path / f"part{number}"
        with path.open("wb") as file:
            file.truncate(half)
            file.seek(7)
            file.write(b"\x05")
        extents.append(Extent(str(path), 0, half, part=(0, number)))
    shape = (6, 1 << 30)
    ref = TensorRef.of(KEY, SLOT, TensorKind.TENSOR, "int8", shape=shape, logical_shape=shape, extents=tuple(extents))
    tracemalloc.start()
    try:
        with open_tensor(ref) as blocks:
            assert blocks.numel == 2 * half
            assert blocks.read(half + 6, half + 9).tolist() == [0, 5, 0]
            assert blocks.read(half - 3, half + 8).tolist() == [0] * 10 + [5]
            assert not blocks.read(2 * half - 65536, 2 * half).any()
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


class TestPartsThatDoNotFit:
    @pytest.fixture
    def ref(self, tmp_path):
        return cut(tmp_path, np.arange(12, dtype="f4").reshape(3, 4), [1, 2], 1)

    def test_a_missing_part_is_not_comparable(self, ref):
        self.refused(ref.changed(extents=ref.extents[:2]), "together they have 2 along axis 1")
        self.refused(ref.changed(extents=ref.extents[1:]), "not numbered")

    def test_numbers_and_axes_are_checked(self, ref):
        first, *rest = ref.extents
        for part in (None, (0, 0), (1, 1), (1, -1)):
            self.refused(ref.changed(extents=(replace(first, part=part), *rest)), "not numbered")
        far = tuple(replace(extent, part=(7, number)) for number, extent in enumerate(ref.extents))
        self.refused(ref.changed(extents=far), "axis 7")

    def test_bytes_that_are_no_whole_part_are_refused(self, ref):
        first, *rest = ref.extents
        self.refused(ref.changed(extents=(replace(first, nbytes=13), *rest)), "13 bytes")

    @pytest.mark.parametrize("encoding", ["torch", "raw-fortran", "raw-strided:1,3"])
    def test_parts_in_an_order_of_their_own_are_refused(self, ref, encoding):
        first, *rest = ref.extents
        self.refused(ref.changed(extents=(replace(first, encoding=encoding), *rest)), "order of their own")

    def refused(self, ref, words):
        with pytest.raises(NotComparableError, match=words) as caught:
            open_tensor(ref)
        assert caught.value.diagnostic.code == "PF3103"
        assert caught.value.diagnostic.help


@pytest.mark.parametrize("layout", ["ND", "FRACTAL_NZ"])
def test_a_part_that_shrank_or_vanished_is_an_error_and_leaves_no_file_open(tmp_path, layout):
    data = np.arange(6400, dtype="f4").reshape(80, 80)
    stored = ge_writer.to_layout(data, layout)
    ref = cut(tmp_path, stored, [2], 0, layout=layout, logical_shape=data.shape)
    before = len(list(Path("/proc/self/fd").iterdir()))
    (tmp_path / "part1").write_bytes(b"short")
    with pytest.raises(FormatError, match="PF3101"):
        open_tensor(ref)
    (tmp_path / "part1").unlink()
    with pytest.raises(FormatError, match="PF3001"):
        open_tensor(ref)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_swapped_bytes_and_wider_files_join(tmp_path):
    data = np.arange(12, dtype="f4").reshape(3, 4)
    ref = cut(tmp_path, data.byteswap().view("f4"), [2], 0)
    swapped = tuple(replace(extent, encoding="raw-big") for extent in ref.extents)
    np.testing.assert_array_equal(in_blocks(ref.changed(extents=swapped), 5), data.reshape(-1))
    ref = cut(tmp_path, data, [2], 0)
    wider = tuple(replace(extent, encoding="raw@float32") for extent in ref.extents)
    np.testing.assert_array_equal(in_blocks(ref.changed(dtype="bfloat16", extents=wider), 5), data.reshape(-1))


@pytest.mark.parametrize("layout", ["ND", "FRACTAL_NZ"])
def test_a_part_that_shrinks_while_it_is_read_is_an_error_and_no_crash(tmp_path, monkeypatch, layout):
    monkeypatch.setattr(BinaryFile, "map", None)  # a map would end the process
    data = (np.arange(9 * 2**20) % 2039).astype("f2").reshape(1024, 9216)
    ref = cut(tmp_path, ge_writer.to_layout(data, layout), [20], 0, "float16", layout=layout, logical_shape=data.shape)
    with open_tensor(ref) as blocks:
        np.testing.assert_array_equal(blocks.read(0, 65536), data.reshape(-1)[:65536])
        with (tmp_path / "part1").open("r+b") as file:
            file.truncate(4096)
        with pytest.raises(FormatError, match="PF3101"):
            blocks.read(data.size - 65536, data.size)
