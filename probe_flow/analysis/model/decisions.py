"""How many decisions (top k, comparisons, gates) the errors of what they are taken on may turn.

Scores that are off by a relative error ``r`` turn about ``r`` of the decisions, times what lies near a tie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.model.deviation import TINY, Deviation
from probe_flow.analysis.model.families import Family, family_of
from probe_flow.records import Mode
from probe_flow.records.row import Row

FLIP_SHARE = 10.0
"""Share of flipped decisions (comparison, top k) per relative error of what was decided on."""

MIN_FLIPS = 3.0
"""So many flipped decisions need no explanation once the inputs differ at all."""

FINE = 2.0**-16
"""Rounding from which tensors are stored coarsely."""

LEAST_STEPS = 0.25
"""Error of what decides where storage is coarse, in `UNIT`, whatever is known of it."""

RARE = 0.02
"""Expected number of flipped gates below which none is allowed."""

DECIDING = frozenset((Family.DISCRETE, Family.ORDER))

PICKS = ("arg", "top", "sort")
"""Words of operators that make one decision a row of scores; others make one each."""


def is_whole(output: Deviation, call: Call) -> bool:
    """Whether a result is of whole numbers, each of which was decided on: by its type, or what its call does."""
    return output.unit == 0.0 or (call.node is not None and family_of(call.node.op_type) is Family.STEP)


def is_decided(family: Family, output: Deviation, inputs: Sequence[Deviation]) -> bool:
    """Whether indices or masks are picked from values that are off by so little that none may turn (`RARE`)."""
    if family not in DECIDING or output.unit:
        return False
    return not flipped_share(max(map(wavering, inputs), default=1.0), output.count)


def wavering(scores: Deviation) -> float:
    """Return the likely error of scores, in what they differ by; some at least where storage is coarse."""
    hidden = LEAST_STEPS * scores.unit * scores.size if scores.unit > FINE else 0.0
    return min(1.0, max(scores.likely, hidden) / max(scores.spread, TINY))


def share_turned(relative: float, count: int) -> float:
    """Return the share of so many decisions that may turn where what decides is off by a relative error."""
    moved = FLIP_SHARE * relative * count
    return min(1.0, max(MIN_FLIPS, moved) / count) if moved > RARE else 0.0


def flipped_share(relative: float, count: int) -> float:
    """Return the relative error that flipped gates may leave in a gradient of so many elements."""
    return math.sqrt(share_turned(relative, count))


def turned_share(row: Row, deviation: Deviation, call: Call) -> float:
    """Return the root of the share of decisions that a row shows to have been taken otherwise; 0 where it shows none.

    Scores that are off by a relative error ``r`` turn about ``r`` of the decisions, times what lies near a tie; those
    of float32 turn none. With tensors what came of them is known: 1 where any decision differs.

    Args:
        row: measured, read or written by the call.
        deviation: of the row.
        call: any call.
    """
    if call.node is None or call.is_gradient or family_of(call.node.op_type) not in DECIDING:
        return 0.0
    assert row.measurement is not None
    is_measured = row.measurement.mode is Mode.TENSOR
    if row.is_produced:
        return 1.0 if is_measured and deviation.unit == 0.0 and deviation.rms > 0.0 else 0.0
    if is_measured or deviation.unit == 0.0 or not deviation.size or not (deviation.rms or deviation.peak):
        return 0.0
    shape = row.pair.shown.shape or ()
    is_picked = bool(shape) and any(word in call.node.op_type.lower() for word in PICKS)
    decisions = max(1, deviation.count // max(1, shape[-1]) if is_picked else deviation.count)
    return flipped_share(wavering(deviation), decisions)


AMPLE = 2.0
"""Largest error of a gradient behind a gate, in that before it and a rounding, from which only flips explain it."""


def is_by_flips(own: Deviation | None, source: Deviation | None) -> bool:
    """Whether only the flips of a gate explain the largest error of a gradient behind it, by the gradient before it."""
    return own is not None and source is not None and own.peak > AMPLE * (source.peak + own.unit * own.top)
