"""Compute the gradients of a call again from what it had, and say how far those of a dump are from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import Call, Gradients, Path, TensorSpec, UnusableError, leaves, shown_path
from probe_flow.apis.numpy_core.compute import (
    RULE,
    as_taken,
    moved_by,
    perturbed,
    prepared,
    weighed,
    wide,
    works_in_place,
)
from probe_flow.apis.numpy_core.gradients import rule_by_result, rule_of
from probe_flow.apis.numpy_core.names import Function
from probe_flow.apis.numpy_core.own_error import OwnError

Array = NDArray[Any]


def own_gradient_errors(
    function: Function,
    call: Call,
    gradients: Gradients,
    read: Callable[[Path, TensorSpec], Array],
    read_gradient: Callable[[str, Path, TensorSpec], Array],
    units: Mapping[str, float],
    *,
    limit_bytes: int,
) -> list[OwnError]:
    """Return the own error of every gradient that the dump has of the arguments of a call.

    Args:
        function: that computes the call.
        call: the forward call.
        gradients: what the dump records of its backward pass.
        read: returns the elements of an argument.
        read_gradient: returns those of an incoming gradient (``input``), of a result (``output``), or of the result of
            the forward call (``result``).
        units, limit_bytes: as of `own_errors`.

    Which argument a result belongs to is told by its shape, of several by the values: frameworks record what their own
    node returns. A gradient that frameworks make of the result that they stored is right by that, too, as rounded.

    Raises:
        UnusableError: why it is not computed.
    """
    rule = getattr(function, RULE, None) or rule_of(function)
    if works_in_place(function, call):
        raise UnusableError("it works in place, and its gradient is recorded as it was before")
    _, arrays = prepared(function, call, read, limit_bytes)
    incoming = [(place, leaf) for place, leaf in leaves(gradients.incoming) if isinstance(leaf, TensorSpec)]
    results = [(place, leaf) for place, leaf in leaves(gradients.results) if isinstance(leaf, TensorSpec)]
    if len(incoming) != 1 or not results:
        raise UnusableError("it has not one incoming gradient, or none of its arguments has one")
    place, leaf = incoming[0]
    gradient = wide(read_gradient("input", place, leaf))
    known = {place: read_gradient("output", place, leaf) for place, leaf in results}

    def made(tensors: Mapping[Path, Array], given: Array) -> dict[str, Array]:
        taken = as_taken(function, call, tensors)
        taken.apply_defaults()
        try:
            with np.errstate(all="ignore"):
                return rule(taken.arguments, given)
        except (ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
            raise UnusableError(f"its arguments do not fit its gradient: {error}") from error

    truth = made(arrays, gradient)
    names = _owners(results, known, truth)

    def moved(least: float) -> Mapping[Path, Array]:
        shaken = moved_by(max(units.get(leaf.dtype, 0.0), least), gradient, len(arrays))
        other = made(perturbed(call, arrays, units, least=least), shaken)
        return {place: _as_recorded(other[name], known[place]) for place, name in names.items()}

    found = {place: _as_recorded(truth[name], known[place]) for place, name in names.items()}
    own = weighed(call, results, known, found, units, moved, exact=False)
    of_result = rule_by_result(function)
    if of_result is None or all(each.worst[3] <= 1.0 for each in own):
        return own
    stored, taken = _stored(call, read_gradient), as_taken(function, call, arrays)
    taken.apply_defaults()

    def by_result(gradient: Array, stored: Array) -> Mapping[Path, Array]:
        with np.errstate(all="ignore"):
            return {place: _as_recorded(of_result(taken.arguments, gradient, stored), known[place]) for place in names}

    def moved_result(least: float) -> Mapping[Path, Array]:
        unit = max(units.get(leaf.dtype, 0.0), least)
        return by_result(moved_by(unit, gradient, len(arrays)), moved_by(unit, stored, len(arrays) + 1))

    others = weighed(call, results, known, by_result(gradient, stored), units, moved_result, exact=False)
    return [min(pair, key=lambda each: each.worst[3]) for pair in zip(own, others, strict=True)]


def _stored(call: Call, read: Callable[[str, Path, TensorSpec], Array]) -> Array:
    """Return the one result of a call, as its dump has it."""
    ((place, leaf),) = ((place, leaf) for place, leaf in leaves(call.results) if isinstance(leaf, TensorSpec))
    return wide(read("result", place, leaf))


def _owners(
    results: Sequence[tuple[Path, TensorSpec]], known: Mapping[Path, Array], truth: Mapping[str, Array]
) -> dict[Path, str]:
    """Return which argument each recorded gradient is of: one of its size, of several the one nearest in value."""
    found: dict[Path, str] = {}
    for place, leaf in results:
        free = [name for name in truth if name not in found.values() and truth[name].size == leaf.numel]
        same = [name for name in free if truth[name].shape == leaf.shape] or free
        if not same:
            raise UnusableError(f"none of its arguments has the size of gradient {shown_path(place)}")
        found[place] = min(same, key=lambda name: _distance(truth[name], known[place]))
    return found


def _distance(truth: Array, dumped: Array) -> float:
    gap = _as_recorded(truth, dumped) - wide(dumped)
    return float(np.vdot(gap, gap).real) if np.isfinite(gap).all() else math.inf


def _as_recorded(truth: Array, dumped: Array) -> Array:
    """Return a gradient in the shape that it was recorded in: turned, or flattened."""
    if truth.shape == dumped.shape:
        return truth
    turned = truth.T if truth.ndim == 2 and truth.T.shape == dumped.shape else truth
    return turned.reshape(dumped.shape)
