from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import catalog, comparison, good_row, key, origin, tensor

from probe_flow.errors import Diagnostic, Severity, Span
from probe_flow.records import Comparison, FindingKind, Node, Status
from probe_flow.reports.ci.annotations import Annotation, Level, annotate, github_text, gitlab_text
from probe_flow.reports.ci.sarif import sarif_text
from probe_flow.testing.run_records import run_record

ROOT = Path("/checkout")
FRAMES = (
    "File /usr/lib/python3/site-packages/torch/nn/module.py, line 9, in _call, \n return f()",
    'File "/checkout/model/net.py", line 52, in forward, \n x = self.mm(x)',
    "File /checkout/main.py, line 3, in <module>, \n net(x)",
)


def diverging(**more: Any) -> Comparison:
    rows = (good_row(0, "MatMul_2", status=Status.FAIL),)
    return comparison(*rows, **{"findings": (origin(0, "MatMul_2"),), "gate_passed": False, **more})


def with_stack(frames: tuple[str, ...]) -> Comparison:
    node = key("MatMul_2")
    target = catalog(
        "target", [tensor("MatMul_2")], nodes={node: Node(node, "MatMulV2", stack_id="s")}, stacks={"s": frames}
    )
    return diverging(target=target)  # fmt: skip


def lines(given: Comparison, **run: Any) -> list[str]:
    return github_text(annotate([given], run_record(**run), root=ROOT)).splitlines()


def test_an_origin_is_an_error_with_its_evidence() -> None:
    assert lines(diverging()) == [
        "::error title=probe_flow%3A origin::MatMul_2 (AddV2), output 0, rank 0, graph 1, step 0: inputs agree "
        "(2.1e-4), output differs (8.0e-2, 390 times what its inputs explain)"
    ]


def test_an_origin_stands_at_the_innermost_line_of_the_users_own_code() -> None:
    (line,) = lines(with_stack(FRAMES))
    assert line.startswith("::error title=probe_flow%3A origin,file=model/net.py,line=52::")


@pytest.mark.parametrize(
    "frames", [(), FRAMES[:1], ("nonsense", "File x.py, line many"), ("File <stdin>, line 1, in f",)]
)
def test_stacks_without_a_line_of_the_user_give_no_place(frames: tuple[str, ...]) -> None:  # fmt: skip
    assert "file=" not in lines(with_stack(frames))[0]


def test_weak_findings_are_notices() -> None:
    given = diverging(findings=(origin(0, "MatMul_2", fails=False, kind=FindingKind.DRIFT),), gate_passed=True)
    assert [line.partition(" ")[0] for line in lines(given)] == ["::notice"]


def test_the_gate_all_pass_fails_by_its_rows_and_not_by_findings() -> None:
    found = annotate([diverging(gate="all_pass")], run_record(), root=ROOT)
    assert [(each.level, each.check) for each in found] == [(Level.NOTICE, "origin"), (Level.ERROR, "all_pass")]
    assert found[1].message == "1 of 1 rows fail"


def test_a_problem_of_a_mapping_file_points_to_its_line() -> None:
    problem = Diagnostic(
        "PF4102",
        "`a,b` matched nothing",
        Severity.WARNING,
        span=Span("/checkout/maps/one, two.yaml", 3, 5, 3, 9),
        help="remove it",
    )
    (line,) = lines(comparison(good_row()), problems=[problem.to_dict()])
    assert line == (
        "::warning title=probe_flow%3A PF4102,file=maps/one%2C two.yaml,line=3,endLine=3,col=5,endColumn=8"
        "::`a,b` matched nothing%0Aremove it"
    )


def test_reasons_of_an_incomplete_run_are_errors() -> None:
    assert lines(comparison(good_row()), incomplete=["50% of the outputs are missing"]) == [
        "::error title=probe_flow%3A incomplete::50%25 of the outputs are missing"
    ]


def test_many_problems_of_one_code_are_counted() -> None:
    problems = [Diagnostic("PF3011", f"file {number}", path=f"/checkout/d/{number}").to_dict() for number in range(9)]
    shown = lines(comparison(good_row()), problems=problems)
    assert len(shown) == 4
    assert "file=d/0" in shown[0]
    assert shown[3] == "::notice title=probe_flow%3A PF3011::and 6 more of PF3011, all in run.json"


