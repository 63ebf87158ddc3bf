"""How bad what a call did to NaN, infinities and sizes is: the levels of msprobe's overflow check."""

from __future__ import annotations

import enum


class Level(enum.Enum):
    """What a call did, the least bad first; `relations.levels` says when.

    ``medium``: what it read is not finite, what it wrote is. ``high``: neither is finite, or both are and the result is
    much larger than what went in. ``critical``: it read finite values and wrote others.
    """

    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    __hash__ = object.__hash__
