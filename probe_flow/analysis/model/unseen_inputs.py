"""What the dump does not show of a tensor's making adds to its error: inputs not compared, operators without files.

A device runs some products in int8 where the golden has floats, and keeps in float16 the weights that the golden dump
does not show. Neither is a fault. Quantising with step ``d`` leaves an error of ``d / sqrt(12)``; the step is the
largest value over the number of steps. Errors of weights are shared by all that they are multiplied with, so that part
of them does not average out.

A device often dumps only some operators of a model; the golden, which has them all, tells how many ran. Each of ``n``
rounds its result once, independently of the others, so what has no fault is off by about ``sqrt(n)`` rounding steps
behind them.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis import plain_values
from probe_flow.analysis.flow.calls import is_gradient
from probe_flow.analysis.model.decisions import share_turned
from probe_flow.analysis.model.deviation import PEAK_OVER_RMS, TINY, Deviation, unknown_scale
from probe_flow.analysis.model.growth import Allowance
from probe_flow.analysis.number_types import UNIT, common_share
from probe_flow.records import Catalog, Execution, Flow, NodeKey, Pairs, SlotRole, TensorKind, TensorRef
from probe_flow.records.row import Row

STEPS = {"int8": 127.0, "int4": 7.0, "int2": 1.0}
"""Quantised types: steps from zero to the largest value."""

SPARE = 1.5
"""How much larger than the largest value at hand the one is that a scale was made for: other inputs had larger ones."""

UNKNOWN_CREST = 8.0
"""Largest value over root mean square where nothing is known of what was quantised: activations behind a relu."""

WEIGHT_CREST = 5.0
"""The same for weights: one scale for all channels. One scale a channel makes it about 3."""

CRESTS = (1.0, 30.0)
"""Least and largest ratio that is believed."""

ROUNDED_WEIGHT = 0.5
"""Root mean square error of stored values, in units of `UNIT`, which is the largest."""

LAST, ABOUT = 8, 8
"""Gradients among which the last of about as many elements is looked for, and how many times as many that may be."""

LATEST = 64
"""Gradients of as many elements among which the terms of a sum are looked for."""


def decided_otherwise(row: Row, relative: float) -> float:
    """Return what a row may be off by of which each golden element is one of two values, as of masks, gates and spikes.

    No dump tells what decided, but that was off by a relative error. With statistics the norm says how many more or
    fewer there are of the larger value. Few golden statistics are of two values by accident: mean and norm must agree
    to `TWO_VALUED`. 0.0 for other rows.
    """
    from probe_flow.analysis.statistics.moments import moments_of  # few runs need it

    golden = moments_of(row, "golden")
    if golden is None or golden.low == golden.high or not golden.is_two_valued:
        return 0.0
    share = share_turned(relative, golden.count)
    if row.is_by_statistics:
        return share * abs(golden.high**2 - golden.low**2) / (2.0 * golden.size)
    return math.sqrt(share) * (golden.high - golden.low)


class Noise(Struct, frozen=True):
    """Relative error that inputs which were not compared leave: root mean square, and what all elements share of it."""

    rms: float
    shared: float


class HiddenInputs:
    """The inputs of target nodes that were not compared and bring an error of their own.

    Args:
        rows: all rows.
        pairs: what they come from; without edges it is not known which inputs are weights.
    """

    def __init__(self, rows: Sequence[Row], pairs: Pairs) -> None:
        self._edges = pairs.target.edges
        self._of: dict[NodeKey, list[TensorRef]] = {}
        self._quantised: dict[NodeKey, TensorRef] = {}
        for row in rows:
            tensor = row.pair.target
            if tensor is None or (tensor.numel or 0) < 2 or _is_compared(row):
                continue
            if tensor.slot.role is SlotRole.INPUT and tensor.kind is TensorKind.TENSOR and self._brings_error(tensor):
                self._of.setdefault(tensor.node, []).append(tensor)
            if tensor.dtype in STEPS or (row.pair.reason is not None and row.pair.reason.kind.is_quantised):
                self._quantised.setdefault(tensor.node, tensor)
        self.quantised_runs = frozenset(key.execution.identity for key in self._quantised)

    @property
    def are_any(self) -> bool:
        """Whether any was not compared, or is quantised."""
        return bool(self._of or self._quantised)

    @cached_property
    def _fed(self) -> Collection[tuple[NodeKey, int]]:
        """The inputs that edges lead to; made when one was not compared."""
        return {(edge.consumer, edge.input) for edge in self._edges}

    def _brings_error(self, tensor: TensorRef) -> bool:
        return tensor.dtype in STEPS or (
            bool(self._edges) and not self._is_fed(tensor) and UNIT.get(tensor.dtype, 0) > 0
        )

    def _is_fed(self, tensor: TensorRef) -> bool:
        return (tensor.node, tensor.slot.path[0]) in self._fed

    def has_weights(self, nodes: Collection[NodeKey]) -> bool:
        """Say whether what these nodes compute with has weights that were not compared."""
        return bool(self._of) and any(not self._is_fed(tensor) for key in nodes for tensor in self._of.get(key, ()))

    def noise(self, nodes: Collection[NodeKey], known: Sequence[Deviation]) -> Noise:
        """Return the error that these nodes' inputs bring, given the deviations of those that were compared."""
        crest = max((d.top / d.size for d in known if d.size > 0.0), default=UNKNOWN_CREST)
        crest = SPARE * min(max(crest, CRESTS[0]), CRESTS[1])
        errors = [(error, common_share(count)) for error, count in self._errors(nodes, crest)]
        return Noise(math.hypot(*(error for error, _ in errors)), math.hypot(*(error * part for error, part in errors)))

    def _errors(self, nodes: Collection[NodeKey], crest: float) -> list[tuple[float, int]]:
        """Return the relative error of each of them, with the number of its elements."""
        hidden = [tensor for key in nodes for tensor in self._of.get(key, ())]
        errors = [(self._error(tensor, crest), tensor.numel or 1) for tensor in hidden]
        if any(tensor.dtype in STEPS for tensor in hidden):
            return errors
        # A framework keeps quantised values in floats, and no inputs.
        found = [self._quantised[key] for key in nodes if key in self._quantised]
        for tensor in found[:1]:
            errors += [(_of_steps(each, STEPS["int8"]), tensor.numel or 1) for each in (crest, WEIGHT_CREST)]
        return errors

    def _error(self, tensor: TensorRef, crest: float) -> float:
        steps = STEPS.get(tensor.dtype)
        if steps is None:
            return ROUNDED_WEIGHT * UNIT[tensor.dtype]
        return _of_steps(crest if self._is_fed(tensor) else WEIGHT_CREST, steps)


