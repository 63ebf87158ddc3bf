"""Stand in front of MindSpore's APIs, and of the primitives of its cells, while a dump is made.

The outermost call is the entry, as msprobe has it. Gradients are reported by the nodes that MindSpore has for hooks of
cells; results pass through them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from mindspore import ops
from mindspore.ops import Primitive

from probe_flow.dumpers.mindspore.api_names import CALLS
from probe_flow.dumpers.mindspore.watching import Watch, has_differentiable, passed
from probe_flow.dumpers.replaced_attributes import ReplacedAttributes

_TRANSFERS = ("Distributed", "MintDistributed")


class ApiTaps:
    """The replaced APIs of MindSpore; `remove` puts everything back as it was."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._replaced = ReplacedAttributes()

    def install(self) -> None:
        try:
            for prefix, (place, names) in CALLS.items():
                owner = _owner(place)
                for name in names if owner is not None else ():
                    found = getattr(owner, name, None)
                    if callable(found):
                        self._replaced.replace(owner, name, self._tapped(prefix, name, found))
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        self._replaced.restore()

    def _tapped(self, prefix: str, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        watch, full = self._watch, f"{prefix}.{name}"
        is_transfer = prefix in _TRANSFERS

        def tap(*args: Any, **kwargs: Any) -> Any:
            if not watch.is_open():
                return original(*args, **kwargs)
            recorder = watch.recorder
            recorder.busy.is_set = True
            try:
                with recorder.lock:
                    stem = f"{full}.{recorder.calls[full]}"
                    recorder.calls[full] += 1
                    watch.inputs(f"{stem}.forward", args, kwargs)
                    node = _node(watch, f"{stem}.backward", args)
                result = _run(watch, full, original, passed(node, args) if node is not None else args, kwargs)
                with recorder.lock:
                    if node is not None:
                        result = passed(node, result)
                    elif watch.has_gradients():
                        result = _watch_result(watch, f"{stem}.backward", result)
                    given = (*args, *kwargs.values()) if is_transfer else result
                    watch.outputs(f"{stem}.forward", given)
                return result
            finally:
                recorder.busy.is_set = False

        tap.__name__ = getattr(original, "__name__", name)
        tap.__wrapped__ = original  # type: ignore[attr-defined]
        tap.__doc__ = getattr(original, "__doc__", None)
        return tap


class PrimitiveTaps:
    """The primitives that cells hold as attributes: each a call of its own, with the attribute's name.

    Args:
        watch: is told what is called.
        models: the model, or a list of them.
    """

    def __init__(self, watch: Watch, models: Any) -> None:
        self._watch = watch
        self._models = models if isinstance(models, (list, tuple)) else (models,)
        self._before: list[tuple[Any, type]] = []

    def install(self) -> None:
        found = {
            id(value): (name, value)
            for model in self._models
            for _, cell in model.cells_and_names()
            for name, value in vars(cell).items()
            if isinstance(value, Primitive)
        }
        for name, primitive in found.values():
            kind = type(primitive)
            call = self._tapped(f"Primitive.{name}.{kind.__name__}", kind.__call__)
            self._before.append((primitive, kind))
            primitive.__class__ = type(kind.__name__, (kind,), {"__call__": call})

    def remove(self) -> None:
        while self._before:
            primitive, kind = self._before.pop()
            primitive.__class__ = kind

    def _tapped(self, full: str, original: Callable[..., Any]) -> Callable[..., Any]:
        watch = self._watch

        def call(primitive: Any, *args: Any, **kwargs: Any) -> Any:
            recorder = watch.recorder
            if not watch.is_open():
                return original(primitive, *args, **kwargs)
            with recorder.lock:
                stem = f"{full}.{recorder.calls[full]}"
                recorder.calls[full] += 1
                if watch.has_gradients():
                    args = _hooked(watch, f"{stem}.backward", "output", args)
                watch.inputs(f"{stem}.forward", args, kwargs)
            result = _run(watch, full, original, (primitive, *args), kwargs)
            with recorder.lock:
                watch.outputs(f"{stem}.forward", result)
                if watch.has_gradients():
                    given = result if isinstance(result, tuple) else (result,)
                    given = _hooked(watch, f"{stem}.backward", "input", given)
                    result = given if isinstance(result, tuple) else given[0]
            return result

        return call


def _run(watch: Watch, full: str, original: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    try:
        return original(*args, **kwargs)
    except Exception:
        watch.failed = full
        raise


def _owner(place: str) -> Any:
    module, _, attribute = place.partition(":")
    try:
        found = import_module(module)
    except ImportError:
        return None
    return getattr(found, attribute) if attribute else found


def _node(watch: Watch, name: str, args: tuple[Any, ...]) -> Any:
    """Return the node that reports the gradients of a call; None if nothing that it reads has one."""
    if not watch.has_gradients() or not has_differentiable(args):
        return None
    return watch.around(name, None, lambda incoming, outgoing: watch.gradients(name, incoming, outgoing))


def _watch_result(watch: Watch, name: str, result: Any) -> Any:
    return passed(watch.before(name, None, lambda incoming: watch.gradients(name, incoming, ())), result)


def _hooked(watch: Watch, name: str, side: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Have the gradients of a primitive's tensors recorded, in the order in which they come, as msprobe has them."""
    from mindspore import Tensor

    def hook(gradient: Any) -> None:
        if watch.is_open():
            with watch.recorder.lock, watch.quiet():
                for each in gradient if isinstance(gradient, tuple) else (gradient,):
                    watch.recorder.one_more_gradient(name, side, each)

    return tuple(ops.HookBackward(hook)(value) if isinstance(value, Tensor) else value for value in values)
