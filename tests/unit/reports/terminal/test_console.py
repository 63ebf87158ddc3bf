from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from report_builders import (
    GOOD_METRICS,
    call_comparison,
    comparison,
    good_row,
    key,
    measurement,
    missing_golden,
    missing_target,
    origin,
    row,
    tensor,
)

from probe_flow.engine.run.record import with_summaries
from probe_flow.record.conclusion import dumps_line, last_line, verdict_word
from probe_flow.record.facts import counts_text, gaps, largest_errors, problems_text
from probe_flow.record.places import figure, printable
from probe_flow.record.run_json import comparison_summary
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, Coverage, Finding, FindingKind, Role, Row, Status
from probe_flow.reports.terminal.console import render_summary
from probe_flow.testing.run_records import run_record

SNAPSHOTS = Path(__file__).parent / "snapshots"


def distance(value: float | None) -> Any:
    return measurement({**GOOD_METRICS, "relative_euclidean_distance": value})


def failing(order: int, name: str, value: float, role: Role) -> Row:
    return good_row(order, name, status=Status.FAIL, role=role, measured=distance(value))


def diverging() -> Comparison:
    rows = (
        good_row(0),
        failing(1, "MatMul_2", 0.08, Role.ORIGIN),
        failing(2, "AutomaticBufferFusionOp.Mul_1Add_2_layers_0_attention_[red]output[/red]", 0.05, Role.INHERITED),
        missing_golden(3),
        missing_golden(4, "Mul_10"),
        missing_target(5),
    )
    findings = (
        origin(1, "MatMul_2"),
        origin(2, "Exp_3", fails=False, metrics={}, evidence="weaker: 7 times what its inputs explain"),
        origin(2, "Exp_3", kind=FindingKind.NONFINITE_ORIGIN, evidence="3 NaN in the target, none in the golden"),
    )
    coverage = {
        "target": Coverage(5, compared=3, missing=2, outputs=5, outputs_compared=3, outputs_missing=2),
        "golden": Coverage(4, compared=3, expected=1, outputs=3, outputs_compared=3),
    }
    return comparison(*rows, findings=findings, coverage=coverage, gate_passed=False)


def run_of(*comparisons: Comparison, verdict: str | None, code: int, **more: Any) -> RunRecord:
    run = run_record(verdict=verdict, exit_code=code, artifacts=["run.json", "comparison.jsonl"], **more)
    return with_summaries(run, {"result": comparison_summary(comparisons[0])}) if comparisons else run


def plain(run: RunRecord, *comparisons: Comparison, width: int = 100, folder: str = "runs/w-1") -> str:
    return render_summary(run, comparisons, color=False, width=width, folder=folder)


SCENES = {
    "fail": ((diverging(),), {"verdict": "fail", "code": 1, "problems": [{"code": "PF3011"}, {"code": "PF3011"}]}, 100),
    "fail_narrow": ((diverging(),), {"verdict": "fail", "code": 1}, 60),
    "pass": ((comparison(good_row(), failing(1, "Mul_7", 0.0004, Role.CLEAN)),), {"verdict": "pass", "code": 0}, 100),
    "incomplete": (
        (diverging(),),
        {
            "verdict": "incomplete",
            "code": 3,
            "incomplete": ["only 40% of the target's outputs were compared (2 of 5, required 50%)"],
        },
        100,
    ),
    "drift": (
        (
            comparison(
                good_row(),
                findings=(Finding(FindingKind.DRIFT, None, None, "the error grows 1.1 times a layer", 3.0),),
                gate_passed=False,
            ),
        ),
        {"verdict": "fail", "code": 1},
        100,
    ),
}


@pytest.mark.parametrize("scene", list(SCENES))
def test_the_summary_reads_as_agreed(scene: str) -> None:
    comparisons, facts, width = SCENES[scene]
    expected = (SNAPSHOTS / f"{scene}.txt").read_text(encoding="utf-8")
    assert plain(run_of(*comparisons, **facts), *comparisons, width=width) == expected


def test_where_nothing_was_compared_nothing_is_called_complete() -> None:
    nothing = comparison()
    run = run_of(nothing, verdict="incomplete", code=3, incomplete=["nothing was compared"])
    text = plain(run, nothing)
    assert "How much was compared" in text
    assert "everything that had to be compared was" not in text


@pytest.mark.parametrize(
    ("where", "more"), [({"row": 3}, ""), ({"row": 4}, " (and 1 more)"), ({"row": None}, " (and 1 more)")]
)
def test_what_is_said_twice_of_one_tensor_is_one(where: dict[str, Any], more: str) -> None:
    """An origin where NaN begins."""
    findings = [{"row": 3}, {"kind": "nonfinite_origin", **where}]
    run = run_record(verdict="fail", exit_code=1, findings=findings)
    assert last_line(run).startswith(f"FAIL Add_2 (AddV2) output 0, rank 0, graph 1, step 0{more}")


