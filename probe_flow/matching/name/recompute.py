"""Which forward calls of a dump are recomputations of earlier ones (activation checkpointing).

A checkpointed module runs its forward again in the middle of the backward phase, with higher call numbers. Its
gradients then carry the number of the first forward (non-reentrant checkpoint) or of the second (reentrant). A run of
forward calls is taken for a recomputation when it lies behind the first backward call, repeats a run of earlier calls
with the same names and callers whose gradients are still due, and when of each such twosome at most one ever gets a
gradient - which tells it from the next micro batch, where both do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from probe_flow.records import Node, Phase

MAX_CANDIDATES = 64
"""Earlier calls of one name and caller, the latest first, at which a recomputation may begin."""


def find_recomputed(nodes: Sequence[Node]) -> dict[int, int]:
    """Return node number of each recomputed forward -> node number of the forward that it repeats.

    Args:
        nodes: one execution, in the order of the dump.
    """
    runs = _forward_runs(nodes)
    if len(runs) < 2:  # no forward call behind a backward one: nothing to repeat
        return {}
    search = _Search(nodes)
    for run in runs:
        search.take(run)
    return search.repeats


def _forward_runs(nodes: Sequence[Node]) -> list[list[int]]:
    """Return the stretches of forward calls between backward calls; other phases do not interrupt."""
    runs: list[list[int]] = [[]]
    for number, node in enumerate(nodes):
        if node.key.phase is Phase.FORWARD:
            runs[-1].append(number)
        elif node.key.phase is Phase.BACKWARD and runs[-1]:
            runs.append([])
    return [run for run in runs if run]


class _Search:
    """The forward calls seen so far, by name and caller, and which of them were repeated."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.repeats: dict[int, int] = {}
        self._what = [(node.key.name, node.parent) for node in nodes]
        at = {
            (node.key.name, node.key.call): number
            for number, node in enumerate(nodes)
            if node.key.phase is Phase.BACKWARD
        }
        self._gradient = [at.get((node.key.name, node.key.call)) for node in nodes]
        self._originals: list[int] = []
        self._places: dict[tuple[str, str | None], list[int]] = {}

    def take(self, run: list[int]) -> None:
        """Split one run of forward calls into repeats of earlier stretches and calls of its own."""
        known = len(self._originals)
        start = 0
        while start < len(run):
            stretch = self._longest_repeated(run, start, known) if known else []
            if stretch:
                self.repeats.update(zip(run[start : start + len(stretch)], stretch, strict=True))
                start += len(stretch)
                continue
            self._places.setdefault(self._what[run[start]], []).append(len(self._originals))
            self._originals.append(run[start])
            start += 1

    def _longest_repeated(self, run: list[int], start: int, known: int) -> list[int]:
        """Return the earlier calls that `run` repeats from `start` on, as many as possible; empty for none."""
        places = self._places.get(self._what[run[start]], [])
        while places and self._is_done(self._originals[places[-1]], run[start]):
            places.pop()
        best: list[int] = []
        earlier = bisect_left(places, known)
        for place in reversed(places[max(len(places) - MAX_CANDIDATES, 0) : earlier]):
            best = max(best, self._repeated_at(run, start, place, known), key=len)
        return best

    def _is_done(self, first: int, now: int) -> bool:
        gradient = self._gradient[first]
        return gradient is not None and gradient < now

    def _repeated_at(self, run: list[int], start: int, place: int, known: int) -> list[int]:
        stretch: list[int] = []
        any_gradient = False
        for offset in range(min(len(run) - start, known - place)):
            again, first = run[start + offset], self._originals[place + offset]
            due, repeated = self._gradient[first], self._gradient[again]
            both = due is not None and repeated is not None
            if self._what[again] != self._what[first] or self._is_done(first, again) or both:
                break
            stretch.append(first)
            any_gradient = any_gradient or due is not None or repeated is not None
        return stretch if any_gradient else []
