"""The short summary: a screen of 24 lines at 80 columns, the verdict last, and nothing that matters left out."""

from __future__ import annotations

import math

import pytest
from report_builders import comparison, good_row, key, origin, row, tensor
from rich.text import Text

from probe_flow.engine.run.record import with_summaries
from probe_flow.record.conclusion import last_line
from probe_flow.record.run_json import comparison_summary
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, Coverage, Finding, FindingKind, Role, Status
from probe_flow.reports.terminal.printing import between_words
from probe_flow.reports.terminal.short import MAX_LINES, render_short
from probe_flow.testing.run_records import run_record

MORE = "`-v` shows the rest"


def faulty(name: str = "Gelu_1", evidence: str = "inputs agree (1.1e-03), output differs (7.5e-02)") -> Comparison:
    """One wrong operator; each side lacks something."""
    rows = (
        good_row(0),
        good_row(1, name, status=Status.FAIL, role=Role.ORIGIN),
        good_row(2, "Add_9", status=Status.FAIL, role=Role.INHERITED),
        row(3, target=tensor("Bad_1"), status=Status.UNMATCHED_TARGET, role=Role.UNKNOWN),
    )
    coverage = {"target": Coverage(4, compared=3, expected=1, outputs=3, outputs_compared=3)}
    found = origin(1, name, evidence=evidence, metrics={"cosine": 0.9, "max_abs_err": 0.2})
    return comparison(*rows, findings=(found,), coverage=coverage, gate_passed=False)


def run_of(given: Comparison, verdict: str, code: int, **more: object) -> RunRecord:
    run = run_record(verdict=verdict, exit_code=code, artifacts=["run.json", "report.html"], **more)
    return with_summaries(run, {"result": comparison_summary(given)})


def shown(run: RunRecord, *, width: int = 80, folder: str = "runs/w-1") -> str:
    return render_short(run, color=False, width=width, folder=folder, more=MORE)


def height(text: str, width: int = 80) -> int:
    """Return how many lines of a terminal a text takes."""
    return sum(max(1, math.ceil(Text(line).cell_len / width)) for line in text.splitlines())


def test_a_single_fault_fits_a_screen_with_all_that_is_known_of_it() -> None:
    run = run_of(faulty(), "fail", 1)
    lines = shown(run).splitlines()

    assert height(shown(run)) <= 24
    assert lines[0].startswith("target torchair_ge dump `/dumps/npu`, 4 tensors | golden ")
    assert lines[-1] == last_line(run, folder="runs/w-1")
    assert lines[-1].startswith("FAIL Gelu_1 (AddV2) output 0")
    assert "  tensor     output 0, rank 0, graph 1, step 0" in lines
    assert "  evidence   inputs agree (1.1e-03), output differs (7.5e-02)" in lines
    assert "  tensors    1 wrong here, 1 carries it on, 1 fine, 1 not compared (as expected)" in lines
    assert "  probe-flow show runs/w-1 --node Gelu_1 --rank 0 --graph 1 --step 0" in lines
    assert f"More: {MORE}" in lines


def test_of_several_comparisons_the_one_that_fails_is_named_with_its_report() -> None:
    pages = ["run.json", "report_case0.html", "junit_case0.xml", "report_case1.html"]
    run = run_record(verdict="fail", exit_code=1, artifacts=pages)
    right = comparison(good_row(0), gate_passed=True)
    found = {f"result[case=#{n}]": comparison_summary(each) for n, each in enumerate((right, faulty()))}
    line = last_line(with_summaries(run, found), folder="runs/w-1")
    assert line.startswith("FAIL Gelu_1 (AddV2) output 0, rank 0, graph 1, step 0, result[case=#1]")
    assert line.endswith("| runs/w-1/report_case1.html")
    alone = with_summaries(run_record(verdict="fail", exit_code=1, artifacts=["run.json", "all.html"]), found)
    assert last_line(alone, folder="runs/w-1").endswith("| runs/w-1/all.html")


