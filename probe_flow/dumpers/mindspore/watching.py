"""What stands between the taps in MindSpore and the recorder."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mindspore import Tensor
from mindspore.ops.operations import _inner_ops

from probe_flow.dumpers.dump_json.recorder import Recorder

try:
    from mindspore.graph.api import _no_grad, _pynative_executor
except ImportError:  # before MindSpore 2.9
    from mindspore.common.api import _no_grad, _pynative_executor

_NO_GRADIENT = ("Int", "UInt", "Bool")
"""Beginnings of the names of types that have no gradient."""

Hook = Callable[[Any, Any], None]


class Watch:
    """Tells the recorder what happens.

    Args:
        recorder: of the dump.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.failed: str | None = None
        """The API whose call failed last."""
        self._kept: list[Any] = []

    def is_open(self) -> bool:
        """Return True if what this thread does now is to be recorded."""
        recorder = self.recorder
        return recorder.is_running and not getattr(recorder.busy, "is_set", False) and recorder.is_own_process()

    def begin_step(self) -> None:
        """Forget what belongs to the step before."""
        self._kept.clear()

    # -- what is recorded

    def inputs(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        with self.quiet():
            self.recorder.inputs(name, args, kwargs)

    def outputs(self, name: str, output: Any, parameters: Mapping[str, Any] | None = None) -> None:
        with self.quiet():
            self.recorder.outputs(name, output, parameters)

    def gradients(self, name: str, incoming: Any, outgoing: Any) -> None:
        """Record gradients that a hook was given."""
        if self.is_open():
            with self.recorder.lock, self.quiet():
                self.recorder.gradients(name, _tuple(incoming), _tuple(outgoing))

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep the recorder's own work on tensors out of the graph and of the dump."""
        busy = self.recorder.busy
        before = getattr(busy, "is_set", False)
        busy.is_set = True
        try:
            with _no_grad():
                yield
        finally:
            busy.is_set = before

    # -- hooks

    def has_gradients(self) -> bool:
        """Return True while MindSpore records what it computes, to differentiate it."""
        return bool(_pynative_executor.requires_grad())

    def around(self, name: str, owner: Any, hook: Hook) -> Any:
        """Return MindSpore's node that reports the gradients at both borders of a call.

        It is called with the arguments, then with the results, and gives them back; ``hook`` gets the gradients of the
        results and those of the arguments.
        """
        hooks = OrderedDict({name: lambda _, outgoing, incoming: hook(incoming, outgoing)})
        node = _inner_ops.CellBackwardHook(name, owner, hooks)
        node.register_backward_hook()
        self._kept.extend((hooks, node))
        return node

    def before(self, name: str, owner: Any, hook: Callable[[Any], None]) -> Any:
        """Return MindSpore's node that reports the gradients of the results, before those within are computed."""
        hooks = OrderedDict({name: lambda _, incoming: hook(incoming)})
        node = _inner_ops.CellBackwardHook(name, owner, hooks)
        node.register_backward_pre_hook()
        self._kept.extend((hooks, node))
        return node


def has_differentiable(args: Sequence[Any]) -> bool:
    """Return True if one of the arguments is a tensor of a type that has gradients."""
    return any(isinstance(arg, Tensor) and not str(arg.dtype).startswith(_NO_GRADIENT) for arg in args)


def passed(node: Any, values: Any) -> Any:
    """Return values as a node of MindSpore gives them back."""
    return node(values) if isinstance(values, (Tensor, tuple)) else values


def _tuple(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)
