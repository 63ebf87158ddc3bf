"""`compare` for dumps of eager programs: mappings, selection, tables, and the mistakes that it tells."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_records import first_divergence

EXAMPLES = Path(__file__).parents[2] / "examples" / "dump_json"
MINDSPORE, PYTORCH = EXAMPLES / "mindspore_twin", EXAMPLES / "pytorch_twin"
RANKS = ("-tp", EXAMPLES / "ranks_target", "-gp", EXAMPLES / "ranks_golden")
ACROSS = ("-tp", MINDSPORE, "-gp", PYTORCH)


def rules(folder: Path) -> set[str]:
    lines = (folder / "probe_flow" / "comparison.jsonl").read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["rule"] for line in lines}


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def dump(folder: Path, **top: Any) -> Path:
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5}
    call = {"input_args": [{**tensor, "Norm": 1.0}], "input_kwargs": {}, "output": [{**tensor, "Norm": 1.0}]}
    content = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, **top}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "dump.json"
    file.write_text(json.dumps({**content, "data": top.get("data", {"Torch.add.0.forward": call})}))
    return file


# --- mappings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        (("-cm",), "cell_mapping"),
        (("--cell_mapping", "cells.yaml"), "cell_mapping"),
        (("-am",), "api_mapping"),
        (("-am", EXAMPLES / "api_mapping.yaml"), "api_mapping"),
        (("-lm", EXAMPLES / "layer_mapping.yaml"), "layer_mapping"),
        (("--layer-mapping",), "layer_mapping"),
    ],
    ids=["cm", "cm file", "am", "am file", "lm file", "lm"],
)
def test_a_mapping_is_taken_with_and_without_a_file(probe_flow, tmp_path, option, rule):
    (tmp_path / "cells.yaml").write_text("inp.Dense: inp.Linear\n")
    done = probe_flow("compare", *option, *ACROSS, "-o", "out")
    assert done.code in (0, 1, 3), done.err
    assert rule in rules(tmp_path / "out")


def test_a_data_mapping_pairs_what_it_lists(probe_flow, tmp_path):
    (tmp_path / "data.yaml").write_text(
        "Cell.inp.Dense.forward.0.output.0: Module.inp.Linear.forward.0.output.0\n", encoding="utf-8"
    )
    probe_flow("compare", *ACROSS, "-dm", "data.yaml", "-o", "out")
    assert "data_mapping" in rules(tmp_path / "out")


def test_a_fuzzy_match_is_asked_for_by_a_flag(probe_flow, tmp_path):
    target, golden = (dump(tmp_path / side) for side in ("t", "g"))
    assert probe_flow("compare", "-fm", "-tp", target, "-gp", golden, "-o", "out").code == 0


def test_a_missing_mapping_file_is_told_with_the_option(probe_flow):
    done = probe_flow("compare", *ACROSS, "-cm", "cels.yaml")
    assert done.code == 2
    assert "`-cm`" in done.err
    assert "PF2101" in done.err


def test_several_mappings_are_refused(probe_flow):
    done = probe_flow("compare", *ACROSS, "-cm", "-am")
    assert done.code == 2
    assert "PF2127" in done.err
    assert "`-cm` and `-am`" in done.err


def test_an_api_mapping_needs_a_mindspore_side(probe_flow):
    done = probe_flow("compare", "-tp", PYTORCH, "-gp", PYTORCH, "-am")
    assert done.code == 2
    assert "PF2124" in done.err


def test_torchair_dumps_take_no_mapping(probe_flow, tmp_path):
    ge, fx = tmp_path / "ge", tmp_path / "fx"
    for folder in (ge, fx):
        folder.mkdir()
    done = probe_flow("compare", "-m", "torchair", "-tp", ge, "-gp", fx, "-cm", "-da")
    assert done.code == 2
    assert "PF2129" in done.err
    assert "`-cm` and `-da`" in done.err


# --- frameworks, kinds, tasks ----------------------------------------------------------------------------------------


def test_mindspore_dumps_are_compared_with_each_other(probe_flow, tmp_path):
    sides = ("-tp", EXAMPLES / "mindspore_target", "-gp", EXAMPLES / "mindspore_golden")
    assert probe_flow("-f", "mindspore", "compare", *sides, "-o", "out").code == 1
    record = json.loads((tmp_path / "out" / "probe_flow" / "run.json").read_text())
    assert first_divergence(record)["node"] == "Tensor.__mul__"


def test_a_pytorch_target_is_not_judged_by_mindspore(probe_flow):
    done = probe_flow("compare", "-tp", PYTORCH, "-gp", MINDSPORE)
    assert done.code == 2
    assert "PF2123" in done.err
    assert "other way round" in done.err


@pytest.mark.parametrize("framework", [None, "unheard_of"])
def test_the_framework_is_read_from_the_tensors_where_the_dump_does_not_say(probe_flow, tmp_path, framework):
    target, golden = (dump(tmp_path / side, framework=framework) for side in ("t", "g"))
    assert probe_flow("compare", "-tp", target, "-gp", golden, "-o", "out").code == 0


def test_a_file_is_not_compared_with_a_folder(probe_flow, tmp_path):
    target, golden = (dump(tmp_path / side) for side in ("t", "g"))
    done = probe_flow("compare", "-tp", target, "-gp", golden.parent)
    assert done.code == 2
    assert "PF2126" in done.err


def test_dumps_of_different_tasks_are_refused(probe_flow, tmp_path):
    target, golden = dump(tmp_path / "t", task="tensor"), dump(tmp_path / "g")
    done = probe_flow("compare", "-tp", target, "-gp", golden)
    assert done.code == 2
    assert "PF2125" in done.err
    assert "`tensor`" in done.err


def test_saved_values_are_not_compared_with_calls(probe_flow, tmp_path):
    target, golden = dump(tmp_path / "t"), dump(tmp_path / "g").rename(tmp_path / "g" / "debug.json")
    done = probe_flow("compare", "-tp", target, "-gp", golden)
    assert done.code == 2
    assert "PF2122" in done.err


def test_no_call_in_common_is_not_a_pass(probe_flow, tmp_path):
    call = json.loads(dump(tmp_path / "t").read_text())["data"]["Torch.add.0.forward"]
    golden = dump(tmp_path / "g", data={"Torch.mul.0.forward": call})
    done = probe_flow("compare", "-tp", tmp_path / "t" / "dump.json", "-gp", golden, "-o", "out")
    assert done.code == 3


@pytest.mark.parametrize("text", ["", "{", '{"task": "statistics", "data": {}}', "[]"])
def test_a_broken_dump_is_told_by_its_reader(probe_flow, tmp_path, text):
    golden = dump(tmp_path / "g")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "dump.json").write_text(text)
    done = probe_flow("compare", "-tp", tmp_path / "t" / "dump.json", "-gp", golden, "-o", "out")
    assert done.code == 3
    assert "PF34" in done.err
    assert "Traceback" not in done.err


# --- ranks, steps, files ---------------------------------------------------------------------------------------------


def test_every_rank_has_a_table_of_its_name(probe_flow, tmp_path):
    assert probe_flow("compare", *RANKS, "-o", "out").code == 1
    names = sorted(path.name.rpartition("_")[0] for path in (tmp_path / "out").glob("*.csv"))
    assert names == ["compare_result_rank0", "compare_result_rank1"]


def test_ranks_and_steps_are_selected(probe_flow, tmp_path):
    assert probe_flow("compare", *RANKS, "--rank", "1", "--step", "0-2", "-o", "out").code == 1
    (found,) = (tmp_path / "out").glob("*.csv")
    assert found.name.startswith("compare_result_rank1_")


@pytest.mark.parametrize(
    ("asked", "is_part"), [(("--rank", "0,1"), False), (("--step", "0"), False), (("--rank", "1"), True)]
)
def test_a_selection_that_leaves_nothing_out_is_no_part(probe_flow, asked, is_part):
    assert ("selected part" in probe_flow("compare", *RANKS, *asked, "-o", "out").last_line) is is_part


@pytest.mark.parametrize("value", ["x", "3-1", "1,,2", "-1", "99999999"])
def test_a_list_of_ranks_that_is_none_is_refused(probe_flow, value):
    done = probe_flow("compare", *RANKS, f"--rank={value}")
    assert done.code == 2
    assert "--rank" in done.err


def test_workbooks_take_the_place_of_csv(probe_flow, tmp_path):
    probe_flow("compare", *RANKS, "--xlsx", "-o", "out")
    assert len(list((tmp_path / "out").glob("compare_result_rank?_*.xlsx"))) == 2
    assert not list((tmp_path / "out").glob("*.csv"))


def test_first_differences_are_written_beside_the_tables(probe_flow, tmp_path):
    probe_flow("compare", *RANKS, "-da", "-o", "out")
    assert len(list((tmp_path / "out").glob("compare_result_rank?_*.json"))) == 2
    (first,) = (tmp_path / "out").glob("diff_analyze_*.json")
    assert "Tensor.__add__.0.forward" in first.read_text(encoding="utf-8")


def test_a_layer_mapping_leaves_the_data_mapping_that_it_made(probe_flow, tmp_path):
    probe_flow("compare", *ACROSS, "-lm", EXAMPLES / "layer_mapping.yaml", "-o", "out")
    (found,) = (tmp_path / "out").glob("data_mapping_*.yaml")
    assert "Cell.inp.Dense.forward.0.output.0: Module.inp.Linear.forward.0.output.0" in found.read_text()


def test_a_folder_of_steps_gives_a_table_per_step(probe_flow, tmp_path):
    for side in ("t", "g"):
        for step in (0, 1):
            shutil.copytree(EXAMPLES / "ranks_golden" / "step0", tmp_path / side / f"step{step}")
    done = probe_flow("compare", "-tp", "t", "-gp", "g", "-o", "out")
    assert done.code == 0, done.out
    assert len(list((tmp_path / "out").rglob("compare_result_*.csv"))) == 4


def test_tensors_are_compared_by_their_elements(probe_flow, tmp_path):
    probe_flow("compare", *ACROSS, "-lm", EXAMPLES / "layer_mapping.yaml", "-o", "out")
    (found,) = (tmp_path / "out").glob("compare_result_*.csv")
    rows = {row["NPU Name"]: row for row in table(found)}
    row = rows["Cell.inp.Dense.forward.0.output.0"]
    assert row["Bench Name"] == "Module.inp.Linear.forward.0.output.0"
    assert (row["Cosine"], row["One Thousandth Err Ratio"]) == ("1.0", "1.0")
    assert row["Data_name"].endswith("'Module.inp.Linear.forward.0.output.0.pt']")


# --- figures that are none -------------------------------------------------------------------------------------------

FIGURES = {
    10**400: "`Max` is an integer of 1329 bits",
    "1+2j": "`Max` is the text `1+2j` instead of a number",
    "abc": "`Max` is the text `abc` instead of a number",
    (1, 2): "`Max` is a list instead of a number",
}


def call(**odd: Any) -> dict[str, Any]:
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5}
    plain = {**tensor, "Norm": 1.0}
    return {"input_args": [plain], "input_kwargs": {}, "output": [{**plain, **odd}]}


@pytest.mark.parametrize(("figure", "why"), FIGURES.items(), ids=["huge", "complex", "text", "list"])
def test_a_figure_that_is_no_number_costs_its_tensor_and_is_named(probe_flow, tmp_path, figure, why):
    data = {"Torch.add.0.forward": call(), "Torch.add.1.forward": call(Max=figure)}
    done = probe_flow("compare", "-tp", dump(tmp_path / "t", data=data), "-gp", dump(tmp_path / "g"), "-o", "out")
    assert done.code == 3
    assert f"PF3411]: `Torch.add.1.forward.output.0` of `dump.json` cannot be read: {why}" in done.err
    assert "help: dump this call again, or leave it out with `select.nodes`" in done.err
    assert "2 of " in done.last_line


def test_integers_beyond_64_bits_are_figures_to_the_last_digit(probe_flow, tmp_path):
    sides = {"target": 2**70 + 1, "golden": 2**70}
    paths = [dump(tmp_path / side, data={"Torch.add.0.forward": call(Max=most)}) for side, most in sides.items()]
    done = probe_flow("compare", "-tp", paths[0], "-gp", paths[1], "-o", "out")
    assert done.code in (0, 1), done.err
    lines = (tmp_path / "out" / "probe_flow" / "comparison.jsonl").read_text().splitlines()
    (found,) = (json.loads(line) for line in lines if '"direction": "output"' in line)
    assert {side: found[side]["max"] for side in sides} == sides
    assert found["metrics"]["max_diff"] == 1


# --- dumps of task structure -----------------------------------------------------------------------------------------


def structure_dump(folder: Path, calls: dict[str, Any]) -> None:
    dump(folder, task="structure", level="mix", data={})
    (folder / "construct.json").write_text(json.dumps(calls))


def test_structure_dumps_of_ranks_are_incomplete_and_first_differences_find_nothing(probe_flow, tmp_path):
    block = "Module.a.A.forward.0"
    calls = {"Torch.add.0.forward": block, block: None}
    for rank in range(2):
        structure_dump(tmp_path / "t" / "step0" / f"rank{rank}", {"Torch.mul.0.forward": None, **calls})
        structure_dump(tmp_path / "g" / "step0" / f"rank{rank}", calls)
    done = probe_flow("compare", "-tp", tmp_path / "t", "-gp", tmp_path / "g", "-o", "out", "-da")
    assert done.code == 3, done.err
    text = " ".join(done.out.split())
    assert "no values; 4 calls correspond, 2 only in the target, 0 only in the golden" in text
    assert "PASS" not in done.out.replace("0 pass", "")


def test_a_structure_dump_without_construct_json_says_what_it_needs(probe_flow, tmp_path):
    structure_dump(tmp_path / "t", {})
    structure_dump(tmp_path / "g", {"Torch.add.0.forward": None})
    done = probe_flow("compare", "-tp", tmp_path / "t", "-gp", tmp_path / "g", "-o", "out")
    assert done.code == 3
    assert "`construct.json` next to it is missing or names no call" in done.err
    assert "dump at level mix or L0 with `extra_info`" in done.err


def test_a_structure_dump_against_one_with_values_is_refused_and_says_why(probe_flow, tmp_path):
    structure_dump(tmp_path / "t", {"Torch.add.0.forward": None})
    golden = dump(tmp_path / "g")
    done = probe_flow("compare", "-tp", tmp_path / "t", "-gp", golden.parent, "-o", "out")
    assert done.code == 2
    assert "PF2125" in done.err
    assert "the target with `structure`, the golden side with `statistics`" in done.err
    assert "one of task `structure` records calls and no values" in done.err
    assert not (tmp_path / "out").exists()
