"""Deviations from hand-made measurements, computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from comparison_rows import checksum_row, deviation, row, statistics, statistics_measured, target_only, tensor
from msgspec import structs

from probe_flow.analysis.model.deviation import Deviation, ErrorFigure, deviation_of
from probe_flow.analysis.search.diagnosis import shape_of
from probe_flow.records import ErrorShape, Measurement, Mode, Pair, Rule, SideSummary, SlotRole, TensorKind
from probe_flow.records.row import Row


def tensor_row(metrics, target=None, golden=None, count=4, nonfinite=0, **more):
    sides = [SideSummary(statistics(**(side or {}))) for side in (target, golden)]
    return row(
        measurement=Measurement.of(Mode.TENSOR, metrics, *sides, nonfinite_mismatch=nonfinite, count=count), **more
    )


def test_tensor_mode_by_hand():
    # golden [1, 1, 1, 3]: norm sqrt(12), mean 1.5; target is golden + [0, 0, 0, 2]: [1, 1, 1, 5], norm sqrt(28).
    norms = math.sqrt(28), math.sqrt(12)
    dot = 1 + 1 + 1 + 15
    found = deviation_of(
        tensor_row(
            {"euclidean_distance": 2.0, "max_abs_err": 2.0, "cosine": dot / (norms[0] * norms[1])},
            {"min": 1.0, "max": 5.0, "mean": 2.0, "l2norm": norms[0]},
            {"min": 1.0, "max": 3.0, "mean": 1.5, "l2norm": norms[1]},
        )
    )
    assert found.rms == pytest.approx(1.0)  # sqrt(4 / 4)
    assert found.peak == 2.0
    assert found.gain == pytest.approx(18 / 12 - 1)
    assert found.offset == pytest.approx(0.5)
    assert found.size == pytest.approx(math.sqrt(3))
    assert found.top == 3.0
    assert found.spread == pytest.approx(math.sqrt(12 / 4 - 1.5**2))
    assert found.relative == pytest.approx(1 / math.sqrt(3))
    assert (found.count, found.unit, found.step) == (4, 2.0**-11, 2.0**-24)


def test_only_finite_elements_count():
    # golden [inf, -inf, 3, 4], target the same but 6 for the last: norm 5 over two finite elements.
    found = deviation_of(
        tensor_row(
            {"euclidean_distance": 2.0, "max_abs_err": 2.0, "cosine": 0.99},
            {"min": 3.0, "max": 6.0, "mean": 4.5, "l2norm": math.sqrt(45), "inf": 2},
            {"min": 3.0, "max": 4.0, "mean": 3.5, "l2norm": 5.0, "inf": 2},
        )
    )
    assert found.rms == pytest.approx(2 / math.sqrt(2))
    assert found.size == pytest.approx(5 / math.sqrt(2))
    assert found.spread == pytest.approx(0.5)


def test_sides_of_which_other_elements_are_finite_have_no_change_of_scale():
    # target [nan, nan, 3, 4] of golden [30, 40, 3, 4]: the norms 5 and sqrt(2525) are of different elements.
    found = deviation_of(
        tensor_row(
            {"euclidean_distance": 0.0, "max_abs_err": 0.001, "cosine": 1.0},
            {"min": 3.0, "max": 4.0, "mean": 3.5, "l2norm": 5.0, "nan": 2},
            {"min": 3.0, "max": 40.0, "mean": 19.25, "l2norm": math.sqrt(2525)},
            nonfinite=2,
        )
    )
    assert (found.gain, found.offset, found.nonfinite) == (0.0, 0.0, 2)


def test_a_tensor_that_is_nan_throughout_is_not_overlooked():
    nothing = {"euclidean_distance": None, "max_abs_err": None, "cosine": None}
    found = deviation_of(
        tensor_row(nothing, {"min": None, "max": None, "mean": None, "l2norm": None, "nan": 4}, None, nonfinite=4)
    )
    assert found.nonfinite == 4
    assert (found.rms, found.peak, found.gain) == (0.0, 0.0, 0.0)
    empty = {"min": None, "max": None, "mean": None, "l2norm": None}
    found = deviation_of(tensor_row(nothing, None, {**empty, "nan": 4}, nonfinite=4))
    assert found.nonfinite == 4
    assert found.size == 0.0
    # Infinite on both sides alike: nothing to judge, and nothing wrong.
    assert deviation_of(tensor_row(nothing, {**empty, "inf": 4}, {**empty, "inf": 4})) is None


def test_a_scalar_tensor_has_a_deviation():
    # Cosine and distance are not given for 0-d tensors.
    found = deviation_of(
        tensor_row(
            {"euclidean_distance": None, "max_abs_err": 0.5, "cosine": None},
            {"min": 2.5, "max": 2.5, "mean": 2.5, "l2norm": 2.5}, {"min": 2.0, "max": 2.0, "mean": 2.0, "l2norm": 2.0},
            count=1,
        )
    )  # fmt: skip
    assert (found.rms, found.peak, found.size, found.relative) == (0.5, 0.5, 2.0, 0.25)


def test_a_target_of_zeros_is_off_by_its_whole_scale():
    found = deviation_of(
        tensor_row(
            {"euclidean_distance": 10.0, "max_abs_err": 3.0, "cosine": math.nan},
            {"min": 0.0, "max": 0.0, "mean": 0.0, "l2norm": 0.0}, {"l2norm": 10.0},
        )
    )  # fmt: skip
    assert found.gain == -1.0


def test_a_golden_of_zeros_makes_any_error_infinite():
    zeros = {"min": 0.0, "max": 0.0, "mean": 0.0, "l2norm": 0.0}
    wrong = deviation_of(
        tensor_row({"euclidean_distance": 2.0, "max_abs_err": 1.0, "cosine": math.nan}, {}, zeros, count=4)
    )
    assert (wrong.rms, wrong.relative, wrong.gain) == (1.0, math.inf, 0.0)
    right = deviation_of(
        tensor_row({"euclidean_distance": 0.0, "max_abs_err": 0.0, "cosine": 1.0}, zeros, zeros, count=4)
    )
    assert (right.rms, right.relative, right.gain) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("dtypes", "unit"),
    [
        (("float16", "float32"), 2.0**-11), (("float32", "float32"), 2.0**-20), (("bfloat16", "float16"), 2.0**-8),
        (("int64", "int64"), 0.0), (("bool", "bool"), 0.0), (("int32", "float32"), 2.0**-20),
    ],
)  # fmt: skip
def test_unit_is_that_of_the_coarser_side(dtypes, unit):
    assert deviation_of(row(dtype=dtypes[0], golden_dtype=dtypes[1])).unit == unit


@pytest.mark.parametrize("dtypes", [("int8", "float32"), ("bfloat16", "int8"), ("int4", "float16")])
def test_a_side_whose_scale_is_unknown_is_no_distance_away(dtypes):
    assert deviation_of(row(dtype=dtypes[0], golden_dtype=dtypes[1])) is None
    assert deviation_of(row(dtype="int8", golden_dtype="int32")) is not None


def test_empty_one_sided_and_checksum_rows_have_none():
    assert deviation_of(row(count=0)) is None
    assert deviation_of(target_only(tensor())) is None
    assert deviation_of(checksum_row("a", SlotRole.OUTPUT, "00", "11")) is None


def test_statistics_mode_by_hand():
    # norms 10 and 12 over 100 elements: the error's rms is at least 0.2; extremes prove a peak of 0.5.
    sides = statistics(l2norm=12.0, max=3.5, mean=0.1), statistics(l2norm=10.0)
    found = deviation_of(row(measurement=statistics_measured(*sides), dtype="float32"))
    assert found.rms == pytest.approx(0.2)
    assert found.peak == pytest.approx(0.5)
    assert found.gain == pytest.approx(0.2)
    assert found.offset == pytest.approx(0.1)
    assert (found.size, found.top) == (1.0, 3.0)


def test_statistics_of_integers_know_extremes_only():
    sides = [statistics(min=0, max=top, mean=None, l2norm=None) for top in (7, 5)]
    found = deviation_of(row(measurement=statistics_measured(*sides), dtype="int64"))
    assert (found.peak, found.size, found.top) == (2.0, 2.5, 5.0)
    assert found.rms == pytest.approx(2 / math.sqrt(100))


def test_a_zero_golden_in_statistics_mode_shows_the_targets_norm():
    zeros = statistics(min=0.0, max=0.0, mean=0.0, l2norm=0.0)
    found = deviation_of(row(measurement=statistics_measured(statistics(min=0.0, max=0.0, l2norm=20.0), zeros)))
    assert found.rms == pytest.approx(2.0)
    assert found.relative == math.inf


def test_masked_scores_in_statistics_mode_are_judged_by_the_finite_extreme():
    masked = {"min": -math.inf, "mean": -math.inf, "l2norm": math.inf, "nan": None, "inf": None}
    found = deviation_of(
        row(
            measurement=statistics_measured(statistics(max=5.5, **masked), statistics(max=5.0, **masked)),
            dtype="float32",
        )
    )
    assert (found.size, found.top, found.peak) == (2.5, 5.0, 0.5)
    assert found.rms == pytest.approx(0.05)
    all_infinite = statistics(max=-math.inf, **masked)
    assert deviation_of(row(measurement=statistics_measured(all_infinite, all_infinite))) is None


def test_of_fractions_known_by_their_extremes_these_tell_the_likely_error():
    sides = statistics(max=3.3, mean=None, l2norm=None), statistics(max=3.0, mean=None, l2norm=None)
    found = deviation_of(row(measurement=statistics_measured(*sides)))
    assert found.is_bare
    assert found.rms == pytest.approx(0.3 / 10)  # one of 100 elements may be all the error
    # Values are half the largest, and noise is in between one that grows with them and one that does not.
    assert found.likely == pytest.approx(0.3 * math.sqrt(0.5))
    assert not deviation_of(row(measurement=statistics_measured(*sides), dtype="int32")).is_bare


def test_records_that_agree_as_those_of_16_bits_do_measure_no_noise():
    """Extremes say 0.02 times the root of 1 / 4; norm and mean say nothing, or as much times the root of the count."""
    shown = {"peak": 0.02, "size": 1.0, "top": 4.0, "count": 100}
    assert deviation(**shown, gain=0.0001).likely == pytest.approx(0.001)
    assert deviation(**shown, blind=2.0**-8).likely == pytest.approx(0.01)
    assert deviation(**shown, gain=0.0005, blind=2.0**-8).likely == pytest.approx(0.005)
    assert deviation(**shown, gain=0.5, offset=0.02, blind=2.0**-8).likely == pytest.approx(0.2)


def test_what_a_norm_holds_measures_no_noise():
    """Behind a layer norm of equal weights norm and mean are the same however far its elements are off."""
    chance = np.random.default_rng(3)
    right = chance.standard_normal((24, 64))
    wrong = right + 0.002 * chance.standard_normal(right.shape)
    sides = [(each - each.mean(-1, keepdims=True)) / each.std(-1, keepdims=True) for each in (wrong, right)]
    seen = [
        statistics(min=each.min(), max=each.max(), mean=each.mean(), l2norm=float(np.linalg.norm(each)))
        for each in sides
    ]
    error = float(np.sqrt(((sides[0] - sides[1]) ** 2).mean()))
    found = deviation_of(row(measurement=statistics_measured(*seen, count=right.size), dtype="float32"))
    assert abs(found.gain) < 1e-9
    assert 0.5 * error < found.likely < 3.0 * error


def test_missing_statistics_have_none_and_nan_extremes_show():
    nothing = statistics(min=None, max=None, mean=None, l2norm=None)
    assert deviation_of(row(measurement=statistics_measured(nothing, nothing))) is None
    nan = statistics(min=math.nan, max=math.nan, mean=math.nan, l2norm=math.nan)
    assert deviation_of(row(measurement=statistics_measured(nan, statistics(), nonfinite=1))).nonfinite == 1
    assert deviation_of(row(measurement=statistics_measured(nan, nan))) is None


def test_casts_compared_with_their_own_input_may_lose_what_a_cast_loses():
    assert deviation_of(row(rule="self", dtype="int32", golden_dtype="float32")).step == 1.0
    assert deviation_of(row(rule="self", dtype="bool", golden_dtype="float32")) is None
    assert deviation_of(row(rule="self", dtype="float16", golden_dtype="float32")).step == 2.0**-24
    assert deviation_of(row(rule="exact", dtype="bool", golden_dtype="float32")) is not None


def test_statistics_kept_with_few_digits_are_rounded_by_them():
    sides = statistics(l2norm=1.00001), statistics(l2norm=1.0)
    pair = Pair(
        tensor(kind=TensorKind.STATISTICS, dtype="float32", digits=6),
        tensor(kind=TensorKind.STATISTICS, dtype="float32"),
        "g",
        Rule("exact"),
    )
    found = deviation_of(Row(pair, statistics_measured(*sides)))
    assert found.unit == pytest.approx(5e-6)


def test_another_error_changes_nothing_else():
    # Every field differs from its default, so that none can be forgotten.
    found = Deviation(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8, 9.0, 10.0, 11, 12.0, 13.0, is_bare=True)
    assert found.with_rms(0.5) == structs.replace(found, rms=0.5)


def off(*, rms: float, peak: float, gain: float = 0.0, offset: float = 0.0) -> Deviation:
    """An error of a bfloat16 tensor of 1000 elements, of size 1."""
    return Deviation(rms, peak, gain, offset, 1.0, 3.0, 1.0, 1000, 0, unit=2.0**-8)


@pytest.mark.parametrize(
    ("error", "figure", "shape"),
    [
        (off(rms=0.08, peak=0.24, gain=0.08), ErrorFigure.GAIN, ErrorShape.FACTOR),
        (off(rms=0.1, peak=0.3, gain=0.06, offset=0.01), ErrorFigure.GAIN, ErrorShape.NOISE),
        (off(rms=0.2, peak=0.2, offset=0.2), ErrorFigure.RMS, ErrorShape.OFFSET),
        (off(rms=0.1, peak=0.35), ErrorFigure.RMS, ErrorShape.NOISE),
        (off(rms=5.0 / math.sqrt(1000), peak=5.0), ErrorFigure.PEAK, ErrorShape.PART),  # one element
        (off(rms=0.0, peak=0.0), ErrorFigure.PICK, ErrorShape.CHOICE),
        (off(rms=0.0, peak=0.0), ErrorFigure.RMS, None),
    ],
)
def test_the_shape_of_an_error(error, figure, shape):
    assert shape_of(error, figure, tensor_row({})) is shape


@pytest.mark.parametrize(
    ("error", "shape"),
    [
        # 8 % of everything: norm and extremes move alike. Noise moves norm and mean by a thirtieth of what it is.
        (off(rms=0.08, peak=0.24, gain=0.08), ErrorShape.FACTOR),
        (off(rms=0.1 / 32, peak=0.1, gain=0.1 / 32, offset=0.08 / 32), ErrorShape.NOISE),
        (off(rms=0.2, peak=0.2, gain=0.02, offset=0.2), ErrorShape.OFFSET),
    ],
)
def test_the_shape_of_an_error_by_statistics(error, shape):
    assert shape_of(error, ErrorFigure.GAIN, row(measurement=statistics_measured(statistics(), statistics()))) is shape
