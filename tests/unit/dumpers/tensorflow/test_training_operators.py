"""Which operators of a training step draw random numbers, and which train, in graphs that TensorFlow builds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.frameworks

pytest.importorskip("tensorflow")

from probe_flow.dumpers.tensorflow.library import tf  # noqa: E402
from probe_flow.dumpers.tensorflow.training.operators import (  # noqa: E402
    draws,
    functions_of,
    needed,
    trains,
    with_input_pipelines,
)

v1 = tf.compat.v1

NOT_DRAWN = {
    # derivatives, keys and counters of generators, and what only has such a name
    "RandomGammaGrad", "AnonymousRandomSeedGenerator", "DeleteRandomSeedGenerator", "StatelessRandomGetAlg",
    "StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg", "FractionalAvgPoolGrad", "FractionalMaxPoolGrad",
}  # fmt: skip


class Op:
    def __init__(self, op_type: str) -> None:
        self.name, self.type, self.outputs = "op", op_type, ()


def test_every_registered_operator_that_draws_is_known() -> None:
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    registered = op_def_pb2.OpList()
    registered.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    names = {op.name for op in registered.op}
    word = re.compile(r"Random|Shuffle|Multinomial|CandidateSampler|TruncatedNormal|DistortedBounding|Fractional")
    found = {name for name in names if draws([Op(name)])}

    assert {name for name in names if word.search(name)} - found == NOT_DRAWN
    # these have another word
    more = {name for name in found if not word.search(name)}
    assert more == {
        "Skipgram",
        "XlaRngBitGenerator",
        *(name for name in names if re.match("Stateful(Uni|Stand)", name)),
    }


def graph_of(build: Any) -> Any:
    """Return the operators that what a function builds and returns needs."""
    graph = tf.Graph()
    with graph.as_default():
        found = build()
    operators = with_input_pipelines(needed([found if isinstance(found, tf.Operation) else found.op]))
    return draws([*operators, *functions_of(graph, operators)])


@pytest.mark.parametrize("name", ["dropout", "layer_3"])
def test_a_dropout_is_known_by_its_name_or_by_what_it_does(name: str) -> None:
    (found,) = graph_of(lambda: tf.nn.dropout(v1.placeholder(tf.float32, [4]), rate=0.3, name=name))
    assert (found.what, found.op_type) == ("dropout", "RandomUniform")


def test_a_dropout_of_rate_0_draws_nothing() -> None:
    assert graph_of(lambda: tf.nn.dropout(v1.placeholder(tf.float32, [4]), rate=0.0)) == []


def test_what_the_step_does_not_need_is_not_named() -> None:
    def build() -> Any:
        tf.random.normal([2], name="elsewhere")
        return v1.placeholder(tf.float32, [4]) * 2.0

    assert graph_of(build) == []


def test_the_input_pipeline_of_an_iterator_is_looked_through() -> None:
    def build() -> Any:
        data = tf.data.Dataset.from_tensor_slices(np.arange(8.0)).shuffle(8)
        data = data.map(lambda x: x + tf.random.uniform([], dtype=tf.float64, name="noise"))
        iterator = v1.data.make_initializable_iterator(data)
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator.get_next() * 2.0

    found = graph_of(build)
    assert {(each.op_type[:14], each.what) for each in found} == {
        ("ShuffleDataset", "preprocessing"), ("RandomUniform", "random numbers"),
    }  # fmt: skip


def test_the_body_of_a_loop_is_looked_through() -> None:
    def build() -> Any:
        start = (tf.constant(0), v1.placeholder(tf.float32, [2]))
        return tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a + tf.random.normal([2])), start)[1]

    v1.enable_control_flow_v2()
    assert [each.op_type for each in graph_of(build)] == ["RandomStandardNormal"]


@pytest.mark.parametrize("is_resource", [True, False])
def test_what_changes_a_trainable_variable_trains_and_a_moving_average_does_not(is_resource: bool) -> None:
    graph = tf.Graph()
    with graph.as_default():
        w = v1.get_variable("w", [2], use_resource=is_resource)
        mean = v1.get_variable("mean", [2], trainable=False, use_resource=is_resource)
        by_optimizer = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w))
        by_hand, average = v1.assign_sub(w, [1.0, 1.0], name="hand"), v1.assign(mean, [1.0, 1.0], name="average")
        trainable = {variable.op.name for variable in v1.trainable_variables()}

    def does(fetched: Any) -> bool:
        return any(trains(op, trainable) for op in needed([getattr(fetched, "op", fetched)]))

    assert (does(by_optimizer), does(by_hand), does(average)) == (True, True, False)
