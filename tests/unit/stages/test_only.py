"""`only` of every stage that has it: a condition that no row can meet is refused, for it would select nothing."""

import pytest
from pydantic import ValidationError

from probe_flow.stages import compare, precheck
from probe_flow.stages.scripts import repro

STAGES = {
    "compare": lambda only: compare.Options(uses="compare", pairs="pairs", only=only),
    "precheck": lambda only: precheck.Options(uses="precheck", source="target", only=only),
    "repro": lambda only: repro.Options(uses="repro", comparison="result", only=only),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("where", "why"),
    [
        ({"direction": "output"}, "`direction` is neither a fact of a row nor a metric"),
        ({"rol": "origin"}, "did you mean `role`"),
        ({"verdict": "failed"}, "no verdict is `failed`; did you mean `fail`"),
        ({"role": ["origin", "orgin"]}, "no role is `orgin`; did you mean `origin`"),
        ({"cosine": "0.99"}, "`0.99` is no bound"),
    ],
)
def test_a_condition_that_no_row_can_meet_is_refused(stage, where, why):
    with pytest.raises(ValidationError, match=why):
        STAGES[stage]({"comparison": "result", "where": where})


@pytest.mark.parametrize("stage", STAGES)
def test_patterns_and_bounds_are_taken(stage):
    where = {"verdict": ["fail", "unmatched_*"], "role": "*", "node": "Gelu_*", "cosine": "< 0.99"}
    assert STAGES[stage]({"comparison": "result", "where": where}).only.where == where
