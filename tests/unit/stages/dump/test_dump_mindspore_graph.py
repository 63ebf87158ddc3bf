"""`dump.mindspore_graph`: which options go together, and what a plan says without MindSpore."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from probe_flow.stages.dump import dump_mindspore_graph


def options(**given: Any) -> dump_mindspore_graph.Options:
    return dump_mindspore_graph.Options(**{"uses": "dump.mindspore_graph", **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "path\n  Field required"),
        ({"path": "d", "model": "net:build"}, "give either `path`"),
        ({"path": "d", "kernels": ["Default/a-op0"]}, "only a stage that runs a `model` takes it"),
        ({"path": "d", "direction": "input"}, "only a stage that runs a `model` takes it"),
        ({"path": "d", "device": "CPU"}, "only a stage that runs a `model` takes it"),
        ({"model": "net:build", "kernels": []}, "at least 1 item"),
        ({"model": "net:build", "backward": True}, "Extra inputs are not permitted"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        options(**given)
    assert message in str(caught.value)


def test_a_dump_that_is_adopted_runs_nothing() -> None:
    assert dump_mindspore_graph.STAGE.foresee(options(path="d", ir=["graphs"])) is None


def test_a_plan_says_what_is_missing_and_that_code_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.dumpers.base.runner.missing_modules", lambda *names: iter(names))
    found = dump_mindspore_graph.STAGE.foresee(options(model="net:build"))
    assert found is not None
    assert [problem.code for problem in found.problems] == ["PF6320"]
    assert "probe-flow[mindspore]" in (found.problems[0].help or "")
    assert found.writes is not None
    assert found.writes() == "an unknown number of bytes: the model is code, which a plan does not run"
