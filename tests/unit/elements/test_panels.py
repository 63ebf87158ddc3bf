"""Blocks put together from pieces of a file: the right elements, in any order of reading, each byte about once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.elements import panels
from probe_flow.elements.extent_bytes import shrunk
from probe_flow.elements.panels import Panels
from probe_flow.errors import FormatError
from probe_flow.records import Extent


class Memory:
    """Stored bytes that count how many of them are read."""

    def __init__(self, content: bytes, dtype: str, *, is_big_endian: bool = False) -> None:
        self.content = content
        self.dtype = dtype
        self.is_big_endian = is_big_endian
        self.nbytes = len(content)
        self.read = 0

    def read_into(self, first: int, buffer: memoryview) -> None:
        assert 0 <= first <= first + len(buffer) <= self.nbytes
        buffer[:] = self.content[first : first + len(buffer)]
        self.read += len(buffer)


def in_tiles(rows, columns, tile):
    """Offsets of a matrix in columns of square tiles, as in FRACTAL_NZ."""
    i, j = np.arange(rows), np.arange(columns)
    return i * tile, j // tile * (-(-rows // tile) * tile * tile) + j % tile


LAYOUTS = {
    "tiles": in_tiles(100, 150, 16),
    "fortran": (np.arange(90), np.arange(80) * 90),
    "images": (np.arange(40) // 8 * 2400 + np.arange(40) % 8, np.arange(15) * 160, np.arange(20) * 8),
    "one row": (np.arange(3000) * 5,),
    "expanded": (np.arange(60) * 80, np.zeros(50, np.int64), np.arange(80)),
    "backwards": (np.arange(70)[::-1] * 60, np.arange(60)),
}


def stored_order(offsets):
    total = np.zeros(1, np.int64)
    for vector in offsets:
        total = np.add.outer(total, vector).reshape(-1)
    return total


@pytest.mark.parametrize(("panel", "window", "gap"), [(400, 100, 1), (3000, 900, 40), (1 << 20, 2000, 4096)])
@pytest.mark.parametrize(("dtype", "form"), [("int16", "<i2"), ("float64", ">f8"), ("int4", None)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_are_those_of_the_tensor(monkeypatch, layout, dtype, form, panel, window, gap):
    monkeypatch.setattr(panels, "PANEL_BYTES", panel)
    monkeypatch.setattr(panels, "WINDOW_BYTES", window)
    monkeypatch.setattr(panels, "GAP_BYTES", gap)
    offsets = tuple(vector.astype(np.int64) for vector in LAYOUTS[layout])
    order = stored_order(offsets)
    numbers = np.random.default_rng(1).integers(0, 8 if form is None else 30000, int(order.max()) // 2 * 2 + 2)
    if form is None:
        content = (numbers[::2] | numbers[1::2] << 4).astype(np.uint8).tobytes()
    else:
        content = numbers.astype(form).tobytes()
    read = Panels(Memory(content, dtype, is_big_endian=bool(form and form[0] == ">")), offsets)
    expected = numbers[order]
    rng = np.random.default_rng(2)
    for size in (1, 77, 1000):
        random = rng.integers(0, order.size - size, 2).tolist()
        for start in (*range(0, order.size - size, max(size, order.size // 3)), *random, order.size - size):
            np.testing.assert_array_equal(read(start, start + size), expected[start : start + size])


@given(st.data())
def test_blocks_of_axes_of_any_kind_are_those_of_the_tensor(data):
    vectors = data.draw(st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=6), min_size=1, max_size=3))
    offsets = tuple(np.array(vector, np.int64) for vector in vectors)
    order = stored_order(offsets)
    numbers = np.arange(int(order.max()) + 1, dtype=np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panels, "PANEL_BYTES", data.draw(st.integers(40, 2000)))
        patch.setattr(panels, "WINDOW_BYTES", data.draw(st.integers(4, 500)))
        patch.setattr(panels, "GAP_BYTES", data.draw(st.integers(0, 200)))
        read = Panels(Memory(numbers.tobytes(), "int32"), offsets)
        for _ in range(3):
            start = data.draw(st.integers(0, order.size - 1))
            stop = data.draw(st.integers(start + 1, order.size))
            np.testing.assert_array_equal(read(start, stop), order[start:stop])


@pytest.mark.parametrize("offsets", [in_tiles(2048, 2048, 16), (np.arange(2000), np.arange(1500) * 2000)])
def test_reading_from_front_to_back_reads_each_byte_about_once(monkeypatch, offsets):
    monkeypatch.setattr(panels, "PANEL_BYTES", 1 << 20)
    monkeypatch.setattr(panels, "WINDOW_BYTES", 1 << 17)
    monkeypatch.setattr(panels, "GAP_BYTES", 64)
    order = stored_order(offsets)
    numbers = np.arange(order.size, dtype=np.float32)
    stored = Memory(numbers.tobytes(), "float32")
    read = Panels(stored, offsets)
    for start in range(0, order.size, 65536):
        block = read(start, min(start + 65536, order.size))
        np.testing.assert_array_equal(block, numbers[order[start : start + 65536]])
    assert stored.read <= 1.1 * stored.nbytes


def test_one_block_alone_reads_little_more_than_itself():
    offsets = in_tiles(4096, 4096, 16)
    stored = Memory(bytes(4096 * 4096 * 2), "float16")
    Panels(stored, offsets)(10 * 65536, 11 * 65536)
    assert stored.read <= 2 * 65536 * 2


def test_after_an_error_nothing_stale_is_left(monkeypatch):
    offsets = in_tiles(100, 150, 16)
    order = stored_order(offsets)
    numbers = np.arange(int(order.max()) + 1, dtype=np.int32)
    stored = Memory(numbers.tobytes(), "int32")
    read = Panels(stored, offsets)

    def fails(first: int, buffer: memoryview) -> None:
        buffer[:] = bytes(len(buffer))
        raise shrunk(Extent("dump", 0, 1), 0)

    with monkeypatch.context() as patch:
        patch.setattr(stored, "read_into", fails)
        with pytest.raises(FormatError):
            read(0, 1000)
    np.testing.assert_array_equal(read(0, 1000), order[:1000])
