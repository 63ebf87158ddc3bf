"""What a selection asks for that a dump cannot answer."""

from __future__ import annotations

from probe_flow.dumps.selection import EVERYTHING, Selection, is_part
from probe_flow.records import Catalog, Execution
from probe_flow.records.frameworks import TORCHAIR_GE


def told(selection, *executions):
    return [(problem.code, problem.message) for problem in selection.unanswered(executions)]


def test_what_every_execution_tells_is_no_problem():
    selection = Selection(ranks=[0], steps=[1], graphs=[2])
    assert told(selection, Execution(0, 1, 2), Execution(0, 1, model="net")) == []
    assert told(EVERYTHING, Execution()) == []


def test_a_key_that_no_execution_tells_narrows_nothing():
    assert told(Selection(ranks=[0], steps=[1]), Execution(step=1, graph=2)) == [
        ("PF3217", "the selection of ranks narrows nothing: the folders do not tell the rank, so all of them are read")
    ]


def test_executions_that_a_key_cannot_leave_out_are_counted():
    assert told(Selection(steps=[1]), Execution(0, 1), Execution(1), Execution(2)) == [
        ("PF3217", "the selection of steps leaves out none of the 2 executions whose folders tell no step")
    ]


def test_what_asks_for_all_that_is_there_asks_for_no_part():
    def part(selection, *steps):
        for step in steps:
            selection.takes_execution(0, step, None)
        attrs = {"select": selection.as_attrs()}
        return is_part(Catalog("target", TORCHAIR_GE, "tensor", "", {}, (), attrs=attrs))

    assert not part(Selection(), 0, 1)
    assert not part(Selection(ranks=[0], steps=[0, 1]), 0, 1)
    assert part(Selection(steps=[0]), 0, 1)
    assert part(Selection(nodes=["Gelu*"]), 0)
