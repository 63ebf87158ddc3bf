"""The golden side of a training step that runs here: a graph or a Keras model under TensorFlow's debugger."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tf_device
from bundled_samples import EXAMPLES
from catalog_looks import values
from run_records import first_divergence

from e2e.projects import WORKFLOWS, Command, Done
from probe_flow.dumps.manifest import read_manifest
from probe_flow.dumps.training_folder import read_training_folder
from probe_flow.records import TensorKind

WORKFLOW = WORKFLOWS / "tf_training_oneclick.yaml"
SAMPLE = EXAMPLES / "tf_training"
STEP = SAMPLE / "models" / "step.py"

live = pytest.mark.frameworks


@pytest.fixture
def tensorflow() -> None:
    if find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed")


def stage(folder: Path, **options: object) -> Path:
    """Return a workflow of one stage that runs a step."""
    given = {"uses": "dump.tensorflow_training", **options}
    (folder / "w.yaml").write_text(json.dumps({"version": 1, "name": "w", "stages": {"golden": given}}))
    return folder / "w.yaml"


def code(folder: Path, text: str) -> str:
    (folder / "train.py").write_text("import numpy as np\nimport tensorflow.compat.v1 as tf\n" + text)
    return "train.py:step"


def dumped(done: Done, name: str = "golden") -> Path:
    return done.folder / "dumps" / name / "tf"


def facts(done: Done) -> dict[str, Any]:
    return json.loads((dumped(done) / "dump_manifest.json").read_text())


@live
@pytest.mark.usefixtures("tensorflow")
@pytest.mark.parametrize(("data", "origin"), [("step", tf_device.TANH_GRAD), ("healthy", None)])
def test_a_device_is_compared_with_the_step_that_runs_here(probe_flow: Command, data: str, origin: str | None) -> None:
    done = probe_flow("run", WORKFLOW, f"--set=data={SAMPLE / data}", f"--set=model={STEP}")

    assert done.code == (1 if origin else 0), done.out + done.err
    found = first_divergence(done.record)
    assert (found["node"] if found else None) == origin
    assert done.record["coverage"]["target"]["missing"] == 0
    assert done.record["comparisons"]["compared"]["dumps"]["golden"]["framework"] == "tfdbg"


SESSION = """
import importlib.util, sys
import numpy as np
import tensorflow.compat.v1 as tf

spec = importlib.util.spec_from_file_location("step", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
config.graph_options.rewrite_options.disable_meta_optimizer = True
config.graph_options.optimizer_options.opt_level = -1
with tf.Graph().as_default(), tf.Session(config=config) as session:
    fetches, feeds = module.model()
    session.run(tf.global_variables_initializer())
    names = [name for name in sys.argv[3:] if "ApplyGradientDescent" not in name]
    np.savez(sys.argv[2], **dict(zip(names, session.run(names, feeds))))
"""
"""Asks a session for tensors of the step, without the debugger and before the update."""


@live
@pytest.mark.usefixtures("tensorflow")
def test_every_tensor_is_what_the_session_returns_and_the_folder_can_be_adopted(
    probe_flow: Command, tmp_path: Path
) -> None:
    done = probe_flow("run", stage(tmp_path, model=str(STEP), threads=1, repeat=2))
    assert done.code == 0, done.out + done.err
    assert "PF6330" not in done.codes
    folder = dumped(done)
    manifest = read_manifest(folder)
    assert manifest is not None
    assert (manifest.is_complete, manifest.written) == (True, len(manifest.tensors))
    catalog = read_training_folder(str(folder), side="golden")
    assert catalog.problems == ()
    found = {f"{ref.node.name}:{ref.slot.index}": values(ref) for ref in catalog.tensors}
    assert {f"{each.node}:{each.index}" for each in manifest.tensors} == found.keys()
    names = sorted(found)
    subprocess.run([sys.executable, "-c", SESSION, str(STEP), str(tmp_path / "v.npz"), *names], check=True, timeout=300)
    returned = np.load(tmp_path / "v.npz")
    assert len(returned.files) >= 60
    for name in returned.files:
        assert found[name].tobytes() == returned[name].tobytes(), name
    updated = found["GradientDescent/update_logits/bias/ApplyGradientDescent:0"]
    gradient = found["gradients/logits/BiasAdd_grad/BiasAddGrad:0"]
    assert np.allclose(updated, found["logits/bias:0"] - 0.1 * gradient, atol=1e-7)


@live
@pytest.mark.usefixtures("tensorflow")
def test_a_finished_step_is_taken_over_and_a_changed_model_is_not(probe_flow: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(STEP.read_text())
    workflow = stage(tmp_path, model="own.py")
    first = probe_flow("run", workflow)
    record = first.folder / "dumps" / "golden" / "model_run.json"
    written = record.stat().st_mtime_ns
    again = probe_flow("run", workflow, "--resume", output=first.folder)
    assert (again.code, record.stat().st_mtime_ns) == (0, written), again.out + again.err

    (tmp_path / "own.py").write_text(STEP.read_text().replace("Optimizer(0.1)", "Optimizer(0.2)"))
    probe_flow("run", workflow, "--resume", output=first.folder)
    assert record.stat().st_mtime_ns != written


DROPOUT = """
def step():
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    w = tf.get_variable("w", [6, 3], use_resource=False)
    y = tf.nn.dropout(tf.matmul(x, w), rate=0.2, name="layer_3")
    return [tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(y))], {x: np.ones((4, 6))}
