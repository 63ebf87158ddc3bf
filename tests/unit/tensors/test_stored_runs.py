"""Runs give the elements that looking up each of them gives, in any piece, and are used where they are long."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.errors import NotComparableError
from probe_flow.tensors.dtypes import decode, decode_runs, nbytes
from probe_flow.tensors.layouts import axis_offsets
from probe_flow.tensors.stored_runs import StoredRuns, stored_runs

Shape = tuple[int, ...]


def in_blocks(tensor: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Pad an axis with -1 to whole blocks and split it into (blocks, size)."""
    missing = -tensor.shape[axis] % size
    padded = np.pad(tensor, [(0, missing if place == axis else 0) for place in range(tensor.ndim)], constant_values=-1)
    return padded.reshape(*padded.shape[:axis], -1, size, *padded.shape[axis + 1 :])


def laid(layout: str, tensor: np.ndarray, n0: int, c0: int) -> np.ndarray:
    """Bring a logical tensor into a layout, by its definition."""
    if layout == "NC1HWC0":
        return in_blocks(tensor, 1, c0).transpose(0, 1, 3, 4, 2)
    if layout == "NDC1HWC0":
        return in_blocks(tensor, 1, c0).transpose(0, 3, 1, 4, 5, 2)
    if layout == "FRACTAL_Z":
        filters = in_blocks(in_blocks(tensor, 1, c0), 0, n0)  # N1 N0 C1 C0 H W
        return filters.transpose(2, 4, 5, 0, 1, 3).reshape(-1, filters.shape[0], n0, c0)
    if layout == "FRACTAL_NZ":
        blocks = in_blocks(in_blocks(tensor, tensor.ndim - 1, c0), tensor.ndim - 2, n0)  # ... N1 N0 C1 C0
        *batch, n1, rows, c1, columns = range(blocks.ndim)
        return blocks.transpose(*batch, c1, n1, rows, columns)
    order = "NCHW" if len(layout) == 4 else "NCDHW"
    return tensor.transpose([order.index(axis) for axis in layout])


AXES = {"NC1HWC0": 4, "FRACTAL_Z": 4, "NHWC": 4, "HWCN": 4, "CHWN": 4, "NDC1HWC0": 5, "NDHWC": 5, "DHWCN": 5}


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, Shape, np.ndarray]:
    """A layout, a logical shape, and 0, 1, 2 ... as they are stored there."""
    layout = draw(st.sampled_from([*AXES, "FRACTAL_NZ"]))
    logical = tuple(draw(st.lists(st.integers(1, 7), min_size=AXES.get(layout, 2), max_size=AXES.get(layout, 4))))
    if layout == "FRACTAL_NZ":
        logical = (*logical[:-1], draw(st.integers(1, 40)))
    if layout in ("NHWC", "HWCN", "CHWN", "NDHWC", "DHWCN"):  # equal sizes cannot tell their orders apart
        logical = tuple(draw(st.permutations([2, 3, 4, 5, 6]))[: len(logical)])
    tensor = np.arange(math.prod(logical), dtype=np.int32).reshape(logical)
    return layout, logical, laid(layout, tensor, draw(st.sampled_from([4, 16])), draw(st.sampled_from([2, 4, 16])))


def runs_of(layout: str, stored: Shape, logical: Shape, worth: int = 1) -> StoredRuns | None:
    offsets = axis_offsets(layout, stored, logical)
    return None if offsets is None else stored_runs(offsets, worth=worth)


@settings(max_examples=300, deadline=None)
@given(tensors(), st.data())
def test_any_piece_is_what_the_definition_of_the_layout_says(tensor, data):
    layout, logical, stored = tensor
    runs = runs_of(layout, stored.shape, logical)
    numel = math.prod(logical)
    assert runs is not None or numel == 1, "each of these layouts is regular"
    if runs is None:
        return
    start = data.draw(st.integers(0, numel))
    stop = data.draw(st.integers(start, numel))
    content = np.ascontiguousarray(stored).reshape(-1)
    assert runs.copy(content, 0, numel).tolist() == list(range(numel))
    assert runs.copy(content, start, stop).tolist() == list(range(start, stop))
    assert runs.span == 1 + np.flatnonzero(content >= 0).max()


@pytest.mark.parametrize(
    ("layout", "stored", "logical", "is_worth_it"),
    [
        ("NC1HWC0", (1, 4, 128, 128, 16), (1, 64, 128, 128), True),
        ("NC1HWC0", (8, 4, 7, 7, 16), (8, 64, 7, 7), False),
        ("FRACTAL_NZ", (64, 64, 16, 16), (1024, 1024), True),
        ("FRACTAL_NZ", (9500, 1, 16, 16), (5, 151990), True),
        ("FRACTAL_Z", (144, 16, 16, 16), (256, 256, 3, 3), False),
    ],
)
def test_runs_are_used_where_they_are_long(layout, stored, logical, is_worth_it):
    assert (stored_runs(axis_offsets(layout, stored, logical) or ()) is not None) is is_worth_it


@pytest.mark.parametrize(
    "vector", [[0, 1, 3, 5], [0, 1, 4, 6], [0, 0, 0], [3, 4, 5], [0, 1, 8, 9, 17, 18], [0, -1, -2], [0, 1, -4, -3]]
)
def test_axes_without_a_rule_have_no_runs(vector):
    assert stored_runs((np.array(vector, np.int64), np.arange(9) * 100), worth=1) is None
    assert stored_runs((np.arange(9) * 100, np.array(vector, np.int64)), worth=1) is None


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "bool", "float64", "complex64", "hifloat8"])
def test_elements_are_decoded_wherever_their_bytes_begin(dtype, shift):
    runs = runs_of("NC1HWC0", (1, 2, 3, 5, 4), (1, 7, 3, 5))
    assert runs is not None
    content = np.random.default_rng(3).integers(0, 256, nbytes(dtype, 120) + shift, np.uint8)[shift:]
    plain = decode(content, dtype, 0, 120).reshape(2, 15, 4).transpose(0, 2, 1).reshape(8, 15)[:7].reshape(-1)
    found = decode_runs(content, dtype, runs, 20, 99)
    assert found.dtype == plain.dtype
    assert found.tobytes() == plain[20:99].tobytes()


def test_a_tensor_that_is_too_short_is_refused():
    runs = runs_of("NC1HWC0", (1, 2, 3, 5, 4), (1, 7, 3, 5))
    assert runs is not None
    with pytest.raises(NotComparableError, match="need"):
        decode_runs(bytes(2 * runs.span - 1), "float16", runs, 0, 1)


@pytest.mark.parametrize("channels", [16, 64])
@pytest.mark.parametrize(("start", "stop"), [(0, None), (5000, None), (4099, 70_001)])
def test_columns_that_are_turned_in_tiles_are_in_their_places(channels, start, stop):
    logical = (2, channels, 70, 71)
    tensor = np.arange(math.prod(logical), dtype=np.int32).reshape(logical)
    stored = np.ascontiguousarray(laid("NHWC", tensor, 0, 0))
    runs = runs_of("NHWC", stored.shape, logical)
    assert runs is not None
    np.testing.assert_array_equal(
        runs.copy(stored.reshape(-1), start, tensor.size if stop is None else stop), tensor.reshape(-1)[start:stop]
    )
