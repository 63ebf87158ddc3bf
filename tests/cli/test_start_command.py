"""`start`: two dumps in, what they are and their comparison out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def sample(probe_flow, tmp_path):
    """Return a function that copies the sample of a packaged workflow, and its folder of samples."""

    def copy(name: str) -> Path:
        assert probe_flow("init", name, "--with-sample", "-o", "given").code == 0
        return Path("given/sample")

    return copy


def test_two_dumps_are_told_and_a_workflow_is_proposed_and_nothing_written(probe_flow, sample, tmp_path):
    dumps = sample("torchair_ge_vs_fx") / "torchair" / "faulty"
    before = sorted(tmp_path.iterdir())
    done = probe_flow("start", dumps / "msprobe_ge_dump", dumps / "msprobe_fx_dump")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == f"target  `{dumps}/msprobe_ge_dump` is a dump of `torchair_ge`: 181 tensors of 55 nodes"
    assert lines[1] == f"golden  `{dumps}/msprobe_fx_dump` is a dump of `torchair_fx`: 191 tensors of 54 nodes"
    assert lines[2] == "workflow after `torchair_ge_vs_fx`:"
    assert lines[-1].startswith(
        f"next: probe-flow start {dumps}/msprobe_ge_dump {dumps}/msprobe_fx_dump --run, or --write "
    )
    assert sorted(tmp_path.iterdir()) == before


def test_the_workflow_that_is_written_validates_lints_and_runs_from_anywhere(probe_flow, sample, tmp_path, monkeypatch):
    dumps = sample("torchair_ge_vs_fx") / "torchair" / "faulty"
    done = probe_flow("start", dumps / "msprobe_ge_dump", dumps / "msprobe_fx_dump", "--write", "flows/mine.yaml")
    assert done.code == 0
    assert done.last_line == "next: probe-flow run flows/mine.yaml"
    assert (tmp_path / "flows" / "workflow.schema.json").is_file()
    assert (
        (tmp_path / "flows" / "mine.yaml")
        .read_text()
        .startswith("# yaml-language-server: $schema=workflow.schema.json\n")
    )
    assert probe_flow("lint", "flows/mine.yaml").code == 0
    monkeypatch.chdir(tmp_path / "flows")
    run = probe_flow("run", "mine.yaml", "-o", "out")
    assert run.code == 1
    assert run.last_line.startswith("FAIL Gelu_1 (Gelu) output 0")
    again = probe_flow("start", "x", "y", "--write", "mine.yaml")
    assert (again.code, "`--force` overwrites it" in again.err) == (2, True)


def test_run_compares_at_once_and_leaves_no_workflow(probe_flow, sample, tmp_path):
    dumps = sample("torchair_ge_vs_fx") / "torchair" / "faulty"
    done = probe_flow("start", dumps / "msprobe_ge_dump", dumps / "msprobe_fx_dump", "--run", "-o", "out")
    assert done.code == 1
    assert done.last_line.startswith("FAIL Gelu_1 (Gelu) output 0")
    assert (tmp_path / "out" / "report.html").is_file()
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.parametrize(
    ("workflow", "target", "golden", "last"),
    [
        ("pytorch_compare", "dump_json/target", "dump_json/golden", "FAIL Tensor.__mul__"),
        ("mindspore_vs_pytorch_layer_mapping", "dump_json/mindspore_twin", "dump_json/pytorch_twin", "PASS "),
        ("mindspore_code_mapping", "mindspore_graph/target", "mindspore_graph/golden", "FAIL Expand__Muls_Mul (Mul)"),
        ("offline_om_vs_onnx", "offline/onnx/target", "offline/onnx/golden", "FAIL fc (MatMulV2)"),
        ("offline_om_vs_om", "offline/onnx/target", "offline/om/golden", "FAIL fc (MatMulV2)"),
        ("arrays_compare", "arrays/target", "arrays/golden", "FAIL block/mlp/weight"),
        ("torchair_fusion_on_vs_off", "torchair/fusion/fusion_on", "torchair/fusion/fusion_off", "FAIL Mul_3Add_8"),
    ],
)
def test_each_kind_of_dump_is_compared_as_its_packaged_workflow_does(
    probe_flow, sample, workflow, target, golden, last
):
    folder = sample(workflow)
    done = probe_flow("start", folder / target, folder / golden, "--run", "-o", "out")
    assert done.last_line.startswith(last), done.out + done.err
    assert not done.last_line.startswith("PASS") or done.code == 0


def test_without_rules_beside_the_dump_it_says_that_pairs_are_guesses(probe_flow, sample, tmp_path):
    folder = sample("offline_om_vs_onnx") / "offline" / "onnx"
    shutil.copytree(tmp_path / folder / "target", tmp_path / "alone" / "target")
    done = probe_flow("start", "alone/target", folder / "golden", "--write", "w.yaml")
    assert "paired by names and shapes, which is a guess" in done.out
    assert "PF1407" in probe_flow("lint", "w.yaml").err
    assert probe_flow("validate", "w.yaml").code == 0


@pytest.mark.parametrize(
    ("workflow", "target", "golden", "rules"),
    [
        ("offline_quantized", "quantised/target", "onnx/golden", {"fusion_rule", "quant_fusion_rule"}),
        ("offline_om_vs_om", "onnx/target", "om/golden", {"fusion_rule", "close_fusion_rule"}),
        ("offline_om_vs_onnx", "onnx/target", "onnx/golden", {"fusion_rule"}),
    ],
)
def test_each_file_of_rules_beside_the_dumps_is_given_as_what_it_is(
    probe_flow, sample, tmp_path, workflow, target, golden, rules
):
    folder = sample(workflow) / "offline"
    for other in ("close_fusion_rule.json", "quant_fusion_rule.json"):  # of another comparison of the same model
        if not (tmp_path / folder / target).with_name(other).exists():
            (tmp_path / folder / target).with_name(other).write_text("{}")
    done = probe_flow("start", folder / target, folder / golden, "--run", "-o", "out")
    assert done.code < 2, done.err
    pairs = next(line for line in done.out.splitlines() if line.strip().startswith("pairs:"))
    assert {
        name for name in ("fusion_rule", "close_fusion_rule", "quant_fusion_rule") if f" {name}: " in pairs
    } == rules
    assert "which is a guess" not in done.out


def test_the_same_dump_twice_is_refused(probe_flow, sample, tmp_path):
    folder = sample("pytorch_compare") / "dump_json" / "target"
    (tmp_path / "link").symlink_to(tmp_path / folder)
    for other in (folder, "link"):
        done = probe_flow("start", folder, other)
        assert (done.code, "PF2151" in done.err) == (2, True)


def test_a_part_of_a_dump_is_the_same_dump(probe_flow, sample, tmp_path):
    dump = sample("multi_rank_merge") / "dump_json" / "ranks_target"
    (tmp_path / "link").symlink_to(dump)
    for target, golden in ((dump, dump / "step0"), (dump / "step0" / "rank1", tmp_path / "link")):
        done = probe_flow("start", target, golden)
        assert (done.code, "PF2151" in done.err) == (2, True), done.err


def test_outputs_of_the_original_model_are_no_target(probe_flow, sample):
    dumps = sample("offline_om_vs_onnx") / "offline" / "onnx"
    done = probe_flow("start", dumps / "golden", dumps / "target")
    assert (done.code, "PF2152" in done.err) == (2, True), done.err
    assert f"probe-flow start {dumps}/target {dumps}/golden" in done.err


def test_a_file_that_cannot_be_read_is_named_with_its_dump(probe_flow, sample, tmp_path):
    dump = sample("pytorch_compare") / "dump_json"
    target, golden = sorted(each for each in dump.iterdir() if each.is_dir())[:2]
    cut = next(target.rglob("dump.json"))
    cut.write_text(cut.read_text()[:300])
    done = probe_flow("start", target, golden)
    assert (done.code, "PF3407" in done.err) == (3, True), done.err
    assert f"--> {cut}:" in done.err


def test_swapped_sides_are_told_with_the_right_command(probe_flow, sample):
    folder = sample("torchair_ge_vs_fx") / "torchair" / "faulty"
    done = probe_flow("start", folder / "msprobe_fx_dump", folder / "msprobe_ge_dump")
    assert (done.code, "PF2152" in done.err) == (2, True)
    assert f"`probe-flow start {folder}/msprobe_ge_dump {folder}/msprobe_fx_dump`" in done.err


def test_what_does_not_go_together_is_refused(probe_flow, sample, tmp_path):
    folder = sample("pytorch_compare") / "dump_json" / "target"
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "x.npy", np.zeros(3))
    done = probe_flow("start", folder, "arrays")
    assert (done.code, "PF2122" in done.err) == (2, True)


def test_both_paths_are_looked_at_before_it_gives_up(probe_flow, tmp_path):
    (tmp_path / "empty").mkdir()
    done = probe_flow("start", "empty", "nowhere")
    assert done.code == 2
    assert "PF3430" in done.err
    assert "PF3401" in done.err


def test_two_kinds_in_one_folder_are_told(probe_flow, sample, tmp_path):
    folder = sample("pytorch_compare") / "dump_json"
    mixed = tmp_path / "mixed"
    shutil.copytree(tmp_path / folder / "target", mixed / "a")
    (mixed / "rank_0" / "net" / "0" / "0").mkdir(parents=True)
    np.save(mixed / "rank_0" / "net" / "0" / "0" / "Op.Net_Add-op1.0.0.123.input.0.DefaultFormat.npy", np.zeros(2))
    done = probe_flow("start", "mixed", folder / "golden")
    assert (done.code, "PF3431" in done.err) == (2, True)


def test_a_dump_of_a_newer_format_ends_with_what_is_wrong_with_it(probe_flow, sample, tmp_path):
    folder = sample("pytorch_compare") / "dump_json"
    shutil.copytree(tmp_path / folder / "target", tmp_path / "newer")
    for file in (tmp_path / "newer").rglob("dump.json"):
        file.write_text(json.dumps({"schema": 99, "entries": []}))
    done = probe_flow("start", "newer", folder / "golden")
    assert done.code in (2, 3)
    assert "error[PF" in done.err


def test_a_task_that_nobody_knows_is_told_and_one_of_earlier_versions_is_not(probe_flow, sample, tmp_path):
    folder = sample("pytorch_compare") / "dump_json"
    for task in ("holograms", "md5"):
        shutil.copytree(tmp_path / folder / "target", tmp_path / task)
        for file in (tmp_path / task).rglob("dump.json"):
            file.write_text(file.read_text().replace('"statistics"', f'"{task}"', 1))
    done = probe_flow("start", "holograms", folder / "golden")
    assert done.code == 0
    (note,) = [line for line in done.out.splitlines() if "PF3457" in line]
    assert note.startswith("note: target: ")
    assert "has the task `holograms`, which this version does not know" in note
    assert "PF3457" not in probe_flow("start", "md5", folder / "golden").out


def test_a_folder_of_the_run_without_a_run_is_refused(probe_flow):
    assert probe_flow("start", "a", "b", "-o", "out").code == 2


def test_names_that_yaml_could_misread_come_back_as_they_are(probe_flow, sample, tmp_path):
    folder = sample("arrays_compare") / "arrays"
    odd = tmp_path / "a ${b}: 'c' # d"
    shutil.copytree(tmp_path / folder / "target", odd)
    done = probe_flow("start", odd.name, folder / "golden", "--write", "w.yaml", "--run", "-o", "out")
    assert done.code == 1, done.err
    assert probe_flow("validate", "w.yaml").code == 0
