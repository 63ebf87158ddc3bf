"""What an activation leaves out: by hand, and of arrays whose inputs are off by any amount."""

from __future__ import annotations

import math

import numpy as np
import pytest
from comparison_rows import IN, OUT, pairs_of, row, statistics, statistics_measured

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.statistics.beside_golden import FOLLOWS, left_out
from probe_flow.analysis.statistics.moments import Moments
from probe_flow.analysis.statistics.own_inputs import OwnInputs

UNIT = 2.0**-20


def halves(mean, square, low=-1.0):
    """Statistics of 100 numbers, from -1 (or 0) to 1."""
    return Moments(low, 1.0, mean, math.sqrt(100.0 * square), 100, UNIT, UNIT, 0)


READ, MADE = halves(0.0, 1.0), halves(0.5, 0.5, 0.0)
"""Fifty times 1 and fifty times -1, and what `relu` leaves of them."""


@pytest.mark.parametrize(("factor", "due"), [(1.0, 0.5), (1.1, 0.5 * math.sqrt(0.395 / 0.5))])
def test_what_is_left_out_belongs_to_its_mean_square(factor, due):
    """1.1 times the result takes 0.605 of the mean square of 1, and leaves 0.395 in place of 0.5: a mean of 0.444."""
    whole = halves(0.5 * factor, 0.5 * factor**2, 0.0)
    (found,) = left_out(whole, [READ], MADE, [READ])
    assert found.low == found.high == pytest.approx(due)
    assert (found.gap(whole) > 1.0) == (factor != 1.0)


def test_how_far_inputs_are_apart_is_allowed():
    """Half of an input that is off by a tenth in mean and norm, of which a tenth and a tenth again may be common."""
    (found,) = left_out(MADE, [halves(0.1, 1.21)], MADE, [READ])
    left = math.hypot(0.1, 0.1)
    assert found.explained == pytest.approx(
        FOLLOWS * math.hypot(0.1 / left, 0.1 / left) / math.sqrt(3.0) * 1.1, rel=0.01
    )


@pytest.mark.parametrize(
    ("whole", "read", "golden"),
    [
        (READ, READ, MADE),  # the collector of the target recorded it when it was over: nothing is left out
        (halves(0.01, 0.99), halves(0.0, 1.0), halves(0.01, 0.99)),  # next to nothing is
    ],
)
def test_where_little_is_left_out_nothing_follows(whole, read, golden):
    assert left_out(whole, [read], golden, [READ]) == []


FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0))),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
    "LeakyReLU": lambda x: np.where(x > 0.0, x, 0.1 * x),
}


def gap(kind, *, off, seed, dtype="float32", spoil=lambda out: out):
    """How far a result contradicts an input that is off by so much of its size; both sides of 30 rows of 24."""
    chance = np.random.default_rng(seed)
    right = chance.standard_normal((30, 24)) * chance.uniform(0.5, 2.0, 24) + chance.normal(0.0, 0.3, 24)
    read = right * (1.0 + 0.5 * off * chance.standard_normal()) + off * right.std() * chance.standard_normal(
        right.shape
    )
    steps = {"float32": 24, "bfloat16": 8}[dtype]

    def kept(values):
        step = np.ldexp(1.0, np.frexp(values)[1] - steps)
        return np.rint(values / step) * step

    sides = kept(read), right
    made = kept(spoil(FUNCTIONS[kind](sides[0]))), FUNCTIONS[kind](right)
    rows = []
    for role, two in ((IN, sides), (OUT, made)):
        known = [
            statistics(min=each.min(), max=each.max(), mean=each.mean(), l2norm=float(np.linalg.norm(each)))
            for each in two
        ]
        measured = statistics_measured(*known, count=right.size)
        rows.append(row("a", role, measurement=measured, dtype=dtype, golden_dtype="float32"))
    pairs = pairs_of(rows, {"a": kind})
    found = OwnInputs(rows, Calls(rows, pairs)).contradiction(1)
    return 0.0 if found is None else found.gap


def channel(out):
    return out * np.where(np.arange(24) == 3, 1.5, 1.0)


def rows_zero(out):
    return out * np.where(np.arange(30) % 4 == 0, 0.0, 1.0)[:, None]


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("off", [0.0, 1e-3, 0.02, 0.2, 1.0])
def test_inputs_that_are_off_leave_out_what_is_spread_alike(kind, dtype, off):
    assert max(gap(kind, off=off, seed=seed, dtype=dtype) for seed in range(30)) == 0.0


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize(("spoil", "off"), [(channel, 5e-3), (rows_zero, 0.03), (lambda out: 0.97 * out, 5e-3)])
def test_a_wrong_channel_lost_rows_and_a_factor_do_not(kind, spoil, off):
    found = [gap(kind, off=off, seed=seed, spoil=spoil) > 1.0 for seed in range(10)]
    assert sum(found) >= 8
