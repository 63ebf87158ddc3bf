"""Time as a parameter: the wall clock for names and records, a monotonic one for durations."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct


def _local_now() -> datetime:
    return datetime.now().astimezone()


class Clock(Struct, frozen=True):
    """Two clocks.

    Args:
        now: current time with its zone.
        monotonic: seconds from any origin, never going back.
    """

    now: Callable[[], datetime] = _local_now
    monotonic: Callable[[], float] = time.monotonic