def test_the_row_rule_is_no_headline() -> None:
    text = shown(run_of(faulty(), "fail", 1))

    assert " pass" not in text
    assert "2 fail" not in text


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("long", ["name", "evidence", "folder", "causes", "others", "drift"])
def test_whatever_is_long_leaves_the_first_wrong_tensor_and_the_verdict_on_the_screen(long: str, width: int) -> None:
    given = faulty(
        "Begin_" + "x" * 240 if long == "name" else "Gelu_1", "so and so " * 60 if long == "evidence" else "differs"
    )
    more: dict[str, object] = {}
    if long == "causes":
        more["incomplete"] = [
            f"the rank {n} of the golden dump is missing, and with it everything in it" for n in range(30)
        ]
    if long == "others":
        others = tuple(origin(1, f"Op_{n}", node=key(f"Op_{n}")) for n in range(30))
        given = comparison(good_row(0), findings=(origin(1, "Gelu_1"), *others), gate_passed=False)
    if long == "drift":
        drifts = tuple(Finding(FindingKind.DRIFT, None, None, "grows " * 30, 3.0) for _ in range(3))
        given = comparison(good_row(0), findings=drifts, gate_passed=False)
    folder = "runs/" + "y" * 200 if long == "folder" else "runs/w-1"
    run = run_of(given, "incomplete" if long == "causes" else "fail", 3 if long == "causes" else 1, **more)
    text = shown(run, width=width, folder=folder)

    assert text.splitlines()[-1] == last_line(run, folder=folder)
    if width >= 80:  # a name or a folder may be wider than all of a narrower terminal
        assert height(text, width) <= MAX_LINES
    if long != "drift":
        assert "output 0, rank 0, graph 1, step 0" in " ".join(text.split())
    if long == "causes":
        assert "the rank 0 of the golden dump is missing" in text
        assert width == 40 or "and 26 more, in run.json" in text


def test_what_says_least_goes_first() -> None:
    few = shown(run_of(faulty(evidence="so and so " * 10), "fail", 1))
    many = shown(run_of(faulty(evidence="so and so " * 110), "fail", 1))

    assert "figures" in few
    assert "figures" not in many
    assert "golden" not in many.split("evidence")[0].splitlines()[-1]
    assert " ...\n" in many
    assert many.partition(" ...\n")[0].split()[-1] in ("so", "and"), "cut behind a word"
    assert "--node Gelu_1" in many
    assert height(many) <= MAX_LINES


def test_why_tensors_were_not_compared_is_said_where_they_are_counted() -> None:
    rows = (
        good_row(0, role=Role.CLEAN),
        *(row(n, target=tensor(f"Bad_{n}"), status=Status.UNMATCHED_TARGET, role=Role.UNKNOWN) for n in (1, 2, 3)),
    )
    coverage = {"target": Coverage(4, compared=1, missing=1, expected=2, outputs=4, outputs_compared=1)}
    run = run_of(comparison(*rows, coverage=coverage), "incomplete", 3, incomplete=["25 % of the outputs"])

    assert "not compared (1 missing, the others as expected)" in " ".join(shown(run).split())


def test_a_run_that_compares_nothing_says_what_it_read() -> None:
    run = run_record(
        verdict=None,
        exit_code=0,
        inputs=[{"stage": "dump", "path": "/d/x", "tensors": 3, "nodes": 2}],
    )

    text = render_short(run, color=False, width=80)

    assert "  dump  3 tensors of 2 nodes  /d/x" in text.splitlines()
    assert text.splitlines()[-1].startswith("DONE ")


def test_colours_change_nothing_but_the_colour() -> None:
    run = run_of(faulty(), "fail", 1)
    colored = render_short(run, color=True, width=80, folder="runs/w-1", more=MORE)

    assert "\x1b[" in colored
    assert Text.from_ansi(colored).plain.split() == shown(run).split()


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("width", [40, 80])
def test_a_terminal_gets_its_first_and_last_line_broken_between_words(width: int, color: bool) -> None:
    run = run_of(faulty(), "fail", 1)
    folder = "runs/a-folder-that-is-longer-than-forty-columns"
    text = render_short(run, color=color, width=width, folder=folder, more=MORE, to_terminal=True)
    lines = Text.from_ansi(text).plain.splitlines()
    words = last_line(run, folder=folder).split()
    begin = next(at for at, line in enumerate(lines) if line.startswith("FAIL "))

    assert " ".join(lines[begin:]).split() == words, "the verdict comes last, and no word of it is torn"
    assert lines[-1].endswith(f"{folder}/report.html"), "the path is in one piece, to be copied or followed"
    assert all(Text(line).cell_len <= width for line in lines[begin:-1])
    assert lines[0].startswith("target torchair_ge dump")
    assert height("\n".join(lines), width) <= MAX_LINES


def test_wide_characters_count_twice_where_lines_are_broken() -> None:
    assert between_words("\u7b97\u5b50 \u7b97\u5b50 x", 6) == ["\u7b97\u5b50", "\u7b97\u5b50 x"]
