"""What stands between the taps in torch and the recorder: recording changes nothing of what is watched."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from probe_flow.dumpers.dump_json.recorder import Recorder

Handler = Callable[[torch.Tensor], None]


class Boundary:
    """Who wants the gradient of a tensor: modules that gave it, the outermost first, then calls that passed it on."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = weakref.ref(tensor)
        self._version = _version(tensor)
        self._handlers: list[Handler] = []
        tensor.register_hook(self._arrived)

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Return True if this is the boundary of a tensor as it is now."""
        is_same: bool = self._tensor() is tensor and self._version == _version(tensor)
        return is_same

    def add_module(self, handler: Handler) -> None:
        """Add a module; those within it were added before."""
        self._handlers.insert(0, handler)

    def add(self, handler: Handler) -> None:
        """Add a call."""
        self._handlers.append(handler)

    def _arrived(self, gradient: torch.Tensor) -> None:
        for handler in tuple(self._handlers):
            handler(gradient)


class Watch:
    """Tells the recorder what happens.

    Args:
        recorder: of the dump.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.no_gradients = frozenset(
            found for name in dir(torch) if isinstance(found := getattr(torch, name), torch.dtype) and "float8" in name
        )
        self._boundaries: dict[int, Boundary] = {}
        self._waiting: list[tuple[list[Any], str, Sequence[Any]]] = []

    def is_open(self) -> bool:
        """Return True if what this thread does now is to be recorded."""
        recorder = self.recorder
        return recorder.is_running and not getattr(recorder.busy, "is_set", False) and recorder.is_own_process()

    def begin_step(self) -> None:
        """Forget what belongs to the step before."""
        self._boundaries.clear()
        self._waiting.clear()

    # -- what is recorded

    def inputs(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        with self.quiet():
            self.recorder.inputs(name, args, kwargs, is_again=_runs_backward())

    def outputs(self, name: str, output: Any, parameters: Mapping[str, Any] | None = None) -> None:
        with self.quiet():
            self.recorder.outputs(name, output, parameters)

    def gradients(self, name: str, incoming: Sequence[Any], outgoing: Sequence[Any]) -> None:
        """Record gradients that a hook was given."""
        if self.is_open():
            with self.recorder.lock, self.quiet():
                self.recorder.gradients(name, incoming, outgoing)

    def quiet(self) -> AbstractContextManager[None]:
        """Keep the recorder's own work on tensors out of the graph, of the dump, and of the user's modes."""
        return _Quiet(self.recorder.busy)

    # -- tensors

    def forget(self, value: object) -> None:
        """Trust nothing that was found out about a tensor: it may change without a new version."""
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, torch.Tensor):
                self.recorder.forget(each)

    def boundary(self, tensor: torch.Tensor) -> Boundary | None:
        """Return the boundary of a tensor that a module gave, if it is as it was then."""
        found = self._boundaries.get(id(tensor))
        return found if found is not None and found.is_of(tensor) else None

    def at_boundary(self, tensor: torch.Tensor) -> Boundary:
        """Return the boundary of a tensor that a module gives."""
        found = self.boundary(tensor)
        if found is None:
            found = self._boundaries[id(tensor)] = Boundary(tensor)
        return found

    # -- communication

    def later(self, works: Sequence[Any], name: str, given: Sequence[Any]) -> None:
        """Record the arguments of a communication again, once all its parts were waited for."""
        self._waiting.append((list(works), name, given))

    def waited(self, work: Any) -> None:
        """Note that somebody waited for a part of a communication."""
        if not self._waiting or not self.is_open():
            return
        for entry in self._waiting:
            works, name, given = entry
            kept = [each for each in works if each is not work]
            if len(kept) == len(works):
                continue
            works[:] = kept
            if not kept:
                self._waiting.remove(entry)
                self.forget(list(given))
                with self.recorder.lock:
                    self.outputs(name, tuple(given))
            return


class _Quiet:
    """The recorder is at work on this thread. Entered several times a tensor, so it does without generators."""

    __slots__ = ("_before", "_busy", "_had_gradients", "_modes", "_subclasses")

    def __init__(self, busy: Any) -> None:
        self._busy = busy

    def __enter__(self) -> None:
        self._before = getattr(self._busy, "is_set", False)
        self._busy.is_set = True
        self._subclasses = torch._C.DisableTorchFunction()
        self._subclasses.__enter__()
        self._had_gradients = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # noqa: FBT003 (it takes no keywords)
        self._modes: Any = _without_modes()
        if self._modes is not None:
            self._modes.__enter__()

    def __exit__(self, *raised: object) -> None:
        if self._modes is not None:
            self._modes.__exit__(*raised)
        torch._C._set_grad_enabled(self._had_gradients)
        self._subclasses.__exit__(*raised)
        self._busy.is_set = self._before


def _runs_backward() -> bool:
    """Return True inside a backward pass: what runs forward there runs again."""
    return bool(torch._C._current_graph_task_id() != -1)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def _without_modes() -> AbstractContextManager[Any] | None:
    """Return a context in which no mode of the user's sees operators; None where there is none."""
    if not torch._C._len_torch_dispatch_stack():
        return None
    from torch.utils._python_dispatch import _disable_current_modes

    found: AbstractContextManager[Any] = _disable_current_modes()
    return found
