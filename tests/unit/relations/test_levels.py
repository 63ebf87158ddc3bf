"""Levels of an overflow: what each of the four rules says, and when a mean or norm shows anything."""

from __future__ import annotations

import math

import pytest

from probe_flow.records.levels import Level
from probe_flow.records.tensor_data import Statistics
from probe_flow.relations.levels import growth_of, is_abnormal, level_of

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("reads", "writes", "growth", "level"),
    [
        (False, True, None, Level.CRITICAL),
        (True, True, 1e9, Level.HIGH),
        (True, False, 1e9, Level.MEDIUM),
        (False, False, 100.5, Level.HIGH),
        (False, False, 100.0, None),
        (False, False, None, None),
    ],
)
def test_the_level_of_a_call(reads: bool, writes: bool, growth: float | None, level: Level | None) -> None:
    assert level_of(reads_abnormal=reads, writes_abnormal=writes, growth=growth) is level


@pytest.mark.parametrize(
    ("read", "written", "growth"),
    [
        ([2.0, 4.0], [1.0, 8.0], 2.0),
        ([0.0], [7.0], 7.0),
        ([None, NAN], [7.0], None),
        ([1.0], [None], None),
        ([], [1.0], None),
        ([1.0, NAN], [INF], INF),
    ],
)
def test_growth_is_of_the_largest_norms(read: list[float | None], written: list[float | None], growth: object) -> None:
    assert growth_of(read, written) == growth


@pytest.mark.parametrize(
    ("known", "count", "dtype", "is_bad"),
    [
        (Statistics(min=-1.0, max=1.0, mean=0.0, l2norm=2.0), 4, "float32", False),
        (Statistics(min=-1.0, max=NAN), 4, "float32", True),
        (Statistics(min=-INF, max=1.0), 4, "float32", True),
        (Statistics(min=-1.0, max=1.0, l2norm=NAN), 4, "float32", True),
        (Statistics(min=-1.0, max=1.0, mean=NAN), 4, "float32", True),
        (Statistics(min=-1.0, max=1.0, l2norm=INF), 4, "float32", True),
        (Statistics(min=-1.0, max=1.0, mean=-INF), 4, "float32", True),
        (Statistics(l2norm=INF), 4, "float32", True),
        (Statistics(min=-1.0, max=1.0, nan=1), 4, "float32", True),
        (Statistics(min=-1.0, max=1.0, inf=1), 4, "float32", True),
        # 200 x 200 x 2^20 is beyond float16; 3e38 squared is beyond float32.
        (Statistics(min=-200.0, max=1.0, l2norm=INF), 1 << 20, "float16", False),
        (Statistics(min=-200.0, max=1.0, l2norm=INF), 1 << 20, "float32", True),
        (Statistics(min=-3.4e38, max=0.0, mean=-INF, l2norm=INF), 4, "bfloat16", False),
        # collectors compute float64 in float32
        (Statistics(min=-1e30, max=1e30, l2norm=INF), 4, "float64", False),
        # NaN in an element is in the norm, too: a mean that is NaN beside one is of overflows of both signs
        (Statistics(min=-90.0, max=90.0, mean=NAN, l2norm=2846.0), 1000, "float16", False),
        (Statistics(min=-90.0, max=90.0, mean=NAN, l2norm=2846.0), 1000, "float32", True),
        (Statistics(min=-90.0, max=90.0, mean=NAN), 1000, "float16", True),
        (Statistics(min=-(10**400), max=10**400), 4, "int64", False),
        (Statistics(min=-1.0, max=1.0, l2norm=INF), 10**400, "float32", True),
        (Statistics(), None, "", False),
    ],
)
def test_what_was_recorded_shows_nan_or_infinity(known: Statistics, count: int, dtype: str, is_bad: bool) -> None:
    assert is_abnormal(known, count, dtype) is is_bad
