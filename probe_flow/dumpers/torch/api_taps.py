"""Stand in front of torch's APIs while a dump is made, so that each call of one is recorded.

Calls that an API makes itself are not recorded, as msprobe has it: the outermost call is the entry. The gradient of a
call is what the autograd node of its first result reads and gives. Nothing is added to the model's graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from probe_flow.dumpers.replaced_attributes import ReplacedAttributes
from probe_flow.dumpers.torch.api_names import CALLS, DROPOUTS, OUTPUT_BUFFERS
from probe_flow.dumpers.torch.watching import Watch

_DISTRIBUTED = "Distributed"

_WRITES_STATE = "batch_norm"
"""Part of the names of APIs that change arguments (running means) without a new version of them."""


class ApiTaps:
    """The replaced APIs of torch; `remove` puts everything back as it was."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._replaced = ReplacedAttributes()

    def install(self) -> None:
        _make_lists_of_torch()
        try:
            for prefix, names in CALLS.items():
                for name in names:
                    self._tap(prefix, name)
            self._tap_data()
            self._tap_wait()
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        self._replaced.restore()

    def _tap(self, prefix: str, name: str) -> None:
        *inner, last = name.split(".")
        taps: dict[int, Callable[..., Any]] = {}
        for owner in _places(prefix):
            for part in inner:
                owner = getattr(owner, part, None)
            found = getattr(owner, last, None)
            if not callable(found):
                continue
            if id(found) not in taps:
                taps[id(found)] = self._tapped(prefix, last, found)
            self._replaced.replace(owner, last, taps[id(found)])

    def _tap_data(self) -> None:
        """Note which tensors are changed past the count of their changes: by way of `.data`."""
        descriptor, watch = torch.Tensor.data, self._watch

        def get(tensor: torch.Tensor) -> torch.Tensor:
            watch.forget(tensor)
            found: torch.Tensor = descriptor.__get__(tensor)
            return found

        def put(tensor: torch.Tensor, value: torch.Tensor) -> None:
            watch.forget(tensor)
            descriptor.__set__(tensor, value)

        self._replaced.replace(torch.Tensor, "data", property(get, put))

    def _tap_wait(self) -> None:
        """Note when somebody waits for a communication: only then its results are there."""
        if not torch.distributed.is_available():
            return
        work, watch = torch.distributed.Work, self._watch
        original = work.wait

        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            watch.waited(self)
            return result

        self._replaced.replace(work, "wait", wait)

    def _tapped(self, prefix: str, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        watch, full = self._watch, f"{prefix}.{name}"
        is_dropout = name.rstrip("_") in DROPOUTS and prefix in ("Functional", "Torch")
        is_transfer = prefix == _DISTRIBUTED
        buffers = OUTPUT_BUFFERS.get(name, ()) if is_transfer else ()
        may_share_memory, writes_state = name == "numpy", _WRITES_STATE in name

        def tap(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not watch.is_open():
                return original(*args, **kwargs)
            busy, recorder = watch.recorder.busy, watch.recorder
            busy.is_set = True
            try:
                with recorder.lock:
                    stem = f"{full}.{recorder.calls[full]}"
                    recorder.calls[full] += 1
                    watch.inputs(f"{stem}.forward", *_without(buffers, args, kwargs))
                result = original(*args, **kwargs)
                if is_transfer:
                    return _transferred(watch, f"{stem}.forward", name, args, kwargs, result)
                if may_share_memory and args:
                    watch.forget(args[0])
                if writes_state:
                    state = (*args[1:], *kwargs.values())
                    watch.forget([each for each in state if not getattr(each, "requires_grad", True)])
                with recorder.lock:
                    if not (is_dropout and not _drop_rate(args, kwargs)):
                        _watch_gradient(watch, f"{stem}.backward", result)
                    watch.outputs(f"{stem}.forward", result)
                return result
            finally:
                busy.is_set = False

        tap.__name__ = getattr(original, "__name__", name)
        tap.__wrapped__ = original  # type: ignore[attr-defined]
        tap.__doc__ = getattr(original, "__doc__", None)
        if hasattr(original, "default"):
            tap.default = original.default  # type: ignore[attr-defined]
        return tap


def _make_lists_of_torch() -> None:
    """Have torch make the lists of its own functions that it keeps, before any is replaced."""
    from torch.overrides import get_overridable_functions
    from torch.utils._device import _device_constructors

    _device_constructors()
    get_overridable_functions()


def _places(prefix: str) -> Iterator[Any]:
    """Yield what has the APIs of a prefix."""
    if prefix == "Functional":
        yield torch.nn.functional
    elif prefix == "Tensor":
        yield torch.Tensor
    elif prefix == "Torch":
        yield torch
    elif torch.distributed.is_available():
        yield from (torch.distributed, torch.distributed.distributed_c10d)


def _drop_rate(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return args[1] if len(args) > 1 else kwargs.get("p", 0.5)


def _without(
    buffers: tuple[int | str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with None in place of those that hold nothing yet."""
    if not buffers:
        return args, kwargs
    kept = tuple(None if place in buffers else arg for place, arg in enumerate(args))
    return kept, {key: None if key in buffers else value for key, value in kwargs.items()}


def _transferred(watch: Watch, name: str, api: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """Record what a communication left in its arguments: now, and again once somebody waited for it."""
    given = (*args, *kwargs.values())
    watch.forget(list(given))
    if api == "isend":
        given = (None, *given[1:])
    works = result if isinstance(result, list) else [result] if result is not None else []
    if works and all(hasattr(work, "wait") for work in works):
        watch.later(works, name, given)
    with watch.recorder.lock:
        watch.outputs(name, given)
    return result


def _watch_gradient(watch: Watch, name: str, result: Any) -> None:
    """Have the gradient recorded of the autograd node of the first result."""
    first = _first_tensor(result)
    if first is None or not first.requires_grad or not torch.is_grad_enabled():
        return
    node = first.grad_fn
    if node is None or first.dtype in watch.no_gradients:
        return
    if (boundary := watch.boundary(first)) is not None:
        boundary.add(lambda gradient: watch.gradients(name, (gradient,), (gradient,)))
        return
    node.register_hook(lambda outgoing, incoming: watch.gradients(name, incoming, outgoing))


def _first_tensor(value: Any) -> torch.Tensor | None:
    while not isinstance(value, torch.Tensor):
        if isinstance(value, dict):
            value = next((each for each in value.values() if isinstance(each, torch.Tensor)), None)
        elif isinstance(value, (list, tuple)) and value:
            value = value[0]
        else:
            return None
    return value
