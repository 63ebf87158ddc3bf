"""Layouts against brute-force forward conversions written from the published index formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from probe_flow.errors import NotComparableError
from probe_flow.tensors.layouts import LogicalIndex, axis_offsets, gather

Shape = tuple[int, ...]
PAD = -1


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def places(shape: Shape) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(size) for size in shape))


def store(logical: Shape, stored: Shape, flat: Callable[..., int]) -> NDArray[np.int64]:
    """Put 0, 1, 2 ... of a logical tensor at the flat indices that a formula gives; the rest is padding."""
    out = np.full(math.prod(stored), PAD, dtype=np.int64)
    for number, place in enumerate(places(logical)):
        index = flat(*place)
        assert out[index] == PAD, "the formula of the test puts two elements at one place"
        out[index] = number
    return out


def nz(logical: Shape, n0: int, c0: int) -> tuple[Shape, NDArray[np.int64]]:
    *batch, rows, columns = (1, *logical) if len(logical) == 1 else logical
    n1, c1 = ceil(rows, n0), ceil(columns, c0)

    def flat(*place: int) -> int:
        b = 0
        for size, at in zip(batch, place, strict=False):
            b = b * size + at
        c = place[-1]
        n = place[-2] if len(logical) > 1 else 0
        return (((b * c1 + c // c0) * n1 + n // n0) * n0 + n % n0) * c0 + c % c0

    stored = (*batch, c1, n1, n0, c0)
    return stored, store(logical, stored, flat)


def nc1hwc0(logical: Shape, c0: int) -> tuple[Shape, NDArray[np.int64]]:
    n_, c_, h_, w_ = logical
    c1 = ceil(c_, c0)
    stored = (n_, c1, h_, w_, c0)
    return stored, store(logical, stored, lambda n, c, h, w: (((n * c1 + c // c0) * h_ + h) * w_ + w) * c0 + c % c0)


def ndc1hwc0(logical: Shape, c0: int) -> tuple[Shape, NDArray[np.int64]]:
    n_, c_, d_, h_, w_ = logical
    c1 = ceil(c_, c0)
    stored = (n_, d_, c1, h_, w_, c0)
    return stored, store(
        logical, stored, lambda n, c, d, h, w: ((((n * d_ + d) * c1 + c // c0) * h_ + h) * w_ + w) * c0 + c % c0
    )


def fractal_z(logical: Shape, n0: int, c0: int) -> tuple[Shape, NDArray[np.int64]]:
    n_, c_, h_, w_ = logical
    c1, n1 = ceil(c_, c0), ceil(n_, n0)
    stored = (c1 * h_ * w_, n1, n0, c0)
    return stored, store(
        logical,
        stored,
        lambda n, c, h, w: ((((c // c0) * h_ + h) * w_ + w) * n1 + n // n0) * n0 * c0 + (n % n0) * c0 + c % c0,
    )


def fractal_z_grouped(logical: Shape, groups: int) -> tuple[Shape, NDArray[np.int64]]:
    n_, c_, h_, w_ = logical
    per = n_ // groups
    e = min(math.lcm(math.lcm(c_, 16) // c_, math.lcm(per, 16) // per), groups)
    c1, n1 = ceil(e * c_, 16), ceil(e * per, 16)
    stored = (ceil(groups, e) * c1 * h_ * w_, n1, 16, 16)

    def flat(n: int, c: int, h: int, w: int) -> int:
        i, j = divmod(n, per)
        v = i % e
        dc, dn = v * c_ + c, v * per + j
        row = ((i // e) * c1 + dc // 16) * h_ * w_ + h * w_ + w
        return ((row * n1 + dn // 16) * 16 + dn % 16) * 16 + dc % 16

    return stored, store(logical, stored, flat)


def restored(layout: str, stored: Shape, logical: Shape, values: NDArray[np.int64], sub_format: int = 0) -> list[int]:
    offsets = axis_offsets(layout, stored, logical, sub_format=sub_format)
    assert offsets is not None
    assert math.prod(vector.size for vector in offsets) == math.prod(logical)
    index = LogicalIndex(offsets)
    assert index.numel == math.prod(logical)
    return [int(v) for v in gather(lambda at: values[at], index, 0, index.numel)]


def axes(rank: int, top: int = 5) -> st.SearchStrategy[Shape]:
    return st.tuples(*[st.integers(1, top)] * rank)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3).flatmap(axes), st.integers(1, 40), st.sampled_from([4, 8, 16]), st.sampled_from([4, 16, 32]))
def test_fractal_nz_of_any_rank_comes_back(leading: Shape, columns: int, n0: int, c0: int) -> None:
    logical = (*leading, columns)
    stored, values = nz(logical, n0, c0)
    assert restored("FRACTAL_NZ", stored, logical, values) == list(range(math.prod(logical)))


@settings(max_examples=40, deadline=None)
@given(axes(4), st.sampled_from([2, 4, 16, 32]))
def test_nc1hwc0_comes_back(logical: Shape, c0: int) -> None:
    stored, values = nc1hwc0(logical, c0)
    assert restored("NC1HWC0", stored, logical, values) == list(range(math.prod(logical)))


@settings(max_examples=40, deadline=None)
@given(axes(5, 4), st.sampled_from([2, 16]))
def test_ndc1hwc0_comes_back(logical: Shape, c0: int) -> None:
    stored, values = ndc1hwc0(logical, c0)
    assert restored("NDC1HWC0", stored, logical, values) == list(range(math.prod(logical)))


@settings(max_examples=40, deadline=None)
@given(axes(4), st.sampled_from([2, 16]), st.sampled_from([2, 16, 32]))
def test_fractal_z_comes_back(logical: Shape, n0: int, c0: int) -> None:
    stored, values = fractal_z(logical, n0, c0)
    for sub_format in (0, 1):
        back = restored("FRACTAL_Z", stored, logical, values, sub_format)
        assert back == list(range(math.prod(logical)))


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 9), st.integers(1, 6), st.integers(1, 20), axes(2, 3))
@example(5, 8, 24, (1, 2))  # two groups share a block of three times 16 channels: three blocks, the last half empty
def test_grouped_fractal_z_comes_back(groups: int, filters: int, channels: int, kernel: Shape) -> None:
    logical = (groups * filters, channels, *kernel)
    stored, values = fractal_z_grouped(logical, groups)
    back = restored("FRACTAL_Z", stored, logical, values, groups)
    assert back == list(range(math.prod(logical)))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["NHWC", "HWCN", "CHWN", "NDHWC", "DHWCN", "DHWNC"]), st.data())
def test_permuted_layouts_come_back(layout: str, data: st.DataObject) -> None:
    order = "NCHW" if len(layout) == 4 else "NCDHW"
    # Distinct sizes: equal ones cannot tell the orders apart.
    logical = tuple(data.draw(st.permutations([2, 3, 4, 5, 6]))[: len(order)])
    tensor = np.arange(math.prod(logical)).reshape(logical)
    stored = np.transpose(tensor, [order.index(axis) for axis in layout])
    back = restored(layout, stored.shape, logical, np.ascontiguousarray(stored).reshape(-1))
    assert back == list(range(math.prod(logical)))


@pytest.mark.parametrize(
    ("layout", "stored", "logical", "found"),
    [
        ("FRACTAL_NZ", (2, 1, 16, 16), (3, 18), {16: 18, 32: 36, 256: 16, 257: 17, 272: 34}),
        ("NC1HWC0", (1, 1, 2, 2, 16), (1, 3, 2, 2), {1: 4, 2: 8, 16: 1, 17: 5, 32: 2}),
        ("FRACTAL_Z", (2, 1, 16, 16), (2, 3, 1, 2), {1: 2, 2: 4, 16: 6, 256: 1, 257: 3, 272: 7}),
    ],
)
def test_published_vectors(layout: str, stored: Shape, logical: Shape, found: dict[int, int]) -> None:
    offsets = axis_offsets(layout, stored, logical)
    assert offsets is not None
    where = LogicalIndex(offsets).stored(0, math.prod(logical)).tolist()
    for place, element in found.items():
        assert where[element] == place


@pytest.mark.parametrize("inner_limit", [1, 7, 40, 10_000])
def test_blocks_of_any_place_and_size_agree_with_the_whole(inner_limit: int) -> None:
    logical = (3, 2, 5, 19)
    stored, values = nz(logical, 4, 16)
    offsets = axis_offsets("FRACTAL_NZ", stored, logical)
    assert offsets is not None
    index = LogicalIndex(offsets, inner_limit=inner_limit)
    total = index.numel
    for size in (1, 18, 19, 20, 100, total):
        for start in range(0, total, size):
            stop = min(total, start + size)
            assert values[index.stored(start, stop)].tolist() == list(range(start, stop))
    assert index.stored(5, 5).size == 0
    with pytest.raises(IndexError):
        index.stored(0, total + 1)


@pytest.mark.parametrize("layout", ["ND", "NCHW", "NCDHW", "RESERVED", ""])
def test_plain_layouts_need_no_index(layout: str) -> None:
    assert axis_offsets(layout, (2, 3, 4), (6, 4)) is None


def test_a_4d_label_on_another_rank_is_plain() -> None:
    assert axis_offsets("NHWC", (7, 3), (7, 3)) is None
    assert axis_offsets("NDHWC", (7, 3), (21,)) is None


def test_a_logical_shape_in_stored_order_is_plain() -> None:
    assert axis_offsets("NHWC", (1, 5, 6, 3), (1, 5, 6, 3)) is None


def test_a_tensor_without_elements_needs_no_index() -> None:
    assert axis_offsets("FRACTAL_NZ", (0, 0, 16, 16), (0, 4)) is None


@pytest.mark.parametrize("layout", ["FRACTAL_DECONV", "FRACTAL_Z_WINO", "C1HWC0", "BN_WEIGHT", "NOT_A_LAYOUT"])
def test_a_layout_without_exact_rule_is_refused(layout: str) -> None:
    with pytest.raises(NotComparableError) as caught:
        axis_offsets(layout, (4, 4), (4, 4))
    assert caught.value.diagnostic.code == "PF5110"
    assert layout in caught.value.diagnostic.message


@pytest.mark.parametrize(
    ("layout", "stored", "logical", "sub_format"),
    [
        ("ND", (2, 3), (2, 4), 0),
        ("NHWC", (7, 3), (7, 4), 0),
        ("NHWC", (1, 5, 6, 3), (1, 3, 5, 7), 0),
        ("NHWC", (1, 5, 6, 3), (3, 30), 0),
        ("FRACTAL_NZ", (2, 1, 16, 16), (3, 40), 0),  # too few blocks
        ("FRACTAL_NZ", (3, 1, 16, 16), (3, 18), 0),  # more blocks than needed
        ("FRACTAL_NZ", (2, 2, 16, 16), (3, 18), 0),
        ("FRACTAL_NZ", (2, 2, 1, 16, 16), (3, 3, 18), 0),  # other batch
        ("FRACTAL_NZ", (3, 18), (3, 18), 0),
        ("FRACTAL_NZ", (1, 1, 16, 16), (), 0),
        ("FRACTAL_NZ", (1, 1, 0, 16), (1, 16), 0),
        ("NC1HWC0", (1, 1, 2, 2, 16), (1, 17, 2, 2), 0),
        ("NC1HWC0", (1, 1, 2, 2, 16), (1, 3, 2, 3), 0),
        ("NC1HWC0", (1, 1, 2, 2, 0), (1, 3, 2, 2), 0),
        ("NC1HWC0", (1, 2, 2, 16), (1, 3, 2, 2), 0),
        ("NDC1HWC0", (1, 1, 1, 2, 2, 16), (1, 3, 2, 2, 2), 0),
        ("NDC1HWC0", (1, 1, 1, 2, 2), (1, 3, 1, 2, 2), 0),
        ("FRACTAL_Z", (2, 1, 16, 16), (2, 3, 2, 2), 0),
        ("FRACTAL_Z", (2, 1, 16, 0), (2, 3, 1, 2), 0),
        ("FRACTAL_Z", (2, 1, 16, 16), (2, 6), 0),
        ("FRACTAL_Z", (2, 1, 16, 16), (5, 3, 1, 2), 2),  # filters not divisible by groups
        ("FRACTAL_Z", (2, 1, 16, 0), (4, 3, 1, 2), 2),
        ("FRACTAL_Z", (3, 1, 16, 16), (4, 3, 1, 2), 2),
    ],
)
def test_contradicting_shapes_are_refused(layout: str, stored: Shape, logical: Shape, sub_format: int) -> None:
    with pytest.raises(NotComparableError) as caught:
        axis_offsets(layout, stored, logical, sub_format=sub_format)
    assert caught.value.diagnostic.code == "PF5113"
    assert str(stored) in caught.value.diagnostic.message