@pytest.mark.parametrize("width", [1, 40, 60, 80, 200])
def test_no_line_but_commands_the_first_and_the_last_is_wider_than_the_terminal(width: int) -> None:
    given = diverging()
    lines = plain(run_of(given, verdict="fail", code=1), given, width=width).splitlines()
    commands = [line for line in lines if line.startswith("  probe-flow show ")]
    assert len(commands) == 1
    assert max(len(line) for line in lines[1:-1] if line not in commands) <= max(width, 40)


def test_the_last_line_names_verdict_operator_place_size_and_report() -> None:
    given = diverging()
    run = run_of(given, verdict="fail", code=1)
    expected = (
        "FAIL MatMul_2 (AddV2) output 0, rank 0, graph 1, step 0: 390 x rounding (and 1 more) | 1 inherits | "
        "3 of 5 compared | runs/w-1/run.json"
    )
    assert plain(run, given, width=40).splitlines()[-1] == expected
    assert last_line(run, folder="runs/w-1") == expected


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"verdict": "pass", "code": 0}, "PASS no operator of the target goes wrong"),
        (
            {"verdict": "pass", "code": 0, "caveats": ["partly: x"]},
            "PASS no operator of the target goes wrong | partly: x",
        ),
        (
            {"verdict": "pass", "code": 0, "workflow": {"sample": True}},
            "PASS no operator of the target goes wrong | bundled sample",
        ),
        (
            {"verdict": "incomplete", "code": 3, "incomplete": ["half is missing", "step 1 too"]},
            "INCOMPLETE half is missing (and 1 more)",
        ),
        ({"verdict": None, "code": 0}, "DONE the workflow ended; it compares nothing"),
        ({"verdict": "incomplete", "code": 130}, "INTERRUPTED the run was stopped before its end"),
        (
            {"verdict": "incomplete", "code": 2},
            "STOPPED nothing was judged: something in the command or its files is wrong",
        ),
    ],
)
def test_the_last_line_says_what_has_to_be_known_beside_the_verdict(facts: dict[str, Any], line: str) -> None:
    assert last_line(run_of(**facts)) == line


def test_the_first_line_names_both_dumps() -> None:
    summary = comparison_summary(diverging())
    run = with_summaries(run_record(workflow={"folder": "/dumps"}), {"result": summary})
    sides = "target torchair_ge dump `npu`, 5 tensors | golden torchair_fx dump `fx`, 4 tensors"
    assert dumps_line(run) == sides
    assert dumps_line(with_summaries(run_record(workflow={"sample": True}), {"result": summary})) == (
        "target torchair_ge dump `/dumps/npu`, 5 tensors | golden torchair_fx dump `/dumps/fx`, 4 tensors "
        "| bundled sample"
    )
    assert dumps_line(with_summaries(run, {"a": summary, "b": summary})) == f"{sides} | and 1 more comparisons"
    assert dumps_line(run_record()) == ""


def test_names_are_not_markup_and_cannot_drive_the_terminal() -> None:
    node = key("x[bold]\x1b]0;title\x07\u202eevil\n")
    given = comparison(good_row(target=tensor(node=node), measured=distance(0.5)))
    text = plain(run_of(given, verdict="pass", code=0), given)
    assert "x[bold]\\x1b]0;title\\x07\\u202eevil\\n output 0" in text
    assert "\x1b" not in text


def test_colours_are_used_only_when_asked_for() -> None:
    given = diverging()
    run = run_of(given, verdict="fail", code=1)
    colored = render_summary(run, [given], color=True, width=100, folder="runs/w-1")
    assert "\x1b[1;31mFAIL" in colored
    assert "\x1b" not in plain(run, given)


def test_a_run_that_stopped_says_what_it_had_found() -> None:
    text = plain(run_of(diverging(), verdict="incomplete", code=2))
    assert "The rest was not compared: something in the command or its files is wrong. In what" in text
    assert "Nothing was judged" not in text
    assert "Nothing was judged: " in plain(run_of(verdict="incomplete", code=2))


def test_every_number_of_the_run_is_shown_without_the_comparisons() -> None:
    given = diverging()
    text = plain(run_of(given, verdict="fail", code=1))
    assert "MatMul_2 (AddV2)" in text
    assert "target        5         3              0        2" in text
    assert "Largest errors" not in text


