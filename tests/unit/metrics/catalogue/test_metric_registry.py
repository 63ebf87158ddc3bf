"""The registry: ids, sets, packages, and the reference page written from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from packages_on_path import Site

from probe_flow.errors import UsageError
from probe_flow.metrics.accumulators.registry import ACCUMULATORS, MeasureOptions
from probe_flow.metrics.catalogue.derive import derive
from probe_flow.metrics.catalogue.metric import Metric
from probe_flow.metrics.catalogue.metrics import BUILT_IN, METRIC_SETS
from probe_flow.metrics.catalogue.reference import reference_page
from probe_flow.metrics.catalogue.registry import (
    METRICS,
    THIRD_SIDE,
    find_metric,
    metric_ids,
    of_two_sides,
    options_for,
)
from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.metrics.kernel.compare import measure
from probe_flow.metrics.sums.record import Record
from probe_flow.records import Mode, Statistics
from probe_flow.testing.builders import ArrayBlocks

ROOT = Path(__file__).parents[4]
GROUP = "probe_flow.metrics"


def half_worst(record: Record) -> float:
    assert record.errors is not None
    return record.errors.max_abs / 2


ADDED = Metric("half_worst", "max |t - g| / 2.", "[0, inf]", "value", "a package", compute=half_worst)
RESERVED = Metric("reference.mine", "something else", "[0, 1]", "1", "a package", compute=half_worst)
NOT_COMPUTED = Metric("nothing", "nothing", "[0, 1]", "1", "a package")
WITHOUT_SUM = Metric("of_a_sum", "nothing", "[0, 1]", "1", "a package", accumulator="nowhere")


def test_ids_are_unique_and_fully_described() -> None:
    ids = [metric.id for metric in BUILT_IN]
    assert len(ids) == len(set(ids))
    for metric in BUILT_IN:
        assert all((metric.definition, metric.range, metric.unit, metric.source)), metric.id
        has_formula = metric.compute is not None or metric.accumulator in ACCUMULATORS.built_in
        assert has_formula == (metric.mode is Mode.TENSOR), metric.id


def test_statistics_ids_are_those_that_are_computed() -> None:
    ids = [metric.id for metric in BUILT_IN if metric.mode is Mode.STATISTICS]
    assert sorted(compare_statistics(Statistics(), Statistics())) == sorted(ids)


def test_sets_name_existing_metrics() -> None:
    for ids in METRIC_SETS.values():
        assert all(find_metric(metric_id).id == metric_id for metric_id in ids)
    assert metric_ids("default")[0] == "cosine"
    assert metric_ids(["rmse", "cosine", "rmse"]) == ("rmse", "cosine")


def test_unknown_names_come_with_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        metric_ids(["cosin"])
    assert caught.value.diagnostic.code == "PF5114"
    assert "`cosine`" in (caught.value.diagnostic.help or "")
    with pytest.raises(UsageError) as caught:
        metric_ids("defualt")
    assert "`default`" in (caught.value.diagnostic.help or "")


def test_options_follow_the_metrics() -> None:
    assert options_for(metric_ids("default")) == MeasureOptions()
    assert options_for(["std_golden"]) == MeasureOptions(("moments",))
    assert options_for(metric_ids("torchair_legacy")) == MeasureOptions(("masked", "softmax"))
    assert options_for(metric_ids("offline")) == MeasureOptions(("minmax", "moments", "significant"))
    assert options_for(["rmse"], max_elements=7) == MeasureOptions(max_elements=7)


def test_metrics_of_other_modes_are_not_derived_from_a_record() -> None:
    record = measure(ArrayBlocks([1.0, 2.0], "float32"), ArrayBlocks([1.0, 2.0], "float32"))
    assert derive(record, ["rmse", "max_diff", "checksum_equal"]) == {"rmse": 0.0}


def test_a_package_adds_a_metric(site: Site) -> None:
    site.announce("acme", GROUP, f"half_worst = {__name__}:ADDED")
    assert find_metric("half_worst") is ADDED
    assert set(METRICS) == {*(metric.id for metric in (*BUILT_IN, *THIRD_SIDE)), "half_worst"}


def test_every_metric_of_two_sides_is_also_one_of_target_and_reference(site: Site) -> None:
    site.announce("acme", GROUP, f"half_worst = {__name__}:ADDED")
    assert find_metric("reference.half_worst").definition == ADDED.definition
    assert find_metric("reference.half_worst").compute is None
    assert options_for(["reference.std_golden"]) == MeasureOptions(("moments",))
    assert of_two_sides(["rmse", "reference.rmse", "excess_peak", "reference.cosine"]) == ("rmse", "cosine")
    for metric_id, near in (("excess_eror", "excess_error"), ("reference.rms", "reference.rmse")):
        with pytest.raises(UsageError, match="there is no metric") as caught:
            find_metric(metric_id)
        assert f"`{near}`" in (caught.value.diagnostic.help or "")


def test_metrics_of_three_sides_are_not_derived_from_the_record_of_two() -> None:
    record = measure(ArrayBlocks([1.0, 2.0], "float32"), ArrayBlocks([1.0, 2.0], "float32"))
    assert derive(record, ["rmse", "reference.rmse", "excess_error"]) == {"rmse": 0.0}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("another = {}:ADDED", "its metric is called `half_worst`"),
        ("nothing = {}:NOT_COMPUTED", "it is no `Metric` with a `compute` function or an accumulator"),
        ("half_worst = {}:half_worst", "it is no `Metric` with a `compute` function or an accumulator"),
        ("reference.mine = {}:RESERVED", "ids that begin with `reference.`"),
        ("of_a_sum = {}:WITHOUT_SUM", "there is no accumulator `nowhere`"),
    ],
)
def test_what_is_no_metric_of_that_id_is_refused(site: Site, entry: str, why: str) -> None:
    site.announce("acme", GROUP, entry.format(__name__))
    metric_id = entry.partition(" ")[0]
    with pytest.raises(UsageError) as caught:
        find_metric(metric_id)
    assert caught.value.diagnostic.code == "PF5115"
    assert f"the metric `{metric_id}` cannot be used: {why}" in caught.value.diagnostic.message
    assert "of the package `acme`" in caught.value.diagnostic.notes[0]


@pytest.mark.parametrize("metric_id", ["cosine", "excess_error"])
def test_a_metric_of_ours_is_not_replaced(site: Site, metric_id: str) -> None:
    site.install("acme_taken", GROUP, f"{metric_id} = acme_taken:METRIC", "METRIC = 1")
    assert find_metric(metric_id) in (*BUILT_IN, *THIRD_SIDE)
    assert site.imported == set()


def test_a_package_is_imported_for_its_own_metric_only(site: Site) -> None:
    site.install("acme_broken", GROUP, "acme_broken_err = acme_broken:METRIC", "raise RuntimeError('no')")
    site.announce("acme", GROUP, f"half_worst = {__name__}:ADDED")
    for metric_id in ("cosine", "half_worst", "reference.half_worst"):
        find_metric(metric_id)
    with pytest.raises(UsageError, match="no metric `nothing`"):
        find_metric("nothing")
    assert site.imported == set()
    with pytest.raises(UsageError, match="RuntimeError: no") as caught:
        find_metric("reference.acme_broken_err")
    assert caught.value.diagnostic.code == "PF5115"


def test_the_registry_loads_no_numpy() -> None:
    modules = "probe_flow.metrics.catalogue.registry, probe_flow.metrics.catalogue.derive"
    code = f"import sys, {modules}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_reference_page_is_up_to_date() -> None:
    assert (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8") == reference_page()
