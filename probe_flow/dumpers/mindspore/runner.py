"""Run a model of MindSpore in PyNative mode, and dump what its cells and calls compute (dump.json)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import mindspore
import numpy as np
from mindspore import nn
from numpy.typing import NDArray

from probe_flow.dumpers.base.runner import Runner
from probe_flow.dumpers.base.source import load_attribute
from probe_flow.dumpers.dump_json.encoding import leaves_in
from probe_flow.dumpers.dump_json.options import checked_options
from probe_flow.dumpers.mindspore.dump import MindSporeDump
from probe_flow.dumpers.mindspore.leaves import host_array
from probe_flow.errors import Diagnostic, IncompleteError

_NO_KERNEL = ("unregistered", "only support", "Select CPU operator", "not support")


class MindSporeRunner(Runner):
    """Each call of the model is a step, with its backward pass if there is one."""

    framework = "MindSpore"
    libraries = ("mindspore", "numpy")
    model_word = "a `mindspore.nn.Cell`"
    input_help = "give `.npy` arrays of numbers"

    def begin(self) -> None:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        mindspore.set_device(self.job.device or "CPU")

    def seed(self) -> None:
        mindspore.set_seed(self.job.seed)

    def is_model(self, found: object) -> bool:
        return isinstance(found, nn.Cell)

    def open(self, model: Any) -> None:
        options = dict(self.job.dump)
        loss = options.pop("loss", None)
        self._loss = None if loss is None else load_attribute(loss, "loss")
        if self.job.threads is not None:
            mindspore.set_context(runtime_num_threads=self.job.threads)
        cell = model if isinstance(model, nn.Cell) else None
        if cell is not None:
            cell.set_train(self.job.has_backward)
        self._model = model
        self._weights = list(cell.trainable_params()) if cell is not None else []
        self._dump = MindSporeDump(cell, self.folder, checked_options(options))
        self._dump.__enter__()
        self._dump.stop()

    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        found = getattr(mindspore, dtype, None)
        if not isinstance(found, mindspore._c_expression.typing.Type):
            return None
        name = str(found)
        if name == "Bool":
            return "bool"
        return "integer" if name.startswith(("Int", "UInt")) else "float"

    def tensor(self, array: NDArray[Any], dtype: str | None) -> Any:
        tensor = mindspore.Tensor(np.ascontiguousarray(array))
        return tensor if dtype is None else tensor.astype(getattr(mindspore, dtype))

    def copied(self, inputs: Any) -> Any:
        if isinstance(inputs, mindspore.Tensor):
            return inputs.copy()
        if isinstance(inputs, dict):
            return {name: self.copied(value) for name, value in inputs.items()}
        if isinstance(inputs, (list, tuple)):
            return type(inputs)(self.copied(value) for value in inputs)
        return super().copied(inputs)

    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        return (str(value.dtype), tuple(value.shape)) if isinstance(value, mindspore.Tensor) else None

    def stored(self, tensor: Any) -> tuple[NDArray[Any], bytes]:
        array = host_array(tensor)
        return array, np.ascontiguousarray(array).tobytes()

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._dump.start()
        try:
            if self.job.has_backward:
                if not self._weights:
                    raise IncompleteError(_nothing_to_differentiate())
                mindspore.value_and_grad(self._value, None, weights=self._weights)(*args, **kwargs)
            else:
                self._model(*args, **kwargs)
        except BaseException:
            self._dump.__exit__(*sys.exc_info())
            raise
        self._dump.stop()
        self._dump.step()

    def _value(self, *args: Any, **kwargs: Any) -> Any:
        result = self._model(*args, **kwargs)
        if self._loss is not None:
            return self._loss(result)
        # The sum stands for what comes after the model, and is no part of it.
        self._dump.stop()
        total = None
        for each in leaves_in(result, _is_floating):
            part = each.astype(mindspore.float32).sum()
            total = part if total is None else total + part
        self._dump.start()
        if total is None:
            raise IncompleteError(_nothing_to_differentiate())
        return total

    def words(self, error: BaseException) -> str:
        """Return what an error says; of an API without a kernel on this device its name, and what to do instead."""
        said = super().words(error)
        api = self._dump.failed_api
        if api is None or not any(word in str(error) for word in _NO_KERNEL):
            return said
        return (
            f"`{api}` has no kernel on {self.job.device or 'CPU'} ({said}); compute the golden side with the same "
            "model in torch (`dump.torch`), and pair the two by `match.layer_mapping` or `match.structure`"
        )

    def finish(self) -> Mapping[str, Any]:
        self._dump.__exit__(None, None, None)
        if not self._dump.entries:
            raise IncompleteError(_nothing_dumped())
        return {"entries": self._dump.entries}


def _is_floating(value: Any) -> bool:
    return isinstance(value, mindspore.Tensor) and "Float" in str(value.dtype)


def _nothing_to_differentiate() -> Diagnostic:
    return Diagnostic(
        "PF6324",
        "the model has nothing to differentiate: no trainable parameter, or no result of a floating type",
        help="leave out `backward`, or make parameters that require gradients",
    )


def _nothing_dumped() -> Diagnostic:
    return Diagnostic(
        "PF6327",
        "nothing was dumped: the model ran no cell and called no API of MindSpore that is asked for",
        help="widen `include`, `scope`, `steps` or `phases`, or use `level: mix`",
    )