"""


@live
@pytest.mark.usefixtures("tensorflow")
def test_dropout_is_named_the_seed_repeats_it_and_weights_are_compared_with_those_of_the_device(
    probe_flow: Command, tmp_path: Path
) -> None:
    first = probe_flow("run", stage(tmp_path, model=code(tmp_path, DROPOUT), repeat=2), output="first")
    assert first.code == 0, first.out + first.err
    assert first.codes == {"PF6343"}  # and no PF6330: a seed makes it repeat
    assert "1 operator of the step draws random numbers: 1 for dropout" in first.err
    saved = dumped(first) / "checkpoints" / "ckpt"

    same = {"checkpoint": str(saved), "device_checkpoint": str(saved.parent / "ckpt.index")}
    again = probe_flow("run", stage(tmp_path, model="train.py:step", seed=5, **same), output="again")
    assert again.codes == {"PF6343"}
    assert facts(again)["checkpoint"] == facts(first)["checkpoint"]
    assert facts(again)["device_checkpoint"]["sha256"] == facts(first)["checkpoint"]["sha256"]

    other = stage(tmp_path, model="train.py:step", seed=5, device_checkpoint=str(saved))
    done = probe_flow("run", other, output="other")
    assert done.codes == {"PF6343", "PF6345"}
    assert "1 of 5 variables have other values" in done.err
    assert facts(done)["device_checkpoint"]["different"] == ["w"]


KERAS = """
import keras
def step():
    layers = [keras.Input((6,)), keras.layers.Dense(5, "relu", name="d1"), keras.layers.Dropout(0.3, name="drop"),
              keras.layers.Dense(3, name="d2")]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
"""


@live
@pytest.mark.usefixtures("tensorflow")
def test_a_keras_model_is_trained_on_one_batch_and_its_layers_that_draw_are_named(
    probe_flow: Command, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(4, 6)).astype("f4"))
    np.save(tmp_path / "y.npy", np.array([0, 1, 2, 1]))
    model = code(tmp_path, KERAS)
    done = probe_flow("run", stage(tmp_path, model=model, inputs={"files": ["x.npy", "y.npy"]}, repeat=2))

    assert done.code == 0, done.out + done.err
    assert done.codes == {"PF6343"}
    assert "layer `drop (Dropout, rate 0.3)`" in done.err
    catalog = read_training_folder(str(dumped(done)), side="golden")
    found = {ref.node.name.rpartition("/")[2]: values(ref) for ref in catalog.tensors if ref.kind is TensorKind.TENSOR}
    by_name = {ref.node.name: values(ref) for ref in catalog.tensors if ref.kind is TensorKind.TENSOR}
    (hidden,) = [value for name, value in by_name.items() if name.endswith("d1_1/Relu")]
    (product,) = [value for name, value in by_name.items() if name.endswith("d1_1/BiasAdd")]
    assert np.array_equal(hidden, np.maximum(product, 0))
    assert "BiasAddGrad" in found
    assert facts(done)["checkpoint"]["variables"]

    no_batch = probe_flow("run", stage(tmp_path, model=model, overwrite="replace"), output="none")
    assert (no_batch.code, "PF6323" in no_batch.err) == (2, True), no_batch.out + no_batch.err


FILES = """
import sys
import numpy as np, tensorflow as tf, keras

