"""How well the origin is named in dump.json dumps: real torch models with one known fault each, and healthy pairs.

The archive was made by ``tests/generate/dump_json_*`` (torch and msprobe needed); the truth is measured there, bit by
bit, against the same target without its fault. The limits here are what docs/explanation/diagnosis.md states.
"""

from __future__ import annotations

import json
import math
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from probe_flow.analysis.policies.base import judge_all
from probe_flow.analysis.policies.dump_json import DumpJsonPolicy
from probe_flow.analysis.search.conclude import conclude
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name
from probe_flow.measure.results import incomparable, measurement_without_data
from probe_flow.records import (
    Catalog,
    Finding,
    FindingKind,
    Measurement,
    Mode,
    Pair,
    Pairs,
    SideSummary,
    Statistics,
    TensorRef,
)
from probe_flow.records.row import Row, in_execution_order

DATA = Path(__file__).parents[1] / "data/dump_json"
ORIGINS = (FindingKind.ORIGIN, FindingKind.CHECKSUM_ORIGIN)


@dataclass(frozen=True)
class Case:
    spec: dict
    target: Path
    golden: Path
    truth: dict
    measured: dict

    def is_named(self, mode: str, finding: Finding, pairs: Pairs) -> bool:
        """Whether a finding names the truth; where statistics first show it may be later than where it begins."""
        entries = self.truth["entries"] if mode == "statistics" else self.truth["entries"][:1]
        assert finding.node is not None
        entry = pairs.target.nodes[finding.node].entry
        return entry in entries and (finding.node.execution.step or 0) == self.truth["step"]


