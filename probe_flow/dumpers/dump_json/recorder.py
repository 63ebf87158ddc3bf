"""Collect what the calls of a step read and wrote; a framework's taps say when there is something to record."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from probe_flow.dumpers.dump_json.callers import CallTree, Stacks
from probe_flow.dumpers.dump_json.encoding import Leaves, encoded
from probe_flow.dumpers.dump_json.folder import StepFolders
from probe_flow.dumpers.dump_json.options import DumpOptions
from probe_flow.dumpers.dump_json.selection import Selection
from probe_flow.dumpers.dump_json.step_files import StepFiles

_MODULES = ("Module.", "Cell.")
_FORKS: list[None] = []
"""Grows by one in each process that is a copy: to ask the system who one is takes longer, for every call."""

os.register_at_fork(after_in_child=lambda: _FORKS.append(None))


class StepLeaves(Leaves, ABC):
    """How a framework's values are encoded and written, for one step."""

    def __init__(self, files: StepFiles, options: DumpOptions) -> None:
        self.files = files
        self.options = options

    @abstractmethod
    def finish(self) -> None:
        """Put figures in place that were left on the device."""

    def forget(self, tensor: Any) -> None:
        """Read a tensor anew from now on, whatever was found out about it: it may change unseen."""


class Step:
    """What was recorded of a step so far."""

    def __init__(self, files: StepFiles, leaves: StepLeaves) -> None:
        self.files = files
        self.leaves = leaves
        self.data: dict[str, dict[str, Any]] = {}
        self.construct: dict[str, str | None] = {}
        self.stacks: dict[tuple[str, ...], list[str]] = {}
        self.recomputed: list[str] = []


