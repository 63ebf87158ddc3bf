"""Pairs of recorded statistics that are measured together are measured as each alone, to the bit."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from probe_flow.measure import plain_statistics
from probe_flow.measure.plain_statistics import plain_measurements
from probe_flow.measure.results import measurement_without_data
from probe_flow.records import (
    Execution,
    Figures,
    Mode,
    NodeKey,
    Pair,
    Rule,
    Slot,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
)
from probe_flow.records.tensor_data import TensorTables

NUMBERS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0, 2.0, math.inf, math.nan, 1e308, -1e308, 5e-324]))
FIGURES = st.one_of(NUMBERS, NUMBERS, NUMBERS, st.sampled_from([None, 3, True]))
RECORDED = st.one_of(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), st.tuples(FIGURES, FIGURES, FIGURES, FIGURES)).map(
    lambda each: Statistics(*each)
)
CHECKSUMS = st.sampled_from([None, None, None, "a"])


@st.composite
def sides(draw):
    """Both sides of a pair: statistics, dtype, shape and checksum of each."""
    target = draw(RECORDED), "float32", draw(st.sampled_from([(2, 3), (), (0,), (2**40, 2**40), None])), draw(CHECKSUMS)
    golden = draw(st.one_of(RECORDED, st.just(target[0]))), draw(st.sampled_from(["float32", "int8"])), target[2]
    return target, (*golden, draw(CHECKSUMS))


def pairs_of(drawn):
    tables = TensorTables()
    for number, both in enumerate(drawn):
        tensors = [
            TensorRef.of(
                NodeKey(Execution(), f"a{number}"), Slot(SlotRole.OUTPUT), TensorKind.STATISTICS, dtype, dtype,
                shape, shape, recorded=recorded, checksum=checksum, source="d/dump.json",
            ).stored_in(tables)
            for recorded, dtype, shape, checksum in both
        ]  # fmt: skip
        yield Pair(*tensors, "g", Rule("exact"))


def facts(measurement):
    """What a measurement says, each number as text that tells all floats apart."""
    figures = {name: repr(value) for name, value in measurement.metrics.items()}
    counts = measurement.count, measurement.nonfinite_mismatch, measurement.worst_index
    sides = measurement.given.target, measurement.given.golden
    return measurement.mode, measurement.backend, measurement.notes, figures, counts, [*map(id, sides)]


SAME = Statistics(-1.5, 2.0, 0.5, 9.0)
LARGE = Statistics(-1e308, 1e308, -0.0, 0.0), Statistics(1e308, -1e308, 0.0, 0.0)


@given(st.lists(sides(), max_size=12))
@example([((SAME, "float32", (2,), None),) * 2])
@example([tuple((each, "float32", (2**40,), None) for each in LARGE)])
@settings(deadline=None)
def test_together_as_each_alone(drawn):
    pairs = list(pairs_of(drawn))
    figures = Figures()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_statistics, "AT_ONCE", 5)
        found = dict(plain_measurements(pairs, range(len(pairs)), figures))

    for number, measurement in found.items():
        assert facts(measurement) == facts(measurement_without_data(pairs[number]))
    for number, (target, golden) in enumerate(drawn):
        numbers = [value for side in (target[0], golden[0]) for value in (side.min, side.max, side.mean, side.l2norm)]
        is_plain = all(isinstance(value, float) and math.isfinite(value) for value in numbers)
        has_checksums = target[3] is not None and golden[3] is not None
        is_known = target[2] not in (None, (0,), (2**40, 2**40)) and target[1] == golden[1]
        assert (number in found) == (is_plain and is_known and not has_checksums)


def test_further_rows_go_into_the_same_table():
    pairs = list(pairs_of([((SAME, "float32", (2,), None),) * 2] * 3))
    figures = Figures()
    alone = measurement_without_data(pairs[0], figures)
    together = dict(plain_measurements(pairs, [1, 2], figures))

    assert {id(each.table) for each in together.values()} == {id(alone.table)}
    assert [facts(each) for each in together.values()] == [facts(measurement_without_data(each)) for each in pairs[1:]]
    assert facts(alone) == facts(measurement_without_data(pairs[0]))
    assert alone.mode is Mode.STATISTICS
