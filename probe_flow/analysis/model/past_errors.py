"""The errors that earlier outputs had: what state kept between steps, and what paths not shown, may carry."""

from __future__ import annotations

from bisect import insort
from collections import deque

RECENT = 32
"""Outputs whose errors an unknown path may carry: what is computed is used soon, or came along a skip."""


class PastErrors:
    """Relative errors of the outputs of steps that are over; they come step by step."""

    def __init__(self) -> None:
        self._sorted: list[float] = []
        self._step = -1
        self._current: list[float] = []

    def add(self, step: int, error: float) -> None:
        """Take note of an output's error; ``step`` never decreases."""
        if step > self._step:
            self._begin(step)
        self._current.append(error)

    def usual_before(self, step: int) -> float:
        """Return the error that nine in ten outputs of steps before this one stay below: noise tensors left out."""
        self._begin(step)
        return self._sorted[int(0.9 * (len(self._sorted) - 1))] if self._sorted else 0.0

    def _begin(self, step: int) -> None:
        if step > self._step:
            for error in self._current:
                insort(self._sorted, error)
            self._step, self._current = step, []


class RecentErrors:
    """The largest relative error of the latest outputs of one execution, in constant time."""

    def __init__(self) -> None:
        self._span = RECENT
        self._count = 0
        self._falling: deque[tuple[int, float]] = deque()

    def add(self, error: float) -> None:
        """Take note of an output's error."""
        while self._falling and self._falling[-1][1] <= error:
            self._falling.pop()
        self._falling.append((self._count, error))
        self._count += 1
        if self._falling[0][0] <= self._count - 1 - self._span:
            self._falling.popleft()

    @property
    def largest(self) -> float:
        """The largest of them, 0 without any."""
        return self._falling[0][1] if self._falling else 0.0
