"""Say in plain words what a YAML scanner or parser complained about."""

from __future__ import annotations

import re
from typing import Any

import yaml

from probe_flow.errors import Diagnostic, Span
from probe_flow.errors.diagnostics import split_lines

# Printable characters as YAML defines them; the scanner reports others without a line.
_NON_PRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_INDENT = "sibling keys start in the same column; list items start with `- `"

# Part of the scanner's complaint -> (message, label, help).
_WORDS: tuple[tuple[str, tuple[str, str, str | None]], ...] = (
    (
        "tab character",
        ("a tab is used for indentation", "this is a tab", "indent with spaces"),
    ),
    (
        "mapping values are not allowed",
        (
            "`:` is not expected here",
            "unexpected `:`",
            f"quote a text that contains `: `, or check the indentation: {_INDENT}",
        ),
    ),
    ("expected ',' or ']'", ("a list that starts with `[` is not closed", "expected `,` or `]`", None)),
    ("expected ',' or '}'", ("a mapping that starts with `{` is not closed", "expected `,` or `}`", None)),
    ("unexpected end of stream", ("a quoted text is not closed", "the file ends here", None)),
    ("could not find expected ':'", ("a key has no `:` after it", "expected `:` after this", _INDENT)),
    ("expected key", ("this does not belong to the mapping around it", "expected a key", _INDENT)),
    ("expected '-' indicator", ("this does not belong to the list around it", "expected `- `", _INDENT)),
    ("expected node content", ("a value is expected here", "expected a value", None)),
    (
        "unknown escape character",
        (
            "a text in double quotes has an unknown escape",
            "unknown escape",
            "use single quotes, or write `\\\\` for a backslash",
        ),
    ),
)


def find_control_character(text: str, file: str) -> Diagnostic | None:
    """Return a diagnostic for the first character that YAML does not allow."""
    match = _NON_PRINTABLE.search(text)
    if match is None:
        return None
    line = text.count("\n", 0, match.start()) + 1
    column = match.start() - (text.rfind("\n", 0, match.start()) + 1) + 1
    return Diagnostic(
        "PF1001",
        f"YAML syntax: the character U+{ord(match[0]):04X} is not allowed",
        span=Span(file, line, column, line, column + 1),
        label="not a printable character",
        help="remove it, or write it as an escape in double quotes",
    )


def explain_yaml_error(error: yaml.YAMLError, text: str, file: str) -> Diagnostic:
    """Return the diagnostic of a scanner's or parser's complaint: PF1010 for tabs, else PF1001."""
    problem: str = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    if "could not find expected ':'" in problem:
        mark = getattr(error, "context_mark", None) or mark
    span = _inside(_span(mark, file), text) if mark else Span(file)
    related = _opened(error, file)
    char = text[mark.index] if mark and mark.index < len(text) else ""
    if char == "\t":
        problem = "tab character"
    elif "cannot start any token" in problem:
        return Diagnostic(
            "PF1001",
            f"YAML syntax: a text cannot start with `{char}`",
            span=span,
            label="reserved character",
            help="quote the text",
        )
    if mark and text[max(mark.index - 1, 0) : mark.index + 1] == "${":
        return Diagnostic(
            "PF1001",
            "YAML syntax: a text with `${...}` is not quoted",
            span=span,
            label="this starts a mapping",
            help='inside `{...}` and `[...]` write it in quotes: `"${...}"`',
        )
    for part, (message, label, cure) in _WORDS:
        if part in problem:
            code = "PF1010" if part == "tab character" else "PF1001"
            return Diagnostic(code, f"YAML syntax: {message}", span=span, label=label, help=cure, related=related)
    return Diagnostic("PF1001", f"YAML syntax: {problem}", span=span, related=related)


def _span(mark: Any, file: str) -> Span:
    return Span(file, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)


def _inside(span: Span, text: str) -> Span:
    """Return the end of the last line for a place behind it, where nothing can be shown."""
    lines = split_lines(text.rstrip())
    if span.line <= len(lines):
        return span
    column = len(lines[-1]) + 1
    return Span(span.file, len(lines), column, len(lines), column + 1)


def _opened(error: yaml.YAMLError, file: str) -> tuple[tuple[Span, str], ...]:
    """Return where the unclosed bracket or quote stands."""
    context = getattr(error, "context", None) or ""
    mark = getattr(error, "context_mark", None)
    if mark is None or not ("flow" in context or "quoted" in context):
        return ()
    return ((_span(mark, file), "opened here"),)