v1 = tf.compat.v1
with tf.Graph().as_default(), v1.Session() as session:
    x = v1.placeholder(tf.float32, [None, 3], name="x")
    w = v1.get_variable("w", [3, 1], use_resource=False)
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w, name="mm")), name="loss")
    v1.train.AdamOptimizer(0.1).minimize(loss, name="train")
    session.run(v1.global_variables_initializer())
    session.run(w.assign(np.full((3, 1), 5.0)))
    v1.train.Saver().save(session, sys.argv[1] + "/net.ckpt")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="d")])
model.compile("sgd", "mse")
model.save(sys.argv[1] + "/net.keras")
"""


@live
@pytest.mark.usefixtures("tensorflow")
def test_a_meta_graph_starts_from_the_checkpoint_beside_it_and_a_keras_file_from_its_weights(
    probe_flow: Command, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-c", FILES, str(tmp_path)], check=True, timeout=300, capture_output=True)
    np.save(tmp_path / "x.npy", np.ones((2, 3), "f4"))
    np.save(tmp_path / "y.npy", np.ones((2, 1), "f4"))
    options = {"fetches": ["loss", "train"], "inputs": {"named": {"x": "x.npy"}}}
    done = probe_flow("run", stage(tmp_path, model="net.ckpt.meta", **options), output="meta")
    assert done.code == 0, done.out + done.err
    catalog = read_training_folder(str(dumped(done)), side="golden")
    found = {ref.node.name: values(ref) for ref in catalog.tensors}
    assert found["w"].ravel().tolist() == [5.0] * 3
    assert found["loss"] == 450.0  # two rows of (3 x 5)²
    assert facts(done)["start"] == str(tmp_path / "net.ckpt")

    files = {"files": ["x.npy", "y.npy"]}
    done = probe_flow("run", stage(tmp_path, model="net.keras", inputs=files), output="keras")
    assert done.code == 0, done.out + done.err
    assert any(
        ref.node.name.endswith("d_1/MatMul") for ref in read_training_folder(str(dumped(done)), side="g").tensors
    )


BAD = {
    "raises": ("def step():\n    raise KeyError('data')\n", "PF6322", "KeyError: 'data'", 2),
    "fails": (
        DROPOUT.replace("tf.matmul(x, w)", "tf.matmul(tf.debugging.check_numerics(x / 0.0, 'inf of layer_3'), w)"),
        "PF6324", "inf of layer_3", 3,
    ),
    "shape": (DROPOUT.replace("np.ones((4, 6))", "np.ones((5, 6))"), "PF6323", "(5, 6)", 2),
    "not compiled": (KERAS.replace("    model.compile(", "    print("), "PF6344", "not compiled", 2),
}  # fmt: skip


@live
@pytest.mark.usefixtures("tensorflow")
@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_run_is_said_without_a_traceback(probe_flow: Command, tmp_path: Path, name: str) -> None:
    text, expected, words, exit_code = BAD[name]
    done = probe_flow("run", stage(tmp_path, model=code(tmp_path, text)))
    assert (done.code, expected in done.err, words in done.err) == (exit_code, True, True), done.err
    assert "Traceback" not in done.err.partition("note")[0]


def test_without_tensorflow_the_plan_names_the_extra(probe_flow: Command, tmp_path: Path) -> None:
    if find_spec("tensorflow") is not None:
        pytest.skip("tensorflow is installed")
    done = probe_flow("plan", stage(tmp_path, model=str(STEP)), output=None)
    assert done.code == 2
    assert "PF6320" in done.err
    assert "probe-flow[tensorflow]" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": ".", "fetches": ["loss:0"]}, "only a stage that runs a `model` takes it"),
        ({"path": ".", "model": "train:step"}, "give either `path`, to adopt a dump, or `model`"),
        ({"model": "train:step", "calls": 2}, "calls"),
    ],
)
def test_options_that_do_not_go_together_are_said_before_anything_runs(
    probe_flow: Command, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    done = probe_flow("validate", stage(tmp_path, **options), output=None)
    assert (done.code, words in done.err) == (2, True), done.err
