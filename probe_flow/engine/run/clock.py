"""Time as a parameter: the wall clock for names and records, a monotonic one for durations."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


def _local_now() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class Clock:
    """Two clocks.

    Args:
        now: current time with its zone.
        monotonic: seconds from any origin, never going back.
    """

    now: Callable[[], datetime] = _local_now
    monotonic: Callable[[], float] = time.monotonic
