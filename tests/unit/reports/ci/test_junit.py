from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import pytest
from report_builders import (
    call_comparison,
    catalog,
    comparison,
    good_row,
    key,
    missing_golden,
    missing_target,
    origin,
    row,
    tensor,
)

from probe_flow.record.types.run import RunRecord
from probe_flow.records import (
    Comparison,
    Coverage,
    Execution,
    Expectation,
    Finding,
    FindingKind,
    NodeKey,
    Reason,
    ReasonKind,
    Role,
    Row,
    SlotRole,
    Status,
)
from probe_flow.reports.ci import junit
from probe_flow.reports.ci.junit import COMPARED, FURTHER, RUN_SUITE, SILENT, _attribute, write_junit, xml_text
from probe_flow.testing.run_records import run_record

FACTS = run_record(workflow={"name": "demo <&> \x1b[31m"}, versions={"probe_flow": "0.1.0"})

# What the readers of GitHub actions, GitLab and Jenkins have in common: element -> (attributes that it must have, all
# that it may have, children in their order).
SHAPE: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": ({"name", "tests", "failures", "errors"}, set(), ["testsuite"]),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped"},
        {"id", "time", "timestamp"},
        ["properties", "testcase"],
    ),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, set(), []),
    "testcase": ({"classname", "name"}, {"time"}, ["skipped", "error", "failure", "system-out"]),
    "skipped": ({"message"}, set(), []),
    "error": ({"type", "message"}, set(), []),
    "failure": ({"type", "message"}, set(), []),
    "system-out": (set(), set(), []),
}  # fmt: skip


def check_shape(element: ElementTree.Element) -> None:
    required, allowed, children = SHAPE[element.tag]
    assert required <= set(element.attrib) <= required | allowed, element.tag
    found = [child.tag for child in element]
    assert found == sorted(found, key=children.index), element.tag
    if element.tag == "testcase":
        assert len({"skipped", "error", "failure"} & set(found)) <= 1
        assert len(found) == len(set(found))
    for child in element:
        check_shape(child)


def written(given: Comparison, tmp_path: Path, facts: RunRecord = FACTS) -> ElementTree.Element:
    path = tmp_path / "junit.xml"
    write_junit(given, path, run=facts)
    root = ElementTree.parse(path).getroot()
    check_shape(root)
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        for outcome, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == sum(case.find(outcome) is not None for case in cases)
    for name in ("tests", "failures", "errors"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    return root


def case_of(root: ElementTree.Element, name: str) -> ElementTree.Element:
    (case,) = (case for case in root.iter("testcase") if case.attrib["name"] == name)
    return case


def failing(order: int, name: str, role: Role = Role.CLEAN, **more: Any) -> Row:
    return good_row(order, name, status=Status.FAIL, role=role, reasons=("Cosine is 0.5",), **more)


def diverging(**more: Any) -> Comparison:
    rows = (
        good_row(0),
        failing(1, "MatMul_2", Role.ORIGIN),
        failing(2, "Add_3", Role.INHERITED),
        missing_golden(3),
        missing_target(4),
    )
    return comparison(*rows, **{"findings": (origin(1, "MatMul_2"),), "gate_passed": False, **more})


def test_only_the_origin_fails_where_the_gate_judges_findings(tmp_path: Path) -> None:
    root = written(diverging(), tmp_path)
    assert root.attrib["failures"] == "1"
    case = case_of(root, "MatMul_2")
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "origin"
    assert "390 times" in failure.attrib["message"]
    assert case.attrib["classname"] == "AddV2"


def test_inherited_errors_and_missed_limits_are_counted_without_failing(tmp_path: Path) -> None:
    case = case_of(written(diverging(), tmp_path), COMPARED)
    assert [child.tag for child in case] == ["system-out"]
    assert case[0].text == "2 nodes\n1 with tensors that miss a limit of the policy: see comparison.jsonl"


def test_the_text_of_a_case_begins_with_what_the_dump_calls_its_node(tmp_path: Path) -> None:
    given = {call: {"target": tensor("Add", node=key("Add", call=call))} for call in range(2)}
    rows = (good_row(0, **given[0]), failing(1, "Add", Role.ORIGIN, **given[1]))
    accused = origin(1, "Add", node=key("Add", call=1))
    root = written(call_comparison(*rows, findings=(accused,), gate_passed=False), tmp_path)
    (failure,) = case_of(root, "Add#1")
    message, *details = str(failure.text).split("\n")
    assert message == failure.attrib["message"]
    assert details == [
        "in the dump: Add.1.forward",
        "output.0: fail, origin, relative_euclidean_distance 0.001: Cosine is 0.5",
    ]
    alike = comparison(*rows, findings=(accused,), gate_passed=False)
    assert "in the dump" not in ElementTree.tostring(written(alike, tmp_path), encoding="unicode")


def test_every_failing_row_fails_its_node_under_the_gate_all_pass(tmp_path: Path) -> None:
    root = written(diverging(gate="all_pass"), tmp_path)
    assert {case.attrib["name"] for case in root.iter("testcase") if case.find("failure") is not None} == {
        "MatMul_2",
        "Add_3",
    }


def test_a_weak_finding_fails_nothing(tmp_path: Path) -> None:
    given = diverging(findings=(origin(1, "MatMul_2", fails=False),), gate_passed=True)
    assert written(given, tmp_path).attrib["failures"] == "0"


def test_nodes_without_partner_are_one_skipped_case_with_the_reasons(tmp_path: Path) -> None:
    rows = (good_row(0), missing_golden(3), missing_golden(4, "Mul_10"), missing_target(5))
    skipped, told = case_of(written(comparison(*rows), tmp_path), SILENT)
    assert (skipped.tag, skipped.attrib["message"]) == ("skipped", "3 nodes")
    assert str(told.text).split("\n") == [
        "2, e.g. Mul_9: no golden operator corresponds to `Mul_9`",
        "1, e.g. sub_3 (golden only): `sub_3` is part of a fused operator",
    ]


def test_reasons_of_many_nodes_come_first_and_those_beyond_the_first_are_counted(tmp_path: Path) -> None:
    kinds = [*(f"kind_{number}" for number in range(25)), "kind_7"]
    reasons = [Reason(ReasonKind(kind), f"it is {kind}", Expectation.MISSING) for kind in kinds]
    rows = [
        row(place, target=tensor(f"Node_{place}"), status=Status.UNMATCHED_TARGET, reason=reason, rule="none")
        for place, reason in enumerate(reasons)
    ]
    lines = str(case_of(written(comparison(*rows), tmp_path), SILENT).findtext("system-out")).split("\n")
    assert len(lines) == 21
    assert lines[0] == "2, e.g. Node_7: it is kind_7"
    assert lines[-1] == "5 for other reasons, in comparison.jsonl"


def test_nodes_that_fail_beyond_the_first_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit, "MAX_NODES_TOLD", 2)
    root = written(comparison(*(failing(place, f"Add_{place}") for place in range(5)), gate="all_pass"), tmp_path)
    assert [case.attrib["name"] for case in root[0].iter("testcase")] == ["Add_0", "Add_1", FURTHER["failure"]]
    (failure,) = case_of(root, FURTHER["failure"])
    assert (failure.tag, failure.attrib["message"]) == ("failure", "3 more, in comparison.jsonl")


