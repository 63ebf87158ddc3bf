"""How bad what a call did to NaN, infinities and sizes is: the levels of msprobe's overflow check, and where they lie.

Source: the rules of `msprobe graph -oc`, which looks at maximum, minimum and mean of tensors of torch, and passes over
parameters. Here the norm counts too, and whoever asks decides what a call reads and writes: weights and the tensors of
every framework are part of it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable

from probe_flow.records.tensor_data import Statistics


class Level(enum.Enum):
    """What a call did, the least bad first.

    ``medium``: what it read is not finite, what it wrote is. ``high``: neither is finite, or both are and the result is
    much larger than what went in. ``critical``: it read finite values and wrote others.
    """

    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    __hash__ = object.__hash__


GROWTH = 100.0
"""How many times the largest norm that a call read the largest that it wrote may be."""


def is_abnormal(known: Statistics) -> bool:
    """Say whether maximum, minimum, mean or norm of a tensor is NaN or infinite, or elements were counted that are."""
    figures = known.max, known.min, known.mean, known.l2norm
    return bool(known.nan or known.inf) or any(each is not None and _is_abnormal(each) for each in figures)


def _is_abnormal(figure: float) -> bool:
    return figure != figure or figure in (math.inf, -math.inf)  # `isfinite` fails for integers beyond floats


def level_of(
    *, reads_abnormal: bool, writes_abnormal: bool, growth: float | None, limit: float = GROWTH
) -> Level | None:
    """Return the level of a call, None where there is nothing to say.

    Args:
        reads_abnormal: whether any tensor that it read is abnormal (`is_abnormal`).
        writes_abnormal: the same of those that it wrote.
        growth: how many times what it read its result is (`growth_of`).
        limit: from where on a growth counts.
    """
    if writes_abnormal:
        return Level.HIGH if reads_abnormal else Level.CRITICAL
    if reads_abnormal:
        return Level.MEDIUM
    return Level.HIGH if growth is not None and growth > limit else None


def growth_of(read: Iterable[float | None], written: Iterable[float | None]) -> float | None:
    """Return the largest norm that a call wrote over the largest that it read, its size where it read only zeros.

    Args:
        read, written: L2 norms of its tensors; None and NaN say nothing.

    Returns:
        None where no norm is known of what it read, or of what it wrote.
    """
    before, after = ([each for each in norms if each is not None and each == each] for norms in (read, written))
    if not before or not after:
        return None
    return max(after) / max(before) if max(before) else max(after)
