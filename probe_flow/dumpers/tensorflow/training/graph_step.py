"""One training step of a TF1 graph in a session, without rewrites, under `DumpingDebugWrapperSession`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumpers.tensorflow.graphs import declared_input, inputs_of
from probe_flow.dumpers.tensorflow.library import tf
from probe_flow.dumpers.tensorflow.training.operators import (
    draws,
    functions_of,
    needed,
    trains,
    trains_in_function,
    with_input_pipelines,
)
from probe_flow.dumpers.tensorflow.training.step import Step, no_model, trains_nothing
from probe_flow.errors import did_you_mean
from probe_flow.files.opening import open_bytes

v1 = tf.compat.v1

_MAX_SHOWN = 5


class Built(Struct):
    """A graph, what its step is asked for, and what it is fed with where the code that built it says so."""

    graph: Any
    fetches: Any = None
    feeds: Mapping[Any, Any] | None = None


def build(function: Callable[[], Any], seed: int) -> Any:
    """Return what a function builds in a graph of its own: a `Built`, or the Keras model that it returns.

    The function returns fetches, or a tuple of these and a mapping of feeds.
    """
    graph = tf.Graph()
    with graph.as_default():
        v1.set_random_seed(seed)
        made = function()
    if isinstance(made, tf.keras.Model):
        return made
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping):
        return Built(graph, made[0], made[1])
    return Built(graph, made)


def read_meta_graph(path: Path, seed: int) -> Built:
    """Return the graph of a `.meta` file. Operators that draw random numbers without a seed get one.

    Raises:
        Exception: TensorFlow raises errors of many kinds for what it cannot read.
    """
    definition = v1.MetaGraphDef()
    with open_bytes(path) as file:
        definition.ParseFromString(file.read())
    for number, node in enumerate(definition.graph_def.node):
        if "seed2" in node.attr and not node.attr["seed"].i and not node.attr["seed2"].i:
            node.attr["seed"].i, node.attr["seed2"].i = seed, number + 1
    graph = tf.Graph()
    with graph.as_default():
        v1.train.import_meta_graph(definition, clear_devices=True)
    return Built(graph)


class GraphStep(Step):
    """A step that a session runs.

    Args:
        built: the graph.
        job: what is run; ``fetches`` of its dump's options replace those of the graph's code.
        config: of the session.

    Raises:
        UsageError: PF6322 a fetch or a feed is not in the graph, PF6344 the step changes no variable.
    """

    def __init__(self, built: Built, job: ModelJob, config: Any) -> None:
        self._graph, self._model = built.graph, job.model
        wanted = job.dump.get("fetches") or built.fetches
        self._fetched = [self._element(each) for each in tf.nest.flatten(wanted) if each is not None]
        if not self._fetched:
            raise self._no_fetches()
        self.fetches = [each.name for each in self._fetched]
        self._fed = {self._fed_tensor(key): value for key, value in (built.feeds or {}).items()}
        operators = needed(
            [each if isinstance(each, tf.Operation) else each.op for each in self._fetched],
            {tensor.op.name for tensor in self._fed},
        )
        self._check_training(operators)
        inside = list(functions_of(self._graph, with_input_pipelines(operators)))
        self.draws = draws([*with_input_pipelines(operators), *inside])
        in_order = {op.name: number for number, op in enumerate(self._graph.get_operations())}
        self._declare(sorted(operators, key=lambda op: in_order[op.name]))
        self._session = v1.Session(graph=self._graph, config=config)

    def _element(self, each: Any) -> Any:
        """Return the tensor or operator of a fetch."""
        try:
            return self._graph.as_graph_element(each)
        except (KeyError, ValueError, TypeError) as error:
            if not isinstance(each, str):
                what = f"asks for {each!r}, which is not in the graph that it built"
                raise no_model(self._model, what[:300], "return tensors and operators of that graph") from error
            names = [op.name for op in self._graph.get_operations()]
            near = did_you_mean(each.partition(":")[0], names)
            cure = near or "name operators (`train`) or tensors (`loss:0`) of the graph"
            raise no_model(self._model, f"has no `{each}` to fetch", cure) from error

    def _fed_tensor(self, key: Any) -> Any:
        name = f"{key}:0" if isinstance(key, str) and ":" not in key else key
        try:
            return self._graph.as_graph_element(name, allow_operation=False)
        except (KeyError, ValueError, TypeError) as error:
            near = did_you_mean(str(key).partition(":")[0], [op.name for op in self._graph.get_operations()])
            what = f"feeds `{getattr(key, 'name', key)}`, which is not in the graph"
            raise no_model(self._model, what, near or "feed placeholders of the graph that it built") from error

    def _training_operators(self) -> list[str]:
        return [op.name for op in self._graph.get_collection("train_op") if isinstance(op, tf.Operation)]

    def _no_fetches(self) -> Exception:
        names = ", ".join(f"`{name}`" for name in self._training_operators()[:_MAX_SHOWN])
        cure = "name what the step is asked for with `fetches`: the loss and the training operator"
        return no_model(self._model, "says nothing that could be fetched", cure + (f", {names}" if names else ""))

    def _check_training(self, operators: Sequence[Any]) -> None:
        trainable = {variable.op.name for variable in self._graph.get_collection("trainable_variables")}
        if any(trains(op, trainable) for op in operators):
            return
        if trains_in_function(functions_of(self._graph, operators)):
            return
        shown = ", ".join(f"`{name}`" for name in self.fetches[:_MAX_SHOWN])
        names = ", ".join(f"`{name}`" for name in self._training_operators()[:_MAX_SHOWN])
        cure = f"fetch the training operator too: {names}" if names else "fetch what `optimizer.minimize` returns too"
        raise trains_nothing(self._model, f"does no optimizer step: {shown} changes no trainable variable", cure)

    def _declare(self, operators: Sequence[Any]) -> None:
        own = {_input_name(tensor): tensor for tensor in self._fed}
        declared = [each for each in inputs_of(operators) if each.name not in own]
        tensors = {each.name: self._graph.get_tensor_by_name(f"{each.name}:0") for each in declared}
        self._tensors = {**own, **tensors}
        self.own_inputs = {
            _input_name(tensor): np.asarray(value, tensor.dtype.as_numpy_dtype) for tensor, value in self._fed.items()
        }
        brought = [declared_input(name, tensor, has_default=True) for name, tensor in own.items()]
        self.inputs = [*declared, *brought]

    def prepare(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002 (they come by name)
        self._feeds = {self._tensors[name]: value for name, value in kwargs.items()}
        with self._graph.as_default():
            made = [v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()]
        self._session.run(made, self._feeds)  # data sets may begin with what is fed

    def restore(self, prefix: str) -> Sequence[str]:
        reader: Any = tf.train.load_checkpoint(prefix)
        variables = {variable.op.name: variable for variable in self._graph.get_collection("variables")}
        found = [variable for name, variable in variables.items() if reader.has_tensor(name)]
        if found:
            with self._graph.as_default():
                v1.train.Saver(found).restore(self._session, prefix)
        return [name for name in variables if not reader.has_tensor(name)]

    def save(self, prefix: str) -> str:
        with self._graph.as_default():
            return str(v1.train.Saver().save(self._session, prefix, write_state=False))

    def run(self, folder: Path) -> None:
        from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

        # Without `pass_through_operrors` an error of the step is returned in place of its values.
        wrapped = DumpingDebugWrapperSession(self._session, str(folder), pass_through_operrors=True)
        wrapped.run(self._fetched, self._feeds)

    def close(self) -> None:
        self._session.close()


def _input_name(tensor: Any) -> str:
    return str(tensor.op.name if len(tensor.op.outputs) == 1 else tensor.name)
