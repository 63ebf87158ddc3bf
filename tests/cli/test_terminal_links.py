"""Links to the report in terminals that know them, and nowhere else."""

from __future__ import annotations

import pytest

from probe_flow.cli.terminal.links import knows_links, linked


@pytest.mark.parametrize(
    ("environment", "known"),
    [
        ({}, False),
        ({"TERM_PROGRAM": "WezTerm"}, True),
        ({"TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"VTE_VERSION": "7200"}, True),
        ({"VTE_VERSION": "4800"}, False),
        ({"VTE_VERSION": "x"}, False),
        ({"KITTY_WINDOW_ID": "1"}, True),
        ({"KITTY_WINDOW_ID": "1", "TMUX": "a socket"}, False),
        ({"WT_SESSION": "a", "TERM": "dumb"}, False),
    ],
)
def test_links_go_to_terminals_that_draw_them(environment, known):
    assert knows_links(environment, is_terminal=True) is known
    assert not knows_links(environment, is_terminal=False)


def test_the_last_mention_of_the_report_is_the_link_and_the_text_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("TERM_PROGRAM", "WezTerm")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("STY", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = "see out/report.html\nFAIL x | out/report.html\n"
    path = tmp_path / "a b" / "report.html"
    shown = linked(text, "out/report.html", path, is_terminal=True)
    assert shown == (f"see out/report.html\nFAIL x | \x1b]8;;{path.as_uri()}\x1b\\out/report.html\x1b]8;;\x1b\\\n")
    assert "a%20b" in shown
    assert linked(text, "out/report.html", path, is_terminal=False) == text
    assert linked(text, "", path, is_terminal=True) == text
