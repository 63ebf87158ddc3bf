"""Which level what a call did to NaN, infinities and sizes has, by what was recorded of its tensors.

Source: the rules of `msprobe graph -oc`, which looks at maximum, minimum and mean of tensors of torch, and passes over
parameters. Here the norm counts too, where finite elements cannot have made it infinite, and whoever asks decides what
a call reads and writes: weights and the tensors of every framework are part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from probe_flow.records import Statistics
from probe_flow.records.levels import Level

GROWTH = 100.0
"""How many times the largest norm that a call read the largest that it wrote may be."""


_LARGEST_FLOAT16, _LARGEST_FLOAT32 = 65504.0, 3.4028234663852886e38
"""Collectors take sums, of squares too, in the type of the elements, but none wider than float32."""


def is_abnormal(known: Statistics, count: int | None = None, dtype: str = "") -> bool:
    """Say whether what was recorded of a tensor shows NaN or infinities in it: in extremes, counts, mean or norm.

    Args:
        known: what was recorded.
        count: number of its elements.
        dtype: canonical; collectors compute mean and norm in it.
    """
    ends = known.max, known.min
    return bool(known.nan or known.inf) or any(map(_is_abnormal, ends)) or is_abnormal_sum(known, count, dtype)


def is_abnormal_sum(known: Statistics, count: int | None = None, dtype: str = "") -> bool:
    """Say whether mean or norm shows NaN or infinities, however finite minimum and maximum are.

    A device may pass over NaN when it looks for those. Sums that are infinite show nothing where finite elements as
    large as the extremes overflow them too: a norm of 16 Mi elements of size 20 does in float16. Beside a norm
    the same goes for a mean that is NaN, of overflows of both signs: NaN in an element is in its norm, too.
    """
    mean, norm = known.mean, known.l2norm
    if not (_is_abnormal(mean) or _is_abnormal(norm)):
        return False
    if norm is not None and norm != norm:
        return True
    if mean is not None and mean != mean and norm is None:
        return True
    ends = [abs(each) for each in (known.max, known.min) if each is not None]
    if not ends or any(map(_is_abnormal, ends)) or count is None:
        return True
    count = min(count, 1 << 62)  # a dump may claim more than floats hold
    largest = _LARGEST_FLOAT16 if dtype == "float16" else _LARGEST_FLOAT32
    size = float(min(max(ends), largest))
    if _is_abnormal(norm) and max(size, 1.0) * size * count < largest:
        return True
    return _is_abnormal(mean) and size * count < largest


def _is_abnormal(figure: float | None) -> bool:
    # Not `isfinite`, which fails for integers beyond floats.
    return figure is not None and (figure != figure or figure in (math.inf, -math.inf))


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
