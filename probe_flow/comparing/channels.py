"""Channels of products that stand out of their error, where nothing computes them again: quantised, fused operators.

What the input of a product is off by reaches all of its channels alike, for each sums up all of it. So one whose error
is far beyond what is explained of the whole is wrong by itself, however large that is. This does not hold where more
than one operand is off, nor where the error of the input stands out itself, which one channel may hand on to another.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.analysis.limits import LIMITS
from probe_flow.analysis.search.diagnosis import Diagnosis
from probe_flow.elements.blocks import array_of
from probe_flow.errors import Diagnostic, FormatError, NotComparableError
from probe_flow.measure.aligned_sides import aligned_sides
from probe_flow.records import NodeKey, TensorKind, TensorRef
from probe_flow.records.row import CHANNEL, Row
from probe_flow.work import Context

LIMIT, ELEMENTS, LEAST = 64, 1 << 24, 64
"""Results that are looked at, elements that each may have, and elements that a channel needs: fewer say too little."""

TINY = float(np.finfo(np.float64).tiny)


class Channels(Struct, frozen=True):
    """A result whose channels are looked at, beside the golden's.

    Args:
        row: its number.
        target, golden: both sides.
        explained: error that the whole may have, relative to it.
    """

    row: int
    target: TensorRef
    golden: TensorRef
    explained: float


class Worst(Struct, frozen=True):
    """The worst channel: its relative error, what is explained of it, by how much it exceeds that and the others."""

    found: float
    explained: float
    score: float


def find_wrong_channels(rows: list[Row], diagnosis: Diagnosis, context: Context) -> bool:
    """Give rows `Row.recomputed` whose worst channel is beyond what is explained; return whether any has it now."""
    jobs = [*islice(_jobs(rows, diagnosis), LIMIT)]
    sizes = [(job.target.nbytes or 0) + (job.golden.nbytes or 0) for job in jobs]
    done = False
    for number, worst in context.map(worst_channel, jobs, sizes=sizes, lost=lost):
        if worst is not None and worst.score > 1.0:
            row = jobs[number].row
            rows[row] = rows[row].with_recomputed(
                figure=CHANNEL, found=worst.found, explained=worst.explained, score=worst.score
            )
            done = True
    return done


def _jobs(rows: Sequence[Row], diagnosis: Diagnosis) -> Iterator[Channels]:
    asked = {rows[number].node for number in diagnosis.asked}
    operands: defaultdict[NodeKey, list[float]] = defaultdict(list)
    for number, row in enumerate(rows):
        if row.node in asked and not row.is_produced:
            read = diagnosis.deviations[number]
            if read is not None and read.rms > 0.0:
                operands[row.node].append(read.crest)
    for number, explained in diagnosis.asked.items():
        row, own = rows[number], diagnosis.deviations[number]
        if not explained or own is None or not own.size:
            continue
        is_computed = row.recomputed is not None and not row.recomputed.reason
        is_heir = number in diagnosis.tainted or number in diagnosis.shaken
        is_uneven = len(operands[row.node]) > 1 or any(each >= 1.0 for each in operands[row.node])
        if is_computed or is_heir or is_uneven or row.pair.golden is None:
            continue
        target, golden = aligned_sides(row.pair)
        if target.kind is golden.kind is TensorKind.TENSOR and (target.numel or 0) <= ELEMENTS:
            yield Channels(number, target, golden, explained / own.size)


def worst_channel(job: Channels) -> Worst | None:
    """Return the worst channel of a result; None where it has none, or too small ones."""
    try:
        x, y = (array_of(ref).astype(np.float64).reshape(-1) for ref in (job.target, job.golden))
    except (FormatError, NotComparableError):  # it was readable a moment ago: the dump is changing
        return None
    shape = job.target.logical_shape or job.target.shape or ()
    axis = 1 if len(shape) in (4, 5) else len(shape) - 1  # images in their logical order; columns of a matrix
    if len(shape) < 2 or shape[axis] < 2 or not math.prod(shape) == x.size == y.size:
        return None
    each = x.size // shape[axis]
    if each < LEAST or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    errors, sizes = _sizes((x - y).reshape(shape), axis), _sizes(y.reshape(shape), axis)
    whole = math.sqrt(float(np.mean(sizes**2)))
    explained = job.explained * np.maximum(sizes, whole)  # what is small beside the others may be what they leave
    scores = errors / np.maximum(LIMITS.rms * explained, TINY)
    at = int(scores.argmax())
    score, usual = float(scores[at]), float(np.median(scores))
    size = max(float(sizes[at]), TINY)
    # What all channels are off by is no fault of one.
    score = min(score, score / (LIMITS.rms * usual)) if usual > 0.0 else score
    return Worst(float(errors[at]) / size, float(explained[at]) / size, score)


def _sizes(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return the root mean square of each channel."""
    others = tuple(number for number in range(values.ndim) if number != axis)
    return np.asarray(np.sqrt(np.mean(values**2, axis=others)))


def lost(job: Channels, reason: Diagnostic) -> Worst | None:  # noqa: ARG001
    """Return what became of a job that hangs, or ended its worker each time."""
    return None