def test_the_size_of_the_file_does_not_grow_with_nodes_that_pass(tmp_path: Path) -> None:
    sizes = []
    for count in (10, 1000):
        written(comparison(*(good_row(place, f"Add_{place}") for place in range(count))), tmp_path)
        sizes.append((tmp_path / "junit.xml").stat().st_size)
    assert sizes[1] - sizes[0] < 50


def test_an_unreadable_tensor_is_an_error_of_its_node_and_of_the_run(tmp_path: Path) -> None:
    broken = row(
        0,
        target=tensor("Bad_1"),
        golden=tensor("bad_1", side="golden"),
        status=Status.ERROR,
        reasons=("header ends early",),
    )
    root = written(comparison(broken, incomplete=("1 tensor is unreadable",)), tmp_path)
    error = case_of(root, "Bad_1").find("error")
    assert error is not None
    assert "header ends early" in error.attrib["message"]
    whole = case_of(root, "everything that was asked for was compared").find("error")
    assert whole is not None
    assert whole.attrib["message"] == "1 tensor is unreadable"
    assert root.attrib["errors"] == "2"


def test_findings_without_a_node_fail_in_the_suite_of_the_run(tmp_path: Path) -> None:
    drift = Finding(FindingKind.DRIFT, None, None, "the error grows 1.1 times a layer", 3.0)
    root = written(comparison(good_row(), findings=(drift,), gate_passed=False), tmp_path)
    assert [suite.attrib["name"] for suite in root] == ["rank 0 graph 1 step 0", RUN_SUITE]
    assert case_of(root, "drift").find("failure") is not None


def test_a_passing_run_has_neither_failures_nor_errors(tmp_path: Path) -> None:
    root = written(comparison(good_row()), tmp_path)
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == ("2", "0", "0")


def test_one_suite_an_execution_with_all_tensors_of_a_node_counted_once(tmp_path: Path) -> None:
    nodes = [key("Add_1", rank=rank, call=call) for rank in (0, 1) for call in (0, 1)]
    rows = [
        good_row(2 * place + number, target=tensor(node=node, role=role))
        for place, node in enumerate(nodes)
        for number, role in enumerate((SlotRole.INPUT, SlotRole.OUTPUT))
    ]
    root = written(comparison(*rows), tmp_path)
    assert [suite.attrib["name"] for suite in root][:2] == ["rank 0 graph 1 step 0", "rank 1 graph 1 step 0"]
    assert [case_of(suite, COMPARED).findtext("system-out") for suite in root[:2]] == ["2 nodes", "2 nodes"]


