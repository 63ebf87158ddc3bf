"""What result files and the terminal say of waivers and of a baseline."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import jsonschema
import report_builders as build
from msgspec.structs import replace

from probe_flow.record.conclusion import concluded
from probe_flow.record.excuses import MAX_CHANGES, baseline_facts, change_text
from probe_flow.record.jsonl import write_comparison_jsonl
from probe_flow.record.run_json import comparison_summary, plain
from probe_flow.record.schemas import schema
from probe_flow.records import (
    BaselineUse,
    Change,
    Deviant,
    Excuse,
    ExcuseKind,
    Status,
    WaiverState,
    WaiverUse,
)
from probe_flow.reports.ci.annotations import Level, annotate
from probe_flow.reports.ci.junit import write_junit
from probe_flow.reports.ci.markdown import markdown_text
from probe_flow.reports.terminal.console import render_summary
from probe_flow.testing.run_records import run_record

WAIVED = Excuse(ExcuseKind.WAIVED, "waived until 2026-12-31 by jane: known")
USES = (
    WaiverUse("node Add*", "known", "jane", "2026-12-31", "", WaiverState.USED, rows=1, findings=1),
    WaiverUse("node Mul*", "old", "joe", "2025-12-31", "cosine >= 0.9", WaiverState.EXPIRED),
    WaiverUse("node Sub*", "new", "joe", "2026-12-31", "cosine >= 0.9", WaiverState.EXCEEDED, exceeded=2),
)
DEVIANT = Deviant(1, "Add_1", 0, "forward", "AddV2", "origin", "output.0", 0.5)
BASELINE = BaselineUse(
    "b.yaml", 0.1, 3, worse=(Change(DEVIANT, 0.1, 0.5), Change(replace(DEVIANT, node="Mul_1"), now=0.25, is_new=True)),
    better=(Change(DEVIANT, 0.1),),
)  # fmt: skip


def waived_comparison(*, gate: str = "findings"):
    bad = build.good_row(0, status=Status.FAIL)
    bad = replace(bad, verdict=replace(bad.verdict, excuse=WAIVED, reasons=("cosine is low", WAIVED.text)))
    finding = build.origin(0, "Add_1", fails=False, excuse=WAIVED, evidence=f"differs; {WAIVED.text}")
    comparison = build.comparison(bad, build.good_row(1, "Add_2"), findings=(finding,), gate=gate)
    return replace(comparison, waivers=USES, baseline=BASELINE, gate_passed=True)


def test_the_summary_of_a_run_has_waivers_and_baseline_and_fits_its_schema():
    summary, findings = comparison_summary(waived_comparison())
    data = json.loads(json.dumps(plain(summary)))
    assert [use["state"] for use in data["waivers"]] == ["used", "expired", "exceeded"]
    assert data["baseline"]["counts"] == {"worse": 2, "better": 1, "absent": 0}
    assert findings[0].waived == WAIVED.text
    whole = schema("run")
    jsonschema.Draft202012Validator({**whole["$defs"]["comparison"], "$defs": whole["$defs"]}).validate(data)


def test_a_comparison_without_either_says_nothing_of_them():
    comparison = build.comparison(build.good_row())
    assert {"waivers", "baseline"}.isdisjoint(plain(comparison_summary(comparison).record))


def test_a_row_says_that_it_is_waived_and_the_others_do_not(tmp_path):
    write_comparison_jsonl(waived_comparison(), tmp_path / "c.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert [row.get("waived") for row in rows] == [WAIVED.text, None]
    assert rows[0]["reason"] == f"cosine is low; {WAIVED.text}"
    for row in rows:
        jsonschema.Draft202012Validator(schema("comparison")).validate(row)


def test_junit_skips_a_node_whose_every_failure_is_excused(tmp_path):
    for gate in ("findings", "all_pass"):
        write_junit(waived_comparison(gate=gate), tmp_path / "j.xml", run=run_record())
        root = ElementTree.parse(tmp_path / "j.xml").getroot()
        assert root.get("failures") == "0"
        (skipped,) = [case for case in root.iter("testcase") if case.find("skipped") is not None]
        assert skipped.get("name") == "Add_1"
        assert skipped.find("skipped").get("message") == WAIVED.text
        assert "fail" in skipped.find("system-out").text


def test_junit_fails_a_node_with_one_failure_that_counts(tmp_path):
    comparison = waived_comparison(gate="all_pass")
    first = comparison.rows[0]
    other = replace(first, order=1, verdict=replace(first.verdict, excuse=None, reasons=("counts",)))
    write_junit(replace(comparison, rows=(first, other)), tmp_path / "j.xml", run=run_record())
    (failure,) = ElementTree.parse(tmp_path / "j.xml").getroot().iter("failure")
    assert "counts" in failure.get("message")


def test_the_terminal_tells_what_became_of_each():
    run = concluded(waived_comparison(), run_record())
    text = " ".join(render_summary(run, (), color=False, width=200).split())
    assert "2 tensors PASS Nothing goes wrong beyond what is waived or accepted." in text
    assert "node Add*, until 2026-12-31 by jane, covers 1 failing tensor and 1 finding: known" in text
    assert "node Mul*, until 2025-12-31 by joe, is expired: old" in text
    assert "is exceeded by 2 failures, covers 0 failing tensors and 0 findings: new" in text
    assert "b.yaml: 3 as accepted, 2 worse, 1 better, 0 at nodes that are gone" in text
    assert "worse: Add_1.output.0 (AddV2), origin: 0.1 -> 0.5" in text
    assert "worse: Mul_1.output.0 (AddV2), origin: new -> 0.25" in text
    assert "better: Add_1.output.0 (AddV2), origin: 0.1 -> gone" in text


def test_markdown_tells_the_same():
    text = markdown_text(waived_comparison(), run=run_record())
    assert "### Waivers" in text
    assert "### Baseline" in text


def test_an_excused_finding_is_a_notice_for_a_ci_system_and_an_excused_row_no_error(tmp_path):
    found = annotate([waived_comparison()], run_record(), root=tmp_path)
    assert [each.level for each in found] == [Level.NOTICE]
    assert Level.ERROR not in {
        each.level for each in annotate([waived_comparison(gate="all_pass")], run_record(), root=tmp_path)
    }


def test_of_many_changes_the_record_keeps_the_first_and_counts_all():
    many = tuple(Change(DEVIANT, 0.1, 0.5) for _ in range(MAX_CHANGES + 7))
    facts = baseline_facts(replace(BASELINE, worse=many))
    assert (len(facts.worse), facts.counts.worse) == (MAX_CHANGES, MAX_CHANGES + 7)


def test_a_change_of_a_later_call_in_the_backward_pass_is_named_so():
    facts = baseline_facts(replace(BASELINE, worse=(Change(replace(DEVIANT, call=2, phase="backward"), None, None),)))
    assert change_text(facts.worse[0]) == "Add_1#2.backward.output.0 (AddV2), origin: no number -> gone"
