"""Hook the cells of a model while a dump is made: what each reads and gives, its parameters, their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindspore import nn

from probe_flow.dumpers.mindspore.watching import Watch, has_differentiable, passed


class CellTaps:
    """The hooks on a model, or on several; `remove` takes all of them off.

    Args:
        watch: is told what cells do.
        models: the model, or a list of them, whose entries then have their number first.
    """

    def __init__(self, watch: Watch, models: Any) -> None:
        self._watch = watch
        self._models = models
        self._handles: list[Any] = []
        self._hooked: set[tuple[str, str]] = set()

    def install(self) -> None:
        for stem, cell in named_cells(self._models):
            self._tap(stem, cell)

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        self._hooked.clear()

    def _tap(self, stem: str, cell: nn.Cell) -> None:
        watch = self._watch
        calls: list[tuple[str, str, Any] | None] = []

        def before(hooked: nn.Cell, args: Any, kwargs: Any) -> Any:
            if not watch.is_open():
                calls.append(None)
                return None
            recorder = watch.recorder
            with recorder.lock:
                number = recorder.modules[stem]
                recorder.modules[stem] += 1
                name, backward = f"{stem}.forward.{number}", f"{stem}.backward.{number}"
                recorder.tree.begin(name)
                recorder.selection.begin_module(name)
                watch.inputs(name, args, kwargs)
                node = None
                if watch.has_gradients() and has_differentiable(args):
                    node = watch.around(backward, hooked, self._ending(backward))
                    args = passed(node, args)
                calls.append((name, backward, node))
            return args, kwargs

        def after(hooked: nn.Cell, _: Any, __: Any, output: Any) -> Any:
            call = calls.pop() if calls else None
            if call is None:
                return None
            name, backward, node = call
            recorder = watch.recorder
            with recorder.lock:
                if watch.is_open():
                    own = {key.split(".")[-1]: value for key, value in hooked.parameters_dict(recurse=False).items()}
                    self._hook_parameters(stem, own)
                    watch.outputs(name, output, own)
                recorder.tree.end(name)
                recorder.selection.end_module(name)
                if not watch.has_gradients():
                    return None
                if node is not None:
                    output = passed(node, output)
                return passed(watch.before(backward, hooked, self._beginning(backward, is_all=node is None)), output)

        self._handles.append(cell.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(cell.register_forward_hook(after, with_kwargs=True))

    def _beginning(self, name: str, *, is_all: bool) -> Any:
        """Return the hook for the gradients of the results; ``is_all``: the cell reads nothing with a gradient."""

        def hook(incoming: Any) -> None:
            recorder = self._watch.recorder
            if not self._watch.is_open():
                return
            with recorder.lock:
                recorder.tree.begin(name)
                recorder.selection.begin_module(name)
                if is_all:
                    self._ending(name)(incoming, ())

        return hook

    def _ending(self, name: str) -> Any:
        def hook(incoming: Any, outgoing: Any) -> None:
            recorder = self._watch.recorder
            if not self._watch.is_open():
                return
            with recorder.lock:
                self._watch.gradients(name, incoming, outgoing)
                recorder.tree.end(name)
                recorder.selection.end_module(name)

        return hook

    def _hook_parameters(self, stem: str, parameters: dict[str, Any]) -> None:
        if "backward" not in self._watch.recorder.options.phases:
            return
        for name, parameter in parameters.items():
            if parameter.requires_grad and (stem, name) not in self._hooked:
                self._hooked.add((stem, name))
                self._handles.append(parameter.register_hook(self._computed(stem, name)))

    def _computed(self, stem: str, name: str) -> Any:
        watch = self._watch

        def hook(gradient: Any) -> None:
            if watch.is_open():
                with watch.recorder.lock, watch.quiet():
                    watch.recorder.parameter_gradient(stem, name, gradient)

        return hook


def named_cells(models: Any) -> Iterator[tuple[str, nn.Cell]]:
    """Yield cells with the names of their entries; the model itself has none."""
    several = models if isinstance(models, (list, tuple)) else None
    for number, model in enumerate(several if several is not None else (models,)):
        first = "Cell" if several is None else f"Cell.{number}"
        for path, cell in model.cells_and_names():
            if cell is not model:
                yield f"{first}.{path}.{type(cell).__name__}", cell
