"""Offline dumps of which another tool's table is known: what is paired, and that values lie side by side.

The figures are computed here, from what compare would read, in float64; the table has six decimals of float32.
"""

from __future__ import annotations

import csv
import tarfile
from pathlib import Path

import numpy as np
import pytest
from offline_builders import by_golden, by_target, check_complete, codes, match, partners, values

from probe_flow.records import Pair, Pairs

DATA = Path(__file__).resolve().parents[2] / "data" / "offline"
RULES = {
    "fr": {"rule": "fusion_rule.json"},
    "cfr": {"rule": "fusion_rule.json", "close": "close_fusion_rule.json"},
    "om_vs_om": {},
    "qfr": {"rule": "fusion_rule.json", "quant": "quant_fusion_rule.json"},
    "sliced": {"rule": "fusion_rule.json"},
}
SIDES = {"qfr": ("target_om", "golden_origin")}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline")
    with tarfile.open(DATA / "cases.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def matched(root: Path, name: str) -> Pairs:
    folder = root / name
    target, golden = SIDES.get(name, ("target", "golden"))
    files = {key: folder / file for key, file in RULES[name].items()}
    pairs = match(folder / target, folder / golden, **files)
    check_complete(pairs)
    return pairs


def table(name: str) -> dict[str, dict[str, str]]:
    """Return the table's rows of tensors by `TensorIndex`, names as in file names."""
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {row["TensorIndex"].replace("/", "_"): row for row in rows if row["TensorIndex"] != "NaN"}


def place(pair: Pair) -> str:
    assert pair.target is not None
    slot = pair.target.slot
    return f"{pair.target.node.name}:{slot.role.value}:{slot.index}".replace("/", "_")


def figures(pair: Pair) -> dict[str, float]:
    target, golden = values(pair)
    errors = np.abs(target - golden)
    return {
        "CosineSimilarity": float(target @ golden / np.sqrt((target @ target) * (golden @ golden))),
        "MaxAbsoluteError": float(errors.max()),
        "MeanAbsoluteError": float(errors.mean()),
        "RelativeEuclideanDistance": float(np.linalg.norm(target - golden) / np.linalg.norm(golden)),
    }


@pytest.mark.parametrize("name", ["fr", "om_vs_om", "qfr", "sliced"])
def test_what_the_table_compares_is_compared_with_the_same_figures(root: Path, name: str) -> None:
    rows = table(name)
    compared = {place(pair): pair for pair in by_target(matched(root, name)).values() if pair.golden is not None}
    shown = {key for key, pair in compared.items() if pair.rule.name != "inner_input" and not pair.rule.is_self}
    shown -= {key for key in shown if compared[key].reason and compared[key].reason.code == "no_rule_shape"}  # type: ignore[union-attr]
    assert shown == {key for key, row in rows.items() if row["CosineSimilarity"] != "NaN"}
    for key in shown:
        for metric, value in figures(compared[key]).items():
            assert value == pytest.approx(float(rows[key][metric]), abs=2e-6), (key, metric)


_WORDS = {
    "no_golden_dump": "There is no the ground truth dump file",
    "unknown_producer": "in the fusion rule file",
}


@pytest.mark.parametrize("name", ["fr", "qfr", "sliced"])
def test_reasons_are_those_of_the_table(root: Path, name: str) -> None:
    found = {place(pair): pair for pair in by_target(matched(root, name)).values()}
    left = {key: pair for key, pair in found.items() if pair.golden is None}
    within = {key for key, pair in found.items() if pair.rule.is_self}  # the table compares nothing within the target
    assert within <= {key for key, row in table(name).items() if row["CosineSimilarity"] == "NaN"}
    for key, row in table(name).items():
        if row["CosineSimilarity"] == "NaN" and key not in within:
            reason = left[key].reason
            assert reason is not None
            text = row["CompareFailReason"]
            assert [code for code, words in _WORDS.items() if words in text] == [reason.code]


def test_fusion_on_and_off_lose_no_row(root: Path) -> None:
    """The table of msprobe lacks most rows of groups that the compiler made, and counts padding."""
    pairs = matched(root, "cfr")
    found = partners(pairs)
    assert found["gap.output.0"] == "gap.output.0"
    assert found["fc.input.0"] == "gap.output.0"
    assert found["conv1relu1.output.0"] == "relu1.output.0"
    assert found["block/conv2block/relu2.output.0"] == "block/relu2_close.output.0"
    assert found["trans_Cast_6.output.0"] == found["softmax.input.0"] == "fc.output.0"
    target, golden = values(by_target(pairs)["conv1relu1.output.0"])
    assert target.size == golden.size == 8 * 16 * 16
    np.testing.assert_array_equal(target, golden)
    left = codes(by_golden(pairs))
    assert left["bn1_close.output.0"] == "internal expected"
    assert left["trans_TransData_1.output.0"] == "device_only expected"


def test_arrays_of_a_quantised_model_against_the_original(root: Path) -> None:
    folder = root / "qfr"
    pairs = match(folder / "target_quant_npy", folder / "golden_origin", quant=folder / "quant_fusion_rule.json")
    check_complete(pairs)
    assert partners(pairs) == {
        "x.output.0": "x.output.0",
        "conv1_dequant_layer.output.0": "bn1.output.0",
        "relu1.output.0": "relu1.output.0",
        "pool1.output.0": "pool1.output.0",
    }
    left = codes(by_target(pairs))
    assert left == {"conv1_quant_layer.output.0": "inner_node expected", "conv1.output.0": "quantised expected"}


def test_either_rule_file_of_a_quantised_model_is_enough_for_what_it_names(root: Path) -> None:
    folder = root / "qfr"
    sides = folder / "target_om", folder / "golden_origin"
    with_model = partners(match(*sides, rule=folder / "fusion_rule.json"))
    assert with_model["conv1conv1_dequant_layerrelu1.output.0"] == "relu1.output.0"
    pairs = match(*sides, quant=folder / "quant_fusion_rule.json")
    check_complete(pairs)
    assert partners(pairs)["pool1.output.0"] == "pool1.output.0"
    fused = by_target(pairs)["conv1conv1_dequant_layerrelu1.output.0"]
    assert fused.golden is not None
    assert (fused.golden.id, fused.rule.name, fused.confidence) == ("relu1.output.0", "name_parts", 0.8)
    # What reads `relu1` in the rules reads the fused operator on the device.
    feeds = {(edge.producer.name, edge.consumer.name) for edge in pairs.target.edges}
    assert ("conv1conv1_dequant_layerrelu1", "pool1") in feeds
    assert ("conv1_quant_layer", "conv1conv1_dequant_layerrelu1") in feeds


def test_most_of_the_network_is_found_without_any_rule(root: Path) -> None:
    ruled = partners(matched(root, "fr"))
    guessed = partners(match(root / "fr" / "target", root / "fr" / "golden"))
    assert {name: ruled[name] for name in guessed} == guessed
    assert len(guessed) >= 20
