"""Every tensor of a TensorFlow graph, bit by bit what a session gives when asked for it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumpers.base.child import run_job
from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumps.manifest import DumpManifest, read_manifest
from probe_flow.errors import ProbeFlowError

pytestmark = pytest.mark.frameworks

pytest.importorskip("tensorflow")

from probe_flow.dumpers.tensorflow import runner  # noqa: E402

tf = runner.tf
v1 = tf.compat.v1

X = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)


def weights(rows: int, columns: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def build(x: Any) -> Any:
    """Two layers, of which the second ends in bfloat16, and a branch that depends on the values."""
    hidden = tf.nn.relu(tf.matmul(x, tf.constant(weights(8, 4, 0), name="w0"), name="a/mul.0"), name="a/relu")
    narrow = tf.cast(hidden, tf.bfloat16, name="b/narrow")
    text = tf.strings.as_string(hidden, name="b/text")
    del text
    first, second = tf.split(tf.cast(narrow, tf.float32, name="b/wide"), 2, axis=1, name="cut")
    return tf.add(first, second, name="sum")


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    graph = tf.Graph()
    with graph.as_default():
        build(v1.placeholder(tf.float32, [None, 8], name="x"))
    (tmp_path / "net.pb").write_bytes(graph.as_graph_def().SerializeToString())
    return tmp_path / "net.pb"


def dump(path: Path, x: Any = X, name: str = "x", **options: Any) -> tuple[DumpManifest, Path, dict[str, Any]]:
    folder = path.parent / "dumped"
    folder.mkdir()
    inputs = {}
    if x is not None:
        np.save(folder / "x.npy", x)
        inputs = {"named": {name: str(folder / "x.npy")}}
    job = ModelJob("tensorflow", str(path), inputs, str(folder), dump=options, threads=1)
    record = run_job(job, runner.TensorFlowRunner(job, folder / "tensorflow_dump"))
    manifest = read_manifest(folder / "tensorflow_dump")
    assert manifest is not None
    return manifest, folder / "tensorflow_dump", record


def alone(path: Path, names: list[str]) -> dict[str, Any]:
    """Return tensors of a frozen graph, each asked for in a run of its own."""
    graph = tf.Graph()
    definition = v1.GraphDef()
    definition.ParseFromString(path.read_bytes())
    with graph.as_default():
        tf.graph_util.import_graph_def(definition, name="")
    config = v1.ConfigProto(intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with v1.Session(graph=graph, config=config) as session:
        return {name: session.run(name, {"x:0": X}) for name in names}


@pytest.mark.parametrize("limit", [1, 1 << 20, 1 << 26])
def test_every_tensor_is_what_the_session_gives(frozen: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(runner, "CHUNK_BYTES", limit)

    manifest, folder, record = dump(frozen)

    found = {each.value: (np.load(folder / each.file), each.dtype) for each in manifest.tensors}
    assert found.keys() == {"x:0", "a/mul.0:0", "a/relu:0", "b/narrow:0", "b/wide:0", "cut:0", "cut:1", "sum:0"}
    for name, value in alone(frozen, sorted(found.keys() - {"x:0"})).items():
        array, dtype = found[name]
        wanted = value.astype(np.float32) if dtype == "bfloat16" else value
        assert (array.dtype, array.shape, array.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes()), name
    assert found["b/narrow:0"][1] == "bfloat16"
    assert {each.name: each.reason for each in manifest.skipped} == {
        "b/text:0": "its elements are of type string, which are no numbers"
    }
    assert (record["runs"] == 1) == (limit == 1 << 26)


@pytest.mark.parametrize("limit", [1, 130, 1 << 26])
def test_parts_read_what_earlier_parts_drew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(runner, "CHUNK_BYTES", limit)
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [2, 8], name="x")
        noise = v1.random_uniform([2, 8], name="noise", seed=3)
        noisy = tf.add(x, noise, name="noisy")
        kept = tf.identity(tf.multiply(noisy, 2.0, name="left_out"), name="left_out_too")
        tf.multiply(kept, noise, name="y")
    (tmp_path / "net.pb").write_bytes(graph.as_graph_def().SerializeToString())

    manifest, folder, record = dump(tmp_path / "net.pb", exclude=["left_out*"])

    found = {each.node: np.load(folder / each.file) for each in manifest.tensors}
    assert np.array_equal(found["noisy"], X + found["noise/RandomUniform"])
    assert np.array_equal(found["y"], found["noisy"] * 2 * found["noise/RandomUniform"])
    assert (record["runs"] == 1) == (limit == 1 << 26)


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_what_cannot_be_held_is_computed_again(frozen: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(runner, "CHUNK_BYTES", 1)
    monkeypatch.setattr(runner, "HELD_BYTES", held)

    manifest, folder, _ = dump(frozen)

    for name, value in alone(frozen, ["a/relu:0", "sum:0"]).items():
        (file,) = (each.file for each in manifest.tensors if each.value == name)
        assert np.load(folder / file).tobytes() == value.tobytes()


def test_names_and_graph_are_those_of_the_model(frozen: Path) -> None:
    manifest, folder, _ = dump(frozen)

    read = {node.name: node for node in manifest.nodes}
    assert (read["x"].op_type, read["cut"].op_type) == ("Input", "Split")
    assert read["sum"].inputs == ("cut:0", "cut:1")
    assert "w0" not in read
    assert any(path.name.startswith("a_mul_0.0.") for path in folder.glob("*.npy"))


def test_outputs_narrow_what_runs(frozen: Path) -> None:
    manifest, _, _ = dump(frozen, outputs=["a/relu"])

    assert [each.value for each in manifest.tensors] == ["x:0", "a/mul.0:0", "a/relu:0"]


def test_signature_of_a_saved_model_is_run(tmp_path: Path) -> None:
    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(weights(8, 4, 0))

        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
        def run(self, x):  # type: ignore[no-untyped-def]  # annotations would become part of its signature
            return {"out": tf.nn.relu(tf.matmul(x, self.w, name="product"))}

    module = Module()
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=module.run)

    manifest, folder, _ = dump(tmp_path / "saved", tags=["serve"], signature="serving_default")

    found = {each.op_type: np.load(folder / each.file) for each in manifest.tensors}
    assert np.array_equal(found["Relu"], np.maximum(found["MatMul"], 0))
    assert np.allclose(found["MatMul"], X @ weights(8, 4, 0), atol=1e-5)


def test_checkpoint_with_its_meta_graph_is_restored(tmp_path: Path) -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [None, 8], name="x")
        w = v1.get_variable("w", initializer=weights(8, 4, 3), use_resource=False)
        y = tf.nn.relu(tf.matmul(x, w, name="mul"), name="y")
        v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y), name="train")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(tmp_path / "net.ckpt"))

    manifest, folder, record = dump(tmp_path / "net.ckpt.meta", outputs=["y"])

    found = {each.node: np.load(folder / each.file) for each in manifest.tensors}
    assert np.array_equal(found["w"], weights(8, 4, 3))
    assert np.array_equal(found["y"], np.maximum(found["mul"], 0))
    assert not any(node.startswith(("train", "save", "gradients")) for node in found)
    assert len(record["files"]) >= 4


def test_branch_that_is_not_taken_is_named(tmp_path: Path) -> None:
    graph = tf.Graph()
    with graph.as_default():
        v1.disable_control_flow_v2()
        x = v1.placeholder(tf.float32, [None, 8], name="x")
        try:
            v1.cond(
                tf.reduce_sum(x) > 1e9, lambda: tf.exp(x, name="up"), lambda: tf.negative(x, name="down"), name="either"
            )
        finally:
            v1.enable_control_flow_v2()
    (tmp_path / "net.pb").write_bytes(graph.as_graph_def().SerializeToString())

    manifest, _, _ = dump(tmp_path / "net.pb")

    values = {each.value for each in manifest.tensors}
    assert "either/down:0" in values
    assert {each.name: each.reason for each in manifest.skipped}["either/up:0"] == "in a branch that was not taken"


def refused(path: Path, x: Any = X, **options: Any) -> tuple[str, str]:
    with pytest.raises(ProbeFlowError) as found:
        dump(path, x, **options)
    return found.value.diagnostic.code, found.value.diagnostic.message


def test_open_sizes_are_asked_for_and_taken(frozen: Path) -> None:
    code, message = refused(frozen, None)
    assert code == "PF6323"
    assert "leaves sizes open" in message


@pytest.mark.parametrize("content", [b"", b"\xff\xfe no graph"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.pb").write_bytes(content)

    assert refused(tmp_path / "net.pb")[0] == "PF6322"


def test_unknown_operator_is_named(frozen: Path) -> None:
    definition = v1.GraphDef()
    definition.ParseFromString(frozen.read_bytes())
    next(node for node in definition.node if node.name == "a/relu").op = "MyRelu"
    frozen.write_bytes(definition.SerializeToString())

    code, message = refused(frozen)

    assert code == "PF6322"
    assert "MyRelu" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [({"outputs": ["a/rely"]}, "no operator `a/rely`")],
)
def test_what_the_graph_lacks_is_told(frozen: Path, options: dict[str, Any], words: str) -> None:
    assert words in refused(frozen, **options)[1]


def test_folder_without_a_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert "without `saved_model.pb`" in refused(tmp_path / "empty")[1]


def test_training_graph_needs_outputs(tmp_path: Path) -> None:
    graph = tf.Graph()
    with graph.as_default():
        v1.get_variable("w", initializer=np.ones(2, np.float32), use_resource=False)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(tmp_path / "net.ckpt"))

    assert "graph of a training" in refused(tmp_path / "net.ckpt.meta")[1]
