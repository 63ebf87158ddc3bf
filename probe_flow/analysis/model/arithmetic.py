"""What calls do with the errors of what they read: their families of arithmetic, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.model.deviation import Deviation, mean_of
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.families import Family, families_of, gives_places
from probe_flow.analysis.model.fused_parts import FusedParts, tightest, types_of_parts
from probe_flow.analysis.model.gradients import (
    Saved,
    coherent_gradient_error,
    gradient_allowance,
    scales_by_number,
    with_flips,
)
from probe_flow.analysis.model.growth import Allowance, allowance, coherent_error, explained_error, widest
from probe_flow.analysis.model.unseen_inputs import HiddenInputs
from probe_flow.records import Node, NodeKey, Pairs
from probe_flow.records.row import Row

if TYPE_CHECKING:
    from probe_flow.analysis.flow.links import Links

PLACES = frozenset((Family.DISCRETE,))
COPY, ADDED = frozenset((Family.MOVE,)), frozenset((Family.SUM,))
COLLECTIVE = frozenset((Family.TOTAL, Family.UNKNOWN))
_NONE: frozenset[Family] = frozenset()

UNKNOWN = frozenset((Family.UNKNOWN,))
PRODUCTS = frozenset((Family.PRODUCT, Family.WEIGHTED))
_AROUND_PRODUCTS = frozenset((Family.MOVE, Family.SUM, Family.CONTRACT))  # what they do is of the size of the product


class Families:
    """The families of arithmetic of calls, and of what lies between two that the dump shows.

    Args:
        pairs: whose target has the nodes.
        hidden: the inputs that were not compared.
        links: gives where rows came from, when it is asked for.
    """

    def __init__(self, pairs: Pairs, hidden: HiddenInputs, links: Callable[[], Links]) -> None:
        self._nodes = pairs.target.nodes
        self._types = types_of_parts(pairs)
        self._hidden = hidden
        self._links = links
        self._last: tuple[Call | None, frozenset[Family]] = None, _NONE

    def of(self, call: Call) -> frozenset[Family]:
        """Return the arithmetic between a call's compared inputs and its outputs, parts and passed nodes included."""
        if self._last[0] is not call:  # asked several times for each of its rows, which come together
            through = self._links().through
            passed = through.get(call.key, ()) if through else ()
            self._last = call, self._with(call.node, passed, (call.key, *passed))
        return self._last[1]

    def between(self, nodes: Sequence[NodeKey]) -> frozenset[Family]:
        """Return the arithmetic of some nodes."""
        return self._with(None, nodes, nodes)

    def _with(self, first: Node | None, others: Sequence[NodeKey], nodes: Sequence[NodeKey]) -> frozenset[Family]:
        """Return the arithmetic of a node and others, which together have these keys."""
        known = [node for node in (first, *map(self._nodes.get, others)) if node is not None]
        kinds = _NONE.union(*map(self._kinds, known))
        if Family.PRODUCT in kinds and self._hidden.has_weights(nodes):
            kinds = (kinds - {Family.PRODUCT} - _AROUND_PRODUCTS) | {Family.WEIGHTED}
        return kinds or UNKNOWN

    def _kinds(self, node: Node) -> frozenset[Family]:
        if not node.originals:
            return families_of(node.op_type)
        parts = [self._types[part] for part in node.originals if part in self._types]
        return _NONE.union(*map(families_of, parts or [node.op_type]))


STEEP_PIXELS = 1.5
"""Difference of neighbouring pixels that are unrelated, in the size of a picture."""


def _as_sums(
    families: frozenset[Family], output: Deviation, inputs: Sequence[Deviation], factor: Callable[[], float]
) -> Iterator[tuple[Family, Sequence[Deviation]]]:
    """Yield each kind of arithmetic with the inputs as it takes them.

    A picture read at computed places is a sum: of its values, and of what its slope makes of the places. So is what a
    product of elements is added to; ``factor`` gives the number that this is multiplied with.
    """
    for family in families:
        if family is Family.SAMPLE and len(inputs) >= 2:
            yield Family.SUM, (inputs[0], _in_pixels(inputs[0], inputs[1], output))
        elif family is Family.PRODUCT_ADDED:
            if len(inputs) == 3:
                yield Family.SUM, (inputs[0], _multiplied(inputs[1], inputs[2], output, factor()))
            else:
                yield Family.UNKNOWN, inputs
        else:
            yield family, inputs


