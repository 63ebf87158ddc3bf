"""Findings at one tensor of several executions, told once."""

from __future__ import annotations

import msgspec
import pytest

from probe_flow.record.same_places import elsewhere, same_places, suspected
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.testing.run_records import finding, run_record


def found(node: str | None = "Gelu_1", rank: object = 0, step: object = 0, **more: object) -> FindingRecord:
    return msgspec.convert(finding(node=node, rank=rank, step=step, **more), FindingRecord)


def test_places_keep_their_order_and_the_first_of_each_stands_for_it() -> None:
    findings = [found(rank=1), found("Add_2"), found(rank=0), found("Add_2", step=3)]
    told = [(each.first, list(each.others)) for each in same_places(findings)]
    assert told == [(findings[0], [findings[2]]), (findings[1], [findings[3]])]


@pytest.mark.parametrize(
    "other", [{"graph": 2}, {"call": 1}, {"phase": "backward"}, {"index": "1"}, {"kind": "suspect"}, {"fails": False},
              {"comparison": "second"}]
)  # fmt: skip
def test_what_differs_in_more_than_rank_and_step_is_another_place(other: dict[str, object]) -> None:
    assert len(same_places([found(), found(rank=1, **other)])) == 2


def test_findings_without_an_operator_stand_alone() -> None:
    assert len(same_places([found(None, None, None), found(None, None, None)])) == 2


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([(0, 0)], ""),
        ([(0, 0), (0, 1)], "1 more execution: all of rank 0, steps 0, 1"),
        ([(1, 5), (3, 5), (2, 5)], "2 more executions: all of ranks 1 to 3, step 5"),
        ([(0, 2), (4, 2), (0, 10), (4, 10)], "3 more executions: all of ranks 0, 4, steps 2, 10"),
        ([(None, 0), (None, 1), (None, 2)], "2 more executions: all of steps 0 to 2"),
        ([(0, 0), (1, 0), (0, 1)], "2 more executions: rank 1, step 0; rank 0, step 1"),
        ([(0, 1), *[(0, step) for step in range(2, 9)], (1, 1)],
         "8 more executions: rank 0, step 2; rank 0, step 3; rank 0, step 4; rank 0, step 5 and 4 more"),
    ],
)  # fmt: skip
def test_executions_are_named_short_where_they_are_all_of_some_ranks_and_steps(
    places: list[tuple[object, object]], text: str
) -> None:
    (place,) = same_places(found(rank=rank, step=step) for rank, step in places)
    assert place.elsewhere == text


def test_a_place_of_the_record_is_found_among_them() -> None:
    kinds = [{"node": "Add_2"}, {"node": "Gelu_1"}, {"node": "Gelu_1", "step": 1}, {"kind": "drift", "node": None}]
    run = run_record(findings=kinds)
    assert len(suspected(run)) == 2
    assert elsewhere(suspected(run), found()) == "1 more execution: all of rank 0, steps 0, 1"
    assert elsewhere(suspected(run), found(step=1)) == ""
    assert elsewhere((), found()) == ""
