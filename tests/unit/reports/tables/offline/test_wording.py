"""Reasons in the published words: the texts of msprobe's table, from code, facts and names of the row."""

from __future__ import annotations

from pathlib import Path

import pytest
from offline_rows import Op, gap, offline

from probe_flow.records import Expectation, Reason
from probe_flow.reports.layout import LAYOUTS
from probe_flow.reports.tables.offline.groups import Operators
from probe_flow.reports.tables.offline.wording import published_words
from tests.support.rules import kind_of

PUBLISHED = [
    ("no_golden_dump", (), "[b] There is no the ground truth dump file for b:input:0."),
    ("unknown_producer", ("nobody",), 'There is no "nobody" in the fusion rule file.'),
    ("input_index", ("1", "1"), "The input index (1) is out of range (1) for the operator list."),
    ("input_malformed", ("a",), "The input information (a) is invalid. It only supports op_name:index."),
    ("layout_unsupported", ("NC1C0HWPAD",), 'The format " NC1C0HWPAD " is not supported.'),
    ("dtype_unsupported", ("13",), "The output data type (13) does not support."),
    (
        "slices_missing",
        (),
        "This is a FFTS+ mode dump data, The number of files does not match the number of thread",
    ),
    (
        "shape_mismatch",
        ("(2, 3)", "(7,)"),
        "[b] Due to the different shapes on the left and right,the left dump data(2, 3) can not be compared to the "
        "right dump data(7,). Please check the batch of the dump data or the shape may be changed due to optimization.",
    ),
    (
        "blocks_mismatch",
        ("(40, 18)", "(32, 32)"),
        "[b] The target shape (40, 18) is invalid. The recommended shape is (32, 32).",
    ),
    ("inner_node", (), "[b] The op is inner node for multi to multi relation.Skip the op."),
    ("empty_l1", (), "The fusion operator list is empty"),
    ("no_target_dump", ("x", "Data"), '[x] There is no dump file for my output operator "x". The type is Data.'),
]


def words(reason: Reason, *, is_ruled: bool = True) -> str | None:
    given = offline(Op("b", inputs=[reason]), is_ruled=is_ruled, golden_framework="npy" if is_ruled else "om")
    return published_words(given.rows[0].pair, Operators(given.pairs))


@pytest.mark.parametrize(("code", "facts", "text"), PUBLISHED, ids=[code for code, *_ in PUBLISHED])
def test_each_code_has_its_words(code: str, facts: tuple[str, ...], text: str) -> None:
    assert words(Reason(kind_of(code), "plain", Expectation.MISSING, facts)) == text


@pytest.mark.parametrize(
    ("code", "facts", "text"),
    [
        ("no_golden_dump", (), '[b] There is no the ground truth dump file for the op "b".'),
        ("no_target_dump", (), '[b] There is no the my output dump file for the op "b".'),
        ("no_rule_shape", ("(2, 3)", "(6)"), "[b] The shape does not match ((2, 3) vs (6)) for b:input:0."),
        ("no_rule_count", ("input", "1", "2"), "[b] The number of input does not match (1 vs 2)."),
    ],
)
def test_without_rules_some_words_are_others(code: str, facts: tuple[str, ...], text: str) -> None:
    assert words(Reason(kind_of(code), "plain", Expectation.MISSING, facts), is_ruled=False) == text


def test_braces_in_names_are_no_places() -> None:
    assert words(Reason(kind_of("unknown_producer"), "plain", Expectation.MISSING, ("{op}{9}",))) == (
        'There is no "{op}{9}" in the fusion rule file.'
    )


def test_a_reason_without_facts_keeps_its_text() -> None:
    assert words(gap("shape_mismatch", "other shapes")) == "other shapes"


def test_a_reason_of_another_code_has_no_published_words() -> None:
    assert words(gap("quantised", "int8")) is None


def test_the_plain_words_stand_in_the_remarks(tmp_path: Path) -> None:
    why = Reason(kind_of("unknown_producer"), "its producer is unknown", Expectation.MISSING, ("nobody",))
    LAYOUTS["offline"].write_csv(offline(Op("b", inputs=[why])), tmp_path / "r.csv")
    assert (
        (tmp_path / "r.csv")
        .read_text()
        .splitlines()[1]
        .endswith(',"There is no ""nobody"" in the fusion rule file.",N/A,unmatched,its producer is unknown')
    )


def test_what_has_no_published_words_is_said_once(tmp_path: Path) -> None:
    LAYOUTS["offline"].write_csv(offline(Op("b", inputs=[gap("not_in_rules", "no rule names it")])), tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().count("no rule names it") == 1


def test_the_table_of_the_other_tool_has_no_plain_words(tmp_path: Path) -> None:
    why = Reason(kind_of("shape_mismatch"), "other sizes", Expectation.MISSING, ("(6,)", "(7,)"))
    given = offline(Op("b", inputs=[why]))
    LAYOUTS["msaccucmp"].write_csv(given, tmp_path / "r.csv")
    text = (tmp_path / "r.csv").read_text()
    assert "other sizes" not in text
    assert "Due to the different shapes on the left and right,the left dump data(6,)" in text
