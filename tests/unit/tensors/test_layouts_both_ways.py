"""Into every layout and back: against index formulas written here from the published definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.errors import NotComparableError
from probe_flow.tensors.layouts import LogicalIndex, axis_offsets, in_logical_order, logical_shape_of
from probe_flow.tensors.stored_shapes import CONVERTIBLE, Blocks, stored_shape, usual_c0

Shape = tuple[int, ...]
Place = Callable[..., Shape]


def up(size: int, block: int) -> int:
    return -(-size // block)


def rule(layout: str, logical: Shape, blocks: Blocks) -> tuple[Shape, Place]:
    """The stored shape, and the stored place of a logical one: axis by axis, as the definitions draw them."""
    c0, n0, g = blocks.c0, blocks.n0, blocks.groups
    if layout in ("FRACTAL_NZ", "FRACTAL_ZZ"):
        *batch, m, k = (1, *logical)[-max(2, len(logical)) :]
        if layout == "FRACTAL_NZ":
            shape = (*batch, up(k, c0), up(m, n0), n0, c0)
            return shape, lambda *at: (*at[:-2], at[-1] // c0, at[-2] // n0, at[-2] % n0, at[-1] % c0)
        shape = (*batch, up(m, n0), up(k, c0), n0, c0)
        return shape, lambda *at: (*at[:-2], at[-2] // n0, at[-1] // c0, at[-2] % n0, at[-1] % c0)
    if layout in ("NC1HWC0", "NC1HWC0_C04"):
        b = 4 if layout.endswith("04") else c0
        n_, c_, h_, w_ = logical
        return (n_, up(c_, b), h_, w_, b), lambda n, c, h, w: (n, c // b, h, w, c % b)
    if layout == "NDC1HWC0":
        n_, c_, d_, h_, w_ = logical
        return (n_, d_, up(c_, c0), h_, w_, c0), lambda n, c, d, h, w: (n, d, c // c0, h, w, c % c0)
    if layout == "C1HWNCoC0":
        n_, c_, h_, w_ = logical
        return (up(c_, c0), h_, w_, n_, c0, c0), lambda n, c, h, w: (c // c0, h, w, n, c % c0, c % c0)
    if layout == "FRACTAL_Z_C04":
        n_, c_, h_, w_ = logical

        def along(c: int, h: int, w: int) -> int:
            return ((c // 4 * h_ + h) * w_ + w) * 4 + c % 4

        shape = (up(up(c_, 4) * 4 * h_ * w_, c0), up(n_, n0), n0, c0)
        return shape, lambda n, c, h, w: (along(c, h, w) // c0, n // n0, n % n0, along(c, h, w) % c0)
    if layout in ("FRACTAL_Z", "FRACTAL_Z_3D"):
        n_, c_, d_, h_, w_ = logical if len(logical) == 5 else (*logical[:2], 1, *logical[2:])
        per = n_ // g
        e = min(math.lcm(math.lcm(c_, c0) // c_, math.lcm(per, n0) // per), g)
        c1 = up(e * c_, c0)

        def weight(n: int, c: int, d: int, h: int, w: int) -> Shape:
            group, filter_ = divmod(n, per)
            cc, nn = group % e * c_ + c, group % e * per + filter_
            row = ((((group // e) * d_ + d) * c1 + cc // c0) * h_ + h) * w_ + w
            return row, nn // n0, nn % n0, cc % c0

        shape = (up(g, e) * d_ * c1 * h_ * w_, up(e * per, n0), n0, c0)
        return shape, weight if len(logical) == 5 else lambda n, c, h, w: weight(n, c, 0, h, w)
    if layout == "FRACTAL_Z_3D_TRANSPOSE":
        n_, c_, d_, h_, w_ = logical
        n1 = up(n_, c0)
        shape = (d_ * n1 * h_ * w_, up(c_, n0), n0, c0)
        return shape, lambda n, c, d, h, w: (
            ((d * n1 + n // c0) * h_ + h) * w_ + w, c // n0, c % n0, n % c0,
        )  # fmt: skip
    order = "NCHW" if len(layout) == 4 else "NCDHW"
    axes = [order.index(axis) for axis in layout]
    return tuple(logical[axis] for axis in axes), lambda *at: tuple(at[axis] for axis in axes)


RANKS = {
    "FRACTAL_NZ": 0, "FRACTAL_ZZ": 0, "NC1HWC0": 4, "NC1HWC0_C04": 4, "C1HWNCoC0": 4, "FRACTAL_Z": 4,
    "FRACTAL_Z_C04": 4, "NHWC": 4, "HWCN": 4, "CHWN": 4, "NDC1HWC0": 5, "FRACTAL_Z_3D": 5,
    "FRACTAL_Z_3D_TRANSPOSE": 5, "NDHWC": 5, "DHWCN": 5, "DHWNC": 5,
}  # fmt: skip


def check(layout: str, logical: Shape, blocks: Blocks) -> None:
    expected_shape, place = rule(layout, logical, blocks)
    expected = np.zeros(expected_shape, np.int64)
    for number, at in enumerate(itertools.product(*(range(size) for size in logical)), start=1):
        padded_at = (0, *at) if len(at) == 1 else at
        assert expected[place(*padded_at)] == 0, "the formula of the test puts two elements at one place"
        expected[place(*padded_at)] = number

    stored = stored_shape(layout, logical, blocks)
    offsets = axis_offsets(layout, stored, logical, sub_format=blocks.groups)

    assert stored == expected_shape
    values = np.arange(1, math.prod(logical) + 1)
    if offsets is None:
        found = values
    else:
        index = LogicalIndex(offsets)
        found = np.zeros(math.prod(stored), np.int64)
        found[index.stored(0, index.numel)] = values
        assert found[index.stored(0, index.numel)].tolist() == values.tolist()
    assert found.reshape(stored).tolist() == expected.tolist()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_layout_holds_each_element_where_its_definition_says(data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from(sorted(RANKS)))
    rank = RANKS[layout] or data.draw(st.integers(1, 4))
    logical = tuple(data.draw(st.integers(1, 4)) for _ in range(rank))
    for axis in range(2):  # one or two axes that do not fit a block
        if data.draw(st.booleans()) and rank > axis:
            logical = (*logical[:axis], data.draw(st.integers(1, 35)), *logical[axis + 1 :])
    check(layout, logical, Blocks(data.draw(st.sampled_from([4, 8, 16, 32])), data.draw(st.sampled_from([4, 16]))))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 7), st.integers(1, 5), st.integers(1, 18), st.sampled_from([(2, 1), (1, 3), (2, 1, 2)]),
    st.sampled_from([8, 16, 32]),
)  # fmt: skip
def test_grouped_weights_share_blocks(groups: int, filters: int, channels: int, kernel: Shape, c0: int) -> None:
    layout = "FRACTAL_Z" if len(kernel) == 2 else "FRACTAL_Z_3D"
    check(layout, (groups * filters, channels, *kernel), Blocks(c0, 16, groups))


def test_every_convertible_layout_is_tested() -> None:
    assert CONVERTIBLE - set(RANKS) == {"ND", "NCHW", "NCDHW", "FRACTAL_NZ_C0_16", "FRACTAL_NZ_C0_32"}


@pytest.mark.parametrize(
    ("layout", "logical", "blocks", "shape"),
    [
        ("FRACTAL_NZ_C0_16", (3, 40), Blocks(32), (3, 1, 16, 16)),
        ("FRACTAL_NZ_C0_32", (3, 40), Blocks(16), (2, 1, 16, 32)),
        ("FRACTAL_Z", (32, 3, 7, 7), Blocks(16), (49, 2, 16, 16)),
        ("FRACTAL_Z_C04", (64, 3, 7, 7), Blocks(16), (13, 4, 16, 16)),
        ("ND", (), Blocks(), ()),
        ("FRACTAL_Z", (0, 3, 7, 7), Blocks(groups=2), (49, 0, 16, 16)),
    ],
)
def test_stored_shapes_by_hand(layout: str, logical: Shape, blocks: Blocks, shape: Shape) -> None:
    assert stored_shape(layout, logical, blocks) == shape


def test_blocks_have_32_bytes_for_narrow_types_and_16_elements_for_wide_ones() -> None:
    assert [usual_c0(bits) for bits in (1, 4, 8, 16, 32, 64, 128)] == [256, 64, 32, 16, 16, 16, 16]


@pytest.mark.parametrize(
    ("layout", "logical", "blocks", "code"),
    [
        ("NC1HWC0", (2, 3), Blocks(), "PF5113"),
        ("NHWC", (2, 3), Blocks(), "PF5113"),
        ("FRACTAL_NZ", (), Blocks(), "PF5113"),
        ("FRACTAL_Z", (5, 3, 1, 1), Blocks(groups=2), "PF5113"),
        ("BN_WEIGHT", (2, 3), Blocks(), "PF5110"),
    ],
)
def test_what_has_no_place_in_a_layout_is_refused(layout: str, logical: Shape, blocks: Blocks, code: str) -> None:
    with pytest.raises(NotComparableError) as caught:
        stored_shape(layout, logical, blocks)
    assert caught.value.diagnostic.code == code


@pytest.mark.parametrize(
    ("layout", "stored", "given_shape", "preferred", "found"),
    [
        ("NC1HWC0", (1, 1, 5, 6, 16), (1, 5, 6, 3), (), (1, 3, 5, 6)),
        ("NC1HWC0", (1, 1, 5, 6, 16), (1, 3, 5, 6), ("NHWC",), (1, 3, 5, 6)),
        ("FRACTAL_Z", (15, 3, 16, 16), (3, 5, 3, 40), (), (40, 3, 3, 5)),
        ("FRACTAL_Z", (15, 1, 16, 16), (8, 3, 5, 3), (), (8, 3, 5, 3)),
        ("FRACTAL_Z", (15, 1, 16, 16), (8, 3, 5, 3), ("NHWC",), (8, 3, 3, 5)),  # both fit
        ("NDC1HWC0", (1, 4, 1, 5, 6, 16), (1, 4, 5, 6, 3), (), (1, 3, 4, 5, 6)),
        ("NHWC", (1, 5, 6, 3), (1, 5, 6, 3), (), (1, 3, 5, 6)),
        ("NHWC", (1, 5, 6, 3), (1, 3, 5, 6), (), (1, 3, 5, 6)),
        ("NCHW", (1, 5, 6, 3), (1, 5, 6, 3), ("NHWC",), (1, 5, 6, 3)),
        ("FRACTAL_NZ", (2, 1, 16, 16), (3, 18), (), (3, 18)),
    ],
)
def test_a_shape_with_channels_last_is_told_by_the_blocks(
    layout: str, stored: Shape, given_shape: Shape, preferred: Shape, found: Shape
) -> None:
    assert logical_shape_of(layout, stored, given_shape, preferred=preferred) == found


def test_a_shape_that_fits_in_no_order_is_refused() -> None:
    with pytest.raises(NotComparableError):
        logical_shape_of("NC1HWC0", (1, 1, 5, 6, 16), (1, 5, 7, 3))


def test_orders_are_read_by_their_letters() -> None:
    assert in_logical_order((2, 3, 4, 5, 6), "DHWCN") == (6, 5, 2, 3, 4)