def _is_compared(row: Row) -> bool:
    return row.measurement is not None and (row.pair.golden is None or unknown_scale(row) is None)


def _of_steps(crest: float, steps: float) -> float:
    """Return the relative error of values rounded to so many steps from zero to the largest."""
    return crest / (steps * math.sqrt(12.0))


def with_noise(allowed: Allowance, noise: Noise, output: Deviation) -> Allowance:
    """Return an allowance for an output that carries the errors of hidden inputs too."""
    if not noise.rms or not output.unit:
        return allowed
    scale = max(allowed.scale, output.size)
    floor = noise.rms * scale
    return replace(
        allowed,
        floor=allowed.floor + floor,
        peak=allowed.peak + PEAK_OVER_RMS * floor + 2.0 * noise.rms * output.top,
        gain=allowed.gain + noise.shared * scale / max(output.size, TINY),
        offset=allowed.offset + noise.shared * scale,
    )


class _Gradient(NamedTuple):
    """A judged gradient: its size and error, as root mean squares, and the size of the terms that it is a sum of."""

    size: float
    rms: float
    terms: float


class LatestGradients:
    """The sizes and errors of the latest gradients of so many elements: what no dump shows may be made of such.

    The gradient of what a result does not depend on, such as the largest value that a softmax takes off by hand or a
    bias before a batch norm, is a sum that cancels: the golden holds nothing but the rounding of its terms, and so does
    the target, in its own type. An optimizer reads gradients that were clipped, so that they show nowhere else.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[Execution, int], deque[_Gradient]] = defaultdict(lambda: deque(maxlen=LATEST))
        self._last: dict[Execution, deque[tuple[int, float]]] = defaultdict(lambda: deque(maxlen=LAST))

    def add(self, execution: Execution, deviation: Deviation, scale: float) -> None:
        """Take note of a judged gradient that was summed from terms of a size."""
        if deviation.size:
            found = _Gradient(deviation.size, deviation.rms, max(deviation.size, scale))
            self._latest[execution, deviation.count].append(found)
            self._last[execution].append((deviation.count, deviation.relative))

    def cancelled(self, row: Row, deviation: Deviation) -> float:
        """Return the size of the terms of which a golden's row holds the rounding alone; 0.0 where it holds more."""
        known = self._of(row, deviation)
        if not known or row.pair.golden is None:
            return 0.0
        largest = max(each.terms for each in known)
        return largest if deviation.size <= UNIT.get(row.pair.golden.dtype, 0.0) * largest else 0.0

    def error(self, row: Row, deviation: Deviation) -> float:
        """Return the largest relative error of those that a row behind the backward pass may be; 0.0 for others."""
        known = () if is_gradient(row.node) else self._of(row, deviation)
        return max((each.rms / each.size for each in known), default=0.0)

    def last(self, row: Row, deviation: Deviation) -> float:
        """Return the relative error of the last of about as many elements, of which a gradient may be made; else 0.0.

        That of a product is not always recorded, and what cancelled before it was computed stays as wrong behind it.
        """
        known = reversed(self._last[row.node.execution]) if is_gradient(row.node) else ()
        least, most = deviation.count / ABOUT, deviation.count * ABOUT
        return next((error for count, error in known if least <= count <= most), 0.0)

    def carried(self, row: Row, deviation: Deviation) -> float:
        """Return the error of the one that is nearest in size, which a gradient may hold whole; 0.0 for others.

        What autograd adds up holds mostly one of its terms. The error of that may be many times its size: a layer norm
        lets nothing of the mean of its squares through but what its epsilon makes of it.
        """
        known = self._of(row, deviation) if is_gradient(row.node) and deviation.size else ()
        nearest = min(known, key=lambda each: abs(math.log(each.size / deviation.size)), default=None)
        return 0.0 if nearest is None else nearest.rms

    def _of(self, row: Row, deviation: Deviation) -> Sequence[_Gradient]:
        return self._latest.get((row.node.execution, deviation.count), ())


