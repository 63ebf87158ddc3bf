"""One training step of a compiled Keras model, traced as one function under TensorFlow 2's debugger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumpers.tensorflow.library import tf
from probe_flow.dumpers.tensorflow.training.operators import draws, functions_of, trains, trains_in_function
from probe_flow.dumpers.tensorflow.training.step import Step, no_model, trains_nothing
from probe_flow.errors import Diagnostic, UsageError

BATCH = ("x", "y", "sample_weight")
"""What `train_step` takes, in this order."""

_RATES = ("rate", "dropout", "recurrent_dropout", "stddev")


class KerasStep(Step):
    """A step of a Keras model: forward, loss, gradients and the optimizer's update in one function.

    Args:
        model: compiled.
        job: what is run.

    Raises:
        UsageError: PF6344 it is not compiled, PF6322 eager execution is off.
    """

    def __init__(self, model: Any, job: ModelJob) -> None:
        if not tf.executing_eagerly():
            what = "is a Keras model, and its module switched eager execution off"
            raise no_model(job.model, what, "leave it on, or build the graph of the step and return its fetches")
        if getattr(model, "optimizer", None) is None:
            cure = "call `model.compile(optimizer, loss)` before it is returned"
            raise trains_nothing(job.model, "does no optimizer step: the Keras model is not compiled", cure)
        # Compiled by XLA, a step has no operators that could be dumped.
        model.jit_compile = False
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        self._model, self._name = model, job.model
        self.fetches = [f"{model.name}.train_step"]

    def prepare(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        batch = [*args, *(kwargs[name] for name in BATCH[len(args) :] if name in kwargs)]
        unknown = [name for name in kwargs if name not in BATCH]
        if unknown or not 2 <= len(batch) <= len(BATCH):
            given = f"`{unknown[0]}` is no part of a batch" if unknown else f"the batch has {len(batch)} parts"
            cure = "give `inputs: {files: [x.npy, y.npy]}`, or a function that returns (x, y) or (x, y, sample_weight)"
            raise UsageError(Diagnostic("PF6323", f"{given}: a Keras model is trained on x and y", help=cure))
        self._batch = tf.nest.map_structure(tf.convert_to_tensor, tuple(batch))
        if not self._model.built:
            self._model(self._batch[0], training=False)
        self._model.optimizer.build(self._model.trainable_variables)
        traced = self._function().get_concrete_function(*self._batch)
        operators = traced.graph.get_operations()
        inside = list(functions_of(traced.graph, operators))
        if not (any(trains(op, ()) for op in operators) or trains_in_function(inside)):
            cure = "a model without trainable weights, or a `train_step` of its own without an update, trains nothing"
            raise trains_nothing(self._name, "does no optimizer step: no operator changes a variable", cure)
        self.draws = draws([*operators, *inside])
        self.layers = list(_random_layers(self._model)) if self.draws else []

    def _function(self) -> Any:
        return tf.function(lambda *batch: self._model.train_step(batch), autograph=False, jit_compile=False)

    def _checkpoint(self) -> Any:
        return tf.train.Checkpoint(model=self._model, optimizer=self._model.optimizer)

    def restore(self, prefix: str) -> Sequence[str]:
        status = self._checkpoint().restore(prefix)
        try:
            status.assert_existing_objects_matched()
        except AssertionError as error:
            return [str(error).splitlines()[0][:300]]
        return []

    def save(self, prefix: str) -> str:
        return str(self._checkpoint().write(prefix))

    def run(self, folder: Path) -> None:
        tf.debugging.experimental.enable_dump_debug_info(str(folder), "FULL_TENSOR", circular_buffer_size=-1)
        try:
            self._function()(*self._batch)
        finally:
            tf.debugging.experimental.disable_dump_debug_info()


def _random_layers(model: Any) -> Iterator[str]:
    """Yield the layers that draw random numbers while they train, as people see them."""
    for layer in model._flatten_layers(include_self=False):
        if getattr(layer, "seed_generator", None) is None:
            continue
        rates = {name: getattr(layer, name) for name in _RATES if isinstance(getattr(layer, name, None), (int, float))}
        if not rates or any(rates.values()):
            shown = "".join(f", {name} {value:g}" for name, value in rates.items() if value)
            yield f"{layer.name} ({type(layer).__name__}{shown})"