def unpacked(name: str, folder: Path) -> list[Case]:
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    listed = json.loads((folder / "cases.json").read_text())
    return [
        Case(
            case["spec"], folder / case["target"], folder / case["golden"], case.get("truth", {}),
            json.loads((folder / f"measured/{number}.json").read_text()),
        )
        for number, case in enumerate(listed)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> list[Case]:
    """Pairs of level mix: modules and APIs."""
    return unpacked("faults", tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module", params=["L0", "L1"])
def cases_of_level(request, tmp_path_factory) -> list[Case]:
    """Pairs of modules only, or of APIs only."""
    cases = unpacked("levels", tmp_path_factory.mktemp("levels"))
    return [case for case in cases if case.spec["level"] == request.param]


@lru_cache(maxsize=16)
def catalog(path: Path, side: str) -> Catalog:
    return read_dump_json(path, side=side)


def without_checksum(tensor: TensorRef | None) -> TensorRef | None:
    return tensor and tensor.changed(checksum=None)


def measure(pair: Pair, mode: str, case: Case) -> Row:
    if mode != "checksum":
        pair = replace(pair, target=without_checksum(pair.target), golden=without_checksum(pair.golden))
    if pair.target is None or pair.golden is None:
        return Row(pair)
    failure = incomparable(pair)
    if failure is not None:
        return Row(pair).with_aside(failure=failure)
    found = case.measured.get(f"{pair.target.node.execution.step or 0} {pair.target.item}")
    if mode == "tensor" and found is not None:
        return Row(pair, tensor_measurement(pair, found))
    return Row(pair, measurement_without_data(pair))


def tensor_measurement(pair: Pair, found: list) -> Measurement:
    """What comparing the tensors gave when the archive was made."""
    angle, distance, worst, mismatch = found[:4]
    sides = [
        Statistics(min=low, max=high, mean=mean, l2norm=norm, nan=nan, inf=inf)
        for low, high, mean, norm, nan, inf in (found[4:10], found[10:])
    ]
    norm = sides[1].l2norm
    metrics = {"cosine": 1.0 - angle, "euclidean_distance": distance, "max_abs_err": worst}
    metrics["relative_euclidean_distance"] = distance / norm if norm else math.inf
    if sides[0].l2norm is None:
        metrics = {}
    count = pair.target.numel if pair.target else 0
    return Measurement.of(
        Mode.TENSOR, metrics, SideSummary(sides[0]), SideSummary(sides[1]),
        nonfinite_mismatch=mismatch, count=count or 0, backend="archive",
    )  # fmt: skip


def findings_of(case: Case, mode: str) -> tuple[tuple[Finding, ...], Pairs]:
    pairs = match_name(catalog(case.target, "target"), catalog(case.golden, "golden"))
    rows = [measure(pair, mode, case) for pair in in_execution_order(pairs)]
    return conclude(rows, pairs, judge_all(rows, DumpJsonPolicy()))[0], pairs


def judged(cases: list[Case], mode: str) -> Iterator[tuple[Case, list[bool]]]:
    """Yield each fault that the mode can see, with whether each origin named is the true one."""
    for case in cases:
        spec = case.spec
        is_same = spec["dtype"] == "float32" and not spec["noise"]
        if spec["kind"] and (mode != "checksum" or is_same):
            found, pairs = findings_of(case, mode)
            yield case, [case.is_named(mode, finding, pairs) for finding in found if finding.kind in ORIGINS]


@pytest.mark.parametrize("mode", ["statistics", "tensor", "checksum"])
def test_the_origin_is_named_first_in_95_of_100_faults(cases, mode):
    results = list(judged(cases, mode))
    assert len(results) >= (6 if mode == "checksum" else 40)
    missed = [(case.spec["name"], case.truth["entries"][:2]) for case, named in results if named[:1] != [True]]
    assert len(missed) <= 0.05 * len(results), missed


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_no_healthy_pair_raises_an_alarm(cases, mode):
    healthy = [case for case in cases if not case.spec["kind"]]
    assert len(healthy) >= 12
    alarmed = {case.spec["name"]: found for case in healthy if (found := findings_of(case, mode)[0])}
    assert alarmed == {}


NAMED_FIRST = {("L0", "statistics"): 5, ("L0", "tensor"): 6, ("L1", "statistics"): 7, ("L1", "tensor"): 8}
"""Of 8 faults each. Faults of gradients inside a module, in 16 bits, show too little in the modules alone."""


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_where_only_modules_or_only_apis_were_dumped_origins_are_named_and_never_wrong_ones(cases_of_level, mode):
    results = list(judged(cases_of_level, mode))
    assert len(results) == 8
    assert [case.spec["name"] for case, named in results if named[:1] == [False]] == []
    assert sum(named[:1] == [True] for _, named in results) >= NAMED_FIRST[cases_of_level[0].spec["level"], mode]


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_no_healthy_pair_of_modules_or_apis_raises_an_alarm(cases_of_level, mode):
    healthy = [case for case in cases_of_level if not case.spec["kind"]]
    assert len(healthy) >= 7
    alarmed = {case.spec["name"]: found for case in healthy if (found := findings_of(case, mode)[0])}
    assert alarmed == {}


@pytest.fixture(scope="module")
def in_place(tmp_path_factory) -> list[Case]:
    """Healthy residual networks with batch norm and gates in place, in 16 bits, two steps."""
    return unpacked("in_place", tmp_path_factory.mktemp("in_place"))


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_gates_in_place_are_gates(in_place, mode):
    """Their gradient is recorded as it reached them; which elements they let through shows one call later."""
    assert len(in_place) == 4
    alarmed = {case.spec["name"]: found for case in in_place if (found := findings_of(case, mode)[0])}
    assert alarmed == {}


@pytest.fixture(scope="module")
def optimizers(tmp_path_factory) -> list[Case]:
    """Two steps with AdamW between, in float32 with noise or bfloat16; three have wrong gradients in the first."""
    return unpacked("optimizers", tmp_path_factory.mktemp("optimizers"))


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_what_an_optimizer_makes_of_wrong_gradients_is_no_further_origin(optimizers, mode):
    """Adam divides a gradient by its own size: an update is not off by as much of itself as its gradient was."""
    faults = [case for case in optimizers if case.spec["kind"]]
    assert (len(faults), len(optimizers)) == (3, 5)
    for case in optimizers:
        found, pairs = findings_of(case, mode)
        named = [finding for finding in found if finding.kind in ORIGINS]
        assert all(finding.node.execution.step == 0 for finding in named), case.spec["name"]
        assert bool(named) == bool(case.spec["kind"]), case.spec["name"]
        assert not named or case.is_named(mode, named[0], pairs), case.spec["name"]


def test_a_side_with_nan_has_no_change_of_scale(cases):
    """Norms of a side with NaN and of one without are of different elements: only where NaN begins is named."""
    spoilt = [case for case in cases if case.spec["kind"] in ("nan", "grad_nan")]
    assert len(spoilt) >= 2
    for case in spoilt:
        found, pairs = findings_of(case, "tensor")
        named = [finding for finding in found if finding.kind in ORIGINS]
        assert named, case.spec["name"]
        assert all(case.is_named("tensor", finding, pairs) for finding in named), case.spec["name"]