@pytest.mark.parametrize(
    ("verdict", "code", "word", "explanation"),
    [
        ("pass", 0, "PASS", None),
        ("fail", 1, "FAIL", "Exit code 1: "),
        ("incomplete", 2, "STOPPED", "Exit code 2: "),
        ("incomplete", 3, "INCOMPLETE", "Exit code 3: "),
        ("incomplete", 130, "INTERRUPTED", "Exit code 130: "),
        (None, 0, "DONE", None),
    ],
)
def test_every_end_has_a_word_and_its_exit_code_an_explanation(
    verdict: str | None, code: int, word: str, explanation: str | None
) -> None:
    run = run_of(verdict=verdict, code=code)
    text = plain(run)
    assert verdict_word(run) == word
    assert text.startswith(f"{word}  ")
    assert (explanation is None and "Exit code" not in text) or (explanation is not None and explanation in text)


def test_a_run_that_compares_nothing_says_which_dumps_it_made() -> None:
    made = {"stage": "golden", "tensors": 37, "nodes": 11, "path": "/runs/w/dumps/golden/msprobe_fx_dump"}
    text = plain(run_of(verdict=None, code=0, inputs=[made]))
    assert "  golden  37 tensors of 11 nodes  /runs/w/dumps/golden/msprobe_fx_dump\n" in text
    assert "Results" not in text
    assert "Dumps" not in plain(run_of(verdict="pass", code=0, inputs=[made]))


def test_a_pass_within_noise_says_that_the_noise_may_hide_errors() -> None:
    noisy = origin(0, "Add_1", kind=FindingKind.NOT_DETERMINISTIC)
    alone = comparison(good_row(status=Status.FAIL))
    given = comparison(good_row(status=Status.FAIL), findings=(noisy,))
    assert "make the runs deterministic" in " ".join(plain(run_of(given, verdict="pass", code=0), given).split())
    assert "deterministic" not in plain(run_of(alone, verdict="pass", code=0), alone)


def test_a_nan_origin_at_the_first_wrong_tensor_is_not_told_twice() -> None:
    both = (origin(0, "Add_1"), origin(0, "Add_1", kind=FindingKind.NONFINITE_ORIGIN))
    given = comparison(good_row(status=Status.FAIL), findings=both, gate_passed=False)
    text = plain(run_of(given, verdict="fail", code=1), given)
    assert "NaN or infinity begins at the same tensor." in text
    assert "Where NaN or infinity begins" not in text


def test_a_nan_origin_alone_makes_the_headline() -> None:
    given = comparison(good_row(), findings=(origin(0, "Add_1", kind=FindingKind.NONFINITE_ORIGIN),), gate_passed=False)
    lines = plain(run_of(given, verdict="fail", code=1), given).splitlines()
    assert lines[1] == "FAIL  NaN or infinity first appears at Add_1 (AddV2)."
    assert lines[-1].startswith("FAIL Add_1 (AddV2) output 0, rank 0, graph 1, step 0: ")


def test_more_suspects_than_five_are_counted() -> None:
    findings = tuple(origin(0, f"Add_{number}") for number in range(9))
    given = comparison(good_row(), findings=findings, gate_passed=False)
    text = plain(run_of(given, verdict="fail", code=1), given)
    assert "Add_5, output 0" in text
    assert "Add_6, output 0" not in text
    assert "- and 3 more, in run.json" in text


def test_a_folder_with_a_blank_is_quoted_in_the_command() -> None:
    given = diverging()
    text = plain(run_of(given, verdict="fail", code=1), given, folder="my runs/w")
    assert "\n  probe-flow show 'my runs/w' --node MatMul_2 --rank 0 --graph 1 --step 0\n" in text


def test_an_operator_that_is_wrong_everywhere_is_told_once_and_hides_no_other() -> None:
    places = [(step, rank) for step in range(2) for rank in range(3)]
    findings = [origin(0, "Gelu_1", node=key("Gelu_1", rank=rank, step=step)) for step, rank in places]
    findings.append(origin(0, "Conv2D_4", node=key("Conv2D_4", rank=2, step=1, graph=2)))
    findings.append(origin(0, "Conv2D_4", node=key("Conv2D_4", rank=0, step=2, graph=2)))
    given = comparison(good_row(), findings=tuple(findings), gate_passed=False)
    text = plain(run_of(given, verdict="fail", code=1), given, width=160)
    assert "  also in   5 more executions: all of ranks 0 to 2, steps 0, 1\n" in text
    assert text.count("Gelu_1, output 0") == 0
    assert "- Conv2D_4, output 0, rank 2, graph 2, step 1" in text
    assert "also in 1 more execution: rank 0, step 2" in " ".join(text.split())
    assert " --node Gelu_1 --rank 0 --graph 1 --step 0\n" in text


