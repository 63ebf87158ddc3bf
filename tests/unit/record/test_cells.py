from __future__ import annotations

import csv
import io
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.record.cells import number_cell, text_cell


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "%x",
        "\t=1",
        "\n=1",
        "  =1",
        "\uff1d1",
        " \uff0b1",
        "\uff0d1",
        "\uff20a",
        "a;=1",
        "a; b;@x",
    ],
)
def test_text_that_a_spreadsheet_would_evaluate_gets_an_apostrophe(text: str) -> None:
    assert text_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["", "Add_1", "[2, 2]", "a=b", "aten.add-1", "'=1", "汉字", "a; =b", "a;b"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert text_cell(text) == text


def test_nul_is_shown_because_csv_readers_stop_at_it() -> None:
    assert text_cell("a\0b") == "a\\x00b"


def test_a_carriage_return_is_shown_because_csv_readers_end_the_row_at_it() -> None:
    assert text_cell("a\r=1") == "a\\r=1"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.1, "0.1"),
        (-0.5, "-0.5"),
        (1e-300, "1e-300"),
        (2**63 + 1, "9223372036854775809"),
        (True, "True"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers_are_exact_and_special_values_words(value: float | None, text: str) -> None:
    assert number_cell(value) == text


def test_blank_and_nan_take_the_words_of_the_layout() -> None:
    assert number_cell(None, blank="N/A") == "N/A"
    assert number_cell(math.nan, nan="NaN") == "NaN"


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_guarded_text_comes_back_from_a_csv_file_and_never_begins_like_a_formula(text: str) -> None:
    guarded = text_cell(text)
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerow([guarded, "x"])
    assert next(csv.reader(io.StringIO(buffer.getvalue(), newline=""))) == [guarded, "x"]
    assert guarded.removeprefix("'") == text.replace("\r", "\\r").removeprefix("'")
    assert not guarded.strip().startswith(("=", "+", "-", "@", "%"))
