"""A TensorFlow training step on an emulated device against the same step under TensorFlow's debugger."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import tf_device
from bundled_samples import EXAMPLES
from catalog_looks import values
from tfdbg_writer import TfdbgRun

from e2e.projects import WORKFLOWS, Command, Done
from probe_flow.dumps.tfdbg.reader import read_tfdbg

WORKFLOW = WORKFLOWS / "tf_training.yaml"
STEP = EXAMPLES / "tf_training" / "step"
DAMAGED = [
    op.name
    for op in (*tf_device.STEP, *tf_device.UPDATE)
    if op.originals and op.op_type not in tf_device.NEVER_DUMPED and op.name != "loss/mean"
]
"""Operators of the user's graph; a scalar has no direction that could be wrong."""


def wrong(seed: int) -> Callable[[np.ndarray], np.ndarray]:
    def damage(array: np.ndarray) -> np.ndarray:
        noise = np.random.default_rng(seed).normal(size=np.shape(array))
        return array + np.abs(array).max() * noise

    return damage


@pytest.fixture(scope="module")
def feeds() -> Mapping[str, np.ndarray]:
    catalog = read_tfdbg(STEP / "tf" / "tf_debug", side="golden")
    found = {ref.node.name: values(ref) for ref in catalog.tensors if ref.node.name in tf_device.FEEDS}
    assert set(found) == set(tf_device.FEEDS)
    return found


@pytest.fixture
def data(tmp_path, feeds):
    """Return a function that writes the folder `precision_data` with a device side; the golden side is the sample's."""

    def write(name: str = "data", tamper: tf_device.Tamper | None = None, **how: object) -> Path:
        root = tmp_path / name
        shutil.copytree(STEP / "tf", root / "tf")
        tf_device.write_npu(root / "npu" / "debug_0", feeds, tamper, **how)
        return root

    return write


def compare(probe_flow: Command, data: Path, *more: object, **how: object) -> Done:
    return probe_flow("run", WORKFLOW, f"--set=data={data}", *more, **how)


def first(done: Done) -> dict:
    return done.record["findings"][done.record["first_divergence"]]


def listing(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in sorted(root.rglob("*"))}


def test_a_healthy_step_is_green_and_everything_that_the_device_dumped_is_compared(probe_flow, data):
    root = data()
    before = listing(root)
    done = compare(probe_flow, root)

    assert (done.code, done.record["verdict"]) == (0, "pass")
    assert done.record["coverage"]["target"]["missing"] == done.record["coverage"]["golden"]["missing"] == 0
    compared = {row["node"] for row in done.rows if row["verdict"] == "pass" and row["direction"] == "output"}
    assert compared >= {*DAMAGED, "loss/mean"}
    assert {row["graph"] for row in done.rows if row["target"]} == {1, 2}
    assert listing(root) == before  # nothing is made, renamed or written beside the dumps


def test_arrays_that_were_extracted_give_the_same(probe_flow):
    done = compare(probe_flow, EXAMPLES / "tf_training" / "healthy")
    assert done.code == 0
    assert done.record["comparisons"]["compared"]["dumps"]["golden"]["framework"] == "npy"


@pytest.mark.parametrize("name", DAMAGED)
def test_a_fault_in_any_operator_is_named_first(probe_flow, data, name):
    done = compare(probe_flow, data(tamper={name: wrong(len(name))}))

    assert done.code == 1
    assert (first(done)["node"], first(done)["index"]) == (name, "0")
    roles = {row["node"]: row["role"] for row in done.rows if row["verdict"] == "fail"}
    assert roles[name] == "origin"
    assert {role for node, role in roles.items() if node != name} <= {"inherited"}


def test_steps_are_told_apart_by_number(probe_flow, data, feeds):
    root = data(steps=(2, 10))
    done = compare(probe_flow, root)
    assert done.code == 0
    assert "PF4205" in done.codes
    assert list(dict.fromkeys(row["step"] for row in done.rows if row["graph"] == 1)) == [2, 10]

    later = root / "npu/debug_0/dump" / tf_device.TIME / "0" / tf_device.STEP_GRAPH / "1" / "10"
    shutil.rmtree(later)
    tf_device.write_device(tf_device.STEP, tf_device.run_device(feeds, {tf_device.TANH: wrong(1)})[0], later)
    done = compare(probe_flow, root, output="again")
    assert (first(done)["node"], first(done)["step"]) == (tf_device.TANH, 10)


