from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from report_builders import comparison, good_row, key, missing_golden, missing_target, origin

from probe_flow.engine.run.record import with_summaries
from probe_flow.record import run_json
from probe_flow.record.run_folder import read_run
from probe_flow.record.run_json import Summary, comparison_summary, plain, run_json_text, write_run_json
from probe_flow.record.schemas import schema, schema_names, schema_text
from probe_flow.record.types.conclusions import FindingCount
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, Coverage, Finding, FindingKind, Role, Status
from probe_flow.testing.run_records import run_record

SCHEMAS = Path(__file__).parents[3] / "schemas"
RUN = Draft202012Validator(schema("run"))


def record(**summaries: Summary) -> RunRecord:
    """What the engine adds around summaries."""
    run = run_record(
        verdict="fail", exit_code=1, params={"limit": 0.5}, stages=[{"name": "result", "uses": "compare"}],
        inputs=[{}], versions={"numpy": "2"}, artifacts=["run.json"],
    )  # fmt: skip
    return with_summaries(run, summaries)


def summary_data(given: Comparison) -> dict[str, Any]:
    """The conclusions as JSON, with what they point to."""
    summary = comparison_summary(given)
    return {**plain(summary.record), "findings": [plain(each) for each in summary.findings]}


def diverging() -> Comparison:
    rows = [
        good_row(0),
        good_row(7, "Mul_2", status=Status.FAIL, role=Role.ORIGIN),
        good_row(8, "Exp_3", status=Status.FAIL, role=Role.INHERITED),
        missing_golden(9),
        missing_target(10),
    ]
    findings = (
        origin(8, "Exp_3", fails=False, severity=2.0),
        origin(7, "Mul_2", metrics={"b": math.inf, "a": None}),
        origin(8, "Exp_3", kind=FindingKind.NONFINITE_ORIGIN, severity=math.inf),
        Finding(FindingKind.DRIFT, None, None, "errors grow 1.1 times a layer", 3.0, fails=False),
    )
    coverage = {
        "target": Coverage(4, 3, missing=1, outputs=4, outputs_compared=3, outputs_missing=1),
        "golden": Coverage(4, 3, expected=1, outputs=3, outputs_compared=3),
    }
    return comparison(*rows, findings=findings, coverage=coverage, gate_passed=False)


def test_counts_name_every_verdict() -> None:
    assert summary_data(diverging())["counts"] == {
        "pass": 1,
        "warning": 0,
        "fail": 2,
        "unmatched_target": 1,
        "unmatched_golden": 1,
        "not_comparable": 0,
        "error": 0,
        "skipped": 0,
    }


def test_coverage_is_stated_per_side() -> None:
    assert summary_data(diverging())["coverage"]["target"] == {
        "tensors": 4,
        "compared": 3,
        "expected": 0,
        "outside": 0,
        "missing": 1,
        "unreadable": 0,
        "outputs": 4,
        "outputs_compared": 3,
        "outputs_missing": 1,
        "outputs_nonfinite": 0,
        "outputs_zero": 0,
        "outputs_silent": 0,
    }


def test_dumps_roles_and_caveats_are_stated() -> None:
    summary = summary_data(replace(diverging(), caveats=("partly: x",)))
    facts = {"task": "tensor", "tensors": 4, "executions": 1}
    assert summary["dumps"] == {
        "target": {"path": "/dumps/npu", "framework": "torchair_ge", **facts},
        "golden": {"path": "/dumps/fx", "framework": "torchair_fx", **facts},
    }
    assert summary["roles"] == {"origin": 1, "inherited": 1, "clean": 3, "unknown": 0}
    assert summary["caveats"] == ("partly: x",)


def test_the_first_divergence_is_the_first_origin_that_fails_the_run() -> None:
    summary = summary_data(diverging())
    assert summary["first_divergence"] == 1
    assert summary["findings"][1] == {
        "kind": "origin",
        "node": "Mul_2",
        "name": "Mul_2",
        "op_type": "AddV2",
        "rank": 0,
        "graph": 1,
        "step": 0,
        "call": 0,
        "phase": "forward",
        "direction": "output",
        "index": "0",
        "golden_node": "add_1",
        "metrics": {"a": None, "b": "inf"},
        "evidence": "inputs agree (2.1e-4), output differs (8.0e-2, 390 times what its inputs explain)",
        "size": "390 x rounding",
        "severity": 390.0,
        "fails": True,
        "row": 7,
        "advice": (
            {
                "code": "PF7414",
                "text": "`Mul_2` (AddV2) is off by far more than float16 explains: reproduce it alone on the dumped "
                "inputs and report it",
            },
        ),
    }


