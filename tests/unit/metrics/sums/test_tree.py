"""The fold tree against a level-by-level fold, recording the order of every join."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.metrics.sums.tree import fold_nodes, reduce_span


def join(left: str, right: str) -> str:
    return f"({left} {right})"


def level_by_level(count: int) -> str:
    row = [str(number) for number in range(count)]
    while len(row) > 1:
        pairs = [join(*row[i : i + 2]) for i in range(0, len(row) - 1, 2)]
        row = pairs + row[len(row) // 2 * 2 :]
    return row[0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.randoms())
def test_every_split_joins_in_the_order_of_the_tree(sizes: list[int], shuffler: object) -> None:
    nodes = []
    first = 0
    for size in sizes:
        nodes.append(reduce_span(first, (str(n) for n in range(first, first + size)), join))
        first += size
    shuffler.shuffle(nodes)  # type: ignore[attr-defined]
    assert fold_nodes([node for span in nodes for node in span], join) == level_by_level(first)


def test_an_aligned_span_is_one_subtree() -> None:
    assert len(reduce_span(512, map(str, range(512)), join)) == 1
    assert len(reduce_span(3, map(str, range(1000)), join)) <= 20
