"""Show a diagnostic to a person: message, place, source lines with a caret, next step."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from probe_flow.errors.diagnostics import NO_SOURCES, Diagnostic, Severity, Span, split_lines

_CONTEXT_LINES = 2
_MIN_GUTTER = 2
_MIN_SNIPPET_CELLS = 40
_CHARACTERS_A_CELL = 4
_TAB = "    "
_ELLIPSIS = "..."
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_GUTTER = "\x1b[1;34m"
_STYLES = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m", Severity.NOTE: "\x1b[1;36m"}

_Paint = Callable[[str, str], str]


def render(
    diagnostic: Diagnostic, *, sources: Mapping[str, str] = NO_SOURCES, color: bool = False, width: int = 120
) -> str:
    """Return the diagnostic as text, without a final line break.

    Args:
        diagnostic: the problem.
        sources: text of every file that spans may name; a file that is not there is shown without source lines.
        color: use ANSI colours.
        width: columns of the terminal; longer source lines are clipped around the caret.
    """
    return _rendered(diagnostic, _Lines(sources), color=color, width=width)


def render_all(
    diagnostics: Iterable[Diagnostic],
    *,
    sources: Mapping[str, str] = NO_SOURCES,
    color: bool = False,
    width: int = 120,
) -> str:
    """Return several diagnostics with an empty line between them, without a final line break."""
    lines = _Lines(sources)
    return "\n\n".join(_rendered(each, lines, color=color, width=width) for each in diagnostics)


class _Lines:
    """The lines of source texts, split once for all places of a text.

    Args:
        sources: the texts by file.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._split: dict[str, list[str]] = {}

    def of(self, file: str) -> list[str]:
        """Return the lines of a file, none where its text is not known."""
        if file not in self._split:
            self._split[file] = split_lines(self._sources[file]) if file in self._sources else []
        return self._split[file]


def _rendered(diagnostic: Diagnostic, sources: _Lines, *, color: bool, width: int) -> str:
    paint: _Paint = _colored if color else _plain
    style = _STYLES[diagnostic.severity]
    spans = [span for span in (diagnostic.span, *(span for span, _ in diagnostic.related)) if span]
    gutter = max(_MIN_GUTTER, *(len(str(span.line)) for span in spans), 0)
    page = _Page(sources, paint, gutter, width)

    head = paint(style, f"{diagnostic.severity.value}[{diagnostic.code}]")
    lines = [head + paint(_BOLD, f": {_clean(diagnostic.message)}")]
    if diagnostic.span:
        lines += page.snippet("-->", diagnostic.span, "^", diagnostic.label, style)
    elif diagnostic.path:
        lines.append(page.arrow("-->", _clean(diagnostic.path)))
    for span, label in diagnostic.related:
        lines += page.snippet(":::", span, "-", label, _GUTTER)
    lines += page.remarks(diagnostic)
    return "\n".join(line.rstrip() for line in lines)


def _plain(_style: str, text: str) -> str:
    return text


def _colored(style: str, text: str) -> str:
    return f"{style}{text}{_RESET}" if text else text


