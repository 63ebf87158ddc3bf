"""What a selection asks for that a dump cannot answer."""

from __future__ import annotations

from probe_flow.dumps.selection import EVERYTHING, Selection
from probe_flow.records import Execution


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
