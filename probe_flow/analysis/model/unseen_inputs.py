"""What inputs that were not compared, or whose other elements no statistic shows, add to the error of a result.

A device runs some products in int8 where the golden has floats, and keeps in float16 the weights that the golden dump
does not show. Neither is a fault. Quantising with step ``d`` leaves an error of ``d / sqrt(12)``; the step is the
largest value over the number of steps. Errors of weights are shared by all that they are multiplied with, so that part
of them does not average out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis import plain_values
from probe_flow.analysis.model.deviation import PEAK_OVER_RMS, TINY, Deviation, unknown_scale
from probe_flow.analysis.model.growth import Allowance
from probe_flow.analysis.number_types import UNIT, common_share
from probe_flow.masks import LEAST
from probe_flow.records import NodeKey, Pairs, SlotRole, TensorKind, TensorRef
from probe_flow.records.row import Quantised, Row

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

LOST = 4.0
"""How many times as large half a step beside a mask is as any score, so that none moves it."""

_STEPS = {**UNIT, "float32": 2.0**-24, "float64": 2.0**-53}
"""Half a step of a type, relative to the number."""

ROUNDED_WEIGHT = 0.5
"""Root mean square error of stored values, in units of `UNIT`, which is the largest."""


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

    def noise(self, nodes: Collection[NodeKey], known: Sequence[Deviation], *, is_measured: bool = False) -> Noise:
        """Return the error that these nodes' inputs bring, given the deviations of those that were compared.

        Where what quantised inputs bring is measured, it is the error of the others.
        """
        crest = max((d.top / d.size for d in known if d.size > 0.0), default=UNKNOWN_CREST)
        crest = SPARE * min(max(crest, CRESTS[0]), CRESTS[1])
        errors = [(error, common_share(count)) for error, count in self._errors(nodes, crest, is_measured)]
        return Noise(math.hypot(*(error for error, _ in errors)), math.hypot(*(error * part for error, part in errors)))

    def _errors(self, nodes: Collection[NodeKey], crest: float, is_measured: bool) -> list[tuple[float, int]]:  # noqa: FBT001
        """Return the relative error of each of them, with the number of its elements."""
        hidden = [tensor for key in nodes for tensor in self._of.get(key, ())]
        if is_measured:
            hidden = [tensor for tensor in hidden if not self._is_fed(tensor)]
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


NO_QUANTISING = Quantised(0.0, 0.0, 0.0, 0.0, ())


def with_noise(allowed: Allowance, noise: Noise, output: Deviation, quantised: Quantised | None = None) -> Allowance:
    """Return an allowance for an output that carries the errors of hidden inputs too.

    Args:
        allowed: without them.
        noise: of hidden inputs.
        output: what is allowed.
        quantised: what quantising an input made of it, where that was computed.
    """
    if not (noise.rms or quantised) or not output.unit:
        return allowed
    scale, known = max(allowed.scale, output.size), quantised or NO_QUANTISING
    floor = noise.rms * scale
    return replace(
        allowed,
        floor=allowed.floor + math.hypot(floor, known.rms),
        peak=allowed.peak + PEAK_OVER_RMS * floor + 2.0 * noise.rms * output.top + known.peak,
        gain=allowed.gain + noise.shared * scale / max(output.size, TINY) + known.gain,
        offset=allowed.offset + noise.shared * scale + known.offset,
    )


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
            explained = allowed.explained
            if not row.is_by_statistics:  # of numbers that mask, rounding leaves more than of the scores beside them
                explained = min(explained, sum(each.rms for each in known) + worst.unit * worst.size)
            self._known[number] = worst.with_rms(max(explained, worst.rms))


def beside_masks(
    row: Row, own: Deviation, inputs: Sequence[tuple[int, Deviation]], op_type: str
) -> tuple[Deviation, Sequence[tuple[int, Deviation]]]:
    """Return the deviation of the scores of a masked tensor, and those of its inputs that hold scores.

    Where both sides mask with one number, that adds nothing to the error, and all scores are nothing beside it. So the
    error is theirs, and what it is relative to is the largest input that masks nothing. The same is returned where
    there is none, and where what rounding leaves of a mask depends on the score that was added to it: not to one that
    was put in the place of scores, by a call of type ``op_type``.
    """
    if own.is_bare or own.top < LEAST or row.is_by_statistics or not is_masked(row):
        return own, inputs
    scores = [(number, each) for number, each in inputs if each.unit and each.top < LEAST]
    if not scores:
        return own, inputs
    largest = max((each for _, each in scores), key=lambda each: each.top)
    target, golden = row.pair.target, row.pair.golden
    steps = [_STEPS.get(side.dtype, 0.0) for side in (target, golden) if side is not None]
    if LOST * largest.top >= min(steps) * own.top and not _is_put(row, inputs, op_type):
        return own, inputs
    of_scores = {"size": largest.size, "top": largest.top, "spread": largest.spread, "gain": 0.0, "offset": 0.0}
    return replace(own, least=0.0, **of_scores), scores


_PUTTING = ("where", "select", "maskedfill", "masked_fill")
"""Words of operators that put a number in the place of elements."""


def _is_put(row: Row, inputs: Sequence[tuple[int, Deviation]], op_type: str) -> bool:
    """Whether a call put one number, the same on both sides, in the place of scores, none of which masked before."""
    measured = row.measurement
    target, golden = (measured.target_statistics, measured.golden_statistics) if measured is not None else (None, None)
    if not row.is_produced or target is None or golden is None or not any(map(op_type.lower().count, _PUTTING)):
        return False
    return target.min == golden.min and all(each.top < LEAST or not each.rms for _, each in inputs)


def is_masked(row: Row) -> bool:
    """Whether both sides hold infinity, or a number that scores are masked with, somewhere."""
    measured = row.measurement
    sides = (measured.target_statistics, measured.golden_statistics) if measured is not None else ()
    return bool(sides) and all(each is not None and plain_values.is_masked(each) for each in sides)
