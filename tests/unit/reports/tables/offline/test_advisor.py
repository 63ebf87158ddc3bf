"""Advice on offline results: the first rule that applies, and the origins beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from offline_rows import Op, figures, gap, offline
from report_builders import origin, stats

from probe_flow.records import FindingKind
from probe_flow.reports.tables.offline.advisor import NO_INDEX, advise, write_advisor

BAD = {"cosine": 0.98}


def good(name: str, **more: Any) -> Op:
    return Op(name, outputs=[figures(**more)])


def bad(name: str, op_type: str = "MatMul") -> Op:
    return Op(name, op_type, outputs=[figures(BAD)])


@pytest.mark.parametrize(
    ("ops", "detection", "index"),
    [
        ([good("a"), good("b")], "Global Consistency", NO_INDEX),
        ([good("a"), bad("b"), good("c")], "Global Consistency", "1"),
        ([good("a"), bad("b"), bad("c")], "Global Consistency", "1"),
        ([bad("x", "Data"), good("b")], "Input Inconsistent", "0"),
        ([bad("x", "Data"), good("b", target=stats(inf=1))], "FP16 Overflow", "1"),
        ([Op("x", "Data"), Op("w", outputs=[gap("no_golden_dump", "none")])], "Global Consistency", NO_INDEX),
    ],
)
def test_the_first_rule_that_applies(ops: list[Op], detection: str, index: str) -> None:
    advice = advise(offline(*ops))
    assert (advice.detection, advice.index) == (detection, index)


def test_a_good_output_is_told_from_a_bad_one() -> None:
    texts = [advise(offline(good("a"), bad("b"), last)).text for last in (good("c"), bad("c"))]
    assert ["unqualified" in text for text in texts] == [False, True]


def test_nothing_compared_is_not_all_well() -> None:
    assert "nothing is known" in advise(offline(Op("x", "Data"))).text


def test_a_single_element_counts_as_alike() -> None:
    one = Op("argmax", outputs=[figures({"cosine": None}, count=1)])
    assert "qualified" in advise(offline(bad("b"), one)).text


def test_the_file_has_three_lines_and_the_origins(tmp_path: Path) -> None:
    given = offline(good("a"), bad("fc"), findings=(origin(1, "fc"), origin(0, "a", kind=FindingKind.COVERAGE)))
    write_advisor(given, tmp_path / "advisor_summary.txt")
    lines = (tmp_path / "advisor_summary.txt").read_text().splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "Detection Type",
        "Operator Index",
        "Expert Advice",
        "Root Cause",
    ]
    assert lines[:2] == ["Detection Type: Global Consistency", "Operator Index: 1"]
    assert lines[3].startswith("Root Cause: index 1, fc:output:0: inputs agree")
