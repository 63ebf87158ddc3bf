"""The errors that outputs of earlier steps had: what state kept between steps may carry."""

from __future__ import annotations

from bisect import insort


class PastErrors:
    """Relative errors of the outputs of steps that are over; they come step by step."""

    def __init__(self) -> None:
        self._sorted: list[float] = []
        self._step = -1
        self._current: list[float] = []

    def add(self, step: int, error: float) -> None:
        """Take note of an output's error; ``step`` never decreases."""
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
