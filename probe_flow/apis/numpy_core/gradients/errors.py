"""Compute the gradients of a call again from what it had, and say how far those of a dump are from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import Call, Gradients, Path, TensorSpec, UnusableError, leaves, shown_path
from probe_flow.apis.numpy_core import moves, normalising
from probe_flow.apis.numpy_core.compute import RULE, as_taken, perturbed, prepared, weighed, wide, works_in_place
from probe_flow.apis.numpy_core.gradients.rules import Rule, RuleByResult, rule_by_result, rule_of, rule_of_last_step
from probe_flow.apis.numpy_core.names import Function
from probe_flow.apis.own_error import OwnError, moved_by, with_hf32

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
    back = _BackwardPass(function, call, arrays, leaf.dtype, gradient, units)
    last_step = rule_of_last_step(function)

    def errors_in(change: Callable[[Array], Array], units: Mapping[str, float]) -> list[OwnError]:
        changed = {place: change(values) for place, values in arrays.items()}
        other = replace(back, arrays=changed, gradient=change(gradient), units=units)
        return _by_rules(other, rule, last_step, results, known)

    own = _by_rules(back, rule, last_step, results, known)
    own = with_hf32(own, call, [gradient, *arrays.values()], units, errors_in)
    of_result = rule_by_result(function)
    if of_result is None or all(each.worst[3] <= 1.0 for each in own):
        return own
    by_result = partial(back.by_result, of_result, _stored(call, read_gradient), known)
    others = weighed(call, results, known, by_result(), units, by_result, exact=False)
    return [min(pair, key=lambda each: each.worst[3]) for pair in zip(own, others, strict=True)]


def _by_rules(
    back: _BackwardPass, rule: Rule, last_step: Rule | None, results: Sequence[tuple[Path, TensorSpec]],
    known: Mapping[Path, Array],
) -> list[OwnError]:  # fmt: skip
    """Return the errors by the rule of a call or of its last step: frameworks record what their own node returns."""
    found: list[list[OwnError]] = []
    reasons: list[UnusableError] = []
    for each in (rule, last_step):
        if each is None or (found and all(own.worst[3] <= 1.0 for own in found[0])):
            continue
        try:
            found.append(_by_rule(back, each, results, known))
        except UnusableError as error:
            reasons.append(error)
    if not found:
        raise reasons[0]
    return min(found, key=lambda errors: max(own.worst[3] for own in errors))


def _by_rule(
    back: _BackwardPass, rule: Rule, results: Sequence[tuple[Path, TensorSpec]], known: Mapping[Path, Array]
) -> list[OwnError]:
    truth = back.by_arguments(rule)
    names = _owners(results, known, truth)

    def by_name(made: Mapping[str, Array]) -> Mapping[Path, Array]:
        return {place: _as_recorded(made[name], known[place]) for place, name in names.items()}

    def moved(least: float) -> Mapping[Path, Array]:
        return by_name(back.by_arguments(rule, least))

    own = weighed(back.call, results, known, by_name(truth), back.units, moved, exact=False)
    if back.function.__module__ == normalising.__name__ or back.function is moves.embedding:
        own = [_added_up(each, back.most_added(names[each.place])) for each in own]
    return own


@dataclass(frozen=True)
class _BackwardPass:
    """What the backward pass of a call had, and what rules make of it.

    Args:
        function: that computes the call.
        call: the forward call.
        arrays: the tensors among its arguments.
        dtype: of the gradient that came in.
        gradient: its elements.
        units: element type -> relative rounding.
    """

    function: Function
    call: Call
    arrays: Mapping[Path, Array]
    dtype: str
    gradient: Array
    units: Mapping[str, float]

    def by_arguments(self, rule: Rule, least: float | None = None) -> Mapping[str, Array]:
        """Return the gradients by argument, with ``least`` of what is off by at least such a rounding.

        Raises:
            UnusableError: the rule does not fit the arguments.
        """
        arrays, gradient = self.arrays, self.gradient
        if least is not None:
            arrays, gradient = perturbed(self.call, arrays, self.units, least=least), self._moved(gradient, 0, least)
        arguments = self._arguments(arrays)
        try:
            with np.errstate(all="ignore"):
                return rule(arguments, gradient)
        except (ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
            raise UnusableError(f"its arguments do not fit its gradient: {error}") from error

    def most_added(self, name: str) -> int:
        """Return how many terms are added up for one element of the gradient of a parameter: 1 for no parameter."""
        arguments = self._arguments(self.arrays)
        if self.function is moves.embedding:
            return int(np.unique(arguments["input"], return_counts=True)[1].max(initial=1))
        return 1 if name == "input" else max(1, self.gradient.size // max(1, arguments[name].size))

    def by_result(
        self, rule: RuleByResult, stored: Array, known: Mapping[Path, Array], least: float | None = None
    ) -> Mapping[Path, Array]:
        """Return the gradient that a rule makes of the stored result, in the form of each recorded one."""
        gradient = self.gradient
        if least is not None:
            gradient, stored = self._moved(gradient, 0, least), self._moved(stored, 1, least)
        with np.errstate(all="ignore"):
            made = rule(self._arguments(self.arrays), gradient, stored)
        return {place: _as_recorded(made, each) for place, each in known.items()}

    def _arguments(self, arrays: Mapping[Path, Array]) -> Mapping[str, Any]:
        taken = as_taken(self.function, self.call, arrays)
        taken.apply_defaults()
        arguments: Mapping[str, Any] = taken.arguments
        return arguments

    def _moved(self, values: Array, number: int, least: float) -> Array:
        unit = max(self.units.get(self.dtype, 0.0), least)
        return moved_by(unit, values, len(self.arrays) + number)


HALF_STEP = 2.0**-12
"""Relative rounding of element types from which on it matters that kernels add up in them; float16 has 2**-11."""


def _added_up(own: OwnError, terms: int) -> OwnError:
    """Return the same error, of which adding ``terms`` one after another in a type of 16 bits explains more.

    The gradients of embeddings and of the parameters of norms are added up so by torch on CPU, and by kernels that add
    atomically. Sums of k terms that point anywhere are sqrt(k) of them large, and each is rounded: over n terms that is
    sqrt(n / 2) roundings of the last sum. Kernels of torch reach 0.6 of it, at 8 to 8,192 terms.
    """
    if own.unit < HALF_STEP or terms < 2:
        return own
    roundings = math.sqrt(terms / 2.0)
    (found, explained), more = own.slice_, math.hypot(1.0, roundings)
    return replace(
        own,
        explained=math.hypot(own.explained, roundings * own.unit * own.size),
        explained_peak=own.explained_peak + roundings * own.unit * own.top,
        slice_=(found, explained * more),
        slice_share=own.slice_share / more,
    )


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
    return _squares(_as_recorded(truth, dumped) - wide(dumped))


def _squares(gap: Array) -> float:
    return float(np.vdot(gap, gap).real) if np.isfinite(gap).all() else math.inf


def _as_recorded(truth: Array, dumped: Array) -> Array:
    """Return a gradient in the shape that it was recorded in: turned, or flattened; a square one as it is nearer."""
    if truth.ndim == 2 and truth.T.shape == dumped.shape:
        forms = [each for each in (truth, truth.T) if each.shape == dumped.shape]
        return min(forms, key=lambda each: _squares(each - wide(dumped))) if len(forms) > 1 else truth.T
    return truth.reshape(dumped.shape)