def _in_pixels(picture: Deviation, places: Deviation, output: Deviation) -> Deviation:
    """Return what places that are off make of a picture.

    These are pairs of numbers from -1 to 1 over all pixels; several pictures count as one.
    """
    steps = 0.5 * STEEP_PIXELS * math.sqrt(places.count / 2.0)
    return replace(
        places, rms=steps * places.rms * picture.size, peak=min(2.0, steps * places.peak) * picture.top,
        size=steps * places.size * picture.size, count=output.count, gain=0.0,
    )  # fmt: skip


def _multiplied(one: Deviation, other: Deviation, output: Deviation, factor: float) -> Deviation:
    """Return the product of elements that is added to something, which no dump shows, times a number."""
    size = abs(factor) * min(one.size * other.top, one.top * other.size)
    product = replace(output, size=size, top=abs(factor) * one.top * other.top, spread=size, offset=0.0)
    allowed = allowance(Family.SCALE, product, (one, other))
    return replace(product, rms=allowed.rms, peak=allowed.peak, gain=abs(one.gain) + abs(other.gain))


class Arithmetic(Protocol):
    """How the errors of inputs become that of an output: forward, or of a gradient.

    ``known`` are the errors of the inputs, ``families`` the arithmetic of the call, ``hidden`` the relative error that
    each input may have beyond what is known of it.
    """

    def allowance(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family], hidden: float
    ) -> Allowance:
        """Return the error that the output may have."""

    def explained(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family]
    ) -> float:
        """Return how much of it the errors of the inputs explain."""

    def coherent(self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family]) -> float:
        """Return what the proven differences of the inputs' means add up to."""

    def is_gated(self, call: Call) -> bool:
        """Say whether its derivative jumps, so that gates may have turned."""

    def aligned(self, call: Call, output: Deviation, families: frozenset[Family]) -> float:
        """Return which part of the errors of inputs has one sign in many elements of the output."""


def _of_places(call: Call, output: Deviation, families: frozenset[Family]) -> frozenset[Family]:
    """Return decisions for the places that a max pooling gives beside its values, else the arithmetic of the call."""
    is_place = not output.unit and call.node is not None and gives_places(call.node.op_type)
    return PLACES if is_place and families == COPY else families


class Forward:
    """What a call computes of its inputs."""

    def __init__(self, rows: Sequence[Row], deviations: Deviations) -> None:
        self._rows = rows
        self._deviations = deviations

    def allowance(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family], _hidden: float
    ) -> Allowance:
        """Return the error that a result may have."""
        terms = _as_sums(_of_places(call, output, families), output, known, lambda: self._factor(call))
        allowed = widest([allowance(family, output, read) for family, read in terms])
        return with_flips(allowed, output, known, self._deciding(call)) if call.is_gate_gradient else allowed

    def _factor(self, call: Call) -> float:
        """Return the number that a call multiplies a product with that it adds."""
        given = (self._rows[n].pair.shown for n in call.read)
        values = [each.value for each in given if each.slot.path[:1] in (("value",), (3,))]
        return next((float(value) for value in values if isinstance(value, (int, float))), 1.0)

    def _deciding(self, call: Call) -> Sequence[Deviation]:
        """Return the inputs of the derivative of a gate that decide where the gradient passes."""
        others = [n for n in call.read if self._rows[n].pair.shown.slot.path != (call.gradient_place,)]
        return [d for n in others if (d := self._deviations[n]) is not None]

    def explained(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family]
    ) -> float:
        """Return how much of it the errors of the inputs explain."""
        terms = _as_sums(_of_places(call, output, families), output, known, lambda: self._factor(call))
        return max([explained_error(family, output, read) for family, read in terms])

    def coherent(
        self, _call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family]
    ) -> float:
        """Return what the proven differences of the inputs' means add up to."""
        return max([coherent_error(family, output, known) for family in families])

    def is_gated(self, _call: Call) -> bool:
        """Forward results of gates do not jump."""
        return False

    def aligned(self, _call: Call, _output: Deviation, _families: frozenset[Family]) -> float:
        """What has no sign of its own comes of gates in gradients alone."""
        return 0.0


