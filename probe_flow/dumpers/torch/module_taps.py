"""Hook the modules of a model while a dump is made: what each reads and gives, its parameters, their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from probe_flow.dumpers.torch.module_gradients import ModuleGradients
from probe_flow.dumpers.torch.watching import Watch


class ModuleTaps:
    """The hooks on a model, or on several; `remove` takes all of them off.

    Args:
        watch: is told what modules do.
        models: the model, or a list of them, whose entries then have their number first.
    """

    def __init__(self, watch: Watch, models: Any) -> None:
        self._watch = watch
        self._models = models
        self._handles: list[Any] = []
        self._hooked: set[tuple[str, str]] = set()
        self.without_backward: list[str] = []
        """Modules whose old kind of backward hook allows no other."""

    def install(self) -> None:
        for stem, module in _named(self._models):
            self._tap(stem, module)

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        self._hooked.clear()

    def _tap(self, stem: str, module: torch.nn.Module) -> None:
        watch = self._watch
        has_backward = not (module._backward_hooks and module._is_full_backward_hook is False)
        if not has_backward:
            self.without_backward.append(stem)
        calls: list[tuple[str, ModuleGradients | None] | None] = []

        def before(_: torch.nn.Module, args: Any, kwargs: Any) -> None:
            if torch.compiler.is_compiling() or not watch.is_open():
                calls.append(None)
                return
            recorder = watch.recorder
            with recorder.lock:
                recorder.settle()
                number = recorder.modules[stem]
                recorder.modules[stem] += 1
                name = f"{stem}.forward.{number}"
                recorder.tree.begin(name)
                recorder.selection.begin_module(name)
                watch.inputs(name, args, kwargs)
                gradients = None
                if has_backward and torch.is_grad_enabled():
                    gradients = ModuleGradients(watch, f"{stem}.backward.{number}", args)
            calls.append((name, gradients))

        def after(hooked: torch.nn.Module, _: Any, __: Any, output: Any) -> None:
            call = calls.pop() if calls else None
            if call is None:
                return
            name, gradients = call
            recorder = watch.recorder
            with recorder.lock:
                if watch.is_open():
                    own = dict(hooked.named_parameters(recurse=False))
                    self._hook_parameters(stem, own)
                    watch.outputs(name, output, own)
                recorder.tree.end(name)
                recorder.selection.end_module(name)
                if gradients is not None:
                    gradients.close(output)

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        # A checkpoint that stops early ends modules by an exception: they end all the same.
        self._handles.append(module.register_forward_hook(after, with_kwargs=True, prepend=True, always_call=True))

    def _hook_parameters(self, stem: str, parameters: dict[str, torch.nn.Parameter]) -> None:
        if "backward" not in self._watch.recorder.options.phases:
            return
        for name, parameter in parameters.items():
            if parameter.requires_grad and (stem, name) not in self._hooked and parameter.is_leaf:
                self._hooked.add((stem, name))
                self._handles.append(parameter.register_post_accumulate_grad_hook(self._accumulated(stem, name)))

    def _accumulated(self, stem: str, name: str) -> Any:
        watch = self._watch

        def hook(parameter: torch.Tensor) -> None:
            if watch.is_open():
                with watch.recorder.lock, watch.quiet():
                    watch.recorder.parameter_gradient(stem, name, parameter.grad)

        return hook


def _named(models: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield modules with the names of their entries; the model itself has none."""
    several = models if isinstance(models, (list, tuple)) else None
    for number, model in enumerate(several if several is not None else (models,)):
        first = "Module" if several is None else f"Module.{number}"
        for path, module in model.named_modules():
            kind = type(module).__name__
            if module is model or isinstance(module, torch.jit.ScriptModule) or kind == "FullyShardedDataParallel":
                continue
            yield f"{first}.{path}.{kind}", module
