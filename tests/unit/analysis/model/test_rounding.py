"""Values that were in 16 bits before: what numpy rounds, and bit counts by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from comparison_rows import IN, OUT, RUN, edge, pairs_of, passes, row, statistics, statistics_measured
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.model.budget import Allowances
from probe_flow.analysis.model.deviation import deviation_of
from probe_flow.analysis.model.fewer_bits import bits_fewer
from probe_flow.analysis.model.rounding import mean_as_recorded
from probe_flow.analysis.narrowed import rounded_before
from probe_flow.analysis.number_types import UNIT, nearest_record
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, NodeKey, Phase

computed = st.floats(2.0**-10, 400.0, width=32)


def in_bfloat16(value: float) -> float:
    bits = int(np.float32(value).view(np.uint32))
    return float(np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32))


@given(computed, computed)
def test_what_was_rounded_before_is_told(low, high):
    for dtype, extremes in (
        ("bfloat16", (in_bfloat16(-low - 0.3), in_bfloat16(high + 0.3))),
        ("float16", (float(np.float16(-low - 0.3)), float(np.float16(high + 0.3)))),
    ):
        found = rounded_before((*extremes, *extremes), UNIT)
        if all((math.frexp(each)[0] * 16.0).is_integer() or each.is_integer() for each in extremes):
            assert found == 0.0  # four bits and integers may be meant
        else:
            assert found in ((UNIT["bfloat16"],) if dtype == "bfloat16" else (UNIT["float16"], UNIT["bfloat16"]))


@pytest.mark.parametrize(
    "extremes",
    [
        (-2.046875, 1.84375, -2.046875, 1.8437501),  # one side was computed in float32
        (-0.1, 0.1, -0.1, 0.1),
        (0.0, 1.0, 0.0, 1.0),  # masks
        (0.0, 255.0, 0.0, 251.0),  # pixels
        (-1.0, 0.0625, -1.0, 0.0625),
        (1.0, None, 1.0, None),
        (None, 1.1484375, None, 1.1406249),  # masked scores: one of the largest values was computed in float32
        (None, None, None, 1.1484375),  # of one side alone
        (0.0, 0.0, 0.0, 0.0),
        (2.0**-30 * 1029, 0.5, 2.0**-30 * 1029, 0.5),  # eleven bits below the range of float16
    ],
)
def test_what_was_not_keeps_its_own_rounding(extremes):
    assert rounded_before(extremes, UNIT) == 0.0


def test_a_float32_tensor_of_bfloat16_values_may_differ_by_its_steps():
    def deviation(*extremes):
        sides = [statistics(min=extremes[0], max=extremes[1], mean=0.2, l2norm=norm) for norm in (40.14, 40.15)]
        return deviation_of(row(dtype="float32", measurement=statistics_measured(*sides)))

    assert deviation(-2.046875, 1.84375).unit == UNIT["bfloat16"]
    assert deviation(-2.046875, 1.8437501).unit == UNIT["float32"]


def test_records_on_the_grid_of_their_type_may_be_one_step_apart():
    assert nearest_record(32.25, 32.0) == 32.0  # a step of bfloat16 from 32 to 64 is 2**5 / 2**7
    assert nearest_record(32.0, 32.25) == 32.25
    assert nearest_record(32.5, 32.0) == 32.25
    assert nearest_record(-0.26171875, -0.2578125) == -0.259765625  # two steps of 2**-9
    assert nearest_record(1.0009765625, 1.0) == 1.0  # eleven bits: a step of float16
    assert nearest_record(32.2500001, 32.0) == 32.2500001
    assert nearest_record(None, 1.0) is None
    assert nearest_record(0.0, 0.0) == 0.0


@pytest.mark.parametrize(("dtype", "gain"), [("bfloat16", 0.0), ("float32", 2.0**-7)])
def test_only_norms_of_16_bits_are_taken_for_rounded(dtype, gain):
    sides = [statistics(l2norm=norm) for norm in (32.25, 32.0)]
    assert deviation_of(row(dtype=dtype, measurement=statistics_measured(*sides))).gain == pytest.approx(gain)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_one_extreme_of_both_sides_tells_of_masked_scores(dtype):
    """1.1484375 is 147 / 128, eight bits; 1.1416015625 is 1169 / 1024, eleven."""
    largest = {"bfloat16": 1.1484375, "float16": 1.1416015625}[dtype]
    assert rounded_before((None, largest, None, 1.140625), UNIT) == UNIT[dtype]


def test_records_of_16_bits_that_agree_leave_a_step_open():
    """Norms of 11.25 and 11.1875 are neighbours in bfloat16; 11.2471 is a float32 number."""

    def blind(target, golden, **more):
        sides = [statistics(l2norm=norm) for norm in (target, golden)]
        return deviation_of(row(measurement=statistics_measured(*sides), **more)).blind

    assert blind(11.25, 11.1875, dtype="bfloat16") == UNIT["bfloat16"]
    assert blind(11.25, 11.25, dtype="bfloat16") == UNIT["bfloat16"]
    assert blind(11.25, 11.2471, dtype="bfloat16") == 0.0
    assert blind(11.25, 11.25, dtype="bfloat16", golden_dtype="float32") == 0.0
    assert blind(11.25, 11.25, dtype="float16") == UNIT["float16"]


@pytest.mark.parametrize(
    ("target", "golden", "held", "due"),
    [
        ((-0.875, 0.5), (-0.8601, 0.5399), 8, 2 * 5),  # 0.875 is 0.111 in binary: three bits of eight
        ((-2.0, 2.5), (-2.3, 2.73), 11, 2 * 8),  # 2.5 is 10.1: three bits of eleven
        ((-0.875, 0.66796875), (-0.8601, 0.5399), 8, 0),  # 171 / 256 has all eight
        ((-0.875, 0.5), (-0.8601, 0.5), 8, 5),  # the golden has the plain number, too: one extreme tells
        ((-0.875, 0.0), (-0.8601, 0.0), 8, 5),
        ((-0.875, 0.5), (-0.8740, 0.5399), 8, 5),  # less than a step apart
        ((-0.875, 0.66796875), (-0.8601, 0.668), 8, 0),  # what does not tell must lack as many
        ((-0.875, 0.5), (-0.8740, 0.5), 8, 0),  # neither tells
        ((-0.875, 0.5), (-0.8601, 0.0), 8, 0),
        ((-0.5, 0.5), (-0.5399, 0.5399), 8, 0),  # one range has one end
        ((-3.0, 3.0), (-3.0943, 3.0737), 11, 2 * 9),  # these ends met by accident
        ((-2.0, 2.5), (-1.984375, 2.73), 11, 2 * 7),  # an eighth of 1/8 away, so steps beyond 1/4 tell nothing
        ((math.inf, 0.5), (-0.8601, 0.5399), 8, 0),
    ],
)
def test_extremes_tell_the_bits_that_a_result_lacks(target, golden, held, due):
    assert bits_fewer([*zip(target, golden, strict=True)], held)[0] == pytest.approx(due, abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "phase", "bits"),
    [("linear", Phase.FORWARD, 10.0), ("transpose", Phase.FORWARD, None), ("linear", Phase.BACKWARD, None)],
)
def test_bits_are_counted_where_a_result_of_the_forward_pass_is_made(kind, phase, bits):
    made, golden = (statistics(min=low, max=high) for low, high in ((-0.875, 0.5), (-0.8601, 0.5399)))
    rows = [row(NodeKey(RUN, "made", 0, phase), measurement=statistics_measured(made, golden), dtype="bfloat16")]
    pairs = pairs_of(rows, {"made": kind})
    found = Allowances(rows, pairs, Calls(rows, pairs)).lost_bits(0)
    assert (None if found is None else found.bits) == bits


READ = ((0.192, 13.29), (0.1925, 13.33))


@pytest.mark.parametrize(("high", "norm", "due"), [(0.5, 5.69, ["product"]), (0.50390625, 5.69, []), (0.5, 5.81, [])])
def test_a_result_at_half_of_its_limit_whose_extremes_lack_bits_is_an_origin(high, norm, due):
    """Ten bits, and ten for 0.49 of the limit of scale (a norm that is off by 2.9 %); eighteen accuse."""
    golden = statistics(min=-0.8601, max=0.5399, mean=-0.066, l2norm=5.861)
    read, near = (statistics(min=-0.17, max=1.69, mean=mean, l2norm=norm) for mean, norm in READ)
    made = statistics(min=-0.875, max=high, mean=-0.066, l2norm=norm)
    types = {"dtype": "bfloat16", "golden_dtype": "float32"}
    rows = [
        row("product", IN, measurement=statistics_measured(near, read, count=960), **types),
        row("product", measurement=statistics_measured(made, golden, count=480), **types),
    ]
    found, _ = conclude(rows, pairs_of(rows, {"product": "linear"}, [edge("nowhere", "product", 9)]), passes(rows))
    assert [each.node.name for each in found if each.fails] == due
    assert all("have 5 bits fewer than bfloat16" in each.evidence for each in found if each.fails)


def test_numbers_of_float16_near_zero_have_few_bits_of_themselves():
    """3 * 2**-24 has two bits, and all numbers of float16 there do; 0.1494 and 0.1621 with as few lack some."""
    near, _ = bits_fewer([(-1.78814e-07, -1.81945e-07), (1.78814e-07, 2.04055e-07)], 11)
    assert near == 0.0
    assert bits_fewer([(-0.125, -0.1494), (0.1875, 0.1621)], 11)[0] > 8.0


def joined(node, role, place, low, high, count, golden, dtype="bfloat16"):
    """A row of some extremes, whose golden has its own."""
    mine, other = (statistics(min=ends[0], max=ends[1], mean=ends[0] / 7.0) for ends in ((low, high), golden))
    return row(node, role, place, measurement=statistics_measured(mine, other, count=count), dtype=dtype)


@pytest.mark.parametrize(
    ("third", "mixes", "bits"),
    [(0.75, False, 5 * 4), (0.76171875, False, None), (0.76171875, True, 5 * 2)],
)
def test_extremes_of_parts_lack_the_bits_of_what_they_are_parts_of(third, mixes, bits):
    """-7/8 and 1/2 of the whole, -5/8 and 3/4 of a part have three bits of eight; 195/256 has all, so nothing lacks.

    What puts other data together with it has extremes of its own.
    """
    whole, part = (-0.8601, 0.5399), (-0.6099, 0.7301)
    rows = [
        joined("product", OUT, 0, -0.875, 0.5, 300, whole),
        joined("move", IN, 0, -0.875, 0.5, 300, whole),
        *([joined("move", IN, 1, -2.0, 2.0, 300, (-2.0, 2.0))] if mixes else []),
        joined("move", OUT, 0, -0.625, third, 100, part),
    ]
    pairs = pairs_of(rows, {"product": "linear", "move": "chunk"})
    found = Allowances(rows, pairs, Calls(rows, pairs)).lost_bits(0)
    assert (None if found is None else found.bits) == bits
    assert found is None or mixes or "those of 1 parts of it" in found.told


def test_of_how_far_extremes_are_apart_counts_what_so_coarse_a_rounding_makes():
    """-3.4375 and 3.375 have six bits of eight: steps of 1/16, so that 1/32 of the 0.316 is rounding to these."""
    bits, explains = bits_fewer([(-3.4375, -3.75333), (3.375, 3.25783)], 8)
    assert bits == 2 * 2
    assert explains == pytest.approx(0.03125 / 0.31583, rel=1e-4)
    assert bits_fewer([(-3.75, -3.75333), (3.25, 3.2813)], 8)[1] == 1.0


COARSE, RIGHT = (-0.875, 0.5), (-0.86013, 0.53991)


def chain(steps, dtype="float32"):
    """Results one behind the other, by name: type, extremes of target and golden, factor of mean and norm."""
    rows, types, edges, before = [], {}, [edge("nowhere", next(iter(steps)), 9)], (RIGHT, RIGHT, 1.0)
    for name, (kind, *made) in steps.items():
        for role, (target, golden, factor) in ((IN, before), (OUT, made)):
            sides = [
                statistics(min=ends[0], max=ends[1], mean=by * 0.01, l2norm=by * 9.0)
                for ends, by in ((target, factor), (golden, 1.0))
            ]
            rows.append(row(name, role, measurement=statistics_measured(*sides, count=900), dtype=dtype))
        types[name], before = kind, made
    edges += [edge(one, other) for one, other in itertools.pairwise(steps)]
    found, _ = conclude(rows, pairs_of(rows, types, edges), passes(rows))
    return [each for each in found if each.kind is FindingKind.ORIGIN and each.fails], rows, types


FAULT = ("linear", (-1.11817, 0.70188), RIGHT, 1.3)


def test_what_lacks_bits_behind_a_fault_is_another_one():
    """Three bits of 24, where a cast to bfloat16 leaves eight: 5 for each extreme, and 11 for being the only one."""
    right = (-0.86913, 0.50117)
    found, *_ = chain({"a": FAULT, "b": ("linear", COARSE, RIGHT, 1.0), "c": ("relu", COARSE, RIGHT, 1.0)})
    assert [each.node.name for each in found] == ["a", "b"]  # c carries on what b lacks
    assert "have 21 bits fewer than float32 holds" in found[1].evidence
    assert "independent by proof" in found[1].evidence
    found, *_ = chain({"a": FAULT, "b": ("linear", right, RIGHT, 1.0), "c": ("relu", right, RIGHT, 1.0)})
    assert [each.node.name for each in found] == ["a"]


@pytest.mark.parametrize(
    ("target", "golden", "beside", "bits"),
    [
        (COARSE, RIGHT, "float32", 2 * 5 + 11),
        (COARSE, RIGHT, "bfloat16", 2 * 5),  # the program casts, which no dump shows
        ((-35 / 64, 39 / 64), (-37 / 64, 41 / 64), "float32", None),  # shares of 64 rows, in the golden as well
        ((-0.86914063, 0.5039063), RIGHT, "float32", None),  # eight bits and more
    ],
)
def test_a_float32_result_lacks_what_is_less_than_a_cast_would_leave(target, golden, beside, bits):
    _, rows, types = chain({"b": ("linear", target, golden, 1.0)})
    rows.append(row("other", measurement=statistics_measured(statistics(), statistics()), dtype=beside))
    pairs = pairs_of(rows, {**types, "other": "linear"})
    found = Allowances(rows, pairs, Calls(rows, pairs)).lost_bits(1)
    assert (None if found is None else found.bits) == bits


def test_a_mean_that_one_side_alone_rounded_to_float16_may_be_a_step_apart():
    """The mean of 36 indices, 758 / 36, which a collector computed while the network ran in float16."""
    assert mean_as_recorded(21.0625, 21.05555534362793) == 21.05555534362793
    assert mean_as_recorded(21.05555534362793, 21.0625) == 21.0625
    assert mean_as_recorded(21.125, 21.05555534362793) == 21.05555534362793 + (21.125 - 21.05555534362793 - 2.0**-6)
    assert mean_as_recorded(21.06, 21.05555534362793) == 21.06  # neither is a number of float16
    assert mean_as_recorded(21.0625, 21.046875) == 21.0625  # both are
    assert mean_as_recorded(0.0, 1e-3) == 0.0
    assert mean_as_recorded(None, 1.0) is None


@pytest.mark.parametrize(
    ("mean", "norm", "is_off"), [(21.0625, 150.5, False), (21.125, 150.5, True), (21.0625, 151, True)]
)
def test_indices_differ_by_more_than_the_rounding_of_their_mean(mean: float, norm: float, is_off: bool):
    sides = [
        statistics(min=0.0, max=49.0, mean=mean, l2norm=norm) for mean, norm in ((mean, norm), (21.0555553, 150.5))
    ]
    found = deviation_of(row(dtype="int32", measurement=statistics_measured(*sides, count=36)))
    assert (found.rms > 0.0) is is_off


@pytest.mark.parametrize(("mean", "digits", "is_off"), [(1234.57, 6, False), (1234.57, None, True), (1234.5, 6, True)])
def test_indices_are_off_where_their_mean_is_beyond_the_printed_digits(mean, digits, is_off):
    """The mean of 7,000 indices is 1234.5678571; where all digits are kept any other one is of other indices."""
    norms = 161235.0 if digits else 161234.8213, 161234.8213
    sides = [
        statistics(min=0.0, max=4999.0, mean=each, l2norm=norm)
        for each, norm in zip((mean, 1234.5678571), norms, strict=True)
    ]
    each = row(dtype="int64", measurement=statistics_measured(*sides, count=7000))
    rows = [replace(each, pair=replace(each.pair, target=each.pair.target.changed(digits=digits)))]
    found, _ = conclude(rows, pairs_of(rows), passes(rows))
    assert bool(found) is is_off
