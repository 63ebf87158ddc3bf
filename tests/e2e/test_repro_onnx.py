"""Reproduction of operators of offline models by ONNX Runtime: wrong kernels are, wrong inputs and weights are not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_records import first_divergence

from e2e.projects import ROOT, WORKFLOWS, Command

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx_models import convolutions, info, model  # noqa: E402

pytestmark = pytest.mark.frameworks

PAIR = """
version: 1
name: pair
params: {{target: {{type: path}}, golden: {{type: path}}}}
stages:
  target: {{uses: dump.npy, path: "${{params.target}}"}}
  golden: {{uses: dump.npy, path: "${{params.golden}}"}}
  pairs:  {{uses: match.model_graph, target: target, golden: golden}}
  result: {{uses: compare, pairs: pairs, policy: offline, metrics: offline}}
{more}
"""


def halved(made: Any) -> Any:
    """Return the model in float16."""
    half = onnx.ModelProto()
    half.CopyFrom(made)
    for weight in half.graph.initializer:
        value = numpy_helper.to_array(weight)
        if value.dtype == np.float32:
            weight.CopyFrom(numpy_helper.from_array(value.astype(np.float16), weight.name))
    half.graph.node[0].input[0] = "x_half"
    half.graph.node.insert(0, helper.make_node("Cast", ["x"], ["x_half"], "in", to=TensorProto.FLOAT16))
    return half


@pytest.fixture
def two(probe_flow: Command, tmp_path: Path) -> Any:
    """Return a function that dumps two models on the same input, and gives the folders of the dumps."""
    np.save(tmp_path / "x.npy", np.random.default_rng(5).random((1, 3, 8, 8), np.float32))

    def dumped(target: Any, golden: Any, more: str = "") -> tuple[Path, Path]:
        lines = ["version: 1", "name: both", "stages:"]
        for side, made in (("target", target), ("golden", golden)):
            onnx.save(made, tmp_path / f"{side}.onnx")
            given = f"inputs: {tmp_path / 'x.npy'}, output: {tmp_path / side}"
            lines.append(f"  {side}: {{uses: dump.onnx, model: {tmp_path / side}.onnx, {given}}}")
        (tmp_path / "both.yaml").write_text("\n".join(lines))
        done = probe_flow("run", tmp_path / "both.yaml", output=tmp_path / "both")
        assert done.code == 0, done.out + done.err
        (tmp_path / "pair.yaml").write_text(PAIR.format(more=more))
        return tmp_path / "target" / "onnx_dump", tmp_path / "golden" / "onnx_dump"

    return dumped


def spoil(dump: Path, stem: str, factor: float) -> None:
    (file,) = dump.glob(f"{stem}.0.*.npy")
    values = np.load(file)
    np.save(file, (values * factor).astype(values.dtype))


def compared(probe_flow: Command, tmp_path: Path, target: Path, golden: Path) -> Any:
    sides = (f"--set=target={target}", f"--set=golden={golden}")
    return probe_flow("run", tmp_path / "pair.yaml", *sides, output=tmp_path / "run")


def reproduced(probe_flow: Command, tmp_path: Path, *words: object) -> tuple[Any, dict[str, Any]]:
    shutil.rmtree(tmp_path / "scripts", ignore_errors=True)
    done = probe_flow("repro", tmp_path / "run", *words, "-o", tmp_path / "scripts", output=None)
    files = [*(tmp_path / "scripts").glob("*.json")] if (tmp_path / "scripts").is_dir() else []
    return done, json.loads(files[0].read_text()) if files else {}


@pytest.mark.parametrize("kind", ["float", "half"])
@pytest.mark.parametrize("node", ["conv", "add", "relu"])
@pytest.mark.parametrize("error", [0.01, 0.2])
def test_a_wrong_kernel_is_reproduced_with_its_error(
    probe_flow: Command, tmp_path: Path, two: Any, kind: str, node: str, error: float
) -> None:
    made = convolutions()
    target, golden = two(halved(made) if kind == "half" else made, made)
    spoil(target, f"_block_1_{node}", 1 + error)
    compared(probe_flow, tmp_path, target, golden)

    done, said = reproduced(probe_flow, tmp_path, "--node", f"/block.1/{node}")

    assert (done.code, said["status"]) == (1, "reproduced"), done.out + done.err
    assert error / 2 < said["relative_error"] < error * 2
    assert said["versions"].keys() == {"onnxruntime", "onnx", "numpy"}
    wrong = {each["side"]: each["from_truth"] for each in said["outputs"]}
    assert wrong["golden"] < 1e-6 < error / 2 < wrong["target"]
    (record,) = json.loads((tmp_path / "run" / "run.json").read_text())["reproductions"]
    assert (record["entry"], record["status"], record["why"]) == (f"/block.1/{node}", "reproduced", said["why"])


@pytest.mark.parametrize("kind", ["float", "half"])
def test_healthy_operators_are_what_this_processor_gives(
    probe_flow: Command, tmp_path: Path, two: Any, kind: str
) -> None:
    made = convolutions()
    target, golden = two(halved(made) if kind == "half" else made, made)
    assert compared(probe_flow, tmp_path, target, golden).code == 0
    done, _ = reproduced(probe_flow, tmp_path)
    assert (done.code, done.out) == (0, "no suspects\n")

    for node in made.graph.node:
        done, said = reproduced(probe_flow, tmp_path, "--node", node.name)
        assert (done.code, said["status"]) == (0, "not_reproduced"), (node.name, done.out, done.err)


def test_wrong_weights_and_wrong_inputs_are_not_reproduced(probe_flow: Command, tmp_path: Path, two: Any) -> None:
    made, wrong = convolutions(), convolutions()
    (weight,) = (each for each in wrong.graph.initializer if each.name == "w1")
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.5), "w1"))
    target, golden = two(wrong, made)
    assert compared(probe_flow, tmp_path, target, golden).code == 1

    done, said = reproduced(probe_flow, tmp_path)
    assert (done.code, said["entry"], said["status"]) == (0, "/block.1/conv", "not_reproduced"), done.out + done.err
    assert said["differs"] == "input 1 differs from the golden's by 0.5"
    done, said = reproduced(probe_flow, tmp_path, "--node", "/block.2/conv")
    assert (done.code, said["differs"].startswith("input 0 differs")) == (0, True)


def test_dumps_without_a_manifest_need_the_model_named(probe_flow: Command, tmp_path: Path, two: Any) -> None:
    made = convolutions()
    target, golden = two(made, made)
    spoil(target, "_block_1_conv", 1.1)
    for dump in (target, golden):
        (dump / "dump_manifest.json").unlink()
    text = (tmp_path / "pair.yaml").read_text().replace("match.model_graph", "match.fusion_rule")
    (tmp_path / "pair.yaml").write_text(text)
    done = compared(probe_flow, tmp_path, target, golden)
    assert done.code in (1, 3), done.out + done.err

    node = ("--node", "_block_1_conv")
    done, _ = reproduced(probe_flow, tmp_path, *node)
    assert (done.code, "PF6631" in done.err, "`--model FILE`" in done.err) == (3, True, True), done.err
    done, said = reproduced(probe_flow, tmp_path, *node, "--model", tmp_path / "target.onnx")
    assert (done.code, said["status"]) == (1, "reproduced"), done.out + done.err
    assert [each["side"] for each in said["outputs"]] == ["target"]
    both = ("--model", tmp_path / "target.onnx", "--golden-model", tmp_path / "golden.onnx")
    done, said = reproduced(probe_flow, tmp_path, *node, *both)
    assert [each["side"] for each in said["outputs"]] == ["target", "golden"]


@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        (None, "PF6322", "cannot be read"),
        (b"no model", "PF6322", "is no ONNX model"),
        ("other", "PF6631", "the model has no node `/block.1/conv` whose results the dump has"),
    ],
)
def test_a_wrong_model_is_named(
    probe_flow: Command, tmp_path: Path, two: Any, content: object, code: str, why: str
) -> None:
    made = convolutions()
    target, golden = two(made, made)
    compared(probe_flow, tmp_path, target, golden)
    if isinstance(content, bytes):
        (tmp_path / "other.onnx").write_bytes(content)
    elif content:
        other = model([helper.make_node("Relu", ["x"], ["y"], name="alone")], [info("x", shape=[1])], ["y"])
        onnx.save(other, tmp_path / "other.onnx")

    done, _ = reproduced(probe_flow, tmp_path, "--node", "/block.1/conv", "--model", tmp_path / "other.onnx")

    assert (done.code, code in done.err, why in done.err) == (2 if code == "PF6322" else 3, True, True), done.err


def test_a_model_that_changed_since_is_not_taken_by_itself(probe_flow: Command, tmp_path: Path, two: Any) -> None:
    made = convolutions()
    target, golden = two(made, made)
    compared(probe_flow, tmp_path, target, golden)
    onnx.save(convolutions(seed=1), tmp_path / "target.onnx")

    done, _ = reproduced(probe_flow, tmp_path, "--node", "/block.1/conv")

    assert (done.code, "no model is named" in done.err) == (3, True), done.err
    shown = probe_flow("show", tmp_path / "run", "--node", "/block.1/conv", output=None).out
    assert "run again    whether `/block.1/conv` itself is wrong is undecided: operators of offline models" in shown


def test_a_script_runs_anywhere_and_says_the_same(probe_flow: Command, tmp_path: Path, two: Any) -> None:
    made = convolutions()
    target, golden = two(made, made)
    spoil(target, "_block_1_conv", 1.1)
    compared(probe_flow, tmp_path, target, golden)
    reproduced(probe_flow, tmp_path)
    shutil.move(tmp_path / "scripts", tmp_path / "elsewhere")

    command = [sys.executable, "-I", str(tmp_path / "elsewhere" / "repro__block.1_conv.py")]
    runs = [subprocess.run(command, capture_output=True, text=True, timeout=120, check=False) for _ in range(2)]

    assert [each.returncode for each in runs] == [1, 1], runs[0].stderr
    assert runs[0].stdout == runs[1].stdout
    assert (
        "reproduced: for the same inputs this processor gives another result: output 0 is off by 0.1" in runs[0].stdout
    )
    text = Path(command[-1]).read_text()
    assert "import torch" not in text


def test_the_stage_computes_suspects_too(probe_flow: Command, tmp_path: Path, two: Any) -> None:
    made = convolutions()
    more = "  repro: {uses: repro, comparison: result}\n  report: {uses: report, comparison: result, "
    target, golden = two(made, made, f"{more}reproductions: [repro], formats: [html]}}")
    spoil(target, "_block_1_conv", 1.1)

    done = compared(probe_flow, tmp_path, target, golden)

    assert done.code == 1, done.out + done.err
    assert [each["status"] for each in done.record["reproductions"] if each["entry"] == "/block.1/conv"] == [
        "reproduced"
    ]


def operators_of_all_kinds() -> Any:
    """Return a model with a body, an attribute that is a tensor, several results, and constants of several types."""
    then = helper.make_graph(
        [helper.make_node("Mul", ["m", "two"], ["t"])], "then", [], [info("t", shape=[1, 3, 8, 8])],
        [numpy_helper.from_array(np.float32(2), "two")],
    )  # fmt: skip
    other = helper.make_graph([helper.make_node("Neg", ["m"], ["e"])], "else", [], [info("e", shape=[1, 3, 8, 8])])
    shift = numpy_helper.from_array(np.full((1, 3, 1, 1), 0.5, np.float32))
    nodes = [
        helper.make_node("Constant", [], ["shift"], name="shift", value=shift),
        helper.make_node("Add", ["x", "shift"], ["m"], name="add"),
        helper.make_node("ReduceMax", ["m"], ["top"], name="top", keepdims=0),
        helper.make_node("Greater", ["top", "limit"], ["is_large"], name="compare"),
        helper.make_node("If", ["is_large"], ["b"], name="if", then_branch=then, else_branch=other),
        helper.make_node("Split", ["b", "parts"], ["p0", "p1"], name="split", axis=1),
        helper.make_node("TopK", ["p0", "k"], ["v", "i"], name="topk"),
        helper.make_node("Cast", ["v"], ["y"], name="cast", to=TensorProto.FLOAT16),
    ]
    weights = {"limit": np.float32(0), "parts": np.array([1, 2]), "k": np.array([3])}
    return model(nodes, [info("x", shape=[1, 3, 8, 8])], ["y", "i"], weights)


def test_operators_of_all_kinds_are_computed(probe_flow: Command, tmp_path: Path, two: Any) -> None:
    made = operators_of_all_kinds()
    target, golden = two(made, made)
    compared(probe_flow, tmp_path, target, golden)

    for node in made.graph.node:
        done, said = reproduced(probe_flow, tmp_path, "--node", node.name)
        assert said["status"] == "not_reproduced", (node.name, done.out, done.err)


@pytest.fixture
def om(probe_flow: Command, tmp_path: Path) -> Any:
    """Return a function that compares one of the dumps of the offline sample with its model, run here."""
    with zipfile.ZipFile(ROOT / "examples" / "offline" / "samples.zip") as archive:
        archive.extractall(tmp_path)

    def run(dump: str) -> Any:
        paths = {
            "target": tmp_path / "onnx" / dump,
            "golden": tmp_path / "models" / "sample.onnx",
            "fusion_rule": tmp_path / "onnx" / "fusion_rule.json",
        }
        words = (f"--set={name}={path}" for name, path in paths.items())
        return probe_flow("run", WORKFLOWS / "offline_onnx_oneclick.yaml", *words, output=tmp_path / "run")

    return run


def test_a_wrong_operator_of_a_device_is_reproduced_by_the_operators_of_its_model(
    probe_flow: Command, tmp_path: Path, om: Any
) -> None:
    done = om("target")
    assert first_divergence(done.record)["node"] == "fc"

    done, said = reproduced(probe_flow, tmp_path)

    assert (done.code, said["entry"], said["status"]) == (1, "fc", "reproduced"), done.out + done.err
    assert 0.01 < said["relative_error"] < 0.04  # 0.02 was planted
    assert said["why"].endswith("the weights are those of the model")


DEVICE_NODES = {
    "trans_TransData_0": "not_reproduced",
    "conv1relu1": "not_reproduced",
    "pool1": "not_reproduced",
    "block/shortcut": "not_reproduced",
    "block/conv2relu2": "not_reproduced",
    "gap_sum": "none of its results was compared with a tensor that the model has",
    "gap": "some of its inputs were not dumped, or are no tensors of the model: it needs `x`",
    "fc": "not_reproduced",
    "trans_Cast_2": "not_reproduced",
    "softmax": "not_reproduced",
}
"""Operators of the healthy device: fused, of another layout, or of the compiler's making, and what is said of them."""


def test_healthy_operators_of_a_device_are_cleared_or_told_why_not(
    probe_flow: Command, tmp_path: Path, om: Any
) -> None:
    assert om("healthy").code == 0
    for node, expected in DEVICE_NODES.items():
        done, said = reproduced(probe_flow, tmp_path, "--node", node)
        if expected == "not_reproduced":
            assert (done.code, said["status"]) == (0, expected), (node, done.out, done.err)
        else:
            assert (done.code, "PF6631" in done.err, expected in done.err) == (3, True, True), (node, done.err)
            shown = probe_flow("show", tmp_path / "run", "--node", node, output=None).out
            assert f"whether `{node}` itself is wrong is undecided: {expected}" in shown


def test_inputs_that_are_wrong_on_the_device_clear_what_reads_them(
    probe_flow: Command, tmp_path: Path, om: Any
) -> None:
    om("target")
    done, said = reproduced(probe_flow, tmp_path, "--node", "softmax")
    assert (done.code, said["status"]) == (0, "not_reproduced")
    assert said["differs"] == "input 0 differs from the golden's by 0.02"
