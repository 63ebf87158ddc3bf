"""Deviations of many rows at once are those of each row alone, to the bit."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from probe_flow.analysis.model import deviations
from probe_flow.analysis.model.deviation import deviation_of
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.rounding import ACROSS_FRAMEWORKS, WITHIN_FRAMEWORK
from probe_flow.analysis.number_types import SUMMED
from probe_flow.measure.results import measurement_without_data
from probe_flow.records import (
    Execution,
    Figures,
    NodeKey,
    Pair,
    Rule,
    Slot,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
)
from probe_flow.records.row import Row
from probe_flow.records.tensor_data import TensorTables

DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int32", "bool", "")


def narrow(value):
    """Keep 8 bits of the significand, as bfloat16 does."""
    fraction, exponent = math.frexp(value) if math.isfinite(value) else (value, 0)
    return math.ldexp(round(fraction * 256.0) / 256.0, exponent) if math.isfinite(value) else value


SIZES = st.floats(min_value=-1e30, max_value=1e30)
NUMBERS = st.one_of(SIZES, SIZES.map(narrow), st.sampled_from([0.0, -0.0, 1.0, 0.5, 300.0, math.inf, math.nan, 5e-324]))
FIGURES = st.one_of(NUMBERS, st.sampled_from([None, 3, True]))
RECORDED = st.one_of(
    st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS).map(lambda each: Statistics(*each)),
    st.tuples(FIGURES, FIGURES, FIGURES, FIGURES).map(lambda each: Statistics(*each)),
    st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.sampled_from([None, 0, 2]), st.sampled_from([0, 1])).map(
        lambda each: Statistics(*each)
    ),
)
SHAPES = st.sampled_from([(), (2, 3), (0,), (2**20, 2**20), None])


@st.composite
def pairs(draw):
    target = draw(RECORDED)
    golden = draw(st.one_of(RECORDED, st.just(target)))
    types = draw(st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES)))
    if draw(st.booleans()):
        types = types[0], types[0]
    shape, digits = draw(SHAPES), draw(st.sampled_from([None, 6]))
    return target, golden, types, shape, digits, draw(st.sampled_from(["exact", "exact", "self"]))


def rows_of(drawn):
    tables, figures = TensorTables(), Figures()
    for number, (target, golden, types, shape, digits, rule) in enumerate(drawn):
        tensors = [
            TensorRef.of(
                NodeKey(Execution(), f"a{number}"), Slot(SlotRole.OUTPUT), TensorKind.STATISTICS, dtype, dtype,
                shape, shape, recorded=recorded, digits=digits, source="d/dump.json",
            ).stored_in(tables)
            for dtype, recorded in zip(types, (target, golden), strict=True)
        ]  # fmt: skip
        pair = Pair(*tensors, "g", Rule(rule, is_self=rule == "self"))
        yield Row(pair, measurement_without_data(pair, figures))


def bits(deviation):
    """Each figure as text that tells all floats apart; of what is recorded as an integer, too."""
    return None if deviation is None else [repr(float(figure)) for figure in astuple(deviation)]


STEP_APART = Statistics(-1.0, 2.0, 0.5, 9.0), Statistics(-1.0, 2.5, 0.5, 9.5)
NORM_APART = Statistics(-1.0, 2.0, 0.5, 9.0), Statistics(-1.0, 2.0, 0.5, 9.0001)
ONE_NUMBER = Statistics(0.5, 0.5, 0.5, 1.25), Statistics(0.5, 0.5, 0.5, 1.2265625)
OF_PROGRAMS = replace(WITHIN_FRAMEWORK, summed=SUMMED)
FAR_APART = Statistics(-1e308, 1e308, 0.5, 1e308), Statistics(1e308, -1e308, 0.5, 1e308)


@given(st.lists(pairs(), max_size=12), st.sampled_from([WITHIN_FRAMEWORK, ACROSS_FRAMEWORKS, OF_PROGRAMS]))
@example([(*STEP_APART, ("bfloat16",) * 2, (6,), None, "exact")], WITHIN_FRAMEWORK)
@example([(*NORM_APART, ("float32",) * 2, (2**17,), None, "exact")], OF_PROGRAMS)
@example([(*ONE_NUMBER, ("bfloat16",) * 2, (6,), None, "exact")], OF_PROGRAMS)
@example([(*FAR_APART, ("float32",) * 2, (6,), None, "exact")], WITHIN_FRAMEWORK)
@settings(deadline=None)
def test_many_at_once_are_each_alone(drawn, rounding):
    rows = list(rows_of(drawn))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deviations, "FEW", 1)
        patch.setattr(deviations, "AT_ONCE", 5)
        found = Deviations(rows, rounding)
        patch.setattr(deviations, "MANY", 1)
        away = Deviations(rows, rounding)

    for number, row in enumerate(rows):
        expected = deviation_of(row, rounding)
        assert bits(found[number]) == bits(away[number]) == bits(expected)
        assert found.unit(number) == (0.0 if expected is None else expected.unit)


def test_plain_rows_are_found_without_a_call_for_each(monkeypatch):
    same = Statistics(-1.5, 2.0, 0.5, 9.0)
    rows = list(rows_of([(same, same, ("float32", "float32"), (2, 3), None, "exact")] * 3))
    expected = deviation_of(rows[0])
    monkeypatch.setattr(deviations, "FEW", 1)
    monkeypatch.setattr(deviations, "deviation_of", None)

    found = Deviations(rows, WITHIN_FRAMEWORK)

    assert [found[number] for number in range(3)] == [expected] * 3


def test_a_forgotten_row_has_no_deviation_though_it_was_asked_for_before():
    rows = list(rows_of([(*STEP_APART, ("float32", "float32"), (6,), None, "exact")] * 2))
    found = Deviations(rows, WITHIN_FRAMEWORK)
    assert None not in (found[0], found[1])

    found.forget(0)

    assert found[0] is None
    assert found[1] == deviation_of(rows[1])


def programs_deviation(target, golden, count):
    (row,) = rows_of([(target, golden, ("float32", "float32"), (count,), None, "exact")])
    return deviation_of(row, OF_PROGRAMS)


def test_a_norm_is_believed_as_far_as_adding_up_in_float32_goes():
    """torch 2.13 on a CPU loses 6.5e-4 of the norm of 2**24 normal numbers, whose root mean square is 1."""
    exact, lost = Statistics(-5.0, 5.0, 0.0, 4096.0), Statistics(-5.0, 5.0, 0.0, 4096.0 * (1.0 - 6.5e-4))
    assert programs_deviation(exact, lost, 2**24).rms == 0.0
    assert programs_deviation(lost, exact, 2**24).gain == 0.0
    assert programs_deviation(exact, lost, 2**16).gain == pytest.approx(6.5e-4, rel=0.05)


def test_the_norm_of_elements_that_are_all_one_number_is_what_these_make():
    """The gradient of a mean over 2048 x 8000 numbers: torch's norm of it is 1.7 % off, and its extremes are exact."""
    one = 2.0**-24
    golden = Statistics(one, one, one, one * math.sqrt(2**24) * 1.017)
    assert programs_deviation(Statistics(one, one, one, one * math.sqrt(2**24)), golden, 2**24).rms == 0.0
    twice = Statistics(2 * one, 2 * one, 2 * one, one * math.sqrt(2**24))
    assert programs_deviation(twice, golden, 2**24).gain == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize(
    ("least", "rms"), [(-3.3895313892515355e38, 0.0), (-65504.0, 0.0), (-1e9, 0.0), (-1.2e9, 3e38)]
)
def test_scores_that_are_masked_by_other_numbers_are_masked_alike(least, rms):
    masked = Statistics(least, 2.0, -math.inf, math.inf)
    found = programs_deviation(masked, Statistics(-3.4028234663852886e38, 2.0, -math.inf, math.inf), 64)
    assert found.rms == pytest.approx(rms / 8.0, rel=0.2)


def test_a_number_that_masks_is_the_same_in_mean_and_norm():
    """XGLM takes the maximum of scores and `tensor(finfo(dtype).min)`."""
    sides = (Statistics(least, least, least, -least) for least in (-65504.0, -3.4028234663852886e38))
    found = programs_deviation(*sides, 1)
    assert (found.rms, found.is_bare) == (0.0, True)
