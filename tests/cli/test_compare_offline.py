"""`compare` for dumps of offline models: kinds of golden sides, flags in both forms, tables, exit codes."""

from __future__ import annotations

import csv
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_records import first_divergence

TESTS = Path(__file__).parents[1]
SAMPLES = TESTS.parent / "examples" / "offline"
ONNX, OM, QUANTISED, TRAINING = (SAMPLES / name for name in ("onnx", "om", "quantised", "training"))
FAULTY = ("-tp", ONNX / "target", "-gp", ONNX / "golden", "-fr", ONNX / "fusion_rule.json")
HEALTHY = ("-tp", ONNX / "healthy", "-gp", ONNX / "golden", "-fr", ONNX / "fusion_rule.json")
FUSION = ("-fr", ONNX / "fusion_rule.json", "-cfr", OM / "close_fusion_rule.json")
OFF = ("-tp", ONNX / "target", "-gp", OM / "golden")
BATCH = ("-tp", TRAINING / "target" / "20260101000000", "-gp", TRAINING / "golden", "-fr", TRAINING / "rules")

PUBLISHED = [
    *("Index", "OpType", "NPUDump", "DataType", "Address", "GroundTruth", "DataType", "TensorIndex", "Shape"),
    *("CosineSimilarity", "MaxAbsoluteError", "AccumulatedRelativeError", "RelativeEuclideanDistance"),
    *("KullbackLeiblerDivergence", "StandardDeviation", "MeanAbsoluteError", "RootMeanSquareError"),
    *("MaxRelativeError", "MeanRelativeError", "CompareFailReason"),
]
"""Columns that the seed shows for a device dump against arrays."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cases")
    with tarfile.open(TESTS / "data" / "offline" / "cases.tar.xz") as archive:
        archive.extractall(root, filter="data")
    return root


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "probe_flow" / "run.json").read_text())


def jsonl(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "probe_flow" / "comparison.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def table(folder: Path, pattern: str = "result_*.csv") -> list[list[str]]:
    (path,) = folder.glob(pattern)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def origin(folder: Path) -> str | None:
    first = first_divergence(record(folder))
    return first and first["node"]


# --- modes and flags --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", [(), ("-m", "auto"), ("-m", "offline_data"), ("--mode", "offline_data")], ids=["", "auto", "m", "mode"]
)
def test_every_mode_names_the_faulty_operator(probe_flow, tmp_path, mode):
    done = probe_flow("compare", *mode, *FAULTY, "-o", "out")
    assert done.code == 1, done.err
    assert origin(tmp_path / "out") == "fc"
    assert "first goes wrong at fc (MatMulV2)" in done.out


@pytest.mark.parametrize("mode", [(), ("-m", "offline_data")])
@pytest.mark.parametrize(("factor", "code"), [(1, 0), (2, 1)])
def test_two_arrays_of_any_names_are_compared(probe_flow, tmp_path, mode, factor, code):
    values = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "mine.npy", values * factor)
    np.save(tmp_path / "fc.3.1700000000012000.npy", values)
    np.save(tmp_path / "noise.npy", values)
    done = probe_flow("compare", *mode, "-tp", "mine.npy", "-gp", "fc.3.1700000000012000.npy", "-o", "out")
    assert done.code == code, done.err
    (row,) = jsonl(tmp_path / "out")
    assert (row["node"], row["golden"]["name"].split(".")[0], row["rule"]) == ("mine", "fc", "file")
    # twice the golden: the norm of the difference is that of the golden, the largest difference its largest element
    assert row["metrics"]["relative_euclidean_distance"] == pytest.approx(factor - 1)
    assert row["metrics"]["max_abs_err"] == 6 * (factor - 1)
    assert len(table(tmp_path / "out")) == 2


def test_two_device_files_are_compared_whatever_their_names(probe_flow, tmp_path):
    (file,) = (ONNX / "target").glob("MatMulV2.fc.*")
    (tmp_path / "MatMulV2.other.1.3.1700000000000001").write_bytes(file.read_bytes())
    (tmp_path / "MatMulV2.fc.1.3.1700000000000001").write_bytes(file.read_bytes())
    done = probe_flow(
        *("compare", "-m", "offline_data", "-tp", "MatMulV2.other.1.3.1700000000000001"),
        *("-gp", "MatMulV2.fc.1.3.1700000000000001", "-o", "out"),
    )
    assert done.code == 0, done.err
    assert "same dump" not in done.err
    assert {(row["direction"], row["verdict"], row["rule"]) for row in jsonl(tmp_path / "out")} == {
        ("input", "pass", "file"),
        ("output", "pass", "file"),
    }


def test_a_healthy_model_passes_and_nothing_is_missing(probe_flow, tmp_path):
    done = probe_flow("compare", "-m", "offline_data", *HEALTHY, "-o", "out")
    assert done.code == 0, done.err
    assert "Nothing is missing" in probe_flow("show", "-v", "out").out
    coverage = record(tmp_path / "out")["coverage"]
    assert (coverage["target"]["missing"], coverage["golden"]["missing"]) == (0, 0)


def test_long_options_say_the_same(probe_flow, tmp_path):
    long = (
        *("--target_path", ONNX / "target", "--golden_path", OM / "golden"),
        *("--fusion_rule_file", FUSION[1], "--close_fusion_rule_file", FUSION[3], "--output_path"),
    )
    assert probe_flow("compare", *OFF, *FUSION, "-o", "short").code == 1
    assert probe_flow("compare", *long, "long").code == 1
    assert table(tmp_path / "short") == table(tmp_path / "long")


def test_the_table_has_the_published_columns_first(probe_flow, tmp_path):
    probe_flow("compare", *HEALTHY, "-o", "out")
    header, *rows = table(tmp_path / "out")
    assert header == [*PUBLISHED, "Result", "Match", "Remarks"]
    (fc,) = (row for row in rows if row[header.index("TensorIndex")] == "fc:output:0")
    assert fc[:4] == ["11", "MatMulV2", "fc", "float16"]
    assert fc[header.index("GroundTruth")] == "flatten,fc"


def test_tables_stand_in_the_output_folder_and_the_rest_below_it(probe_flow, tmp_path):
    probe_flow("compare", *HEALTHY, "-o", "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {name.partition("_")[0] for name in names} == {"result", "probe"}
    assert (tmp_path / "out" / "probe_flow" / "report.html").is_file()


def test_without_an_output_folder_tables_are_written_here(probe_flow, tmp_path):
    probe_flow("compare", *HEALTHY)
    assert table(tmp_path)
    assert list(tmp_path.glob("probe_flow_runs/*/run.json"))


@pytest.mark.parametrize("flag", ["-overflow_detection", "--overflow_detection", "--overflow-detection"])
def test_overflow_has_a_column_when_it_is_asked_for(probe_flow, tmp_path, cases, flag):
    case = cases / "fr"
    sides = ("-tp", case / "target", "-gp", case / "golden", "-fr", case / "fusion_rule.json")
    done = probe_flow("compare", *sides, flag, "-o", "out")
    assert done.code == 1, done.err
    header, *rows = table(tmp_path / "out")
    place = header.index("OverFlow")
    assert header[place - 1] == "Shape"
    assert {row[place] for row in rows} == {"NO", "NaN"}


def test_a_workbook_stands_in_for_the_table(probe_flow, tmp_path):
    pytest.importorskip("xlsxwriter")
    done = probe_flow("compare", *HEALTHY, "--xlsx", "-overflow_detection", "-o", "out")
    assert done.code == 0, done.err
    assert [path.suffix for path in (tmp_path / "out").glob("result_*")] == [".xlsx"]


def test_a_workbook_that_nothing_can_write_is_refused_before_anything_runs(probe_flow, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    done = probe_flow("compare", *HEALTHY, "--xlsx", "-o", "out")
    assert done.code == 2
    assert "PF7101" in done.err
    assert "probe-flow[xlsx]" in done.err
    assert not (tmp_path / "out").exists()


def test_what_was_given_stands_in_the_record(probe_flow, tmp_path):
    probe_flow("compare", *OFF, *FUSION, "-o", "out")
    found = record(tmp_path / "out")
    assert found["workflow"]["name"] == "offline_data"
    assert Path(found["params"]["close_fusion_rule"]) == OM / "close_fusion_rule.json"


# --- kinds of golden sides --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sample", "first"), [("caffe", "pool1"), ("tensorflow", "block/conv2relu2"), ("onnx", "fc")])
def test_arrays_of_every_framework(probe_flow, tmp_path, sample, first):
    folder = SAMPLES / sample
    rules = ("-fr", folder / "fusion_rule.json")
    assert probe_flow("compare", "-tp", folder / "target", "-gp", folder / "golden", *rules, "-o", "bad").code == 1
    assert origin(tmp_path / "bad") == first
    assert probe_flow("compare", "-tp", folder / "healthy", "-gp", folder / "golden", *rules, "-o", "good").code == 0


# By names alone, what was fused on one side only has no counterpart, which nobody asked to leave out.
@pytest.mark.parametrize(("rules", "code"), [(FUSION, 1), (FUSION[:2], 1), ((), 3)], ids=["both", "target's", "none"])
def test_two_offline_models_with_and_without_rules(probe_flow, tmp_path, rules, code):
    assert probe_flow("compare", *OFF, *rules, "-o", "out").code == code
    assert origin(tmp_path / "out") == "fc"
    assert [name for name in table(tmp_path / "out")[0] if name == "Address"] == ["Address", "Address"]


def test_rules_fuse_what_names_alone_do_not(probe_flow, tmp_path):
    probe_flow("compare", *OFF, *FUSION, "-o", "ruled")
    probe_flow("compare", *OFF, "-o", "named")
    compared = {
        folder: {row["node"] for row in jsonl(tmp_path / folder) if row["target"] and row["golden"]}
        for folder in ("ruled", "named")
    }
    assert "conv1relu1" in compared["ruled"] - compared["named"]


def test_without_rules_arrays_are_compared_by_guesses_that_say_so(probe_flow, tmp_path):
    done = probe_flow("compare", *HEALTHY[:4], "-o", "out")
    assert "PF4406" in done.err
    paired = [row for row in jsonl(tmp_path / "out") if row["target"] and row["golden"]]
    assert paired
    assert all(row["confidence"] < 1 for row in paired)
    assert all("a guess without rule file" in row["reason"] for row in paired)


@pytest.mark.parametrize("given", [("-fr", "-qfr"), ("-fr",), ("-qfr",)], ids=" ".join)
def test_a_quantised_model_takes_either_rules_or_both(probe_flow, tmp_path, given):
    files = {"-fr": QUANTISED / "fusion_rule.json", "-qfr": QUANTISED / "quant_fusion_rule.json"}
    rules = [word for flag in given for word in (flag, files[flag])]
    done = probe_flow("compare", "-tp", QUANTISED / "target", "-gp", ONNX / "golden", *rules, "-o", "out")
    assert done.code == 0, done.out
    nodes = {row["node"] for row in jsonl(tmp_path / "out") if row["target"] and row["golden"]}
    assert "conv1conv1_dequant_layerrelu1" in nodes


@pytest.mark.parametrize("given", [("-fr", "-qfr"), ("-fr",), ("-qfr",)], ids=" ".join)
def test_the_error_of_quantisation_accuses_nobody_with_either_rules(probe_flow, tmp_path, cases, given):
    case = cases / "qfr"
    files = {"-fr": case / "fusion_rule.json", "-qfr": case / "quant_fusion_rule.json"}
    rules = [word for flag in given for word in (flag, files[flag])]
    done = probe_flow("compare", "-tp", case / "target_om", "-gp", case / "golden_origin", *rules, "-o", "out")
    assert done.code == 0, done.out
    errors = {row["target"]["name"]: row["metrics"] for row in jsonl(tmp_path / "out") if row["metrics"]}
    assert errors["pool1.input.0"]["relative_euclidean_distance"] > 10 * 2.0**-11


def test_arrays_of_a_quantised_model_against_the_original(probe_flow, tmp_path, cases):
    case = cases / "qfr"
    sides = ("-tp", case / "target_quant_npy", "-gp", case / "golden_origin")
    for flag in ("-qfr", "--quant_fusion_rule_file"):
        probe_flow("compare", *sides, flag, case / "quant_fusion_rule.json", "-o", flag)
        assert "Address" not in table(tmp_path / flag)[0]
        assert any(row["target"] and row["golden"] for row in jsonl(tmp_path / flag))


def test_slices_are_joined(probe_flow, tmp_path, cases):
    case = cases / "sliced"
    sides = ("-tp", case / "target", "-gp", case / "golden", "-fr", case / "fusion_rule.json")
    assert probe_flow("compare", *sides, "-o", "out").code == 0
    assert {row["verdict"] for row in jsonl(tmp_path / "out") if row["target"] and row["golden"]} == {"pass"}


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_folder_of_rules_compares_a_batch(probe_flow, tmp_path):
    assert probe_flow("compare", *BATCH, "-o", "out").code == 1
    names = sorted(path.name.partition("_result_")[0] for path in (tmp_path / "out").glob("*_result_*.csv"))
    assert names == ["0_ge_default_20260101000000_11_0", "1_ge_default_20260101000000_11_0"]
    first = first_divergence(record(tmp_path / "out"))
    assert (first["rank"], first["node"]) == (1, "block/shortcut")


@pytest.mark.parametrize(("device", "rules", "code"), [("0", "file", 0), ("1", "file", 1), ("1", "folder", 1)])
def test_one_step_of_a_training_run(probe_flow, tmp_path, device, rules, code):
    model = "ge_default_20260101000000_11"
    step = TRAINING / "target" / "20260101000000" / device / model / "1" / "0"
    given = TRAINING / "rules" / (f"{model}.json" if rules == "file" else "")
    sides = ("-tp", step, "-gp", TRAINING / "golden", "-fr", given)
    assert probe_flow("compare", "-m", "offline_data", *sides, "-o", "out").code == code
    assert table(tmp_path / "out")[0][:2] == ["Index", "OpType"]


def test_one_device_of_a_batch(probe_flow, tmp_path):
    assert probe_flow("compare", *BATCH, "--rank", "0", "-o", "out").code == 0
    assert {row["rank"] for row in jsonl(tmp_path / "out") if row["target"]} == {0}


def test_a_device_that_did_not_run_is_a_mistake(probe_flow):
    done = probe_flow("compare", *BATCH, "--rank", "7", "-o", "out")
    assert done.code == 2
    assert "PF3304" in done.err


# --- mistakes of the command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((*FAULTY[:4], "-fr", "nope.json"), "PF2101", "`-fr`"),
        ((*FAULTY, "-cfr", "nope.json"), "PF2101", "`-cfr`"),
        ((*FAULTY, "-qfr", "nope.json"), "PF2101", "`-qfr`"),
        ((*FAULTY, "-cm"), "PF2129", "paired by fusion rules"),
        ((*FAULTY, "-da"), "PF2129", "`-da`"),
        ((*FAULTY, "-cfr", OM / "close_fusion_rule.json"), "PF4402", "leave it out"),
        (("-tp", ONNX / "golden", "-gp", ONNX / "target"), "PF4402", "swap"),
        ((*OFF, "-qfr", QUANTISED / "quant_fusion_rule.json"), "PF4402", "quant_fusion_rule"),
        (
            ("-m", "offline_model", *FAULTY[:2], "-gp", ONNX / "fusion_rule.json"),
            "PF2140",
            "no model that can be run here",
        ),
        (("-m", "offline_model", *FAULTY, "-cm"), "PF2129", "by the fusion rules"),
        (("-m", "ofline_data", *FAULTY), "PF2120", "`offline_data`"),
        ((*FAULTY, "--input_data", "x.bin"), "PF2129", "running offline models"),
        (("-tp", ONNX / "fusion_rule.json", "-gp", ONNX / "golden", "-m", "offline_data"), "PF3201", "not a folder"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("PF") else "",
)
def test_mistakes_are_told_before_anything_is_judged(probe_flow, arguments, code, text):
    done = probe_flow("compare", *arguments, "-o", "out")
    assert done.code == 2
    assert code in done.err
    assert text in done.err


def test_a_framework_does_not_fit_an_offline_model(probe_flow):
    done = probe_flow("-f", "pytorch", "compare", *FAULTY)
    assert done.code == 2
    assert "PF2128" in done.err
    assert "an offline model" in done.err


def test_flags_of_offline_models_are_refused_elsewhere(probe_flow):
    dumps = TESTS.parent / "examples" / "dump_json"
    done = probe_flow(
        "compare", "-tp", dumps / "pytorch_twin", "-gp", dumps / "pytorch_twin", *FAULTY[4:], "-overflow_detection"
    )
    assert done.code == 2
    assert "PF2129" in done.err
    assert "`-fr` and `-overflow_detection`" in done.err
