"""In which order findings of several executions are told."""

from __future__ import annotations

import pytest
from comparison_rows import OUT, row

from probe_flow.analysis.flow.ordering import side_by_side
from probe_flow.records import Execution, NodeKey
from probe_flow.records.row import Row

Place = tuple[int | None, int | str | None, int | None]


def rows_of(*executions: Place, nodes: int = 3) -> list[Row]:
    """Rows as they come: rank, graph, step, then so many nodes."""
    return [
        row(NodeKey(Execution(rank, step, graph), f"n{number}"), OUT)
        for rank, graph, step in executions
        for number in range(nodes)
    ]


@pytest.mark.parametrize(
    ("executions", "order", "found", "told"),
    [
        # two ranks, one step: the third operator of rank 0 happens behind the first of rank 1
        ([(0, 1, 0), (1, 1, 0)], range(6), [2, 3], [3, 2]),
        ([(0, 1, 0), (1, 1, 0)], range(6), [0, 3], [0, 3]),
        # a graph of a step runs on all ranks before the next graph does
        ([(0, 9, 0), (0, 10, 0), (1, 9, 0), (1, 10, 0)], range(12), [3, 8], [8, 3]),
        # an earlier step comes first, whatever the operator
        ([(0, 1, 0), (0, 1, 1), (1, 1, 0)], [0, 1, 2, 6, 7, 8, 3, 4, 5], [3, 8], [8, 3]),
        # one rank: as they were judged
        ([(0, "b", 0), (0, "a", 0)], range(6), [1, 3], [1, 3]),
        ([(None, None, None)], range(3), [2, 0], [0, 2]),
    ],
)
def test_ranks_run_side_by_side(executions: list[Place], order: list[int], found: list[int], told: list[int]) -> None:
    assert side_by_side(found, list(order), rows_of(*executions)) == told
