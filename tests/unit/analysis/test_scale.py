"""The analysis of a large run takes seconds: no step looks at all rows for each row."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
from comparison_rows import IN, OUT, PARAM, edge, key, measured, pairs_of, passes, row, target_only, tensor
from work_done import growth

from probe_flow.analysis.coverage import Required, cover, incompleteness
from probe_flow.analysis.policies.base import judge_all
from probe_flow.analysis.policies.torchair import TorchairPolicy
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Statistics, TensorKind

NODES = 500
LINEAR = 2.05
NOWHERE = edge("nowhere", "elsewhere")
RIGHT = measured(relative=1e-4)


def analyse(rows, pairs):
    verdicts = judge_all(rows, TorchairPolicy())
    findings, roles = conclude(rows, pairs, verdicts)
    coverage = cover(pairs, rows, verdicts)
    incompleteness(rows, verdicts, coverage, required=Required())
    assert len(roles) == len(rows)
    return findings


def many_steps(nodes):
    """Sources of every step look back at the errors of all earlier steps."""
    for step in range(nodes // 5):
        for n in range(5):
            node = key(f"n{n}", step=step)
            yield row(node, IN, measurement=RIGHT)
            yield row(node, PARAM, "weight", measurement=RIGHT)
            yield row(node, OUT, measurement=RIGHT)
            yield row(node, OUT, 1, measurement=RIGHT)


def wrong_everywhere(nodes):
    """Every input is an origin, and none was written by a row that can be found."""
    wrong = measured(relative=0.5)
    recorded = Statistics(min=0.0, max=1.0, mean=0.5, l2norm=7.0)
    for n in range(nodes):
        yield target_only(tensor(f"x{n}", recorded=recorded, kind=TensorKind.STATISTICS))
        yield row(f"n{n}", IN, measurement=wrong)


@pytest.mark.parametrize("make", [many_steps, wrong_everywhere])
def test_without_a_graph(make):
    def work(nodes):
        rows = list(make(nodes))
        return partial(analyse, rows, pairs_of(rows, {f"n{n}": "MatMulV2" for n in range(nodes)}, [NOWHERE]))

    assert growth(work, NODES) < LINEAR


def test_along_a_chain_with_a_graph():
    def work(nodes):
        rows = [row(f"n{n}", role, measurement=RIGHT) for n in range(nodes) for role in (IN, OUT)]
        edges = [edge(*two) for two in pairwise(f"n{n}" for n in range(nodes))]
        return partial(analyse, rows, pairs_of(rows, edges=edges))

    assert work(NODES)() == ()
    assert growth(work, NODES) < LINEAR


def test_behind_a_long_chain_that_was_not_compared():
    # Every compared node reads the end of the same uncompared chain, at its own place.
    def work(nodes):
        rows = [row(f"n{n}", role, measurement=RIGHT) for n in range(nodes) for role in (IN, OUT)]
        edges = [edge(*two) for two in pairwise(f"x{n}" for n in range(nodes))]
        edges += [edge(f"x{n}", f"n{n}") for n in range(nodes)]
        return partial(analyse, rows, pairs_of(rows, edges=edges))

    assert growth(work, NODES) < LINEAR


def test_roles_of_many_rows_are_in_their_order():
    rows = [row(f"n{n}", measurement=measured(relative=0.5 if n == 7 else 1e-4)) for n in range(50)]
    pairs = pairs_of(rows, edges=[edge("nowhere", "elsewhere")])
    roles = conclude(rows, pairs, passes(rows))[1]
    assert [n for n, verdict in enumerate(roles) if verdict.role.value == "origin"] == [7]