def test_what_the_dump_calls_a_node_is_said_where_it_is_another_name() -> None:
    nodes = [key("Add", call=call) for call in range(3)]
    rows = [
        good_row(n, measured=distance(0.5 - n / 8), target=tensor("Add", node=node)) for n, node in enumerate(nodes)
    ]
    suspect = origin(2, "Add", node=nodes[2], fails=False, kind=FindingKind.SUSPECT)
    given = call_comparison(*rows, findings=(origin(1, "Add", node=nodes[1]), suspect), gate_passed=False)
    text = plain(run_of(given, verdict="fail", code=1), given, width=200)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "in the dump Add.1.forward" in lines
    assert "probe-flow show runs/w-1 --node Add.1.forward --rank 0 --graph 1 --step 0" in lines
    (other,) = (line for line in lines if line.startswith("- Add"))
    assert other.startswith("- Add (AddV2), output 0, rank 0, graph 1, step 0, call 2, in the dump Add.2.forward: ")
    assert "tensor [in the dump] where it is error" in lines
    assert "Add output 0 [Add.0.forward] rank 0, graph 1, step 0 fine 0.5" in lines
    assert "Add output 0 [Add.2.forward] rank 0, graph 1, step 0, call 2 fine 0.25" in lines
    alike = comparison(*rows, findings=(origin(1, "Add", node=nodes[1]), suspect), gate_passed=False)
    assert "in the dump" not in plain(run_of(alike, verdict="fail", code=1), alike)


def test_a_name_without_end_is_shown_by_its_beginning_and_end_and_whole_in_the_command() -> None:
    name = f"Begin_{'x' * 5000}_end"
    node = key(name, call=1)
    rows = [good_row(0, measured=distance(0.5), target=tensor(name, node=node), golden=tensor(name, side="golden"))]
    given = call_comparison(*rows, missing_golden(1, name), findings=(origin(0, name, node=node),), gate_passed=False)
    text = plain(run_of(given, verdict="fail", code=1), given, width=100)
    command = f"  probe-flow show runs/w-1 --node {name}.1.forward --rank 0 --graph 1 --step 0"
    assert command in text.splitlines()
    rest = "".join(text.replace(command, "").split())
    assert len(rest) < 6000
    assert f"operatorBegin_{'x' * 120}...{'x' * 122}_end(AddV2)inthedump" in rest
    assert rest.count("_end.1.forward") == 2


def test_the_largest_errors_rank_infinity_first_and_leave_out_what_has_no_distance() -> None:
    values = (0.5, math.nan, None, math.inf, 0.0, 0.5, 0.75)
    rows = [good_row(number, f"Op_{number}", measured=distance(value)) for number, value in enumerate(values)]
    found = largest_errors([comparison(*rows)], limit=3)
    assert [(each.distance, each.row.order) for each in found] == [(math.inf, 3), (0.75, 6), (0.5, 0)]


def test_gaps_that_count_come_before_expected_ones() -> None:
    unreadable = row(6, target=tensor("Bad_1"), status=Status.ERROR, reasons=("header ends early",))
    many = [missing_golden(number, f"Mul_{number}", expected=True) for number in range(3)]
    found = gaps([comparison(*many, missing_golden(3), unreadable, missing_target(7), good_row(8))], limit=9)
    assert [(gap.count, gap.side, gap.kind) for gap in found] == [
        (1, "target", "missing"),
        (1, "target", "missing"),
        (3, "target", "expected"),
        (1, "golden", "expected"),
    ]
    assert {gap.example for gap in found} >= {"Bad_1.output.0: header ends early"}


def test_counts_have_a_fixed_order_and_always_name_what_passes() -> None:
    assert counts_text({Status.ERROR: 1, Status.FAIL: 2}) == "0 pass, 2 fail, 1 error"
    assert counts_text({}) == "0 pass"


def test_problems_are_counted_by_code() -> None:
    assert problems_text(run_record(problems=[{"code": "PF4102"}, {}, {}]).problems) == "3 (2 x PF3011, PF4102)"
    assert problems_text([]) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.99998123, "0.999981"), (0.98765432, "0.9877"), (1.0, "1"), (12345678.0, "1.235e+07"), (7, "7"), ("inf", "inf")],
)
def test_figures_are_short_but_a_cosine_below_one_never_looks_like_one(value: object, shown: str) -> None:
    assert figure(value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("Add_1", "Add_1"), ("汉字 é", "汉字 é"), ("a\tb", "a\\tb"), ("\udc80", "\\udc80"), ("\u200b", "\\u200b")],
)
def test_printable_shows_what_a_terminal_would_hide(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_importing_the_summary_does_not_import_rich() -> None:
    check = "assert not any(m.split('.')[0] == 'rich' for m in sys.modules)"
    code = f"import sys, probe_flow.reports.terminal.console; {check}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
