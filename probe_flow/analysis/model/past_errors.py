"""The errors that earlier outputs had: what state kept between steps, and what paths not shown, may carry."""

from __future__ import annotations

from array import array
from bisect import insort
from collections import defaultdict, deque

from probe_flow.records import Execution

RECENT = 32
"""Outputs whose errors an unknown path may carry: what is computed is used soon, or came along a skip."""


class PastErrors:
    """Relative errors of outputs that were judged before; steps come one after the other.

    Executions are those of the rows, which outlive this.
    """

    def __init__(self) -> None:
        self._sorted = array("d")  # of steps that are over
        self._step = -1
        self._current = array("d")
        self._recent: dict[Execution, RecentErrors] = defaultdict(RecentErrors)
        self._by_object: dict[int, RecentErrors] = {}  # the same, since hashing an execution is slow

    def add(self, execution: Execution, error: float) -> None:
        """Take note of an output's error; the step never decreases."""
        self._recent_of(execution).add(error)
        if execution.step is not None:
            self._begin(execution.step)
            self._current.append(error)

    def recent(self, execution: Execution) -> float:
        """Return the largest error of the latest outputs of an execution."""
        return self._recent_of(execution).largest

    def usual_before(self, step: int) -> float:
        """Return the error that nine in ten outputs of steps before this one stay below: noise tensors left out."""
        self._begin(step)
        return self._sorted[int(0.9 * (len(self._sorted) - 1))] if self._sorted else 0.0

    def _begin(self, step: int) -> None:
        if step > self._step:
            for error in self._current:
                insort(self._sorted, error)
            self._step, self._current = step, array("d")

    def _recent_of(self, execution: Execution) -> RecentErrors:
        found = self._by_object.get(id(execution))
        if found is None:
            found = self._by_object[id(execution)] = self._recent[execution]
        return found


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
