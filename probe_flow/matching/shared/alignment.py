"""Alignment of two ordered lists: longest common subsequences, and pairing of calls where the counts differ.

The subsequence is found with the bit-parallel method of Hyyrö (2004): one row of the table is one big integer, so that
lists of thousands cost thousands of integer operations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import accumulate

MAX_TABLE_BITS = 2**29
"""Size of the table kept for tracing back, 64 MiB; larger problems are halved first (Hirschberg 1975)."""

MAX_WORK_BITS = 2**36
"""Size of the largest problem that is halved, some ten seconds; beyond it only the equal ends are aligned."""

Signature = Callable[[int], Hashable]


def common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the index pairs of a longest common subsequence, increasing on both sides.

    Equal beginnings and ends are paired first; where several solutions exist, the earliest elements are taken.

    >>> common_subsequence("abcd", "acd")
    [(0, 0), (2, 1), (3, 2)]
    """
    start = 0
    shorter = min(len(first), len(second))
    while start < shorter and first[start] == second[start]:
        start += 1
    tail = 0
    while tail < shorter - start and first[-1 - tail] == second[-1 - tail]:
        tail += 1
    head = [(index, index) for index in range(start)]
    ends = [(len(first) - index, len(second) - index) for index in range(tail, 0, -1)]
    middle = _traced(first[start : len(first) - tail], second[start : len(second) - tail])
    return [*head, *((start + row, start + column) for row, column in middle), *ends]


def _traced(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    size = len(first) * len(second)
    if not size or size > MAX_WORK_BITS:
        return []
    if size > MAX_TABLE_BITS and len(first) > 1:
        return _halved(first, second)
    rows = list(_rows(first, second))
    return list(reversed(list(_trace_back(rows, len(second)))))


def _halved(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Solve both halves of `first` against the two parts of `second` that make the whole longest."""
    middle = len(first) // 2
    ahead = _lengths(first[:middle], second)
    behind = _lengths(first[middle:][::-1], second[::-1])
    cut = max(range(len(second) + 1), key=lambda column: ahead[column] + behind[len(second) - column])
    late = _traced(first[middle:], second[cut:])
    return [*_traced(first[:middle], second[:cut]), *((row + middle, column + cut) for row, column in late)]


def _lengths(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[int]:
    """Return the length of the common subsequence with each beginning of `second`."""
    last = 0
    for row in _rows(first, second):
        last = row
    grows = format(last, f"0{len(second)}b")[::-1]
    return list(accumulate((bit == "0" for bit in grows), initial=0))


def _rows(first: Sequence[Hashable], second: Sequence[Hashable]) -> Iterator[int]:
    """Yield one row of bits per element of `first`.

    A cleared bit marks a column in which the length of the common subsequence grows by one.
    """
    places: dict[Hashable, int] = {}
    for column, element in enumerate(second):
        places[element] = places.get(element, 0) | 1 << column
    row_bits = full = (1 << len(second)) - 1
    for element in first:
        common = row_bits & places.get(element, 0)
        row_bits = (row_bits + common | row_bits - common) & full
        yield row_bits


def _trace_back(rows: Sequence[int], columns: int) -> Iterator[tuple[int, int]]:
    row, column = len(rows) - 1, columns - 1
    while row >= 0 and column >= 0:
        if rows[row] >> column & 1:
            column -= 1
        elif row and not rows[row - 1] >> column & 1:
            row -= 1
        else:
            yield row, column
            row -= 1
            column -= 1


def align(
    target: Sequence[int], golden: Sequence[int], signatures: Sequence[tuple[Signature, Signature]]
) -> list[tuple[int, int]]:
    """Pair two lists of calls in order, so that a call that only one side has does not shift what follows.

    Lists of equal length pair one by one. Otherwise calls of equal signature are paired first, by the first signature,
    then what lies between these pairs by the next one; a stretch that no signature can align stays unpaired.

    Args:
        target, golden: node numbers in call order.
        signatures: what to compare, most telling first; one function per side, from node number to signature.

    Returns:
        Pairs of node numbers, in order.
    """
    if not target or not golden:
        return []
    if len(target) == len(golden):
        return list(zip(target, golden, strict=True))
    if not signatures:
        return []
    of_target, of_golden = signatures[0]
    anchors = common_subsequence([of_target(node) for node in target], [of_golden(node) for node in golden])
    pairs: list[tuple[int, int]] = []
    row = column = 0
    for next_row, next_column in [*anchors, (len(target), len(golden))]:
        pairs += align(target[row:next_row], golden[column:next_column], signatures[1:])
        if next_row < len(target):
            pairs.append((target[next_row], golden[next_column]))
        row, column = next_row + 1, next_column + 1
    return pairs
