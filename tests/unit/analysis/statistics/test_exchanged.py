"""Sums over ranks by their statistics: of arrays, whose sum is known, as collectors record them."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, key, pairs_of, statistics, statistics_measured, tensor

from probe_flow.analysis.flow.across_ranks import AcrossRanks
from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.statistics.exchanged import contradiction_of_sum
from probe_flow.records import Pair, Rule
from probe_flow.records.row import Row

SUM = "Distributed.all_reduce"
COUNT = 96


def recorded(values):
    wide = values.astype(float)
    return statistics(
        min=float(wide.min()), max=float(wide.max()), mean=float(np.float32(wide.mean())),
        l2norm=float(np.float32(np.linalg.norm(wide))),
    )  # fmt: skip


def shown(rank, role, target, golden, name=SUM):
    node = key(name, rank=rank)
    sides = [tensor(node, role, dtype=str(each.dtype), shape=each.shape) for each in (target, golden)]
    known = [recorded(each) for each in (target, golden)]
    return Row(Pair(sides[0], sides[1], "g", Rule("exact")), statistics_measured(*known, count=target.size))


def contradictions(given, made, golden, golden_made, name=SUM):
    """What each rank's result is not, of what it gave and got on both sides."""
    rows = []
    for rank, (mine, other) in enumerate(zip(given, golden, strict=True)):
        rows += [shown(rank, IN, mine, other, name), shown(rank, OUT, made[rank], golden_made[rank], name)]
    calls = Calls(rows, pairs_of(rows, {name: name}))
    across = AcrossRanks(calls, rows)
    numbers = [n for n, row in enumerate(rows) if row.is_produced]
    return [contradiction_of_sum(n, calls.of[n], rows, across) for n in numbers]


def ranks(dtype, seed=5):
    random = np.random.default_rng(seed)
    golden = [random.standard_normal(COUNT).astype(np.float32) for _ in range(3)]
    noise = [1 + 0.02 * random.standard_normal(COUNT) for _ in range(3)]
    return golden, [(one * other).astype(dtype) for one, other in zip(golden, noise, strict=True)]


def added(parts):
    """The sum that a network makes: one behind the other, rounded each time."""
    whole = parts[0]
    for each in parts[1:]:
        whole = (whole + each).astype(whole.dtype)
    return whole


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(20))
def test_a_sum_of_what_is_off_itself_is_accused_of_nothing(dtype, seed):
    golden, given = ranks(dtype, seed)
    order = [given[n] for n in np.random.default_rng(seed).permutation(3)]
    found = contradictions(given, [added(given), added(order), added(given)], golden, [added(golden)] * 3)
    assert found == [None] * 3


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_rank_that_kept_what_it_had_is_named(dtype):
    golden, given = ranks(dtype)
    found = contradictions(given, [added(given), given[1], added(given)], golden, [added(golden)] * 3)
    assert [each is not None for each in found] == [False, True, False]
    assert found[1].told.startswith("is not the sum of what 3 ranks gave, as the golden's is: its m")


@pytest.mark.parametrize(
    "wrong", [np.maximum.reduce, lambda parts: added(parts[:2]), lambda parts: added(parts) * 1.05]
)
def test_a_sum_that_lacks_a_rank_is_the_largest_or_scaled_is_wrong_on_every_rank(wrong):
    golden, given = ranks("float32")
    found = contradictions(given, [wrong(given).astype("float32")] * 3, golden, [added(golden)] * 3)
    assert all(each is not None for each in found)


def test_nothing_is_concluded_where_the_golden_is_no_sum_of_them_or_the_collector_recorded_it_late():
    golden, given = ranks("float32")
    largest = [np.maximum.reduce(golden)] * 3
    assert contradictions(given, [np.maximum.reduce(given)] * 3, golden, largest) == [None] * 3
    whole = [added(given)] * 3
    assert contradictions(whole, whole, golden, [added(golden)] * 3) == [None] * 3


def test_other_collectives_have_no_such_law():
    golden, given = ranks("float32")
    name = "Distributed.broadcast"
    assert contradictions(given, [given[0]] * 3, golden, [golden[0]] * 3, name) == [None] * 3
