"""Gradients of what moves, repeats and picks elements: each goes back to the place that its element came from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import moves, reductions
from probe_flow.apis.numpy_core.names import TORCH

Array = NDArray[Any]
Given = Mapping[str, Any]
Gradients = dict[str, Array]
Rule = Callable[[Given, Array], Gradients]


def _moved(function: Callable[..., Array]) -> Rule:
    """Return the rule of an operator by what it makes of the numbers of its elements, from 1 on: 0 is none of them."""

    def rule(given: Given, gradient: Array) -> Gradients:
        source = given["input"]
        numbers = np.arange(1, source.size + 1).reshape(source.shape)
        came_from = _called(function, {**given, "input": numbers})
        return {"input": _sent_back(came_from, gradient, source)}

    return rule


def _sent_back(came_from: Array, gradient: Array, source: Array) -> Array:
    """Return a gradient at the elements that it is of; where one is named twice, the sum."""
    sums = np.bincount(came_from.ravel(), gradient.ravel(), minlength=source.size + 1)
    return sums[1:].reshape(source.shape)


def _called(function: Callable[..., Any], given: Given) -> Any:
    """Return what a function gives of its arguments by name, those that it takes in any number among them."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    for name, each in inspect.signature(function).parameters.items():
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            args.extend(given.get(name, ()))
        elif name in given and each.kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = given[name]
        elif name in given:
            args.append(given[name])
    return function(*args, **named)


def _pad(given: Given, gradient: Array) -> Gradients:
    return _moved(moves.pad)({**given, "value": 0}, gradient)


def _cat(given: Given, gradient: Array) -> Gradients:
    tensors, axis = given["tensors"], given.get("dim", 0)
    edges = np.cumsum([each.shape[axis] for each in tensors])[:-1]
    return {f"tensors.{place}": part for place, part in enumerate(np.split(gradient, edges, axis=axis))}


def _stack(given: Given, gradient: Array) -> Gradients:
    parts = np.moveaxis(gradient, given.get("dim", 0), 0)
    return {f"tensors.{place}": part for place, part in enumerate(parts)}


EQUALS = "which of equal elements gets a gradient is up to the kernel"


def _ordered(function: Callable[..., tuple[Array, Array]]) -> Rule:
    """Return the rule of an operator that puts elements in order, and gives the places that they had."""

    def rule(given: Given, gradient: Array) -> Gradients:
        source, axis = given["input"], given.get("dim", -1)
        next_too = {"k": min(given["k"] + 1, source.shape[axis])} if "k" in given else {}
        if not np.diff(_called(function, {**given, **next_too})[0], axis=axis).all():
            raise UnusableError(EQUALS)
        found = np.zeros(source.shape)
        np.put_along_axis(found, _called(function, given)[1], gradient, axis=axis)
        return {"input": found}

    return rule


def _shared(function: Callable[..., Array]) -> Rule:
    """Return the rule of the extreme over axes: all that are equal to it have the same share."""

    def rule(given: Given, gradient: Array) -> Gradients:
        source = given["input"]
        extreme = function(source, given.get("dim", ()), keepdim=True)
        share = gradient.reshape(extreme.shape) / _counts(source, extreme)
        return {"input": np.where(source == extreme, share, 0.0)}

    return rule


def _counts(source: Array, extreme: Array) -> Array:
    """Return how many elements are equal to the extreme of theirs."""
    axes = tuple(axis for axis, size in enumerate(extreme.shape) if size == 1)
    return np.asarray((source == extreme).sum(axis=axes, keepdims=True))


def _of_two(*, is_largest: bool) -> Rule:
    """Return the rule of the larger, or smaller, of two: of equal ones each has half."""

    def rule(given: Given, gradient: Array) -> Gradients:
        gap = np.subtract(given["input"], given["other"])
        mine = 0.5 + 0.5 * np.sign(gap if is_largest else -gap)
        parts = {"input": gradient * mine, "other": gradient * (1 - mine)}
        return {name: summed_like(part, given[name]) for name, part in parts.items()}

    return rule


def _extreme(of_all: Callable[..., Array], *, is_largest: bool) -> Rule:
    """Return the rule of `reductions.extreme`: of all elements, of two tensors, or along an axis of one of equals."""

    def rule(given: Given, gradient: Array) -> Gradients:
        source, dim = given["input"], given.get("dim")
        other = "dim" if isinstance(dim, np.ndarray) else "other"
        if isinstance(given.get(other), np.ndarray):
            found = _of_two(is_largest=is_largest)({"input": source, "other": given[other]}, gradient)
            return {"input": found["input"], other: found["other"]}
        if dim is not None and (_counts(source, of_all(source, dim, keepdim=True)) > 1).any():
            raise UnusableError(EQUALS)
        return _shared(of_all)({"input": source, "dim": () if dim is None else dim}, gradient)

    return rule


def summed_like(gradient: Array, operand: Array) -> Array:
    """Return a gradient summed over the axes along which its operand was repeated."""
    extra = gradient.ndim - operand.ndim
    summed = gradient.sum(axis=tuple(range(extra))) if extra else gradient
    axes = tuple(axis for axis, size in enumerate(operand.shape) if size == 1 and summed.shape[axis] != 1)
    return summed.sum(axis=axes, keepdims=True) if axes else summed


MOVED_RULES: Mapping[Callable[..., Any], Rule] = MappingProxyType(
    {
        **{
            function: _moved(function)
            for function in (
                moves.flip, moves.roll, moves.tril, moves.triu, moves.repeat, moves.repeat_interleave, moves.movedim,
                moves.unflatten, moves.diagonal, moves.pixel_shuffle, moves.pixel_unshuffle, moves.narrow,
                moves.select, moves.get_item, moves.gather, moves.take_along, moves.index_select,
            )
        },
        moves.pad: _pad, moves.cat: _cat, moves.stack: _stack,
        reductions.topk: _ordered(reductions.topk), reductions.sort: _ordered(reductions.sort),
        reductions.amax: _shared(reductions.amax), reductions.amin: _shared(reductions.amin),
        reductions.largest: _extreme(reductions.amax, is_largest=True),
        reductions.smallest: _extreme(reductions.amin, is_largest=False),
        TORCH["maximum"]: _of_two(is_largest=True), TORCH["minimum"]: _of_two(is_largest=False),
    }
)  # fmt: skip
