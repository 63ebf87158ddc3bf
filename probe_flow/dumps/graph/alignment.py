"""Align two lists in order by what their entries are: element counts, shapes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

MAX_ALIGNED = 512
"""Longest lists that are aligned; real operators have at most a few hundred inputs."""


def align(
    first: Sequence[Hashable], second: Sequence[Hashable], *, bonus: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int]]:
    """Align two lists of element counts (or other facts) in order; unknown ones (None) align with nothing.

    The longest alignment wins; among equal ones the one with more `bonus` pairs (equal shapes), then the earliest.

    >>> align([32, 8, 4], [8, 99, 4])
    [(1, 0), (2, 2)]
    """
    if None not in first and list(first) == list(second):
        return [(at, at) for at in range(len(first))]
    if len(first) > MAX_ALIGNED or len(second) > MAX_ALIGNED:
        pairs = zip(first, second, strict=False)
        return [(at, at) for at, (one, other) in enumerate(pairs) if one is not None and one == other]
    extra = set(bonus)
    rows, columns = len(first), len(second)
    best = [[(0, 0)] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            score = max(best[i + 1][j], best[i][j + 1])
            if first[i] is not None and first[i] == second[j]:
                length, equal = best[i + 1][j + 1]
                score = max(score, (length + 1, equal + ((i, j) in extra)))
            best[i][j] = score
    return _walk(best, first, second, extra)


def _walk(
    best: list[list[tuple[int, int]]],
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    extra: set[tuple[int, int]],
) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] is not None and first[i] == second[j]:
            length, equal = best[i + 1][j + 1]
            if best[i][j] == (length + 1, equal + ((i, j) in extra)):
                pairs.append((i, j))
                i, j = i + 1, j + 1
                continue
        if best[i + 1][j] == best[i][j]:
            i += 1
        else:
            j += 1
    return pairs
