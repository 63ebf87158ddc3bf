from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_builders import call_comparison, comparison, good_row, key, missing_golden, missing_target, origin, tensor

from probe_flow.records import Comparison, Coverage, Finding, FindingKind, Role, Status
from probe_flow.reports.ci.markdown import code, markdown_text, plain, write_markdown
from probe_flow.testing.run_records import run_record

FACTS = run_record(workflow={"name": "demo"})
EXPECTED = """\
target torchair\\_ge dump \\`/dumps/npu\\`, 3 tensors \\| golden torchair\\_fx dump \\`/dumps/fx\\`, 3 tensors

## \u274c FAIL: demo

**FAIL MatMul\\_2 (AddV2) output 0, rank 0, graph 1, step 0: 390 x rounding \\| 3 of 4 compared**

Gate `findings`; by the row rule of policy `torchair`: 1 pass, 1 fail, 1 unmatched target, 1 unmatched golden

### First wrong tensor

|  |  |
|---|---|
| operator | `MatMul_2 (AddV2)` |
| tensor | output 0 |
| where | rank 0, graph 1, step 0 |
| golden | `add_1` |
| evidence | inputs agree (2.1e-4), output differs (8.0e-2, 390 times what its inputs explain) |
| figures | `relative_euclidean_distance` 0.08, `cosine` 0.9871 |

### What to do

- \\`MatMul\\_2\\` (AddV2) is off by far more than float16 explains: reproduce it alone on the dumped inputs and report it (PF7414)

### Other suspects

- `Exp_3` output 0: 7 times what its inputs explain

### How much was compared

| side | tensors | compared | expected gaps | missing |
|---|--:|--:|--:|--:|
| target | 4 | 3 | 0 | 1 |
| golden | 3 | 2 | 1 | 0 |

- 1 missing (target), e.g. Mul\\_9.output.0: no golden operator corresponds to \\`Mul\\_9\\`
- 1 expected (golden), e.g. sub\\_3.output.0: \\`sub\\_3\\` is part of a fused operator

### Largest errors, relative to the golden tensor

| tensor | where | verdict | role | error |
|---|---|---|---|--:|
| `Add_1 (AddV2)` output 0 | rank 0, graph 1, step 0 | pass | clean | 0.001 |
| `MatMul_2 (AddV2)` output 0 | rank 0, graph 1, step 0 | fail | origin | 0.001 |

### Files

- `run.json`
- `report.md`
"""  # noqa: E501


def diverging(**more: Any) -> Comparison:
    rows = (
        good_row(0),
        good_row(1, "MatMul_2", status=Status.FAIL, role=Role.ORIGIN),
        missing_golden(3),
        missing_target(4),
    )
    weak = origin(2, "Exp_3", fails=False, evidence="7 times what its inputs explain")
    coverage = {"target": Coverage(4, 3, missing=1), "golden": Coverage(3, 2, expected=1)}
    given = {"findings": (origin(1, "MatMul_2"), weak), "gate_passed": False, "coverage": coverage}
    return comparison(*rows, **{**given, **more})


def test_the_summary_reads_as_agreed(tmp_path: Path) -> None:
    write_markdown(diverging(), tmp_path / "report.md", run=FACTS, files=("run.json", "report.md"))
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == EXPECTED


def test_a_passing_run_says_so_first() -> None:
    text = markdown_text(comparison(good_row()), run=run_record())
    assert text.startswith(
        "target torchair\\_ge dump \\`/dumps/npu\\`, 1 tensor \\| "
        "golden torchair\\_fx dump \\`/dumps/fx\\`, 1 tensor\n\n"
        "## \u2705 PASS\n\n**PASS no operator of the target goes wrong \\| 1 of 1 compared**\n"
    )
    assert "First wrong" not in text


def test_an_incomplete_run_names_its_causes_and_is_neither_green_nor_red() -> None:
    causes = tuple(f"cause {number}" for number in range(12))
    text = markdown_text(diverging(incomplete=causes), run=FACTS)
    assert "\n\n## \u26a0\ufe0f INCOMPLETE: demo\n\n**INCOMPLETE cause 0 (and 11 more); MatMul\\_2" in text
    assert "- cause 9\n- and 2 more, in `run.json`\n" in text


def test_findings_about_the_whole_run_are_listed() -> None:
    drift = Finding(FindingKind.DRIFT, None, None, "the error grows 1.1 times a layer", 3.0)
    assert "### Also found\n\n- the error grows 1.1 times a layer\n" in markdown_text(
        diverging(findings=(drift,)), run=FACTS
    )


def test_what_the_dump_calls_an_operator_is_said_where_it_is_another_name() -> None:
    rows = [good_row(call, target=tensor("Add", node=key("Add", call=call))) for call in range(3)]
    findings = tuple(origin(call, "Add", node=key("Add", call=call)) for call in (1, 2))
    lines = markdown_text(call_comparison(*rows, findings=findings, gate_passed=False), run=FACTS).splitlines()
    assert "| in the dump | `Add.1.forward` |" in lines
    assert [line for line in lines if line.startswith("- `Add (AddV2)` output 0, in the dump `Add.2.forward`: ")]
    worst = "| `Add (AddV2)` output 0, in the dump `Add.0.forward` | rank 0, graph 1, step 0 | pass | clean | 0.001 |"
    assert worst in lines
    alike = markdown_text(comparison(*rows, findings=findings, gate_passed=False), run=FACTS)
    assert "in the dump" not in alike


def test_names_from_dumps_are_no_markup() -> None:
    node = key("x|y`z` <img src=x> [a](https://b) @octocat \x1b[31m\n# Title")
    given = comparison(
        good_row(0, target=tensor(node=node), status=Status.FAIL, role=Role.ORIGIN),
        findings=(origin(0, "x", node=node, evidence="see `a|b` <b> @octocat https://b www.b.c __all__\n# T"),),
        gate_passed=False,
    )
    text = markdown_text(given, run=run_record(workflow={"name": "<script>"}))
    outside = "".join(part for number, part in enumerate(text.replace("``", "\0").split("\0")) if number % 2 == 0)
    assert "<" not in outside
    assert "@" not in outside
    assert "://" not in outside
    assert "\n# " not in text
    assert "\x1b" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(line.replace("\\|", "").split("|")) in {4, 7} for line in tables)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("Add_1", "`Add_1`"), ("a`b", "``a`b``"), ("`a`", "`` `a` ``"), ("a|b", "`a\\|b`"), ("", "")],
)
def test_code_spans_hold_any_name(text: str, shown: str) -> None:
    assert code(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("- x", "\\- x"), ("1. x", "1\\. x"), ("# x", "\\# x"), ("*a*", "\\*a\\*"), ("a.b (c)", "a.b (c)")],
)
def test_plain_text_begins_no_list_and_has_no_emphasis(text: str, shown: str) -> None:
    assert plain(text) == shown
