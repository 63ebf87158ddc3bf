"""How well origins are named when a TorchAir dump was reduced to statistics, on both sides or on one.

Extremes alone do not show every fault (a wrong element among thousands, a transposed weight): what is promised is that
no healthy pair raises an alarm and that what is named first is right. Limits as docs/explanation/diagnosis.md has them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from generate.torchair import EXTRA_HEALTHY, HEALTHY, SINGLE_FAULTS
from generate.torchair_reduced import FULL, SCRIPT, reduce_golden, reduce_target
from named_origins import compare, is_truth, origins

from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.files.binary_file import BinaryFile
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Comparison, FindingKind, Mode, Role
from probe_flow.stages.compare import Options
from probe_flow.transform.reduce.reduce_tensors import Figures, reduce_device
from probe_flow.work import Context, Settings

SHOWN_BY_EXTREMES = (
    "scale_1_percent", "scale_5_percent", "inside_fused", "norm_eps", "stale_buffer", "nan", "overflow", "wrong_index",
    "softmax_axis",
)  # fmt: skip
"""Faults that minimum and maximum alone show where they begin."""

HIDDEN_FROM_STATISTICS = 6
"""Single faults, of twenty, that minimum, maximum, mean and norm do not show where they begin."""


def reduced(spec, folder: Path, statistics, sides: str) -> tuple[Comparison, object]:
    case = spec.generate(folder / spec.name)
    if "target" in sides:
        reduce_target(case, statistics)
    if "golden" in sides:
        reduce_golden(case, statistics)
    return compare(case.target, case.golden), case.truth


def test_the_fault_of_the_bundled_pair_is_named_first(torchair_case):
    case = torchair_case("minmax")
    comparison = compare(case / "msprobe_ge_dump", case / "msprobe_fx_dump")
    finding, *suspects = comparison.findings
    assert (finding.kind, finding.node.name, str(finding.slot)) == (FindingKind.ORIGIN, "BatchMatMul_2", "output.0")
    assert {(each.kind, each.fails) for each in suspects} == {(FindingKind.SUSPECT, False)}
    assert not comparison.gate_passed
    assert comparison.incomplete == ()
    assert {row.measurement.mode for row in comparison.rows if row.measurement} == {Mode.STATISTICS}
    assert [row.pair.golden.node.name for row in comparison.rows if row.verdict.role is Role.ORIGIN] == ["bmm_2"]


@pytest.mark.parametrize("statistics", [SCRIPT, FULL], ids=["extremes", "full"])
@pytest.mark.parametrize("spec", [*HEALTHY, *EXTRA_HEALTHY], ids=lambda spec: spec.name)
def test_no_healthy_reduced_pair_raises_an_alarm(spec, statistics, tmp_path):
    comparison, _ = reduced(spec, tmp_path, statistics, "target golden")
    assert comparison.findings == ()
    assert comparison.gate_passed
    assert comparison.incomplete == ()


@pytest.mark.parametrize("side", ["target", "golden"])
@pytest.mark.parametrize("spec", HEALTHY[::3], ids=lambda spec: spec.name)
def test_no_healthy_pair_with_one_reduced_side_raises_an_alarm(spec, side, tmp_path):
    comparison, _ = reduced(spec, tmp_path, SCRIPT, side)
    assert comparison.findings == ()
    assert comparison.incomplete == ()


@pytest.mark.parametrize(
    ("name", "sides"),
    [*((name, "target golden") for name in SHOWN_BY_EXTREMES), ("stale_buffer", "target"), ("softmax_axis", "golden")],
)
def test_what_extremes_show_is_named_first(name, sides, tmp_path):
    spec = next(spec for spec in SINGLE_FAULTS if spec.name == name)
    comparison, truth = reduced(spec, tmp_path, SCRIPT, sides)
    assert is_truth(origins(comparison)[0], truth)


@pytest.mark.parametrize("name", ["one_element", "transposed_weight", "shift"])
def test_what_extremes_show_further_on_is_told_where_it_began(name, tmp_path):
    spec = next(spec for spec in SINGLE_FAULTS if spec.name == name)
    comparison, truth = reduced(spec, tmp_path, SCRIPT, "target golden")
    first, *_ = origins(comparison)
    assert not is_truth(first, truth)
    assert "in minimum and maximum, which does not clear " in first.evidence
    suspects = [finding for finding in comparison.findings if finding.kind is FindingKind.SUSPECT]
    assert any(is_truth(finding, truth) for finding in suspects)
    assert not any(finding.fails for finding in suspects)


def test_most_faults_are_named_first_by_four_statistics(tmp_path):
    found = 0
    for spec in SINGLE_FAULTS:
        comparison, truth = reduced(spec, tmp_path, FULL, "target golden")
        named = origins(comparison)
        found += bool(named) and is_truth(named[0], truth)
    assert found >= len(SINGLE_FAULTS) - HIDDEN_FROM_STATISTICS


@pytest.mark.parametrize(
    ("statistics", "kind", "mode"),
    [
        (("min", "max", "mean", "l2norm"), FindingKind.ORIGIN, Mode.STATISTICS),
        (("crc32",), FindingKind.CHECKSUM_ORIGIN, Mode.CHECKSUM),
    ],
)
@pytest.mark.parametrize("reduced_side", ["fusion_on", "fusion_off"])
def test_a_device_dump_is_compared_with_a_reduced_one(reduced_side, statistics, kind, mode, torchair_case, tmp_path):
    copy = tmp_path / "pair"
    shutil.copytree(torchair_case("fusion_pair"), copy)
    for path in sorted((copy / reduced_side).rglob("*.*.*")):
        if path.is_file() and not path.name.endswith(".txt"):
            with BinaryFile(path) as file:
                content = reduce_device(file, read_ge_header(path), Figures(statistics)).content
            path.with_name(f"{path.name}_min_max.npz").write_bytes(content)
            path.unlink()
    comparison = compare_devices(copy / "fusion_on", copy / "fusion_off")
    (finding,) = comparison.findings
    assert (finding.kind, finding.node.name) == (kind, "Mul_1Add_2")
    assert {row.measurement.mode for row in comparison.rows if row.measurement} == {mode}
    assert comparison.incomplete == ()


def compare_devices(target: Path, golden: Path) -> Comparison:
    def in_order(function, batches, **_):
        return ((number, function(batch)) for number, batch in enumerate(batches))

    def ignore(*_: object, **__: object) -> None:
        return None

    context = Context("result", Path(), in_order, ignore, ignore, Settings(), {})
    pairs = match_torchair(read_torchair_ge(target, side="target"), read_torchair_ge(golden, side="golden"))
    return compare_pairs(pairs, Options(uses="compare", pairs="pairs").asked(), context, None)
