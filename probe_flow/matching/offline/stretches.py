"""Divide two sequences by what is already paired, so that a guess joins only what lies between the same pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct, field

from probe_flow.matching.shared.alignment import common_subsequence

T = TypeVar("T")


class Stretch(Struct, Generic[T]):
    """What neither side has paired yet, between two pairs that follow each other on both sides."""

    target: list[T] = field(default_factory=list)
    golden: list[T] = field(default_factory=list)


def stretches(
    target: Sequence[tuple[T, Hashable | None]], golden: Sequence[tuple[T, Hashable | None]]
) -> list[Stretch[T]]:
    """Return the stretches in order.

    Args:
        target, golden: items in order, each with a mark that both sides of a pair share; None = not paired yet.
    """
    marks = [[mark for _, mark in side if mark is not None] for side in (target, golden)]
    kept = {marks[0][row] for row, _ in common_subsequence(*marks)}
    found: dict[int, Stretch[T]] = defaultdict(Stretch)
    for is_target, side in ((True, target), (False, golden)):
        number = 0
        for item, mark in side:
            if mark is None:
                stretch = found[number]
                (stretch.target if is_target else stretch.golden).append(item)
            elif mark in kept:
                number += 1
    return [found[number] for number in sorted(found)]
