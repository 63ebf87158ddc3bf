"""Run a model of torch as it is, and dump what its modules and calls compute (dump.json)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from probe_flow.dumpers.base.source import load_attribute
from probe_flow.dumpers.dump_json.options import checked_options
from probe_flow.dumpers.torch.dump import TorchDump
from probe_flow.dumpers.torch.runner import TorchRunner, on_tensors, sum_of
from probe_flow.errors import Diagnostic, IncompleteError


class EagerRunner(TorchRunner):
    """Each call of the model is a step, with its backward pass if there is one."""

    def dumping(self, model: Any) -> Any:
        options = dict(self.job.dump)
        self._is_double = options.pop("precision", None) == "float64"
        loss = options.pop("loss", None)
        self._loss = None if loss is None else load_attribute(loss, "loss")
        self._module = model if isinstance(model, torch.nn.Module) else None
        if self._is_double and self._module is not None:
            model.double()
        self._dump = TorchDump(self._module, self.folder, checked_options(options))
        self._dump.__enter__()
        self._dump.stop()
        return model

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if self._is_double:
            args, kwargs = on_tensors(_widened, (tuple(args), dict(kwargs)))
        if self._module is not None:
            self._module.zero_grad()
        self._dump.start()
        try:
            super().step(args, kwargs)
        except BaseException:
            self._dump.__exit__(*sys.exc_info())
            raise
        self._dump.stop()
        self._dump.step()

    def backward(self, result: Any) -> None:
        if self._loss is not None:
            loss = self._loss(result)
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
                raise IncompleteError(_no_loss(loss))
        else:
            # The sum stands for what comes after the model, and is no part of it.
            self._dump.stop()
            loss = sum_of(result)
            self._dump.start()
        loss.backward()

    def finish(self) -> Mapping[str, Any]:
        self._dump.__exit__(None, None, None)
        if not self._dump.entries:
            raise IncompleteError(_nothing_dumped())
        return {"entries": self._dump.entries}


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _no_loss(found: object) -> Diagnostic:
    what = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else f"`{type(found).__name__}`"
    return Diagnostic(
        "PF6324",
        f"`loss` returned {what}, expected a tensor with one element",
        help="it is called with what the model returned, and has to return the value that is differentiated",
    )


def _nothing_dumped() -> Diagnostic:
    return Diagnostic(
        "PF6327",
        "nothing was dumped: the model ran no module and called no API of torch that is asked for",
        help="widen `include`, `scope`, `steps` or `phases`, or use `level: mix`",
    )
