"""The stage `match.fusion_rule`: its options, and rules in each form that it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from offline_builders import Case, partners, read
from pydantic import ValidationError
from rule_builders import desc, op

from probe_flow.errors import UsageError
from probe_flow.records import Pairs
from probe_flow.stages.match.match_fusion_rule import STAGE, Options

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = Case(tmp_path)
    for name in ("a", "b"):
        case.device("Relu", name, outputs=[X])
        case.golden.output(name, 0, X)
    return case


def rule_of(case: Case) -> Path:
    return case.rule(
        *(op(name, "Relu", number=n, originals=[name], outputs=[desc(name, 0)]) for n, name in ((1, "a"), (2, "b")))
    )


def run(case: Case, **options: Any) -> Pairs:
    chosen = Options(uses="match.fusion_rule", target="target", golden="golden", **options)
    inputs = {"target": [read(case.target.path, "target")], "golden": [read(case.golden.path, "golden")]}
    pairs = STAGE.run(chosen, inputs, None)  # type: ignore[arg-type]
    assert isinstance(pairs, Pairs)
    return pairs


def test_a_file_or_a_folder_of_rules(case: Case) -> None:
    rule = rule_of(case)
    both = {"a.output.0": "a.output.0", "b.output.0": "b.output.0"}
    assert partners(run(case, fusion_rule=str(rule))) == both
    folder = case.path / "rules"
    folder.mkdir()
    rule.rename(folder / "net.json")
    assert partners(run(case, fusion_rule=str(folder))) == both


def test_without_rules_names_decide(case: Case) -> None:
    assert [problem.code for problem in run(case).problems] == ["PF4406"]


@pytest.mark.parametrize(("select", "names"), [({"range": "2,-1,1"}, {"b"}), ({"ids": [1]}, {"a"})])
def test_a_selection_by_ids(case: Case, select: dict[str, Any], names: set[str]) -> None:
    pairs = run(case, fusion_rule=str(rule_of(case)), select=select)
    assert set(partners(pairs)) == {f"{name}.output.0" for name in names}


@pytest.mark.parametrize(
    "options",
    [
        {"select": {"ids": [1]}},
        {"select": {}, "fusion_rule": "x.json"},
        {"select": {"ids": [1], "range": "1,2,1"}, "fusion_rule": "x.json"},
        {"fusion_rules": "x.json"},
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Options(uses="match.fusion_rule", target="target", golden="golden", **options)


def test_a_quantised_target_by_word(case: Case) -> None:
    rule = str(rule_of(case))
    with pytest.raises(UsageError):
        run(case, fusion_rule=rule, quant_fusion_rule=rule)
    assert partners(run(case, fusion_rule=rule, quant_fusion_rule=rule, quantised=True))
