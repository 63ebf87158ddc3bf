"""Small pairs, many in a call: each gets the record that it gets alone, and a failure stays where it is."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from raw_pairs import raw

from probe_flow.measure import small_pairs
from probe_flow.measure.batches import Batch, measure_batch, plan_tasks
from probe_flow.measure.small_pairs import WAITING, SmallPairs
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.kernel.compare import TOGETHER, measure_span
from probe_flow.metrics.sums.block_sums import Scratch

PLAIN = MeasureOptions()
OPTIONS = [PLAIN, MeasureOptions(("masked", "moments", "signed", "significant"))]
COUNTS = (1, 7, 64, 129, 257, 1000, TOGETHER)
DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint64, np.bool_, np.complex64)
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e300, 1e-300, 1.0)


@dataclass
class InMemory:
    """A tensor in memory."""

    values: np.ndarray

    @property
    def numel(self) -> int:
        return self.values.size

    @property
    def dtype(self) -> str:
        return str(self.values.dtype)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.values[start:stop]


def drawn(random: np.random.Generator, count: int, dtype: type) -> InMemory:
    """Values of many sizes, some of them special."""
    values = random.standard_normal(count) * 10.0 ** random.integers(-4, 4)
    share = random.choice([0.0, 0.0, 0.01, 0.5, 1.0])
    values = np.where(random.random(count) < share, random.choice(SPECIAL, count), values)
    if np.dtype(dtype).kind in "iu":
        values = np.nan_to_num(np.abs(values), posinf=9, neginf=9).clip(0, random.choice([100, 2**31 - 1]))
    with np.errstate(all="ignore"):
        return InMemory(values.astype(dtype))


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "accumulators"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_each_pair_gets_the_bits_that_it_gets_alone(options, dtype):
    random, scratch = np.random.default_rng(20), Scratch()
    pairs = []
    for count in COUNTS:
        for number in range(min(70, 2 * TOGETHER // count)):
            golden = drawn(random, count, dtype)
            target = drawn(random, count, dtype if number % 8 else np.float32)
            pairs.append((golden if number % 5 == 0 else target, golden))
    small = SmallPairs(options, scratch)
    for number, pair in enumerate(pairs):
        small.add(number, *pair)
    alone = {number: measure_span(*pair, 0, 1, options, scratch) for number, pair in enumerate(pairs)}
    found = small.measured()
    assert repr([found[number] for number in alone]) == repr(list(alone.values())), "signs of zeros included"


def test_pairs_are_measured_when_there_are_enough_of_them_or_too_many_wait(monkeypatch):
    calls = []
    original = small_pairs.measure_together

    def counting(targets, *rest):
        calls.append((len(targets), targets[0].size))
        return original(targets, *rest)

    monkeypatch.setattr(small_pairs, "measure_together", counting)
    small = SmallPairs(PLAIN, Scratch())
    for number in range(9):
        small.add(number, *[InMemory(np.ones(TOGETHER // 4, np.float32))] * 2)
    assert calls == [(4, TOGETHER // 4)] * 2
    assert len(small.measured()) == 9
    assert calls[2:] == [(1, TOGETHER // 4)]

    calls.clear()
    sizes = range(TOGETHER // 2 + 1, TOGETHER // 2 + 20)
    for number, size in enumerate(sizes):
        small.add(number, *[InMemory(np.ones(size, np.float32))] * 2)
        waiting = sum(sizes[: number + 1]) - sum(count * size for count, size in calls)
        assert waiting <= WAITING


def test_a_tensor_that_gives_other_than_its_elements_is_not_measured_with_others():
    small = SmallPairs(PLAIN, Scratch())
    short = InMemory(np.ones(5, np.float32))
    short.read = lambda start, stop: short.values[:4]
    with pytest.raises(ValueError, match="asked for 5 elements, got 4 and 5"):
        small.add(0, short, InMemory(np.ones(5, np.float32)))
    assert small.measured() == {}


def test_a_defect_costs_the_pair_that_it_is_in(tmp_path, monkeypatch):
    original = small_pairs.measure_together

    def broken(targets, *rest):
        if any(values[0] == 13 for values in targets):
            raise ZeroDivisionError("a defect")
        return original(targets, *rest)

    monkeypatch.setattr(small_pairs, "measure_together", broken)
    pairs = [
        [raw(tmp_path, side, f"n{number}", np.full(50, value, np.float32)) for side in ("t", "g")]
        for number, value in enumerate((1, 13, 2))
    ]
    tasks = [task for number, pair in enumerate(pairs) for task in plan_tasks(number, *pair, PLAIN)]
    results = measure_batch(Batch(tuple(tasks), PLAIN, "auto"))
    assert [result.pair for result in results] == [0, 1, 2]
    assert [result.failure.code if result.failure else None for result in results] == [None, "PF9002", None]
    assert results[1].failure.message == "measuring `n1.output.0` failed: ZeroDivisionError: a defect"
    assert [result.record is None for result in results] == [False, True, False]


def test_a_target_like_one_that_failed_is_measured_itself(tmp_path, monkeypatch):
    original = small_pairs.measure_together
    fails = iter([True, True])  # with the others, and alone

    def broken(*given):
        if next(fails, False):
            raise MemoryError
        return original(*given)

    monkeypatch.setattr(small_pairs, "measure_together", broken)
    values = np.arange(50, dtype=np.float32)
    golden = raw(tmp_path, "g", "golden", values)
    targets = [raw(tmp_path, "t", name, values) for name in ("output", "input")]
    tasks = [task for number, target in enumerate(targets) for task in plan_tasks(number, target, golden, PLAIN)]
    results = measure_batch(Batch(tuple(tasks), PLAIN, "auto"))
    assert [result.failure.code if result.failure else None for result in results] == ["PF3190", None]
    assert results[1].record.n_blocks == 1
