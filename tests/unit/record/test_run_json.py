from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from report_builders import comparison, good_row, missing_golden, missing_target, origin

from probe_flow.engine.run.record import merge_summaries
from probe_flow.record.run_folder import read_run
from probe_flow.record.run_json import comparison_summary, run_json_text, write_run_json
from probe_flow.record.run_schema import RUN_SCHEMA
from probe_flow.record.schemas import schema, schema_names, schema_text
from probe_flow.records import Comparison, Coverage, Finding, FindingKind, Role, Status

SCHEMAS = Path(__file__).parents[3] / "schemas"
RUN = Draft202012Validator(schema("run"))


def record(summary: dict[str, Any]) -> dict[str, Any]:
    """What the engine adds around a summary."""
    return {
        "schema": RUN_SCHEMA,
        "workflow": {"name": "w"},
        "params": {"limit": 0.5},
        "verdict": "fail",
        "exit_code": 1,
        "incomplete": [],
        **summary,
        "comparisons": {"result": summary},
        "stages": [{"name": "result", "uses": "compare", "status": "done"}],
        "inputs": [{"stage": "target", "fingerprint": "ab"}],
        "versions": {"numpy": "2"},
        "timings": {"wall_s": 1.5},
        "artifacts": ["run.json"],
    }


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
    assert comparison_summary(diverging())["counts"] == {
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
    assert comparison_summary(diverging())["coverage"]["target"] == {
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
    summary = comparison_summary(replace(diverging(), caveats=("partly: x",)))
    facts = {"task": "tensor", "tensors": 4, "executions": 1}
    assert summary["dumps"] == {
        "target": {"path": "/dumps/npu", "framework": "torchair_ge", **facts},
        "golden": {"path": "/dumps/fx", "framework": "torchair_fx", **facts},
    }
    assert summary["roles"] == {"origin": 1, "inherited": 1, "clean": 3, "unknown": 0}
    assert summary["caveats"] == ["partly: x"]


def test_the_first_divergence_is_the_first_origin_that_fails_the_run() -> None:
    assert comparison_summary(diverging())["first_divergence"] == {
        "node": "Mul_2",
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
    }


def test_suspects_keep_the_rank_of_the_analysis() -> None:
    summary = comparison_summary(diverging())
    assert [suspect["node"] for suspect in summary["suspects"]] == ["Exp_3", "Mul_2"]
    assert summary["nonfinite_origin"]["node"] == "Exp_3"


def test_findings_without_a_place_have_null_for_it() -> None:
    finding = comparison_summary(diverging())["findings"][3]
    assert (finding["kind"], finding["node"], finding["direction"], finding["row"]) == ("drift", None, None, None)


def test_a_clean_comparison_has_no_divergence() -> None:
    summary = comparison_summary(comparison(good_row()))
    assert (summary["first_divergence"], summary["suspects"], summary["nonfinite_origin"]) == (None, [], None)
    assert summary["gate"] == {"name": "findings", "passed": True, "policy": "torchair"}


@pytest.mark.parametrize("compared", [comparison(), comparison(good_row()), diverging()])
def test_the_record_fits_the_schema_and_is_strict_json(tmp_path: Path, compared: Comparison) -> None:
    write_run_json(record(comparison_summary(compared)), tmp_path / "run.json")
    written = json.loads((tmp_path / "run.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    RUN.validate(written)


def test_the_schema_refuses_an_unknown_verdict_and_an_unknown_key_of_a_place() -> None:
    good = json.loads(run_json_text(record(comparison_summary(diverging()))))
    assert not RUN.is_valid({**good, "verdict": "green"})
    assert not RUN.is_valid({**good, "first_divergence": {**good["first_divergence"], "more": 1}})
    assert not RUN.is_valid({**good, "counts": {"passed": 1}})


def test_a_finding_stands_once_in_the_file_and_in_every_comparison_that_is_read(tmp_path: Path) -> None:
    summary = comparison_summary(diverging())
    write_run_json({**record(summary), "coverage": summary["coverage"]}, tmp_path / "run.json")
    text = (tmp_path / "run.json").read_text()
    assert text.count('"drift"') == 1
    assert not {"findings", "suspects"} & json.loads(text)["comparisons"]["result"].keys()
    assert read_run(tmp_path).record["comparisons"] == {"result": json.loads(json.dumps(summary))}


def test_each_of_several_comparisons_is_read_with_its_own_findings(tmp_path: Path) -> None:
    summaries = {"one": comparison_summary(diverging()), "two": comparison_summary(comparison())}
    whole = {**record(merge_summaries(summaries)), "comparisons": summaries}
    write_run_json(whole, tmp_path / "run.json")
    RUN.validate(json.loads((tmp_path / "run.json").read_text()))
    assert read_run(tmp_path).record["comparisons"] == json.loads(json.dumps(summaries))


def test_findings_are_encoded_in_c_and_lie_on_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_python(*_: object, **__: object) -> None:
        raise AssertionError("thousands of findings are not for the encoder that indents")

    monkeypatch.setattr("json.encoder._make_iterencode", in_python)
    lines = {}
    for count in (1, 1000):
        many = tuple(origin(7, "Mul_2") for _ in range(count))
        lines[count] = run_json_text(record(comparison_summary(replace(diverging(), findings=many)))).count("\n")
    assert lines[1000] - lines[1] == 2 * 999, "each is a suspect too"


def test_not_finite_numbers_of_the_record_become_words() -> None:
    assert json.loads(run_json_text({"a": math.inf, "b": [math.nan]})) == {"a": "inf", "b": ["nan"]}
    odd = {"a": {1: {2, 3}}, "b": [{"c": math.nan}], "d": {}, "e": [], "f": [[1], {"g": 1j}]}
    plain = {"a": {"1": [2, 3]}, "b": [{"c": "nan"}], "d": {}, "e": [], "f": [[1], {"g": {"real": 0.0, "imag": 1.0}}]}
    assert json.loads(run_json_text(odd)) == plain


@pytest.mark.parametrize("name", schema_names())
def test_the_schema_files_equal_their_generator(name: str) -> None:
    assert (SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8") == schema_text(name)


@pytest.mark.parametrize("name", schema_names())
def test_the_schemas_are_valid_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
