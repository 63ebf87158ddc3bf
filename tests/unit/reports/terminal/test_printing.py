"""Text that is printed without rich is the text that rich prints."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from probe_flow.reports.terminal.printing import MIN_WIDTH, Printer, columns_of, wrapped

WORDS = st.text(st.sampled_from("ab-.`  "), max_size=60) | st.text(st.characters(codec="ascii"), max_size=200)
ROWS = st.lists(st.tuples(st.sampled_from(["", "-", "called at", "a longer label", "l" * 60]), WORDS), max_size=4)
WIDTHS = st.integers(MIN_WIDTH - 2, MIN_WIDTH + 40)


class ByRich(Printer):
    """Prints everything by rich."""

    def _is_plain(self, _text: str) -> bool:
        return False


@given(WORDS, WORDS, WIDTHS)
def test_wraps_a_text_as_rich_does(one: str, other: str, width: int) -> None:
    printed = []
    for kind in (Printer, ByRich):
        out = kind(color=False, width=width)
        out.line(one)
        out.spans((one, "bold"), (other, ""))
        out.unbroken(other)
        out.title(one)
        printed.append(out.lines())

    assert printed[0] == printed[1]


@given(ROWS, WIDTHS)
def test_aligns_rows_as_rich_does(rows: list[tuple[str, str]], width: int) -> None:
    printed = []
    for kind in (Printer, ByRich):
        out = kind(color=False, width=width)
        out.grid(rows)
        out.labels(rows)
        out.items([text for _, text in rows])
        printed.append(out.lines())

    assert printed[0] == printed[1]


def test_a_word_that_is_too_long_begins_a_line_and_is_cut() -> None:
    assert wrapped("see " + "x" * 12 + " here", 5) == ["see", "xxxxx", "xxxxx", "xx", "here"]


def test_wide_characters_take_two_columns_and_colours_none() -> None:
    assert columns_of("算子") == 4
    assert columns_of("\x1b[1mop\x1b[0m") == 2


def test_plain_text_is_printed_without_rich() -> None:
    code = (
        "import sys; from probe_flow.reports.terminal.printing import Printer\n"
        "out = Printer(color=False, width=80); out.line('a b'); out.labels([('tensor', 'x')]); out.unbroken('y')\n"
        "print(out.lines(), [name for name in sys.modules if name.startswith('rich')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "['a b', '  tensor     x', 'y'] []\n"
