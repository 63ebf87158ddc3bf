"""Tests that every metric of tensors has to pass, and the sum that it needs if that is its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from probe_flow.metrics.accumulators.base import SecondPass
from probe_flow.metrics.accumulators.registry import ACCUMULATORS, MeasureOptions
from probe_flow.metrics.catalogue.metric import Metric
from probe_flow.metrics.kernel.compare import measure, measure_span
from probe_flow.metrics.sums.record import BLOCK, Accumulator, Record, Value, fold
from probe_flow.testing.builders import ArrayBlocks
from probe_flow.testing.expect import expect

Floats = NDArray[np.float64]

_SPECIALS = {
    "NaN on one side": ([1.0, math.nan], [1.0, 2.0]),
    "infinities that agree": ([math.inf, 1.0], [math.inf, 1.0]),
    "infinities that do not": ([math.inf, 1.0], [-math.inf, 1.0]),
    "nothing finite": ([math.nan, math.nan], [math.nan, math.nan]),
    "no elements": ([], []),
    "one element": ([1.0], [2.0]),
    "zeros": ([0.0, 0.0], [0.0, 0.0]),
    "a golden of zeros": ([1.0, 2.0], [0.0, 0.0]),
    "the largest numbers": ([3e38, -3e38], [-3e38, 3e38]),
}


class MetricTests:
    """Tests of a `Metric`: name it as ``metric``, and say in `oracle` what it ought to be.

    ``relative``: by how much the two may differ, relative to the oracle's value. ``absolute``: by how much in any case,
    for a metric that is a small difference of larger sums.
    """

    metric: Metric
    relative: float = 1e-9
    absolute: float = 1e-15

    def oracle(self, target: Floats, golden: Floats) -> Value:
        """Return the value for finite elements, worked out from the definition and not by the metric's own code."""
        raise NotImplementedError

    def test_it_is_described(self) -> None:
        """Reference pages and reports have something to show."""
        for name in ("id", "definition", "range", "unit", "source"):
            expect(getattr(self.metric, name), f"the metric `{self.metric.id}` has no `{name}`")

    def test_it_agrees_with_its_oracle(self) -> None:
        """Drawn tensors of several types and sizes, of which the largest takes more than one block."""
        for dtype, target, golden in _drawn():
            wide_target, wide_golden = (blocks.array.astype(np.float64) for blocks in (target, golden))
            self._compare(self._value(target, golden), self.oracle(wide_target, wide_golden), f"{target.numel} {dtype}")

    def test_odd_values_give_a_value_or_none(self) -> None:
        """NaN, infinities, zeros and no elements at all end in a number or None, never in an exception."""
        for what, (target, golden) in _SPECIALS.items():
            try:
                value = self._value(ArrayBlocks(target, "float32"), ArrayBlocks(golden, "float32"))
            except Exception as error:
                raise AssertionError(f"{what}: `{self.metric.id}` ends in {type(error).__name__}: {error}") from error
            expect(
                value is None or isinstance(value, (bool, int, float)),
                f"{what}: `{self.metric.id}` gives a `{type(value).__name__}`, no number",
            )

    def test_the_same_record_gives_the_same_value(self) -> None:
        """A metric remembers nothing of what it computed before."""
        drawn = [(target, golden) for _, target, golden in _drawn()]
        first = [self._value(*pair) for pair in drawn]
        again = [self._value(*pair) for pair in reversed(drawn)][::-1]
        expect(list(map(repr, first)) == list(map(repr, again)), f"`{self.metric.id}` changes with what came before")

    def test_its_sum_is_the_same_however_the_work_is_split(self) -> None:
        """Workers measure spans of blocks; what they found is merged to the bits that one worker finds."""
        kind = self._accumulator()
        if kind is None or issubclass(kind, SecondPass):  # for a second pass one worker reads the whole pair
            return
        options = MeasureOptions((kind.name,))
        pair = _pair("float64", 4 * BLOCK + 17, 1.0, np.random.default_rng(21))
        whole = repr(measure(*pair, options).accumulators)
        for cuts in ((0, 1, 2, 3, 4, 5), (0, 2, 5), (0, 3, 4, 5)):
            spans = [measure_span(*pair, first, last - first, options) for first, last in pairwise(cuts)]
            found = repr(fold(spans).accumulators)
            expect(found == whole, f"split at the blocks {cuts}, `{kind.name}` finds {found}, in one piece {whole}")

    def test_its_sum_can_be_stored(self) -> None:
        """Results are stored as text: `from_text` of `to_text` is what was found, to the last bit."""
        kind = self._accumulator()
        if kind is None:
            return
        for dtype, target, golden in _drawn():
            for found in measure(target, golden, MeasureOptions((kind.name,))).accumulators:
                again = type(found).from_text(found.to_text())
                expect(repr(again) == repr(found), f"{target.numel} {dtype}: {found} is read back as {again}")

    def _accumulator(self) -> type[Accumulator] | None:
        return ACCUMULATORS.find(self.metric.accumulator) if self.metric.accumulator else None

    def _compare(self, value: Value, wanted: Value, what: str) -> None:
        if value is None or wanted is None:
            expect(value is wanted, f"{what}: `{self.metric.id}` gives {value}, its oracle {wanted}")
            return
        near = math.isclose(value, wanted, rel_tol=self.relative, abs_tol=self.absolute)
        both_nan = math.isnan(value) and math.isnan(wanted)
        expect(near or both_nan, f"{what}: `{self.metric.id}` gives {value!r}, its oracle {wanted!r}")

    def _value(self, target: ArrayBlocks, golden: ArrayBlocks) -> Value:
        name = self.metric.accumulator
        record: Record = measure(target, golden, MeasureOptions((name,) if name else ()))
        if self.metric.compute is not None:
            return self.metric.compute(record)
        finished: dict[str, Value] = {}
        for each in record.accumulators:
            finished |= each.finish(record)
        expect(name, f"`{self.metric.id}` has no `compute`, and names no accumulator")
        return finished.get(self.metric.id)


def _drawn() -> Iterator[tuple[str, ArrayBlocks, ArrayBlocks]]:
    """Yield type and both sides: tensors that agree, nearly agree, and do not."""
    draw = np.random.default_rng(20)
    for dtype, numel, error in (
        ("float32", 7, 0.0),
        ("float32", 1000, 1e-3),
        ("float16", 100, 1e-2),
        ("float64", 70_000, 1.0),
        ("int32", 50, 3.0),
        ("uint8", 50, 3.0),
    ):
        yield dtype, *_pair(dtype, numel, error, draw)


def _pair(dtype: str, numel: int, error: float, draw: np.random.Generator) -> tuple[ArrayBlocks, ArrayBlocks]:
    golden = draw.uniform(1.0, 100.0, numel) * (1.0 if dtype.startswith("u") else draw.choice([-1.0, 1.0], numel))
    target = golden + error * draw.uniform(0.0, 1.0, numel)
    return ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype)
