"""A small collector for torch models: writes what a step computed as a dump.json folder, in the way real ones do.

Every function of torch that a model calls is one entry, and so is its gradient. Gradients are taken by hooks on the
tensors that a call read and wrote. A tensor that was overwritten in place is one and the same before and after, so that
the gradient of such a call shows what reached it at both ends: real collectors record that, too.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

_DATA_NAME = re.compile(r', "data_name": "[^"]*"')
_PLACES = {"torch.nn.functional": "Functional", "torch._C._nn": "Functional", "torch": "Torch", "Tensor": "Tensor"}


class Collector(TorchFunctionMode):
    """Records the calls of one step while it is entered; `write` leaves the dump.

    Args:
        change: ``change(name, output)`` may spoil what a call wrote, and return a function that spoils the gradient
            that reaches it.
    """

    def __init__(self, change: Callable[[str, Any], Callable | None] | None = None) -> None:
        super().__init__()
        self.change = change
        self.data: dict[str, dict[str, Any]] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self._calls: Counter[str] = Counter()

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = self._name(func)
        if name is None:
            return func(*args, **kwargs)
        entry = f"{name}.{self._calls[name]}.forward"
        self._calls[name] += 1
        self.data[entry] = {
            "input_args": [self._leaf(value, f"{entry}.input.{n}") for n, value in enumerate(args)],
            "input_kwargs": {key: self._leaf(value, f"{entry}.input.{key}") for key, value in kwargs.items()},
        }
        in_place = _is_in_place(func, args, kwargs)
        read = [self._apart(arg) if place or not in_place else arg for place, arg in enumerate(args)]
        out = func(*read, **kwargs)
        outputs = list(out) if isinstance(out, (list, tuple)) else [out]
        if not isinstance(out, torch.Tensor) and self.change:
            self.change(entry, out)
        if isinstance(out, torch.Tensor):
            spoil = self.change(entry, out) if self.change else None
            self._watch(entry.replace("forward", "backward"), read, out, spoil)
        self.data[entry]["output"] = [self._leaf(each, f"{entry}.output.{n}") for n, each in enumerate(outputs)]
        return out

    @staticmethod
    def _name(func) -> str | None:
        owner = getattr(func, "__module__", None) or "Tensor"
        name = getattr(func, "__name__", "")
        if owner not in _PLACES or name in (
            "__get__",
            "__set__",
            "backward",
            "detach",
            "float",
            "to",
            "is_floating_point",
        ):
            return None
        return f"{_PLACES[owner]}.{name}"

    @staticmethod
    def _apart(arg: object) -> object:
        """Return a view of a tensor that only one call reads, whose gradient is that of this call alone."""
        if isinstance(arg, torch.Tensor) and arg.requires_grad:
            return torch.Tensor.view_as(arg, arg)
        return type(arg)(map(Collector._apart, arg)) if type(arg) in (list, tuple) else arg

    def _watch(self, entry: str, args: Sequence, out: torch.Tensor, spoil: Callable | None) -> None:
        if not out.requires_grad:
            return
        if spoil is not None:
            out.register_hook(spoil)
        out.register_hook(lambda grad: self._gradient(entry, "input", 0, grad))
        for place, tensor in enumerate(arg for arg in args if isinstance(arg, torch.Tensor)):
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(lambda grad, place=place: self._gradient(entry, "output", place, grad))

    def _gradient(self, entry: str, end: str, place: int, grad: torch.Tensor) -> None:
        found = self.data.setdefault(entry, {"input": [None], "output": []})[end]
        found.extend([None] * (place + 1 - len(found)))
        if found[place] is None:
            found[place] = self._leaf(grad, f"{entry}.{end}.{place}")

    def _leaf(self, value: object, item: str) -> object:
        if isinstance(value, (list, tuple)):
            return [self._leaf(each, f"{item}.{n}") for n, each in enumerate(value)]
        if not isinstance(value, torch.Tensor):
            is_plain = isinstance(value, (bool, int, float, str))
            return {"type": type(value).__name__, "value": value} if is_plain else None
        with torch._C.DisableTorchFunction():
            kept = self.tensors[item] = value.detach().clone()
            array = (kept.float() if kept.is_floating_point() else kept).numpy()
            leaf: dict[str, Any] = {"type": "torch.Tensor", "dtype": str(value.dtype), "shape": list(value.shape)}
            leaf |= {"requires_grad": bool(value.requires_grad), "data_name": f"{item}.pt"}
        if array.dtype.kind == "f" and array.size:
            wide = array.astype(np.float64)
            figures = wide.max(), wide.min(), wide.mean(), np.linalg.norm(wide)
        else:
            figures = (array.max(), array.min(), None, None) if array.size else (None,) * 4
        names = ("Max", "Min", "Mean", "Norm")
        leaf.update({n: None if f is None else float(f) for n, f in zip(names, figures, strict=True)})
        return leaf

    def write(self, folder: Path, step: int, *, task: str) -> None:
        """Write dump.json and construct.json of a step, and with task ``tensor`` the tensors."""
        place = folder / f"step{step}/proc1000"
        (place / "dump_tensor_data").mkdir(parents=True)
        top = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": self.data}
        text = json.dumps(top)
        if task == "tensor":
            for item, tensor in self.tensors.items():
                torch.save(tensor, place / "dump_tensor_data" / f"{item}.pt")
        else:
            text = _DATA_NAME.sub("", text)
        (place / "dump.json").write_text(text)
        (place / "construct.json").write_text(json.dumps(dict.fromkeys(self.data)))


def _is_in_place(func, args: tuple, kwargs: dict) -> bool:
    if func.__name__.endswith("_") and not func.__name__.endswith("__"):
        return True
    try:
        return inspect.signature(func).bind(*args, **kwargs).arguments.get("inplace") is True
    except (TypeError, ValueError):  # no function written in Python
        return False


def record(
    folder: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int,
    task: str = "statistics",
    change: Callable[[str, torch.Tensor], Callable | None] | None = None,
) -> Path:
    """Train a model of `generate.dump_json_models` for some steps and dump each; ``change`` acts in the first."""
    for step in range(steps):
        with Collector(change if step == 0 else None) as collector:
            loss = model.loss()
        loss.backward()
        collector.write(folder, step, task=task)
        optimizer.step()
        optimizer.zero_grad()
    return folder
