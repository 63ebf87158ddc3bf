"""What every accumulator must do, ours one by one; and those of packages, the broken ones among them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from metric_oracle import exact
from msgspec.structs import replace
from packages_on_path import Site

from probe_flow.errors import UsageError
from probe_flow.metrics.accumulators.base import OfErrors, OfValues, SecondPass
from probe_flow.metrics.accumulators.registry import ACCUMULATORS, MeasureOptions, kinds_of
from probe_flow.metrics.catalogue.derive import derive
from probe_flow.metrics.catalogue.metric import Metric
from probe_flow.metrics.catalogue.metrics import BUILT_IN
from probe_flow.metrics.catalogue.registry import find_metric, options_for
from probe_flow.metrics.kernel.compare import measure, measure_span
from probe_flow.metrics.kernel.record_text import record_of, record_text
from probe_flow.metrics.sums.pair_errors import PairErrors, PairValues
from probe_flow.metrics.sums.record import BLOCK, Accumulator, Record, Value, fold
from probe_flow.testing.builders import ArrayBlocks

if TYPE_CHECKING:
    from typing_extensions import Self

GROUP = "probe_flow.accumulators"
OURS = tuple(ACCUMULATORS.built_in)


def noisy_pair(count: int, dtype: str = "float64") -> tuple[ArrayBlocks, ArrayBlocks]:
    rng = np.random.default_rng(count)
    golden = rng.standard_normal(count) * 100
    golden[::11] = 0.0
    target = golden + rng.standard_normal(count)
    if dtype != "int64" and count > 9:
        target[4], golden[7], golden[9] = math.nan, math.inf, -math.inf
    return ArrayBlocks(target, dtype), ArrayBlocks(golden, dtype)


def of_run(name: str, record: Record) -> Accumulator | None:
    return next((each for each in record.accumulators if each.name == name), None)


@pytest.mark.parametrize("name", OURS)
def test_it_has_its_name_and_is_of_one_kind(name: str) -> None:
    found = ACCUMULATORS[name]
    assert found.name == name
    assert sum(issubclass(found, kind) for kind in (OfValues, OfErrors, SecondPass)) == 1
    assert sum(map(len, kinds_of((name,)))) == 1


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_it_computes_the_metrics_that_name_it_and_no_others(name: str, dtype: str) -> None:
    record = measure(*noisy_pair(1000, dtype), MeasureOptions((name,)))
    found = of_run(name, record)
    named = {metric.id for metric in BUILT_IN if metric.accumulator == name}
    assert named
    if found is None:  # undefined where a value is not finite
        assert name == "softmax"
        assert dtype == "float32"
        return
    assert set(found.finish(record)) == named


@pytest.mark.parametrize("name", [name for name in OURS if name not in ("softmax", "minmax")])
def test_no_elements_are_neutral_and_nothing_is_computed_of_them(name: str) -> None:
    nothing = measure(ArrayBlocks([], "float32"), ArrayBlocks([], "float32"), MeasureOptions((name,)))
    found = of_run(name, nothing)
    assert found == ACCUMULATORS[name].init()
    assert {*derive(nothing, [m.id for m in BUILT_IN if m.accumulator == name]).values()} == {None}
    some = of_run(name, measure(*noisy_pair(1000), MeasureOptions((name,))))
    assert some is not None
    assert some.merge(ACCUMULATORS[name].init()) == ACCUMULATORS[name].init().merge(some) == some


@pytest.mark.parametrize("name", [name for name in OURS if name not in ("softmax", "minmax")])
def test_any_split_gives_the_same_bits(name: str) -> None:
    pair = noisy_pair(4 * BLOCK + 17)
    options = MeasureOptions((name,))
    whole = measure(*pair, options)
    for cuts in ((0, 1, 2, 3, 4, 5), (0, 2, 5), (0, 3, 4, 5)):
        spans = [measure_span(*pair, a, b - a, options) for a, b in pairwise(cuts)]
        assert repr(fold(spans).accumulators) == repr(whole.accumulators)
    assert whole.accumulators


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_its_text_reads_back_as_the_same(name: str, scale: float) -> None:
    golden = np.random.default_rng(3).standard_normal(100) * scale
    record = measure(ArrayBlocks(golden * 1.01, "float64"), ArrayBlocks(golden, "float64"), MeasureOptions((name,)))
    found = of_run(name, record)
    assert found is not None
    assert repr(type(found).from_text(found.to_text())) == repr(found)
    assert repr(record_of(record_text(record))) == repr(record)


@pytest.mark.parametrize("text", ["[]x", "{", '["a"', "3"])
def test_a_damaged_text_is_refused(text: str) -> None:
    for name in OURS:
        with pytest.raises((ValueError, TypeError)):
            ACCUMULATORS[name].from_text(text)


# Accumulators as a package brings them, in numpy only.


class AboveGolden(OfValues, frozen=True, gc=False):
    """How many values are above their golden value."""

    name = "above_golden"
    count: int = 0

    @classmethod
    def update(cls, block: PairValues) -> Self:
        return cls(int(np.count_nonzero(block.target > block.golden)))

    def merge(self, right: AboveGolden) -> AboveGolden:
        return AboveGolden(self.count + right.count)

    def finish(self, record: Record) -> dict[str, Value]:
        compared = record.errors.compared if record.errors else 0
        return {"above_golden_share": self.count / compared if compared else None}


class BeyondOne(OfErrors, frozen=True, gc=False):
    """Sum of the absolute errors beyond 1."""

    name = "beyond_one"
    total: float = 0.0

    @classmethod
    def update(cls, block: PairErrors) -> Self:
        return cls(float(block.absolute[block.absolute > 1.0].sum()))

    def merge(self, right: BeyondOne) -> BeyondOne:
        return BeyondOne(self.total + right.total)

    def finish(self, record: Record) -> dict[str, Value]:
        return {"beyond_one": self.total}


SHARE = Metric("above_golden_share", "Share of t > g.", "[0, 1]", "1", "a test", accumulator="above_golden")
NO_CLASS = 3


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    kinds_of.cache_clear()


@pytest.fixture
def of_packages(site: Site) -> Site:
    site.announce(
        "acme",
        GROUP,
        f"above_golden = {__name__}:AboveGolden",
        f"beyond_one = {__name__}:BeyondOne",
        f"absent = {__name__}:NotThere",
        f"number = {__name__}:NO_CLASS",
        f"of_another_name = {__name__}:BeyondOne",
        "moments = acme_moments:Moments",
        "without_module = no.such.module:Thing",
    )
    site.announce("acme2", "probe_flow.metrics", f"above_golden_share = {__name__}:SHARE")
    return site


def backends() -> list[object]:
    return ["numpy", pytest.param("numba", marks=pytest.mark.frameworks)]


@pytest.mark.usefixtures("of_packages")
@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "uint8"])
@pytest.mark.parametrize("count", [5, 8193, BLOCK + 3])
def test_one_of_a_package_runs_under_every_backend(backend: str, dtype: str, count: int) -> None:
    if backend == "numba":
        pytest.importorskip("numba", reason="numba is not installed (extra accel)")
    rng = np.random.default_rng(1)
    target, golden = (ArrayBlocks(rng.integers(0, 50, count), dtype) for _ in range(2))
    options = MeasureOptions(("above_golden", "beyond_one", "moments"), backend=backend)
    record = measure(target, golden, options)
    own = [each for each in record.accumulators if each.name != "moments"]
    errors = [abs(t - g) for t, g in zip(exact(target), exact(golden), strict=True)]
    above = sum(t > g for t, g in zip(exact(target), exact(golden), strict=True))
    assert own == [AboveGolden(above), BeyondOne(sum(error for error in errors if error > 1))]
    values = own[0].finish(record)
    assert values == {"above_golden_share": above / count}
    alone = measure(target, golden, replace(options, accumulators=("moments",)))
    assert alone.accumulators == tuple(each for each in record.accumulators if each.name == "moments")


@pytest.mark.usefixtures("of_packages")
def test_ours_are_not_replaced() -> None:
    assert ACCUMULATORS["moments"].__module__ == "probe_flow.metrics.accumulators.moments"


@pytest.mark.usefixtures("of_packages")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent", "NotThere"),
        ("number", "it is no accumulator"),
        ("of_another_name", "its accumulator is called `beyond_one`"),
        ("without_module", "ModuleNotFoundError"),
        ("above_goldn", "there is no accumulator"),
    ],
)
def test_a_broken_one_is_an_error_with_its_name(name: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        kinds_of((name,))
    assert caught.value.diagnostic.code == "PF5115"
    assert says in caught.value.diagnostic.message
    assert f"`{name}`" in caught.value.diagnostic.message


def test_a_metric_is_found_without_the_import_of_its_accumulator(site: Site) -> None:
    site.install("acme_sums", GROUP, "above_golden = acme_sums:Sum", "raise RuntimeError('no')")
    site.announce("acme2", "probe_flow.metrics", f"above_golden_share = {__name__}:SHARE")
    assert find_metric("above_golden_share") is SHARE
    options = options_for(["above_golden_share"])
    assert options == MeasureOptions(("above_golden",))
    assert site.imported == set()
    with pytest.raises(UsageError, match="RuntimeError: no"):
        _ = options.key_text


@pytest.mark.usefixtures("of_packages")
def test_a_metric_of_a_package_is_measured_by_its_accumulator() -> None:
    target, golden = ArrayBlocks([1, 5, 3, 7], "float32"), ArrayBlocks([2, 4, 3, 1], "float32")
    record = measure(target, golden, options_for(["above_golden_share", "rmse"]))
    assert derive(record, ["above_golden_share"]) == {"above_golden_share": 0.5}
    assert derive(record, ["reference.above_golden_share"]) == {}