class Gradient:
    """What a call gives back: of the gradients that reach it, and of what its forward call saved.

    Args:
        rows: all rows.
        deviations: of them.
        guessed: gives the deviation of a row with the error that it is likely to have.
    """

    def __init__(
        self, rows: Sequence[Row], deviations: Deviations, guessed: Callable[[int, Deviation], Deviation]
    ) -> None:
        self._rows = rows
        self._deviations = deviations
        self._guessed = guessed
        self._saved_of: tuple[Call | None, Sequence[Saved]] = None, ()

    def allowance(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family], hidden: float
    ) -> Allowance:
        """Return the error that a gradient may have."""
        return self._allowance(call, output, known, families, is_gated=call.is_gated, hidden=hidden)

    def _allowance(
        self,
        call: Call,
        output: Deviation,
        known: Sequence[Deviation],
        families: frozenset[Family],
        *,
        is_gated: bool,
        hidden: float = 0.0,
    ) -> Allowance:
        saved = () if scales_by_number(call, self._rows) else self._saved(call)
        how = {"is_gated": is_gated, "is_singular": call.is_singular}
        return widest([gradient_allowance(f, output, known, saved, **how, hidden=hidden) for f in families])

    def explained(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family]
    ) -> float:
        """Return how much of it the errors of what it is made of explain, without gates that turned."""
        return self._allowance(call, output, known, families, is_gated=False).explained

    def coherent(self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family]) -> float:
        """Return what the proven differences of the gradients' means add up to."""
        return max(coherent_gradient_error(family, output, known, self._saved(call)) for family in families)

    def is_gated(self, call: Call) -> bool:
        """Say whether the derivative of its forward call jumps."""
        return call.is_gated

    def aligned(self, call: Call, output: Deviation, families: frozenset[Family]) -> float:
        """Return the mean of what a product multiplies gradients with, in its size.

        An error of one element of a gradient goes into a row of the product, times values that have a mean: what is
        behind a relu makes all of that row's errors of one sign.
        """
        if Family.PRODUCT not in families:
            return 0.0
        read = [each.deviation for each in self._saved(call) if not each.is_result]
        return max(
            (mean_of(each) / each.size for each in read if each.size and each.count != output.count), default=0.0
        )

    def _saved(self, call: Call) -> Sequence[Saved]:
        """Return what the forward call of a gradient left: the same for each of its rows, which come together."""
        if self._saved_of[0] is not call:
            rows, deviations = self._rows, self._deviations
            known = ((n, d) for n in call.forward if (d := deviations[n]) is not None)
            found = [Saved(self._guessed(n, d), rows[n].is_produced) for n, d in known]
            self._saved_of = call, found
        return self._saved_of[1]

    def forget(self) -> None:
        """Look again at what the forward call saved."""
        self._saved_of = None, ()


def by_parts(
    call: Call, deviation: Deviation, allowed: Allowance, fused: FusedParts, sides: tuple[Sequence[Row], Deviations]
) -> Allowance:
    """Return an allowance, narrowed where the graph says how the parts of a fused operator are joined.

    Args:
        call: of the operator.
        deviation: of its output.
        allowed: from all inputs together.
        fused: knows the parts.
        sides: all rows and their deviations.
    """
    if call.node is None or len(call.node.originals) < 2 or len(call.written) > 1:
        return allowed
    rows, deviations = sides
    inputs: dict[int, Deviation] = {}
    for n in call.read:
        tensor, found = rows[n].pair.target, deviations[n]
        if tensor is not None and found is not None and isinstance(tensor.slot.path[0], int):
            inputs[tensor.slot.path[0]] = found
    found_parts = fused.allowance(call.node, deviation, inputs)
    return allowed if found_parts is None else tightest(allowed, found_parts)
