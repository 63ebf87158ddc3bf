"""`suggest-mapping`: the file, the summary, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

from run_records import first_divergence
from structure_builders import Program, layers, tensor

from probe_flow.mappings.mapping_file import read_layer_mapping
from probe_flow.matching.structure.layer_mapping import SuggestedEntry, Suggestion

DATA = Path(__file__).parents[1] / "data" / "dump_json"
EXAMPLES = Path(__file__).parents[2] / "examples" / "dump_json"


def test_the_mapping_is_written_for_review_with_the_next_command(probe_flow, tmp_path):
    done = probe_flow(
        "suggest-mapping", "-tp", DATA / "ms_tensor_base", "-gp", DATA / "twin_tensor", "-o", "maps/layers.yaml"
    )
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[:2] == ["7 modules paired, 5 entries, 0 to check", "wrote maps/layers.yaml"]
    assert lines[2].startswith("next: review it, then probe-flow compare -tp ")
    assert lines[2].endswith(" -lm maps/layers.yaml")
    owners = read_layer_mapping(tmp_path / "maps" / "layers.yaml")
    assert [each.owner for each in owners] == ["LayerNorm", "MLP", "ReLU"]


def test_a_file_that_exists_is_kept(probe_flow, tmp_path):
    file = tmp_path / "layer_mapping.yaml"
    file.write_text("edited: {a: b}\n")
    done = probe_flow("suggest-mapping", "-tp", DATA / "ms_tensor_base", "-gp", DATA / "twin_tensor")
    assert done.code == 2
    assert "PF4245" in done.err
    assert file.read_text() == "edited: {a: b}\n"


def test_equal_names_need_no_mapping(probe_flow, tmp_path):
    done = probe_flow("suggest-mapping", "-tp", DATA / "pt_stat_bug", "-gp", DATA / "pt_stat_base")
    assert done.code == 0
    assert done.last_line == "paired modules have equal names: no mapping is needed, nothing is written"
    assert list(tmp_path.iterdir()) == []


def test_dumps_without_modules_are_no_success(probe_flow, tmp_path):
    program = Program()
    program.call("Functional.linear", program.hidden())
    program.write(tmp_path / "flat")
    done = probe_flow("suggest-mapping", "-tp", "flat", "-gp", DATA / "pt_stat_base")
    assert done.code == 3
    assert "error[PF4244]: no module of `flat` could be paired" in done.err
    assert "`flat` (level mix) has no modules: dump at level mix or L0" in done.err
    assert not (tmp_path / "layer_mapping.yaml").exists()


def test_a_missing_path_is_a_mistake_of_the_user(probe_flow):
    done = probe_flow("suggest-mapping", "-tp", "nothing", "-gp", DATA / "pt_stat_base")
    assert done.code == 2
    assert "`nothing`" in done.err or "nothing` does not exist" in done.err


def test_what_a_mapping_cannot_say_is_a_warning(probe_flow, tmp_path):
    def blocks(names):
        program = Program()
        for number, name in enumerate(names):
            with program.module(f"layers.{number}", "Block"):
                program.linear(f"layers.{number}.{name}", seed=number)
        return program

    blocks("aaa").write(tmp_path / "target")
    blocks("bbc").write(tmp_path / "golden")
    done = probe_flow("suggest-mapping", "-tp", "target", "-gp", "golden")
    assert done.code == 0
    assert "warning[PF4243]: cannot be written: `a` of `Block` is `b` in 2 places" in done.err


def test_the_suggested_mapping_makes_a_renamed_twin_pass(probe_flow, tmp_path):
    layers([0, 1], path="blocks").write(tmp_path / "target")
    layers([0, 1]).write(tmp_path / "golden")
    assert probe_flow("suggest-mapping", "-tp", "target", "-gp", "golden").code == 0
    workflow = {
        "version": 1,
        "name": "twin",
        "stages": {
            "target": {"uses": "dump.torch", "path": "target"},
            "golden": {"uses": "dump.torch", "path": "golden"},
            "pairs": {
                "uses": "match.layer_mapping",
                "target": "target",
                "golden": "golden",
                "mapping": "layer_mapping.yaml",
            },
            "result": {"uses": "compare", "pairs": "pairs", "policy": "dump_json"},
        },
    }
    (tmp_path / "mapped.yaml").write_text(json.dumps(workflow))
    workflow["stages"]["pairs"] = {"uses": "match.structure", "target": "target", "golden": "golden"}
    (tmp_path / "structure.yaml").write_text(json.dumps(workflow))
    for name in ("mapped", "structure"):
        done = probe_flow("run", f"{name}.yaml", "--output", name, "--no-cache")
        assert done.code == 0, done.out + done.err
        record = json.loads((tmp_path / name / "run.json").read_text())
        assert record["coverage"]["target"]["missing"] == record["coverage"]["golden"]["missing"] == 0


def test_dumps_of_other_models_are_not_told_to_dump_modules(probe_flow, tmp_path):
    for side, kind, shape in (("one", "Alpha", (2, 3)), ("other", "Beta", (7, 5))):
        program = Program()
        with program.module(side, kind, {"weight": program.tensor(shape, side)}, given=program.tensor(shape, side)):
            program.call(f"Functional.{side}", program.tensor(shape, side), output=program.tensor(shape, kind))
        program.write(tmp_path / side)
    done = probe_flow("suggest-mapping", "-tp", "one", "-gp", "other")
    assert done.code == 3
    assert "both have modules, but none agree in class and path" in done.err


def test_the_mapping_suggested_for_the_packaged_twins_makes_them_pass(probe_flow, tmp_path):
    twins = "-tp", EXAMPLES / "mindspore_twin", "-gp", EXAMPLES / "pytorch_twin"
    assert probe_flow("suggest-mapping", *twins).code == 0
    done = probe_flow("compare", *twins, "-lm", "layer_mapping.yaml", "-o", "out")
    assert done.code == 0, done.out
    record = json.loads((tmp_path / "out" / "probe_flow" / "run.json").read_text())
    assert first_divergence(record) is None
    assert record["coverage"]["target"]["missing"] == record["coverage"]["golden"]["missing"] == 0


def test_an_entry_that_values_contradict_is_left_out_with_a_warning(probe_flow, tmp_path, monkeypatch):
    for side, names in (("target", "pq"), ("golden", "ab")):
        program = Program()
        for name in names:
            program.place = 100 * names.index(name)
            program.linear(f"net.{name}", seed=f"seed {names.index(name)}")
        program.write(tmp_path / side)
    wrong = tuple(SuggestedEntry(("net", one), ("net", other), 0.9, 1) for one, other in ("pb", "qa"))
    structure = "probe_flow.matching.structure.layer_mapping.suggest_layer_mapping"
    monkeypatch.setattr(structure, lambda _: Suggestion({"TopLayer": wrong}, 2))
    done = probe_flow("suggest-mapping", "-tp", "target", "-gp", "golden")
    assert done.code == 3
    assert done.out.splitlines()[0] == "2 modules paired, 0 entries, 2 to check"
    assert done.err.count("warning[PF4220]") == 2
    assert "`net.p: net.b` of `TopLayer` is left out: `Module.net.p.Linear.forward.0.parameters.weight` dif" in done.err
    assert done.last_line == "no entry is left: decide which layers correspond, and write it into layer_mapping.yaml"
    assert "#   TopLayer: net.p -> net.b: " in (tmp_path / "layer_mapping.yaml").read_text()


def test_a_guess_that_its_values_refute_is_no_origin(probe_flow, tmp_path):
    for side, api, factor in (("target", "Functional.odd", 1.0), ("golden", "Functional.even", 20.0)):
        program = Program()
        program.linear("first", seed="first")
        made = {word: value * factor if word[0] in "MN" else value for word, value in tensor((6, 2), "made").items()}
        program.call(api, program.tensor((6, 2), "given"), output=made)
        program.linear("last", seed="last")
        program.write(tmp_path / side, backward=False)
    workflow = {
        "version": 1,
        "name": "guess",
        "stages": {
            "target": {"uses": "dump.torch", "path": "target"},
            "golden": {"uses": "dump.torch", "path": "golden"},
            "pairs": {"uses": "match.structure", "target": "target", "golden": "golden"},
            "result": {"uses": "compare", "pairs": "pairs", "policy": "dump_json"},
        },
    }
    (tmp_path / "guess.yaml").write_text(json.dumps(workflow))
    done = probe_flow("run", "guess.yaml", "--output", "out", "--no-cache")
    assert done.code == 3, done.out
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert first_divergence(record) is None
    assert "guessed and differ" in done.out