def _clean(text: str) -> str:
    """Keep names from a dump or a file from steering the terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


class _Page(Struct, frozen=True):
    """What all parts of one rendered diagnostic share."""

    sources: _Lines
    paint: _Paint
    gutter: int
    width: int

    def arrow(self, sign: str, place: str) -> str:
        return self.paint(_GUTTER, " " * self.gutter + sign) + f" {place}"

    def bar(self, number: str = "") -> str:
        return self.paint(_GUTTER, f"{number:>{self.gutter}} |")

    def snippet(self, sign: str, span: Span, mark: str, label: str | None, style: str) -> list[str]:
        """Return the place, the source lines before it, and the line itself with marks under it."""
        place = self.arrow(sign, _clean(str(span)))
        source = self.sources.of(span.file)
        if not 0 < span.line <= len(source):
            return [f"{place}: {_clean(label)}"] if label and sign == ":::" else [place]
        lines = [place, self.bar()]
        first = max(1, span.line - _CONTEXT_LINES) if sign == "-->" else span.line
        while first < span.line and not source[first - 1].strip():
            first += 1
        budget = max(_MIN_SNIPPET_CELLS, self.width - self.gutter - 3)
        for number in range(first, span.line):
            text, _, _ = _clip(source[number - 1], 1, 1, budget)
            lines.append(f"{self.bar(str(number))} {text}")
        line = source[span.line - 1]
        end = span.end_column if span.end_line == span.line else len(line) + 1
        text, offset, length = _clip(line, span.column, end, budget)
        lines.append(f"{self.bar(str(span.line))} {text}")
        marks = mark * length + (f" {_clean(label)}" if label else "")
        lines.append(f"{self.bar()} {' ' * offset}{self.paint(style, marks)}")
        return lines

    def remarks(self, diagnostic: Diagnostic) -> list[str]:
        """Return help, notes and what else the diagnostic knows, after an empty gutter line under a snippet."""
        remarks = []
        for word, name in (("stage", diagnostic.stage), ("tensor", diagnostic.tensor)):
            if name and f"`{name}`" not in diagnostic.message:
                remarks.append(self._remark(word, f"`{name}`"))
        if diagnostic.help:
            remarks.append(self._remark("help", diagnostic.help))
        remarks += [self._remark("note", note) for note in diagnostic.notes]
        with_lines = diagnostic.span and diagnostic.span.line and self.sources.of(diagnostic.span.file)
        return [self.bar(), *remarks] if remarks and with_lines else remarks

    def _remark(self, word: str, text: str) -> str:
        lead = " " * (self.gutter + 1)
        indent = "\n" + " " * (len(lead) + len(word) + 4)
        return self.paint(_GUTTER, lead + "=") + f" {self.paint(_BOLD, word)}: {_clean(text).replace(chr(10), indent)}"


def _cells(line: str) -> list[tuple[str, int]]:
    """Return what each character of a line is shown as, and how many terminal cells that takes."""
    cells = []
    for char in line:
        if char == "\t":
            cells.append((_TAB, len(_TAB)))
        elif _CONTROL.match(char):
            cells.append(("\ufffd", 1))
        elif unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
            cells.append((char, 0))
        else:
            cells.append((char, 2 if unicodedata.east_asian_width(char) in "WF" else 1))
    return cells


def _clip(line: str, column: int, end_column: int, budget: int) -> tuple[str, int, int]:
    """Return the part of a line that fits ``budget`` cells around a place, with the offset and length of its marks."""
    start = min(max(column - 1, 0), len(line))
    end = min(max(end_column - 1, start), len(line))
    # What is farther off cannot be shown; characters that take no cell of their own are allowed for.
    skipped = max(0, start - _CHARACTERS_A_CELL * budget)
    cells = _cells(line[skipped : start + _CHARACTERS_A_CELL * budget])
    start, end = start - skipped, min(end - skipped, len(cells))
    first, last = _window([cell_width for _, cell_width in cells], start, end, budget)
    head = _ELLIPSIS if skipped + first else ""
    tail = _ELLIPSIS if skipped + last < len(line) else ""
    text = head + "".join(shown for shown, _ in cells[first:last]) + tail
    offset = len(head) + sum(cell_width for _, cell_width in cells[first:start])
    length = sum(cell_width for _, cell_width in cells[start : min(end, last)])
    return text, offset, max(length, 1)


def _window(widths: list[int], start: int, end: int, budget: int) -> tuple[int, int]:
    """Return the first and last (exclusive) character to show: the place, with a third of the room before it."""
    if sum(widths) <= budget:
        return 0, len(widths)
    room = budget - 2 * len(_ELLIPSIS)
    before = room // 3 if sum(widths[start:end]) <= room // 2 else room // 6
    first = start
    while first > 0 and before >= widths[first - 1]:
        first -= 1
        before -= widths[first]
    last = first
    while last < len(widths) and room >= widths[last]:
        room -= widths[last]
        last += 1
    while first > 0 and room >= widths[first - 1]:
        first -= 1
        room -= widths[first]
    return first, last
