"""Calls of torch as a dump records them, with their tensors, and what torch itself makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probe_flow.apis.calls import Call, DtypeName, Plain, TensorSpec, leaves


@dataclass(frozen=True)
class Form:
    """One form of a call: how it is named, and its arguments, tensors as arrays."""

    kind: str
    api: str
    args: Sequence[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        shown = [
            f"{each.dtype}{list(each.shape)}" if isinstance(each, np.ndarray) else repr(each) for each in self.args
        ]
        return f"{self.kind}.{self.api}({', '.join(shown)}{', ' + repr(sorted(self.kwargs)) if self.kwargs else ''})"


def tree(value: Any, dtype: Callable[[np.ndarray], str] = lambda array: str(array.dtype)) -> Any:
    """Return arguments as a dump has them."""
    if isinstance(value, np.ndarray):
        return TensorSpec(dtype(value), value.shape)
    if isinstance(value, (tuple, list)) and not _is_shape(value):
        return tuple(tree(each, dtype) for each in value)
    return value if isinstance(value, DtypeName) else Plain(value)


def _is_shape(value: Any) -> bool:
    return bool(value) and all(type(each) is int for each in value)


def arrays_in(value: Any, path: tuple = ()) -> dict[tuple, np.ndarray]:
    """Return the arrays among arguments, by their places."""
    if isinstance(value, np.ndarray):
        return {path: value}
    found: dict[tuple, np.ndarray] = {}
    if isinstance(value, (tuple, list)):
        for number, each in enumerate(value):
            found |= arrays_in(each, (*path, number))
    elif isinstance(value, dict):
        for name, each in value.items():
            found |= arrays_in(each, (*path, name))
    return found


def call_of(form: Form, results: Sequence[np.ndarray], dtype: Callable[[np.ndarray], str] | None = None) -> Call:
    """Return a form as a call of a dump with these results."""
    named = dtype or (lambda array: str(array.dtype))
    return Call(
        form.kind, form.api, tree(tuple(form.args), named) if form.args else (),
        {name: tree(each, named) for name, each in form.kwargs.items()}, tree(tuple(results), named),
    )  # fmt: skip


def places(call: Call) -> list[tuple]:
    """Return the places of the results."""
    return [place for place, _ in leaves(call.results)]
