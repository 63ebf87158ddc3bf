"""Steps of TF1 graphs as they are built: what cannot be run is said before it runs; weights are told apart by hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumpers.base.job import ModelJob
from probe_flow.errors import ProbeFlowError

pytestmark = pytest.mark.frameworks

pytest.importorskip("tensorflow")

from probe_flow.dumpers.tensorflow.library import tf  # noqa: E402
from probe_flow.dumpers.tensorflow.training import checkpoints  # noqa: E402
from probe_flow.dumpers.tensorflow.training.graph_step import (  # noqa: E402
    Built,
    GraphStep,
    build,
    read_meta_graph,
)

v1 = tf.compat.v1


def linear(rate: float = 0.1) -> tuple[Any, Any, Any]:
    x = v1.placeholder(tf.float32, [2, 3], name="input/x")
    w = v1.get_variable("w", initializer=np.ones((3, 1), "f4"), use_resource=False)
    loss = tf.reduce_sum(tf.matmul(x, w, name="mm"), name="loss")
    return x, loss, v1.train.GradientDescentOptimizer(rate).minimize(loss)


def step_of(made: Any, **dump: Any) -> GraphStep:
    return GraphStep(made, ModelJob("tensorflow_training", "train:step", {}, "out", dump=dump), v1.ConfigProto())


def refused(made: Any, **dump: Any) -> tuple[str, str, str]:
    with pytest.raises(ProbeFlowError) as found:
        step_of(made, **dump)
    said = found.value.diagnostic
    return said.code, said.message, said.help or ""


def test_a_step_without_an_update_is_refused_and_the_training_operator_is_named() -> None:
    code, message, cure = refused(build(lambda: linear()[1], 0))
    assert (code, message) == (
        "PF6344", "`train:step` does no optimizer step: `loss:0` changes no trainable variable",
    )  # fmt: skip
    assert cure == "fetch the training operator too: `GradientDescent`"


def test_a_function_that_returns_nothing_needs_fetches() -> None:
    def returns_nothing() -> None:
        linear()

    made = build(returns_nothing, 0)
    code, message, cure = refused(made)
    assert (code, message) == ("PF6322", "`model: train:step` says nothing that could be fetched")
    assert "`fetches`" in cure
    assert "`GradientDescent`" in cure
    assert step_of(made, fetches=["loss:0", "GradientDescent"]).fetches == ["loss:0", "GradientDescent"]


def test_a_fetch_that_the_graph_lacks_is_named_with_the_nearest() -> None:
    code, message, cure = refused(build(lambda: linear()[1:], 0), fetches=["GradientDecent"])
    assert (code, message) == ("PF6322", "`model: train:step` has no `GradientDecent` to fetch")
    assert "`GradientDescent`" in cure


def test_a_fetch_of_another_graph_is_no_traceback() -> None:
    other = build(lambda: linear()[1:], 0)
    code, message, _ = refused(build(lambda: other.fetches, 0))
    assert code == "PF6322"
    assert "not in the graph that it built" in message


def test_a_feed_that_the_graph_lacks_is_named() -> None:
    code, message, cure = refused(build(lambda: (linear()[1:], {"input/y": 1.0}), 0))
    assert (code, message) == ("PF6322", "`model: train:step` feeds `input/y`, which is not in the graph")
    assert "`input/x`" in cure


def test_feeds_of_the_function_are_inputs_with_a_default_and_have_the_dtype_of_the_placeholder() -> None:
    step = step_of(build(lambda: (linear()[1:], {"input/x": [[1, 2, 3], [4, 5, 6]]}), 0))
    (declared,) = step.inputs or ()
    assert (declared.name, declared.dtype, declared.shape, declared.has_default) == ("input/x", "float32", (2, 3), True)
    assert (step.own_inputs["input/x"].dtype, step.own_inputs["input/x"].shape) == (np.float32, (2, 3))


def test_a_placeholder_without_a_feed_has_to_be_given() -> None:
    (declared,) = step_of(build(lambda: linear()[1:], 0)).inputs or ()
    assert (declared.name, declared.has_default) == ("input/x", False)


def test_a_meta_graph_needs_fetches_and_its_random_operators_get_a_seed(tmp_path: Path) -> None:
    def noisy() -> Any:
        return v1.random_normal([4], name="noise") + v1.get_variable("w", [4], use_resource=False)

    graph = tf.Graph()
    with graph.as_default():
        train = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(noisy())))
        v1.train.export_meta_graph(str(tmp_path / "net.meta"))
    assert refused(read_meta_graph(tmp_path / "net.meta", 7))[0] == "PF6322"
    values = []
    for seed in (7, 7, 8):
        step = step_of(read_meta_graph(tmp_path / "net.meta", seed), fetches=[train.name])
        step.prepare([], {})
        values.append(step._session.run("noise:0"))
        step.close()
    assert values[0].tobytes() == values[1].tobytes() != values[2].tobytes()


@pytest.mark.parametrize("shards", [1, 2])
def test_the_same_weights_have_the_same_hash_whatever_the_files_are(tmp_path: Path, shards: int) -> None:
    def save(name: str, change: float, is_sharded: bool) -> str:
        made = build(lambda: linear()[1:], 0)
        with made.graph.as_default(), v1.Session() as session:
            more = [v1.get_variable(f"more{i}", initializer=np.full(5, i, "f4")) for i in range(shards)]
            session.run(v1.global_variables_initializer())
            session.run(v1.assign_add(more[0], np.full(5, change, "f4")))
            return str(v1.train.Saver(sharded=is_sharded).save(session, str(tmp_path / name)))

    first, same, other = save("a", 0.0, False), save("b", 0.0, True), save("c", 1.0, False)
    hashes = [checkpoints.weights_in(prefix, "checkpoint") for prefix in (first, same, other)]
    assert hashes[0].sha256 == hashes[1].sha256 != hashes[2].sha256
    assert checkpoints.differences(hashes[0], hashes[1]) == ([], [])
    assert checkpoints.differences(hashes[0], hashes[2]) == (["more0"], [])
    assert checkpoints.differences(hashes[0], checkpoints.Weights({"w": hashes[0].variables["w"]})) == (
        [], [f"more{i}" for i in range(shards)],
    )  # fmt: skip


def test_a_variable_that_the_checkpoint_lacks_keeps_its_value_and_is_named(tmp_path: Path) -> None:
    def with_more() -> Any:
        v1.get_variable("slot", initializer=np.full(2, 5.0, "f4"), use_resource=False)
        return linear()[1:]

    made = build(lambda: linear()[1:], 0)
    with made.graph.as_default(), v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run("w/Assign", {"w/initial_value:0": np.full((3, 1), 9.0, "f4")})
        prefix = v1.train.Saver().save(session, str(tmp_path / "net.ckpt"))
    step = step_of(build(with_more, 0))
    step.prepare([], {"input/x": np.ones((2, 3), "f4")})
    assert list(step.restore(prefix)) == ["slot"]
    assert step._session.run(["w:0", "slot:0"])[0].tolist() == [[9.0]] * 3
    assert step._session.run("slot:0").tolist() == [5.0, 5.0]


@pytest.mark.parametrize(("name", "words"), [("none", "lacks `none.index`"), ("", "folder holds none")])
def test_a_checkpoint_that_is_not_there_is_said_with_what_was_looked_for(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ProbeFlowError) as found:
        checkpoints.prefix_of(str(tmp_path / name), "device_checkpoint")
    assert words in found.value.diagnostic.message
    assert "`device_checkpoint:" in found.value.diagnostic.message


def test_a_damaged_checkpoint_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "net.index").write_bytes(b"\x00" * 64)
    (tmp_path / "net.data-00000-of-00001").write_bytes(b"")
    prefix = checkpoints.prefix_of(str(tmp_path / "net.index"), "checkpoint")
    with pytest.raises(ProbeFlowError) as found:
        checkpoints.weights_in(prefix, "checkpoint")
    assert found.value.diagnostic.code == "PF6322"


def test_a_keras_model_of_a_function_comes_through() -> None:
    assert isinstance(build(lambda: tf.keras.Sequential([tf.keras.layers.Dense(1)]), 0), tf.keras.Model)
    assert isinstance(build(linear, 0), Built)
