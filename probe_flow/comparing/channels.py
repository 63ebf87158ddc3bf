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
from probe_flow.elements.blocks import AT_ONCE, open_tensor
from probe_flow.errors import Diagnostic, FormatError, NotComparableError
from probe_flow.measure.sides import aligned_sides
from probe_flow.records import NodeKey, TensorKind, TensorRef
from probe_flow.records.row import CHANNEL, Row, Rows
from probe_flow.work import Context

LIMIT, ELEMENTS, LEAST = 64, 1 << 24, 64
"""Results that are looked at, elements that each may have, and elements that a channel needs: fewer say too little."""

TINY = float(np.finfo(np.float64).tiny)

_Sizes = NDArray[np.float64]


class Channels(Struct, frozen=True):
    """A result whose channels are looked at, beside the golden's.

    Args:
        row: its number.
        target, golden: both sides.
        explained: error that the whole may have, relative to it.
        quantised: error of each channel that comes from quantising the input, where that is known.
    """

    row: int
    target: TensorRef
    golden: TensorRef
    explained: float
    quantised: tuple[float, ...] = ()


class Worst(Struct, frozen=True):
    """The worst channel: its relative error, what is explained of it, by how much it exceeds that and the others.

    Where the tensors could not be read, ``reason`` says why, and there are no figures.
    """

    found: float = 0.0
    explained: float = 0.0
    score: float = 0.0
    reason: str = ""


def find_wrong_channels(rows: Rows, diagnosis: Diagnosis, context: Context) -> bool:
    """Give rows `Row.recomputed` whose worst channel is beyond what is explained; return whether any has it now.

    Rows whose channels could not be read get the reason, and keep their judgement.
    """
    jobs = [*islice(_jobs(rows, diagnosis), LIMIT)]
    sizes = [(job.target.nbytes or 0) + (job.golden.nbytes or 0) for job in jobs]
    done = False
    for number, worst in context.map(worst_channel, jobs, sizes=sizes, lost=lost):
        row = jobs[number].row
        if worst.reason:
            rows[row] = rows[row].with_recomputed(reason=worst.reason)
        elif worst.score > 1.0:
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
            known = row.quantised.channels if row.quantised is not None else ()
            yield Channels(number, target, golden, explained / own.size, known)


def worst_channel(job: Channels) -> Worst:
    """Return the worst channel of a result, read block by block; nothing where it has none, or too small ones."""
    shape = job.target.logical_shape or job.target.shape or ()
    axis = 1 if len(shape) in (4, 5) else len(shape) - 1  # images in their logical order; columns of a matrix
    if len(shape) < 2 or shape[axis] < 2 or math.prod(shape) // shape[axis] < LEAST:
        return Worst()
    try:
        found = _channel_sizes(job.target, job.golden, math.prod(shape[axis + 1 :]), shape[axis])
    except (FormatError, NotComparableError) as error:  # it was readable a moment ago: the dump is changing
        return Worst(reason=f"its channels could not be read: {error.diagnostic.message}")
    if found is None:
        return Worst()
    errors, sizes = found
    whole = math.sqrt(float(np.mean(sizes**2)))
    explained = job.explained * np.maximum(sizes, whole)  # what is small beside the others may be what they leave
    if len(job.quantised) == len(sizes):
        explained = np.hypot(explained, job.quantised)
    scores = errors / np.maximum(LIMITS.rms * explained, TINY)
    at = int(scores.argmax())
    score, usual = float(scores[at]), float(np.median(scores))
    size = max(float(sizes[at]), TINY)
    # What all channels are off by is no fault of one.
    score = min(score, score / (LIMITS.rms * usual)) if usual > 0.0 else score
    return Worst(float(errors[at]) / size, float(explained[at]) / size, score)


def _channel_sizes(target: TensorRef, golden: TensorRef, inner: int, channels: int) -> tuple[_Sizes, _Sizes] | None:
    """Return the root mean square of the error of each channel, and of the golden's; None where they are not finite.

    Args:
        target, golden: both sides, in the same order of elements.
        inner: elements of one channel that lie side by side.
        channels: how many there are.
    """
    errors, sizes = np.zeros(channels), np.zeros(channels)
    with open_tensor(target) as ours, open_tensor(golden) as theirs:
        if ours.numel != theirs.numel:
            return None
        for start in range(0, ours.numel, AT_ONCE):
            stop = min(start + AT_ONCE, ours.numel)
            x, y = (blocks.read(start, stop).astype(np.float64) for blocks in (ours, theirs))
            if not (np.isfinite(x).all() and np.isfinite(y).all()):
                return None
            channel = np.arange(start, stop) // inner % channels
            errors += np.bincount(channel, (x - y) ** 2, channels)
            sizes += np.bincount(channel, y**2, channels)
        each = max(ours.numel // channels, 1)
    return np.sqrt(errors / each), np.sqrt(sizes / each)


def lost(job: Channels, reason: Diagnostic) -> Worst:  # noqa: ARG001
    """Return what became of a job that hangs, or ended its worker each time."""
    return Worst(reason=f"its channels could not be read: {reason.message}")