@pytest.fixture
def opened() -> Iterator[Counter[str]]:
    """Count how often each path is opened while a test runs, whoever opens it: an audit hook hears of all."""
    found: Counter[str] = Counter()
    _HEARD.append(found)
    yield found
    _HEARD.remove(found)


_HEARD: list[Counter[str]] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _HEARD and isinstance(arguments[0], (str, Path)):
        for found in _HEARD:
            found[str(arguments[0])] += 1


sys.addaudithook(_hear)  # there is no way to take it away; it hears only while a test listens


def test_eight_devices_of_three_graphs_open_each_golden_tensor_once(probe_flow, data, feeds, opened):
    root = data(devices=8)
    forward = tf_device.STEP[: [op.name for op in tf_device.STEP].index(tf_device.TANH) + 1]
    values, name = tf_device.run_device(feeds)[0], f"ge_default_{tf_device.TIME}_31"
    text = tf_device.graph(name, forward, values)
    tf_device.graph_text_writer.write(root / "npu/debug_0/graph/ge_proto_00000111_Build.txt", text)
    for device in range(8):
        folder = root / "npu/debug_0/dump" / tf_device.TIME / str(device) / name / "3" / "0"
        tf_device.write_device(forward, values, folder, first_us=tf_device.FIRST_US + 5 * 10**6)
    opened.clear()
    done = compare(probe_flow, root, "--scheduler", "sync")

    assert done.code == 0
    compared = {(row["rank"], row["graph"]) for row in done.rows if row["verdict"] == "pass"}
    assert compared == {(rank, graph) for rank in range(8) for graph in (1, 2, 3)}
    times = {path: count for path, count in opened.items() if "_DebugIdentity_" in path}
    assert len(times) == len(list((root / "tf").rglob("*_DebugIdentity_*")))
    assert set(times.values()) == {1}


def test_a_graph_of_another_model_shows_on_the_device_side(probe_flow, data):
    root = data()
    for text in (root / "npu/debug_0/graph").iterdir():
        text.write_text(text.read_text().replace("dense", "other").replace("logits", "others").replace("update", "up"))
    done = compare(probe_flow, root)
    assert done.code == 3
    assert done.record["coverage"]["target"]["missing"] > 0
    assert "no rule file names the device operator" in done.out
    assert "no such execution" not in done.out
    assert "help: give the texts of the graphs of this very run" in done.err


