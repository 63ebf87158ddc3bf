from __future__ import annotations

import re

from probe_flow.errors import Diagnostic, Severity, Span
from probe_flow.errors.render import render, render_all

TEXT = "stages:\n  compare_fx:\n    uses: compare\n    rtoll: 1e-3\n"


def shown(diagnostic: Diagnostic, text: str = TEXT, *, width: int = 120) -> list[str]:
    return render(diagnostic, sources={"w.yaml": text}, width=width).split("\n")


def test_message_place_snippet_caret_label_help_and_note() -> None:
    diagnostic = Diagnostic(
        "PF1203",
        "unknown field `rtoll` in stage `compare_fx`",
        span=Span("w.yaml", 4, 5, 4, 10),
        label="`compare` has no such field",
        help="did you mean `rtol`?",
        notes=("one", "two\nlines"),
    )

    assert shown(diagnostic) == [
        "error[PF1203]: unknown field `rtoll` in stage `compare_fx`",
        "  --> w.yaml:4:5",
        "   |",
        " 2 |   compare_fx:",
        " 3 |     uses: compare",
        " 4 |     rtoll: 1e-3",
        "   |     ^^^^^ `compare` has no such field",
        "   |",
        "   = help: did you mean `rtol`?",
        "   = note: one",
        "   = note: two",
        "           lines",
    ]


def test_without_a_span_the_path_is_shown() -> None:
    diagnostic = Diagnostic("PF3001", "the file is short", path="dump/a.npy", severity=Severity.WARNING, tensor="add.0")

    assert shown(diagnostic) == [
        "warning[PF3001]: the file is short",
        "  --> dump/a.npy",
        "   = tensor: `add.0`",
    ]


def test_without_the_source_only_the_place_is_shown() -> None:
    assert render(Diagnostic("PF1", "m", span=Span("x.yaml", 7, 2, 7, 3), help="h")) == (
        "error[PF1]: m\n  --> x.yaml:7:2\n   = help: h"
    )


def test_a_span_of_a_whole_file_and_one_behind_its_end_show_no_lines() -> None:
    assert shown(Diagnostic("PF1", "m", span=Span("w.yaml")))[1:] == ["  --> w.yaml"]
    assert shown(Diagnostic("PF1", "m", span=Span("w.yaml", 99, 1, 99, 2)))[1:] == ["  --> w.yaml:99:1"]


def test_related_places_are_shown_with_their_line() -> None:
    diagnostic = Diagnostic(
        "PF1003", "twice", span=Span("w.yaml", 3, 5, 3, 9), related=((Span("w.yaml", 1, 1, 1, 7), "first"),)
    )

    assert shown(diagnostic)[-4:] == ["  ::: w.yaml:1:1", "   |", " 1 | stages:", "   | ------ first"]


def test_a_span_over_several_lines_is_marked_to_the_end_of_its_first() -> None:
    assert shown(Diagnostic("PF1", "m", span=Span("w.yaml", 3, 5, 4, 9)))[-1] == "   |     ^^^^^^^^^^^^^"


def test_the_gutter_fits_the_largest_line_number() -> None:
    lines = shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1000, 1, 1000, 2)), "\n" * 999 + "x\n")

    assert lines[1:] == ["    --> w.yaml:1000:1", "     |", "1000 | x", "     | ^"]


def test_tabs_are_shown_as_spaces_and_the_caret_follows() -> None:
    assert shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1, 3, 1, 4)), "\t\tx")[-2:] == [
        " 1 |         x",
        "   |         ^",
    ]


def test_wide_and_combining_characters_are_measured_in_cells() -> None:
    # two wide characters take four cells; e with a combining accent takes one
    assert shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1, 3, 1, 5)), "日本ab")[-1] == "   |     ^^"
    assert shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1, 3, 1, 4)), "e\u0301x")[-1] == "   |  ^"
    assert shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1, 1, 1, 2)), "日本")[-1] == "   | ^^"


def test_long_lines_are_clipped_around_the_caret() -> None:
    text = "a" * 300 + "BAD" + "c" * 300
    lines = shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1, 301, 1, 304)), text, width=80)

    line, marks = lines[-2], lines[-1]
    assert len(line) <= 80
    assert line.startswith(" 1 | ...a")
    assert line.endswith("c...")
    assert [line[i] for i, mark in enumerate(marks) if mark == "^"] == list("BAD")


def test_the_end_of_a_long_line_is_shown_without_a_tail_mark() -> None:
    lines = shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1, 300, 1, 301)), "a" * 299 + "Z", width=80)

    assert lines[-2].startswith(" 1 | ...a")
    assert lines[-2].endswith("aZ")
    assert lines[-2][lines[-1].index("^")] == "Z"


def test_a_mark_longer_than_the_room_is_cut() -> None:
    lines = shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1, 1, 1, 400)), "a" * 399, width=80)

    assert len(lines[-2]) <= 80
    assert len(lines[-1]) <= 80
    assert set(lines[-1].removeprefix("   | ")) == {"^"}


def test_colour_only_where_it_is_asked_for_and_it_changes_no_text() -> None:
    diagnostic = Diagnostic("PF1203", "m", span=Span("w.yaml", 3, 5, 3, 9), label="l", help="h")

    plain = render(diagnostic, sources={"w.yaml": TEXT})
    colored = render(diagnostic, sources={"w.yaml": TEXT}, color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31merror[PF1203]\x1b[0m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_names_cannot_steer_the_terminal() -> None:
    text = render(
        Diagnostic("PF1", "bad \x1b[2J name", path="a\x1b]0;x\x07b", help="h\u202ex"), sources={}, color=False
    )

    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "bad \\x1b[2J name" in text


def test_control_characters_of_the_source_take_one_cell() -> None:
    assert shown(Diagnostic("PF1", "m", span=Span("w.yaml", 1, 2, 1, 3)), "\x1bx")[-2:] == [" 1 | \ufffdx", "   |  ^"]


def test_several_are_separated_by_an_empty_line() -> None:
    assert render_all([Diagnostic("PF1", "a"), Diagnostic("PF2", "b")]) == "error[PF1]: a\n\nerror[PF2]: b"