def test_no_name_can_begin_a_command_of_its_own() -> None:
    hostile = Annotation(
        Level.ERROR, "x", "t,file=/etc/passwd::\n::set-env", "a\n::stop-commands::x\r\n\x1b[2J%0A", "f\n::x"
    )
    text = github_text([hostile])  # fmt: skip
    assert text.count("\n") == 1
    assert "\r" not in text
    assert "\x1b" not in text
    head, _, data = text[2:].partition("::")
    assert [field.partition("=")[0] for field in head.removeprefix("error ").split(",")] == ["title", "file"]
    assert data.startswith("a%0A::stop-commands::x")
    assert data.rstrip().endswith("%250A")


def test_gitlab_gets_a_report_with_a_place_and_an_own_fingerprint_for_each() -> None:
    problem = Diagnostic("PF4102", "matched nothing", Severity.WARNING, span=Span("/checkout/map.yaml", 3, 5, 3, 9))
    found = annotate([with_stack(FRAMES)], run_record(problems=[problem.to_dict()], incomplete=["x"]), root=ROOT)
    records = json.loads(gitlab_text(found, workflow="/checkout/flow.yaml", root=ROOT))
    assert [record["location"] for record in records] == [
        {"path": "model/net.py", "lines": {"begin": 52}},
        {"path": "flow.yaml", "lines": {"begin": 1}},
        {"path": "map.yaml", "lines": {"begin": 3}},
    ]
    assert [record["severity"] for record in records] == ["critical", "critical", "minor"]
    assert len({record["fingerprint"] for record in records}) == 3
    assert all(
        set(record) == {"description", "check_name", "fingerprint", "severity", "location"} for record in records
    )


def test_the_fingerprint_of_a_finding_stays_when_nothing_changes() -> None:
    found = annotate([diverging()], run_record(), root=ROOT)
    assert gitlab_text(found, workflow="w", root=ROOT) == gitlab_text(found, workflow="w", root=ROOT)
    moved = [replace(found[0], line=7)]
    assert gitlab_text(found, workflow="w", root=ROOT) != gitlab_text(moved, workflow="w", root=ROOT)


def test_nothing_to_say_is_an_empty_report() -> None:
    assert lines(comparison(good_row())) == []
    assert json.loads(gitlab_text([], workflow="w", root=ROOT)) == []


def test_sarif_has_the_origin_at_its_source_line_and_the_rest_at_the_workflow() -> None:
    given = with_stack(FRAMES)
    run = run_record(incomplete=["rank 1 is missing"])
    log = json.loads(sarif_text(annotate([given], run, root=ROOT), workflow="/checkout/w file.yaml", root=ROOT))
    origin_, incomplete = log["runs"][0]["results"]
    assert (origin_["ruleId"], origin_["level"]) == ("origin", "error")
    place = origin_["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("model/net.py", 52)
    assert incomplete["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "w%20file.yaml"
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rules[each["ruleIndex"]]["id"] for each in (origin_, incomplete)] == ["origin", "incomplete"]
    assert len({each["partialFingerprints"]["probeFlow/v1"] for each in (origin_, incomplete)}) == 2


def test_a_result_of_sarif_stays_the_same_one_when_its_size_or_line_changes() -> None:
    def fingerprint(evidence: str, frames: tuple[str, ...]) -> str:
        given = with_stack(frames)
        given = replace(given, findings=(origin(0, "MatMul_2", evidence=evidence),))
        log = json.loads(sarif_text(annotate([given], run_record(), root=ROOT), workflow="w.yaml", root=ROOT))
        return str(log["runs"][0]["results"][0]["partialFingerprints"]["probeFlow/v1"])

    assert fingerprint("off by 2 %", FRAMES) == fingerprint("off by 3 %", ())


def test_sarif_without_anything_found_is_a_log_without_results() -> None:
    log = json.loads(sarif_text([], workflow="w.yaml", root=ROOT))
    assert log["version"] == "2.1.0"
    assert log["runs"][0]["results"] == log["runs"][0]["tool"]["driver"]["rules"] == []
