"""Compute a captured graph in float64: inputs and results are widened, casts to smaller floats become casts to float64.

The graph itself stays that of the model's own precision, so that its nodes have the same names. What draws random
numbers, or has no float64 form, runs in the model's precision, and its result is widened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_map

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_HALF_TO_FLOAT = frozenset({"aten._softmax.default", "aten._log_softmax.default"})


def widened(value: Any) -> Any:
    """Return values with tensors and dtypes of smaller floats made float64, in lists and tuples too."""
    return tree_map(_widen, value)


def narrowed(value: Any, like: Any) -> Any:
    """Return values with the dtypes that tensors have in the captured graph, ``like``."""
    if isinstance(value, torch.Tensor):
        meant = like.meta.get("val") if isinstance(like, Node) else like
        return value.to(meant.dtype) if isinstance(meant, torch.Tensor) else value
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        likes = like.meta.get("val") if isinstance(like, Node) else like
        likes = likes if isinstance(likes, (list, tuple)) else [None] * len(value)
        return type(value)(narrowed(item, inner) for item, inner in zip(value, likes, strict=True))
    return value


def call_wide(
    call: Callable[[Any, Any], Any], node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, str | None]:
    """Run a node in float64.

    Args:
        call: runs its target with arguments.
        node: the node.
        args: its arguments, tensors wide already.
        kwargs: its keyword arguments, likewise.

    Returns:
        The result, widened, and why the node ran in the model's own precision, None if it did not.
    """
    why = _why_narrow(node)
    if why is None:
        wide_args, wide_kwargs = widened(args), widened(dict(kwargs))
        if str(node.target) in _HALF_TO_FLOAT and len(wide_args) == 3:
            wide_args = (*wide_args[:2], False)
        try:
            return widened(call(wide_args, wide_kwargs)), None
        except (RuntimeError, NotImplementedError, TypeError) as error:
            why = f"it has no float64 form: {str(error).splitlines()[0][:200]}"
    own_args = tuple(narrowed(value, like) for value, like in zip(args, node.args, strict=True))
    own_kwargs = {name: narrowed(value, node.kwargs.get(name)) for name, value in kwargs.items()}
    return widened(call(own_args, own_kwargs)), why


def _why_narrow(node: Node) -> str | None:
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return "it draws random numbers"
    if str(node.target) == "aten.view.dtype":
        return "it reads bits as another type"
    return None


def _widen(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
        return value.to(_WIDE[value.dtype])
    return value
