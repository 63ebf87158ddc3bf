"""Tensors of numpy that remember how they were made, and the functions of both stand-ins over them.

A stand-in is a package named like a framework, with what probe_flow calls of it and nothing else. With this folder on
the search path a command and its workers find the stand-ins in place of the frameworks, which take seconds to import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip


class Tensor:
    """A tensor.

    Args:
        values: its elements.
        parents: tensors that it was made of, with what takes its gradient to theirs.
    """

    def __init__(self, values: Any, parents: Sequence[tuple[Tensor, Callable[[Any], Any]]] = ()) -> None:
        self.values = np.asarray(values)
        self.parents = list(parents)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


def reversed_gradients(results: Sequence[Tensor], inputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Any]:
    """Return the gradient of each input as an array; None where none of the results depends on it."""
    order: list[Tensor] = []
    seen: set[int] = set()

    def visit(tensor: Tensor) -> None:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            for parent, _ in tensor.parents:
                visit(parent)
            order.append(tensor)

    found: dict[int, Any] = {}

    def add(tensor: Tensor, gradient: Any) -> None:
        found[id(tensor)] = found[id(tensor)] + gradient if id(tensor) in found else gradient

    for result, gradient in zip(results, gradients, strict=True):
        visit(result)
        add(result, gradient.values)
    for tensor in reversed(order):
        if id(tensor) in found:
            for parent, back in tensor.parents:
                add(parent, back(found[id(tensor)]))
    return [found.get(id(tensor)) for tensor in inputs]


def functions(kind: type[Tensor]) -> dict[str, Callable[..., Any]]:
    """Return the functions of a framework, whose tensors are of this class."""

    def plain(each: Any) -> Any:
        return each.values if isinstance(each, Tensor) else each

    def made(values: Any, *parents: tuple[Any, Callable[[Any], Any]], like: Sequence[Any]) -> Any:
        types = [each.values.dtype for each in like if isinstance(each, Tensor)]
        dtype = np.result_type(*types) if types else np.asarray(values).dtype

        def back_to(parent: Tensor, back: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda gradient: _summed(np.asarray(back(gradient)), parent.shape).astype(parent.values.dtype)

        kept = [(parent, back_to(parent, back)) for parent, back in parents if isinstance(parent, Tensor)]
        return kind(np.asarray(values).astype(dtype), kept)

    def add(x: Any, y: Any, *, alpha: float = 1) -> Any:
        return made(plain(x) + plain(y) * alpha, (x, lambda g: g), (y, lambda g: g * alpha), like=(x, y))

    def mul(x: Any, y: Any) -> Any:
        one, other = plain(x), plain(y)
        return made(one * other, (x, lambda g: g * other), (y, lambda g: g * one), like=(x, y))

    def exp(x: Any) -> Any:
        with np.errstate(all="ignore"):
            found = np.exp(plain(x))
        return made(found, (x, lambda g: g * found), like=(x,))

    def matmul(x: Any, y: Any) -> Any:
        one, other = plain(x), plain(y)
        return made(one @ other, (x, lambda g: g @ other.T), (y, lambda g: one.T @ g), like=(x, y))

    def where(condition: Any, x: Any, y: Any) -> Any:
        chosen = plain(condition)
        return made(
            np.where(chosen, plain(x), plain(y)),
            (x, lambda g: np.where(chosen, g, 0)),
            (y, lambda g: np.where(chosen, 0, g)),
            like=(x, y),
        )

    def total(x: Any, dim: int | None = None) -> Any:
        spread = plain(x)

        def back(gradient: Any) -> Any:
            wide = gradient if dim is None else np.expand_dims(gradient, dim)
            return np.broadcast_to(wide, spread.shape)

        return made(spread.sum(axis=dim), (x, back), like=(x,))

    def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
        parts = [plain(each) for each in tensors]
        starts = np.cumsum([0, *(part.shape[dim] for part in parts)])

        def back(first: int, last: int) -> Callable[[Any], Any]:
            return lambda g: np.take(g, range(first, last), axis=dim)

        backs = [(each, back(*starts[number : number + 2])) for number, each in enumerate(tensors)]
        return made(np.concatenate(parts, axis=dim), *backs, like=tensors)

    def largest(x: Any, dim: int | None = None) -> Any:
        values = plain(x)
        if dim is None:
            return made(values.max(), (x, lambda g: np.where(values == values.max(), g, 0)), like=(x,))
        where_ = np.expand_dims(values.argmax(axis=dim), dim)

        def back(gradient: Any) -> Any:
            found = np.zeros_like(values)
            np.put_along_axis(found, where_, np.expand_dims(gradient, dim), dim)
            return found

        return made(values.max(axis=dim), (x, back), like=(x,)), kind(where_.squeeze(dim).astype(np.int64))

    def relu(x: Any) -> Any:
        values = plain(x)
        return made(np.maximum(values, 0), (x, lambda g: np.where(values > 0, g, 0)), like=(x,))

    def add_(x: Any, y: Any) -> Any:
        changed = add(kind(x.values, x.parents), y)
        x.values, x.parents = changed.values, changed.parents
        return x

    def item(x: Any) -> Any:
        return x.values.item()

    found: dict[str, Callable[..., Any]] = {
        "add": add, "mul": mul, "exp": exp, "matmul": matmul, "where": where, "sum": total, "cat": cat,
        "max": largest, "relu": relu, "add_": add_, "item": item,
    }  # fmt: skip
    for function in found.values():
        function.__module__ = f"{kind.__module__}.functional"
    return found


def _summed(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Return a gradient in the shape of a tensor that was broadcast."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return gradient.sum(axis=axes, keepdims=True) if axes else gradient