class MaskedScores:
    """The tensors that were met which hold infinities, or the least number of their type, and what they may be off by.

    Neither minimum nor mean nor norm tell of their other elements, and where the types of both sides have other least
    numbers, no distance does. What reads them gets the error that their making allows.
    """

    def __init__(self) -> None:
        self._known: dict[int, Deviation] = {}

    def seen(self, inputs: Sequence[tuple[int, Deviation]]) -> Sequence[tuple[int, Deviation]]:
        """Return rows that something was made of, masked ones with the deviation that they may have."""
        return [(number, self._known.get(number, own)) for number, own in inputs] if self._known else inputs

    def add(self, number: int, row: Row, allowed: Allowance, inputs: Sequence[tuple[int, Deviation]]) -> None:
        """Let a row stand for that of its inputs which is off most, as `seen` returns them, if it is masked."""
        known = [own for _, own in inputs if own.unit] if is_masked(row) else []
        if known:
            worst = max(known, key=lambda each: each.rms)
            self._known[number] = worst.with_rms(max(allowed.explained, worst.rms))


def is_masked(row: Row) -> bool:
    """Whether both sides hold infinity, or a number that scores are masked with, somewhere."""
    measured = row.measurement
    sides = (measured.target_statistics, measured.golden_statistics) if measured is not None else ()
    return bool(sides) and all(each is not None and plain_values.is_masked(each) for each in sides)


class UnshownSteps:
    """The golden operators that ran since the latest output that was judged, for the compared tensors of a graph.

    Args:
        pairs: what is compared; of programs, whose calls follow each other, nothing is counted.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._judged: dict[Execution, list[int]] = defaultdict(list)

    @cached_property
    def _places(self) -> dict[NodeKey, int]:
        return _places_of(self._pairs.golden)

    @cached_property
    def _unit(self) -> float:
        """The coarsest rounding of what the target stores: nobody knows in which type the others kept theirs."""
        return max((UNIT.get(tensor.dtype, 0.0) for tensor in self._pairs.target.tensors), default=0.0)

    def add(self, row: Row) -> None:
        """Take note of an output that was judged."""
        place = self._place(row)
        if place is not None:
            insort(self._judged[row.node.execution], place)

    def error(self, row: Row) -> float:
        """Return the relative error, as root mean square, that those add which ran since the latest judged output."""
        place = self._place(row)
        if place is None:
            return 0.0
        judged = self._judged[row.node.execution]
        before = bisect_right(judged, place - 1)
        passed = place - (judged[before - 1] if before else -1) - 1
        return self._unit * math.sqrt(passed)

    def of_input(self, row: Row) -> float:
        """Return that of an input that nothing in the dump wrote, although an operator of the golden makes it."""
        golden = row.pair.golden
        is_made = not row.is_produced and golden is not None and golden.slot.role is SlotRole.OUTPUT
        return self.error(row) if is_made else 0.0

    def _place(self, row: Row) -> int | None:
        golden = row.pair.golden
        return None if golden is None or self._pairs.target.flow is not Flow.GRAPH else self._places.get(golden.node)


def _places_of(catalog: Catalog) -> dict[NodeKey, int]:
    """Return the place of each node in the order of its execution, from 0."""
    counts: dict[Execution, int] = defaultdict(int)
    places = {}
    for key in catalog.nodes:
        places[key] = counts[key.execution]
        counts[key.execution] += 1
    return places
