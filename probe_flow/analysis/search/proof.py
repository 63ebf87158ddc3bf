"""What it proves that a result was computed again from the inputs that it had (`Row.recomputed`).

A result that its own inputs explain only carries on what they brought, however much that became. One that they do not
explain is wrong by itself, whatever came in; that is believed where the golden's result is what the golden's inputs
make, which shows that the operator is understood. Where the target's is right and the golden's is not, the difference
begins there all the same, in the golden: nothing is proven of the operator, and it is judged as without proof.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from probe_flow.analysis.limits import BEYOND
from probe_flow.analysis.model.deviation import Deviation
from probe_flow.analysis.number_types import SIGNIFICANT_BITS
from probe_flow.records import Value
from probe_flow.records.row import CHANNEL, Row


class Proof(enum.Enum):
    """What is proven of a result."""

    RIGHT = "right"
    WRONG = "wrong"


def proof_of(row: Row) -> Proof | None:
    """Return what recomputing a result proves; None where it was not done, or is between both."""
    own = row.recomputed
    if own is None or own.reason:
        return None
    if own.figure == CHANNEL:
        return Proof.WRONG
    if own.score <= 1.0 and not own.nonfinite:
        return None if is_golden_off(row) else Proof.RIGHT
    is_understood = own.golden is not None and own.golden <= 1.0 and not _is_sum_in_16_bits(row)
    if is_understood and own.score > BEYOND and not own.nonfinite and row.third is None and not row.noise:
        return Proof.WRONG
    return None


def _is_sum_in_16_bits(row: Row) -> bool:
    """Whether a framework computed one number in 16 bits: by how much a kernel's sum is off depends on its order.

    The gradient of a slope (PReLU) is 13 % off by torch's own kernel in bfloat16, where what it sums cancels.
    """
    own, shown = row.recomputed, row.pair.shown
    return own is not None and bool(own.by) and shown.numel == 1 and shown.dtype in SIGNIFICANT_BITS


def is_golden_off(row: Row) -> bool:
    """Return whether the target's result is what its inputs make, and the golden's is not what the golden's make."""
    own = row.recomputed
    if own is None or own.reason or own.golden is None:
        return False
    return own.score <= 1.0 and not own.nonfinite and own.golden > BEYOND


def score_of(row: Row) -> float:
    """Return by how much a result that is wrong by itself exceeds what no right one reaches."""
    own = row.recomputed
    assert own is not None
    return own.score


def figures(row: Row) -> dict[str, Value]:
    """Return the figures of a finding: what was measured, and the own error of a result that was recomputed."""
    found = row.measurement.metrics.copy() if row.measurement is not None else {}
    own = row.recomputed
    if own is not None and not own.reason:
        found |= {"own_error": own.found, "own_error_explained": own.explained}
    return found


def sentence(row: Row) -> str:
    """Return what recomputing a result showed, in words, or why it was not done; empty where nothing is known.

    An example: ``given its own inputs, the output is off by 1.2e-02 where float16 explains 5.0e-04``.
    """
    own = row.recomputed
    if own is None:
        return ""
    if own.reason:
        return f"not recomputed: {own.reason}"
    if is_golden_off(row):
        return "given its own inputs, the output is right, and the golden's is not: the golden is what is off here"
    if proof_of(row) is None:
        return ""
    if own.figure == CHANNEL:
        return f"one channel is off by {own.found:.1e} where rounding and the inputs explain {own.explained:.1e}"
    about = "given its own inputs, the output is" if row.is_produced else "element by element it is"
    if own.score == 0.0:
        return f"{about} exact"
    dtype = row.pair.target.dtype if row.pair.target is not None else ""
    what = {
        "rms": f"off by {own.found:.1e}",
        "gain": f"off by a factor of {own.found:.1e}",
        "slice": f"off by {own.found:.1e} in one slice (a channel, a row)",
        "peak": f"off by up to {own.found:.1e} in single elements",
    }[own.figure]
    explains = (
        "and exact values are due"
        if own.explained == 0.0 or math.isinf(own.score)
        else (f"where {dtype} explains {own.explained:.1e}")
    )
    by = f" (computed by {own.by})" if own.by else ""
    return f"{about} {what} {explains}{by}"


ROUNDED, CANCELS = 8.0, 16.0
"""Roundings that what a call read may be off by, and how much larger the error of its result may be, where it is proven
to be right and nothing before it comes near to being wrong: a sum that cancels makes that of them."""


def is_cancellation(result: Deviation | None, read: Sequence[Deviation | None]) -> bool:
    """Whether a result is off by what a sum that cancels makes of the few roundings that its call read."""
    rounded = [d for d in read if d is not None and d.relative <= ROUNDED * d.unit and not d.nonfinite]
    if result is None or len(rounded) < len(read):
        return False
    return result.relative <= CANCELS * sum(d.relative for d in rounded)


AMPLE = 2.0
"""Largest error of a gradient behind a gate, in that before it and a rounding, from which only flips explain it."""


def is_by_flips(own: Deviation | None, source: Deviation | None) -> bool:
    """Whether only the flips of a gate explain the largest error of a gradient behind it, by the gradient before it."""
    return own is not None and source is not None and own.peak > AMPLE * (source.peak + own.unit * own.top)
