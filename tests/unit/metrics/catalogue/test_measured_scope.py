"""`max_elements` and `metric_args` of `compare`: the first elements only, and metrics of packages with arguments."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from pydantic import ValidationError
from raw_pairs import context, pairs_of, raw

from probe_flow.comparing.steps import compare_pairs
from probe_flow.measure.run import planned_texts
from probe_flow.metrics.catalogue import derive as derive_module
from probe_flow.metrics.catalogue.derive import Scope
from probe_flow.metrics.catalogue.metric import Metric
from probe_flow.metrics.catalogue.registry import metric_ids
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.stages.compare import Options


def options(**more):
    return Options.model_validate({"uses": "compare", "pairs": "pairs", **more})


def result_of(twosomes, **more):
    return compare_pairs(pairs_of(twosomes), options(**more).asked(), context(), None)


def row_of(folder, target, golden, **more):
    (row,) = result_of([(raw(folder, "t", "n", target), raw(folder, "g", "n", golden))], **more).rows
    return row.measurement


@pytest.mark.parametrize("limit", [1, 7, BLOCK, BLOCK + 9, 3 * BLOCK, 10**9])
@pytest.mark.parametrize("metrics", ["default", "offline"])
def test_only_the_first_elements_are_measured(tmp_path, limit, metrics):
    golden = np.random.default_rng(1).standard_normal(2 * BLOCK + 11).astype(np.float32)
    target = golden + np.float32(0.25) * (np.arange(golden.size) % 3 == 0)
    count = min(limit, golden.size)
    found = row_of(tmp_path, target, golden, metrics=metrics, max_elements=limit)
    error = np.abs(target[:count].astype(np.float64) - golden[:count])
    assert found.count == count
    assert found.metrics["mean_abs_err"] == pytest.approx(error.sum() / count, rel=1e-12)
    assert found.metrics["rmse"] == pytest.approx(math.sqrt((error**2).sum() / count), rel=1e-12)
    assert found.golden.statistics.max == golden[:count].max()
    said = (f"only the first {limit} of {golden.size} elements were compared",) if limit < golden.size else ()
    assert found.notes == said


def test_errors_beyond_the_limit_are_not_seen_and_details_stop_there(tmp_path):
    golden = np.arange(1, 101, dtype=np.float32).reshape(10, 10)
    target = golden.copy()
    target[9] = 0
    assert row_of(tmp_path, target, golden, max_elements=90).metrics["max_abs_err"] == 0.0
    assert row_of(tmp_path, target, golden).metrics["max_abs_err"] == 100.0
    target[0, 0] = -5
    result = result_of([(raw(tmp_path, "t", "n", target), raw(tmp_path, "g", "n", golden))], max_elements=12)
    (detail,) = result.details.values()
    assert len(detail.target) == 12
    assert sum(detail.counts) + detail.equal == 12


@pytest.mark.usefixtures("all_kept")
def test_what_is_kept_of_some_elements_is_not_taken_for_others(tmp_path):
    golden = np.ones(50, np.float32)
    pairs = pairs_of([(raw(tmp_path, "t", "n", golden), raw(tmp_path, "g", "n", golden))])
    ids = metric_ids("default")
    asked = []
    for limit in (0, 10):
        fields = [json.loads(each[2]) for each in planned_texts(pairs, ids, by="content", scope=_limited(limit))]
        assert len(fields) == 1
        asked.append(fields[0]["options"])
    assert asked[0] != asked[1]


def _limited(limit):
    from probe_flow.metrics.catalogue.derive import Scope

    return Scope(max_elements=limit)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "5"])
def test_limits_are_counts(limit):
    with pytest.raises(ValidationError):
        options(max_elements=limit)


def _of_limit(arguments):
    unknown = arguments.keys() - {"limit"}
    if unknown:
        raise ValueError(f"unknown argument `{min(unknown)}`; it takes `limit`")
    limit = float(arguments.get("limit", 1.0))
    return lambda record: float(record.errors.max_abs > limit)


BEYOND = Metric(
    "beyond", "1 when max |t - g| is above `limit`.", "0, 1", "1", "a package",
    compute=_of_limit({}), with_arguments=_of_limit,
)  # fmt: skip
BROKEN = Metric(
    "broken", "never", "0", "1", "a package", compute=lambda _: 0, with_arguments=lambda given: {}[given["no"]]
)


@pytest.fixture
def package(site):
    site.announce("acme", "probe_flow.metrics", f"beyond = {__name__}:BEYOND", f"broken = {__name__}:BROKEN")
    derive_module._computed.cache_clear()
    yield
    derive_module._computed.cache_clear()


@pytest.mark.usefixtures("package")
def test_a_metric_of_a_package_gets_its_arguments(tmp_path):
    golden = np.zeros(4, np.float32)
    sides = golden + np.float32(2), golden
    assert row_of(tmp_path, *sides, metrics=["beyond"]).metrics["beyond"] == 1.0
    given = {"metrics": ["beyond"], "metric_args": {"beyond": {"limit": 3}}}
    assert row_of(tmp_path, *sides, **given).metrics["beyond"] == 0.0


@pytest.mark.usefixtures("package")
def test_arguments_of_a_metric_that_is_not_measured_are_told(tmp_path):
    twosome = raw(tmp_path, "t", "n", np.ones(3)), raw(tmp_path, "g", "n", np.ones(3))
    given = {"metric_args": {"beyond": {"limit": 3}}}
    assert [problem.code for problem in result_of([twosome], **given).problems] == ["PF6406"]
    assert not result_of([twosome], metrics=["beyond"], **given).problems
    assert not result_of([twosome], metrics=["reference.beyond"], **given).problems


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"cosine": {"limit": 1}}, ["the metric `cosine` takes no arguments", "remove them"]),
        ({"beyon": {"limit": 1}}, ["no metric `beyon`", "did you mean `beyond`"]),
        ({"reference.beyond": {"limit": 1}}, ["the metric `reference.beyond` takes no arguments"]),
        ({"beyond": {"limt": 1}}, ["does not take these arguments: unknown argument `limt`; it takes `limit`"]),
        ({"broken": {"a": 1}}, ["does not take these arguments: KeyError: 'no'"]),
        ({"beyond": {"limit": [1]}}, ["valid"]),
    ],
)
def test_arguments_are_checked_before_anything_runs(given, parts):
    with pytest.raises(ValidationError) as caught:
        options(metric_args=given)
    found = "\n".join(error["msg"] for error in caught.value.errors())
    assert all(part in found for part in parts), found


@pytest.mark.usefixtures("package")
def test_the_diagnostic_has_a_code():
    from probe_flow.errors import UsageError

    with pytest.raises(UsageError) as caught:
        Scope.asked(0, {"rmse": {"a": 1}})
    assert caught.value.diagnostic.code == "PF6401"