def test_a_graph_text_that_is_cut_off_is_a_mistake_and_none_is_too(probe_flow, data):
    root = data()
    texts = sorted((root / "npu/debug_0/graph").iterdir())
    whole = texts[0].read_bytes()
    texts[0].write_bytes(whole[: len(whole) // 2])
    done = compare(probe_flow, root)
    assert (done.code, "PF3220" in done.err) == (2, True)
    for text in texts:
        text.unlink()
    done = compare(probe_flow, root, output="again")
    assert (done.code, "PF4409" in done.err) == (2, True)


def test_an_empty_golden_side_is_not_green(probe_flow, data):
    root = data()
    shutil.rmtree(root / "tf" / "tf_debug")
    (root / "tf" / "tf_debug").mkdir()
    assert compare(probe_flow, root).code == 3


def test_a_golden_run_that_did_not_end_is_said_to_be_so(probe_flow, data):
    root = data()
    files = sorted(path for path in (root / "tf").rglob("*_DebugIdentity_*") if path.is_file())
    for path in files[len(files) // 2 :]:
        path.unlink()
    done = compare(probe_flow, root)
    assert done.code == 3
    assert f"has {len(files) // 2} of the {len(files)} tensors that its debugger watched" in done.err
    assert "PF3449" not in compare(probe_flow, data("whole"), output="again").codes


@pytest.mark.parametrize("side", ["npu/debug_0/dump", "tf/dump"])
def test_a_file_whose_line_in_the_mapping_is_lost_is_not_green(probe_flow, data, side):
    root = data()
    if side == "tf/dump":
        assert probe_flow("tf_dump", root / "tf/tf_debug", "-o", root / "tf/dump", output=None).code == 0
        shutil.rmtree(root / "tf/tf_debug")
    file = next(path for path in sorted((root / side).rglob("*")) if "Tanh" in path.name)
    hashed = file.with_name("1122334455" + file.suffix * (file.suffix == ".npy"))
    mapping = file.with_name("mapping.csv")
    told = mapping.read_text() if mapping.exists() else ""
    mapping.write_text(f"{told}{hashed.name},{file.name}\n")
    file.rename(hashed)
    assert compare(probe_flow, root).code == 0

    mapping.write_text(told)
    done = compare(probe_flow, root, output="again")
    assert (done.code, "PF3208" in done.err) == (3, True)


def test_a_golden_run_of_something_else_is_not_green(probe_flow, data):
    root = data()
    run = TfdbgRun(root / "tf" / "tf_debug", 1, time=9 * 10**15)  # the newest: a run that only initialised
    run.add("init/zeros", np.zeros(3, "f4"))
    done = compare(probe_flow, root)
    assert done.code == 3
    assert {"PF3443", "PF4410"} <= done.codes
    assert "`run_9000000000000000_1` ended before them, or ran something else" in done.err


def test_a_step_of_the_device_that_no_run_is_has_no_counterpart(probe_flow, data, tmp_path):
    root = data(steps=(0, 1))
    workflow = tmp_path / "all.yaml"
    workflow.write_text(f"version: 1\nextends: {WORKFLOW}\nstages:\n  golden: {{run: all}}\n")
    done = probe_flow("run", workflow, f"--set=data={root}")
    assert done.code == 3
    assert "PF4203" in done.codes


@pytest.mark.parametrize(
    "name",
    [
        None,
        tf_device.RELU,
        tf_device.TANH_GRAD,
        "gradients/logits/MatMul_grad/MatMul_1",
        "GradientDescent/update_logits/kernel/ApplyGradientDescent",
    ],
)
def test_fusion_on_against_fusion_off_names_the_wrong_operator_alone(probe_flow, data, feeds, name):
    """The update is a graph of its own, fed with gradients that the other graph gives: its operators inherit."""
    root = data(tamper={name: wrong(len(name))} if name else None)
    tf_device.write_npu(root / "npu" / "debug_1", feeds, is_fused=False)
    done = probe_flow("run", WORKFLOWS / "tf_training_two_runs.yaml", f"--set=data={root}")

    assert done.code == (1 if name else 0)
    assert [each["node"] for each in done.record["findings"] if each["kind"] == "origin"] == ([name] if name else [])
    assert {row["node"] for row in done.rows if row["role"] == "origin"} == ({name} if name else set())


def test_the_pass_behind_a_wrong_fused_operator_is_named_with_its_switch(probe_flow, data):
    root = data(tamper={tf_device.RELU: wrong(3)})
    (root / "fusion").mkdir()
    passes = {"MatMulBiasAddFusionPass": {"effect_times": "3", "match_times": "3"}}
    text = json.dumps({"session_and_graph_id": "0_11", "graph_fusion": {}, "ub_fusion": passes})
    (root / "fusion" / "fusion_result.json").write_text(text * 2)
    done = compare(probe_flow, root)

    (remark,) = [finding for finding in done.record["findings"] if finding["kind"] == "remark"]
    assert (remark["node"], remark["op_type"], remark["fails"]) == (tf_device.RELU, "MatMulV2", False)
    assert "1 of its 3 operators, took effect 6 times" in remark["evidence"]
    assert '{"Switch": {"UBFusion": {"MatMulBiasAddFusionPass": "off"}}}' in remark["evidence"]

    (root / "fusion" / "fusion_result.json").write_text("{")
    again = compare(probe_flow, root, output="again")
    assert (again.code, "PF4312" in again.err) == (2, True)


@pytest.mark.parametrize(("name", "words"), [("input/x", "the same batch"), ("dense2/kernel", "the same checkpoint")])
def test_a_first_input_that_differs_names_the_broken_prerequisite(probe_flow, tmp_path, feeds, name, words):
    root = tmp_path / "data"
    shutil.copytree(STEP / "tf", root / "tf")
    other = {**feeds, name: np.random.default_rng(1).normal(size=feeds[name].shape).astype("f4")}
    tf_device.write_npu(root / "npu" / "debug_0", other)
    done = compare(probe_flow, root)

    assert done.code == 1
    assert first(done)["direction"] == "input"
    assert [(step["code"], words in step["text"]) for step in first(done)["advice"]] == [("PF7429", True)]


def test_an_operator_in_half_precision_gets_the_lists_to_paste(probe_flow, data):
    done = compare(probe_flow, data(tamper={tf_device.TANH: wrong(3)}))
    (text,) = [step["text"] for step in first(done)["advice"] if step["code"] == "PF7431"]
    assert '{"black-list": {"to-add": ["Tanh"]}}' in text
    assert "keep_dtype_scope" in text


PRECISION_TOOL = [
    "gradients/dense2/Tanh_grad/TanhGrad",
    "gradients/dense2/BiasAdd_grad/BiasAddGrad",
    "gradients/dense2/MatMul_grad/MatMul",
    "gradients/dense2/MatMul_grad/MatMul_1",
    "gradients/dense1/Relu_grad/ReluGrad",
    "gradients/dense1/BiasAdd_grad/BiasAddGrad",
    "gradients/dense1/MatMul_grad/MatMul_1",
]
"""What its `vcs -c 0.98` listed for the CSV file of the sample."""


def test_its_own_summary_of_our_table_lists_the_operators_that_ours_does(probe_flow):
    done = probe_flow("run", WORKFLOW)
    shown = probe_flow("show", done.folder, "--at-most", "cosine=0.98", output=None)
    lines = shown.out.splitlines()
    listed = list(dict.fromkeys(name for line in lines for name in PRECISION_TOOL if f" {name} (" in line))

    assert listed == PRECISION_TOOL
    (table,) = done.folder.glob(f"*{tf_device.STEP_GRAPH}*.csv")
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    low = [
        row["TensorIndex"]
        for row in rows
        if row["CosineSimilarity"] not in ("NaN", "") and float(row["CosineSimilarity"]) <= 0.98
    ]
    assert [text.partition(":")[0] for text in low if ":output:" in text] == PRECISION_TOOL


def test_other_runs_of_the_device_are_listed_and_can_be_chosen(probe_flow, data, feeds):
    root = data()
    for number in (2, 10):
        tf_device.write_npu(root / "npu" / f"debug_{number}", feeds, {tf_device.TANH: wrong(1)})
    (root / "npu" / "debug_3" / "dump").mkdir(parents=True)  # without a dump
    (root / "npu" / "debug_4").symlink_to("debug_0")
    done = compare(probe_flow, root)
    (note,) = [problem for problem in done.record["problems"] if problem["code"] == "PF4412"]
    assert note["message"].startswith("`debug_2`, `debug_10` beside `debug_0` are other runs of the device")
    assert (done.code, note["severity"]) == (0, "note")

    assert first(compare(probe_flow, root, "--set=debug=debug_10", output="again"))["node"] == tf_device.TANH
    both = ("--set=other=debug_2", f"--set=data={root}")
    done = probe_flow("run", WORKFLOWS / "tf_training_two_runs.yaml", *both, output="both")
    (note,) = [problem for problem in done.record["problems"] if problem["code"] == "PF4412"]
    assert note["message"].startswith("`debug_10` beside `debug_0` and `debug_2` is another run")


def test_a_run_that_is_a_link_is_read_where_it_leads(probe_flow, data, tmp_path):
    root = data()
    (root / "npu" / "debug_0").rename(tmp_path / "elsewhere")
    (root / "npu" / "debug_0").symlink_to(tmp_path / "elsewhere")
    done = compare(probe_flow, root)
    assert (done.code, "PF4412" in done.codes) == (0, False)


def test_arrays_with_channels_last_have_no_other_shape_than_the_device(probe_flow):
    done = probe_flow("run", WORKFLOWS / "offline_om_vs_tensorflow.yaml")
    turned = [row for row in done.rows if row.get("transform") == ["golden:nhwc_to_nchw"]]
    assert turned
    assert not [row for row in turned if "shape differs" in (row["reason"] or "")]