def test_the_suite_of_the_whole_run_says_what_was_compared_and_the_verdict(tmp_path: Path) -> None:
    given = comparison(good_row(0), missing_golden(1), caveats=("partly: 1 target tensor missing",))
    root = written(given, tmp_path, run_record(workflow={"name": "w", "sample": True}))
    (case,) = (suite.find("testcase") for suite in root if suite.attrib["name"] == RUN_SUITE)
    dumps, conclusion = case.findtext("system-out").splitlines()
    assert dumps == (
        "target torchair_ge dump `/dumps/npu`, 2 tensors | golden torchair_fx dump `/dumps/fx`, 1 tensor "
        "| bundled sample"
    )
    assert conclusion == (
        "PASS no operator of the target goes wrong | 2 of 2 compared | partly: 1 target tensor missing | bundled sample"
    )
    properties = {each.attrib["name"]: each.attrib["value"] for each in root[0].iter("property")}
    assert (properties["dumps"], properties["conclusion"]) == (dumps, conclusion)


def test_properties_state_verdict_coverage_and_versions(tmp_path: Path) -> None:
    coverage = {"target": Coverage(5, 3, expected=1, missing=1), "golden": Coverage(4, 3, expected=1)}
    root = written(diverging(coverage=coverage), tmp_path)
    found = {each.attrib["name"]: each.attrib["value"] for each in root[0].iter("property")}
    assert found["verdict"] == "fail"
    assert found["coverage.target.compared"] == "3"
    assert found["coverage.target.missing"] == "1"
    assert found["version.probe_flow"] == "0.1.0"
    assert found["rows.fail"] == "2"
    assert root[0].attrib["timestamp"] == "2026-01-02T03:04:05"


@pytest.mark.parametrize(
    "name", ["a\x00b", "\x1b]0;t\x07", "]]>", '<x y="z">&amp;', "\ud800", "\ufffe", "a\nb\tc", "汉字\U0001f600", "\x85"]
)
def test_any_name_gives_well_formed_xml(tmp_path: Path, name: str) -> None:  # fmt: skip
    given = comparison(
        failing(0, "x", target=tensor(node=key(name))), target=catalog("target", [tensor(node=key(name))])
    )
    case = next(written(given, tmp_path, run_record()).iter("testcase"))
    assert case.attrib["name"].isprintable() or "\n" in name


def test_a_node_with_thousands_of_rows_lists_the_first(tmp_path: Path) -> None:
    rows = [failing(number, "Big", target=tensor("Big", path=(number,))) for number in range(200)]
    text = case_of(written(comparison(*rows, gate="all_pass"), tmp_path), "Big").findtext("failure")
    assert text is not None
    assert text.count("\n") == 11
    assert text.endswith("and 190 more, in comparison.jsonl")


@pytest.mark.parametrize(
    "text", ["plain", "", "a & b < c > d", 'say "it"', "it's", "both \" and '", "two\nlines\tand tab", "é &amp; &#10;"]
)
def test_attributes_are_quoted_as_the_standard_library_quotes_them(text):
    quoted = _attribute(text)
    assert quoted == quoteattr(text)
    assert ElementTree.fromstring(f"<x a={quoted}/>").get("a") == text


def test_text_is_escaped_as_the_standard_library_escapes_it():
    text = "a & b <c> \"d\" 'e' &lt;"
    assert xml_text(text) == escape(text)


def test_rows_of_a_node_and_nodes_of_an_execution_are_put_together_in_order_of_appearance(tmp_path: Path) -> None:
    later = NodeKey(Execution(0, 1, 1), "Add_1")
    rows = (
        good_row(0, "Mul_9"),
        failing_at(1, later, "late"),
        good_row(2, "Add_1"),
        missing_target(3, "Mul_9"),
        failing(4, "Mul_9"),
        failing_at(5, later, "again"),
    )
    first, second, _ = written(comparison(*rows, gate="all_pass"), tmp_path)

    assert [case.attrib["name"] for case in first.iter("testcase")] == ["Mul_9", COMPARED, SILENT]
    (case,) = second.iter("testcase")
    assert str(case[0].text).split("\n") == ["output.0: fail: late", "output.0: fail: late", "output.0: fail: again"]


def failing_at(order: int, node: NodeKey, reason: str) -> Row:
    golden = tensor("add_1", side="golden")
    return row(order, target=tensor(node=node), golden=golden, status=Status.FAIL, reasons=(reason,))