def test_suspects_keep_the_rank_of_the_analysis() -> None:
    record, findings = comparison_summary(diverging())
    assert [findings[position].node for position in record.suspects] == ["Exp_3", "Mul_2"]
    assert record.nonfinite_origin == 2
    assert findings[2].kind is FindingKind.NONFINITE_ORIGIN


def test_findings_without_a_place_have_null_for_it() -> None:
    finding = comparison_summary(diverging()).findings[3]
    assert (finding.node, finding.name, finding.direction, finding.row) == (None, None, None, None)


def test_a_clean_comparison_has_no_divergence() -> None:
    summary = summary_data(comparison(good_row()))
    assert (summary["first_divergence"], summary["suspects"], summary["nonfinite_origin"]) == (None, (), None)
    assert summary["gate"] == {"name": "findings", "passed": True, "policy": "torchair"}


@pytest.mark.parametrize("compared", [comparison(), comparison(good_row()), diverging()])
def test_the_record_fits_the_schema_and_is_strict_json(tmp_path: Path, compared: Comparison) -> None:
    write_run_json(record(result=comparison_summary(compared)), tmp_path / "run.json")
    written = json.loads((tmp_path / "run.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    assert [error.message for error in RUN.iter_errors(written)] == []


def test_the_schema_refuses_an_unknown_verdict_and_an_unknown_key_of_a_place() -> None:
    good = json.loads(run_json_text(record(result=comparison_summary(diverging()))))
    assert RUN.is_valid(good)
    assert not RUN.is_valid({**good, "verdict": "green"})
    assert not RUN.is_valid({**good, "findings": [{**good["findings"][0], "more": 1}]})
    assert not RUN.is_valid({**good, "counts": {"passed": 1}})


def test_a_finding_stands_once_in_the_file_and_conclusions_point_to_it(tmp_path: Path) -> None:
    write_run_json(record(result=comparison_summary(diverging())), tmp_path / "run.json")
    text = (tmp_path / "run.json").read_text()
    for finding in diverging().findings:
        assert text.count(f'"kind": "{finding.kind.value}"') == sum(
            each.kind is finding.kind for each in diverging().findings
        )
    data = json.loads(text)
    for part in (data, data["comparisons"]["result"]):
        assert (part["first_divergence"], part["suspects"], part["nonfinite_origin"]) == (1, [0, 1], 2)
    assert data["finding_counts"] == {
        "origin": {"found": 2, "failing": 1},
        "nonfinite_origin": {"found": 1, "failing": 1},
        "drift": {"found": 1, "failing": 0},
    }


def test_a_record_that_is_read_again_is_the_one_that_was_written(tmp_path: Path) -> None:
    one = record(result=comparison_summary(diverging()))
    two = record(first=comparison_summary(comparison()), second=comparison_summary(diverging()))
    for whole in (one, two, record()):
        write_run_json(whole, tmp_path / "run.json")
        RUN.validate(json.loads((tmp_path / "run.json").read_text()))
        assert read_run(tmp_path).record == whole


def test_each_of_several_comparisons_points_to_its_own_findings() -> None:
    whole = record(first=comparison_summary(diverging()), second=comparison_summary(diverging()))
    assert [each.comparison for each in whole.findings] == ["first"] * 4 + ["second"] * 4
    assert (whole.first_divergence, whole.suspects) == (1, (0, 1, 4, 5))
    assert whole.comparisons["second"].first_divergence == 5
    assert [each.node for each in whole.findings_of("second")] == ["Exp_3", "Mul_2", "Exp_3", None]
    assert whole.finding_counts[FindingKind.ORIGIN] == FindingCount(4, 2)
    assert whole.coverage["target"].compared == 6
    assert whole.counts[Status.FAIL] == 4
    assert whole.gate is None


def test_of_more_findings_than_are_listed_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_json, "MAX_FINDINGS", 3)
    near = [origin(8, "Exp_3", kind=FindingKind.SUSPECT, fails=False) for _ in range(5)]
    last = [origin(7, "Mul_2"), origin(8, "Exp_3", kind=FindingKind.NONFINITE_ORIGIN), origin(7, "Mul_2")]
    conclusions, findings = comparison_summary(replace(diverging(), findings=(*near, *last)))
    assert [each.kind.value for each in findings] == ["suspect"] * 3 + ["origin", "nonfinite_origin"]
    assert (conclusions.first_divergence, conclusions.nonfinite_origin, conclusions.suspects) == (3, 4, (3, 0, 1, 2))
    assert conclusions.finding_counts[FindingKind.SUSPECT] == FindingCount(5, 0)
    assert conclusions.finding_counts[FindingKind.ORIGIN] == FindingCount(2, 2)


def test_findings_are_encoded_in_c_and_lie_on_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_python(*_: object, **__: object) -> None:
        raise AssertionError("thousands of findings are not for the encoder that indents")

    monkeypatch.setattr("json.encoder._make_iterencode", in_python)
    lines = {}
    for count in (1, 1000):
        many = tuple(origin(7, "Mul_2") for _ in range(count))
        lines[count] = run_json_text(record(result=comparison_summary(replace(diverging(), findings=many)))).count("\n")
    assert lines[1000] - lines[1] == 999


def test_findings_of_names_without_end_make_no_record_without_end() -> None:
    far = "x" * 200_000
    many = [origin(8, "Exp_3", node=key(f"{far}{n}"), kind=FindingKind.SUSPECT, fails=False) for n in range(1000)]
    given = replace(diverging(), findings=(*many, origin(7, "Mul_2")))
    conclusions, findings = comparison_summary(given)
    assert 5 <= len(findings) <= 20
    assert (findings[-1].node, conclusions.first_divergence) == ("Mul_2", len(findings) - 1)
    assert conclusions.finding_counts[FindingKind.SUSPECT] == FindingCount(1000, 0)
    assert len(run_json_text(record(result=comparison_summary(given)))) < 20 * 2**20


def laid_out(value: Any, margin: str = "\n") -> str:
    """Objects indented by two blanks, an entry of a list of objects a line, by the json module."""
    inner = margin + "  "
    if isinstance(value, dict) and value:
        return (
            "{"
            + ",".join(f"{inner}{json.dumps(key)}: {laid_out(item, inner)}" for key, item in value.items())
            + f"{margin}}}"
        )
    if isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        return "[" + ",".join(inner + json.dumps(item, ensure_ascii=False) for item in value) + margin + "]"
    return json.dumps(value, ensure_ascii=False)


def test_the_text_has_the_layout_that_readers_know() -> None:
    odd = origin(7, 'Mul_2\u2028\x7f\x1b"\\\u6c49', metrics={"a": 2**70, "b": -math.inf, "c": 0.25, "d": True})
    one = comparison_summary(replace(diverging(), findings=(*diverging().findings, odd)))
    for whole in (
        record(),
        record(result=one),
        record(first=one, second=comparison_summary(comparison())),
        replace(record(result=one), params={"list": [{"a": [1, {"b": None}]}, 2], "none": {}, "text": "\u2028"}),
    ):
        assert run_json_text(whole) == laid_out(plain(whole)) + "\n"


def test_a_name_that_is_no_utf_8_costs_nothing_but_its_escape(tmp_path: Path) -> None:
    odd = replace(diverging(), findings=(origin(7, "Mul_\udcff"),))
    write_run_json(record(result=comparison_summary(odd)), tmp_path / "run.json")
    (finding,) = json.loads((tmp_path / "run.json").read_text())["findings"]
    assert finding["node"] == "Mul_\udcff"


def test_what_json_lacks_becomes_words() -> None:
    odd = {"a": {1: {2, 3}}, "b": [{"c": math.nan}], "d": {}, "e": [], "f": [[1], {"g": 1j}], "h": math.inf}
    kept = {"a": {"1": [2, 3]}, "b": [{"c": "nan"}], "d": {}, "e": [], "f": [[1], {"g": {"real": 0.0, "imag": 1.0}}]}
    text = run_json_text(replace(record(), params=odd))
    assert json.loads(text, parse_constant=lambda word: pytest.fail(word))["params"] == {**kept, "h": "inf"}


@pytest.mark.parametrize("name", schema_names())
def test_the_schema_files_equal_their_generator(name: str) -> None:
    assert (SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8") == schema_text(name)


@pytest.mark.parametrize("name", schema_names())
def test_the_schemas_are_valid_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