class Recorder:
    """The dump of one process. All of it may be called from any thread.

    Args:
        folder: where steps are written.
        options: what is recorded.
        leaves: makes what encodes values in a step.
        low_risk: APIs that are left out unless something is asked for.
    """

    def __init__(
        self,
        folder: StepFolders,
        options: DumpOptions,
        leaves: Callable[[StepFiles, DumpOptions], StepLeaves],
        low_risk: Collection[str],
    ) -> None:
        self.options = options
        self.number = 0
        self.entries = 0
        self.lock = threading.RLock()
        self.busy = threading.local()
        self._folder = folder
        self._leaves = leaves
        self._low_risk = low_risk
        self._forks = len(_FORKS)
        self._is_on = False
        self._frames = Stacks()
        self._begin_step()

    # -- steps

    def start(self) -> None:
        """Record from now on."""
        self._is_on = True
        self._choose()

    def pause(self) -> None:
        """Record nothing until `start`."""
        with self.lock:
            self.settle()
            self._is_on = self.is_running = False

    def _begin_step(self) -> None:
        self._step: Step | None = None
        self.calls: Counter[str] = Counter()
        self.modules: Counter[str] = Counter()
        self.tree = CallTree()
        self.selection = Selection(self.options, self._low_risk)
        self._gradients: dict[str, tuple[str, int]] = {}
        self._with_backward: set[str] = set()
        self._unsettled: list[Callable[[], None]] = []
        self._choose()

    def _choose(self) -> None:
        steps = self.options.steps
        is_wanted = steps is None or self.number in steps
        ranks = self.options.ranks
        if is_wanted and ranks is not None:
            rank = self._folder.rank()
            is_wanted = rank is None or rank in ranks
        self.is_running = self._is_on and is_wanted

    def end_step(self, *, is_complete: bool = True) -> None:
        """Write the step; what comes next belongs to the next one.

        Raises:
            IncompleteError: PF6326 when it cannot be written.
        """
        with self.lock:
            self.settle()
            step, self._step = self._step, None
            try:
                if step is not None:
                    self._write(step, is_complete=is_complete)
            finally:
                self.number += 1
                self._begin_step()

    def stop(self, *, is_complete: bool = True) -> None:
        """Record nothing more, and write the step that is open."""
        self.end_step(is_complete=is_complete)
        self._is_on = self.is_running = False

    def _write(self, step: Step, *, is_complete: bool) -> None:
        step.leaves.finish()
        facts = {"recomputed": step.recomputed}
        construct = step.construct if self.options.has_modules else {}
        step.files.finish(step.data, step.stacks, construct, is_complete=is_complete, facts=facts)

    def is_own_process(self) -> bool:
        """Return True if this is no copy of the process that the dump belongs to."""
        return len(_FORKS) == self._forks

    def forget(self, tensor: Any) -> None:
        """Trust nothing that was found out about a tensor, now and later."""
        with self.lock:
            if self._step is not None:
                self._step.leaves.forget(tensor)

    def _open(self) -> Step:
        if self._step is None:
            files = self._folder.step(self.number, self.options)
            self._step = Step(files, self._leaves(files, self.options))
        return self._step

    def settle_later(self, end: Callable[[], None]) -> None:
        """End a module's backward pass before the next call, after the parameters that its last operator leads to."""
        self._unsettled.append(end)

    def settle(self) -> None:
        """End what `settle_later` put off."""
        while self._unsettled:
            self._unsettled.pop(0)()

    # -- calls

    def inputs(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, is_again: bool = False) -> None:
        """Record what a call of an API or a module is about to read."""
        self.settle()
        if not self.selection.takes(name):
            return
        step = self._open()
        if self.options.takes("forward", "input"):
            leaves = step.leaves
            found = {
                "input_args": [encoded(each, f"{name}.input.{n}", leaves, n) for n, each in enumerate(args)],
                "input_kwargs": {
                    key: encoded(each, f"{name}.input.{key}", leaves, key) for key, each in kwargs.items()
                },
            }
            self._add(step, name, found)
        frames = self._frames.here()
        step.stacks.setdefault(frames, []).append(name)
        if is_again and _is_checkpoint(frames):
            step.recomputed.append(name)

    def outputs(self, name: str, output: Any, parameters: Mapping[str, Any] | None = None) -> None:
        """Record what a call gave, and a module's own parameters."""
        self._place(name)
        if not self.selection.takes(name) or not self.options.takes("forward", "output"):
            return
        step = self._open()
        given = output if isinstance(output, tuple) else (output,)
        found: dict[str, Any] = {"output": encoded(given, f"{name}.output", step.leaves)}
        if parameters is not None:
            found["parameters"] = {
                key: encoded(each, f"{name}.parameters.{key}", step.leaves, key) for key, each in parameters.items()
            }
        self._add(step, name, found)

    def gradients(self, name: str, incoming: Sequence[Any], outgoing: Sequence[Any]) -> None:
        """Record the gradients of what a call gave, and of what it read."""
        self.settle()
        self._place(name)
        if not self.selection.takes(name):
            return
        step = self._open()
        found = {}
        for key, values in (("input", incoming), ("output", outgoing)):
            if self.options.takes("backward", key):
                found[key] = [encoded(each, f"{name}.{key}.{n}", step.leaves, n) for n, each in enumerate(values)]
        self._add_gradients(step, name, found)

    def one_more_gradient(self, name: str, direction: str, gradient: Any) -> None:
        """Record the gradient of another value that a call gave (``input``) or read (``output``), as they come."""
        self._place(name)
        if self.selection.takes(name) and self.options.takes("backward", direction):
            step = self._open()
            known = step.data.get(name, {}).get(direction, [])
            leaf = encoded(gradient, f"{name}.{direction}.{len(known)}", step.leaves, len(known))
            self._add_gradients(step, name, {direction: [*known, leaf]})

    def gradient(self, name: str, direction: str, number: int, gradient: Any) -> Any:
        """Return what the entry of a module's gradients will say of one; with a scope, which ends later, the tensor."""
        if self.options.scope is not None or gradient is None:
            return gradient
        if not self.options.takes("backward", direction) or not self.selection.takes(name):
            return None
        return encoded(gradient, f"{name}.{direction}.{number}", self._open().leaves, number)

    def module_gradients(self, name: str, incoming: Sequence[Any], outgoing: Sequence[Any]) -> None:
        """Record the gradients at a module's borders, each as `gradient` returned it."""
        self._place(name)
        if not self.selection.takes(name):
            return
        found = {"input": incoming, "output": outgoing}
        if self.options.scope is not None:
            leaves = self._open().leaves
            found = {
                key: [encoded(each, f"{name}.{key}.{n}", leaves, n) for n, each in enumerate(values)]
                for key, values in found.items()
            }
        self._add_gradients(self._open(), name, found)

    def _add_gradients(self, step: Step, name: str, found: Mapping[str, Any]) -> None:
        wanted = {key: value for key, value in found.items() if self.options.takes("backward", key)}
        if not wanted:
            return
        if name.startswith(_MODULES):
            self._with_backward.add(name.rsplit(".", 2)[0])
        self._add(step, name, wanted)

    def parameter_gradient(self, module: str, parameter: str, gradient: Any) -> None:
        """Record the gradient of a module's own parameter, as it is accumulated so far.

        Args:
            module: name of the module's entries, without direction.
            parameter: its name in the module.
            gradient: of the parameter.
        """
        first, number = self._gradients.get(module, (parameter, -1))
        number += first == parameter
        self._gradients[module] = (first, number)
        if not (self.selection.takes_gradient_of(module) or module in self._with_backward):
            return
        if "backward" not in self.options.phases:
            return
        step = self._open()
        name = f"{module}.parameters_grad.{number}"
        self._add(step, name, {parameter: [encoded(gradient, f"{name}.{parameter}", step.leaves)]})

    def _add(self, step: Step, name: str, found: Mapping[str, Any]) -> None:
        """Add to an entry; those of modules stand where they ended."""
        known = step.data.pop(name, None) if name.startswith(_MODULES) else step.data.get(name)
        if known is None:
            known = {}
            self.entries += 1
        known.update(found)
        step.data[name] = known

    def _place(self, name: str) -> None:
        """Note the caller of a call, and of all modules that began so far."""
        if not self.options.has_modules or not self.is_running:
            return
        step = self._open()
        if not name.startswith(_MODULES):
            step.construct[name] = self.tree.current()
        self.tree.tell(step.construct)


def _is_checkpoint(frames: Sequence[str]) -> bool:
    return any("torch/utils/checkpoint.py" in frame for frame in frames)
