"""What every command prints diagnostics with: text with source lines on stderr, or one JSON object a line."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping

import click

from probe_flow.errors import Diagnostic
from probe_flow.errors.render import NO_SOURCES, render_all
from probe_flow.files.opening import open_bytes

_MAX_SOURCE_BYTES = 1 << 20
_WIDTH_WITHOUT_TERMINAL = 120


def wants_color(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether to colour: on a terminal, unless ``NO_COLOR`` is set to anything."""
    return is_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def can_redraw(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether a line can be drawn anew: on a terminal that is not dumb, with or without colours."""
    return is_terminal and environment.get("TERM") != "dumb"


def show(diagnostics: Iterable[Diagnostic], *, sources: Mapping[str, str] = NO_SOURCES) -> None:
    """Print diagnostics to stderr for a person.

    Args:
        diagnostics: what to print.
        sources: texts of the files that spans name; others are read from the disk.
    """
    problems = tuple(diagnostics)
    if not problems:
        return
    is_terminal = sys.stderr.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else _WIDTH_WITHOUT_TERMINAL
    color = wants_color(os.environ, is_terminal=is_terminal)
    text = render_all(problems, sources={**_texts(problems), **sources}, color=color, width=width)
    click.echo(text, err=True, color=color)


def show_json(diagnostics: Iterable[Diagnostic]) -> None:
    """Print diagnostics to stdout for a program: one JSON object a line."""
    for diagnostic in diagnostics:
        click.echo(json.dumps(diagnostic.to_dict(), ensure_ascii=False))


def _texts(diagnostics: Iterable[Diagnostic]) -> dict[str, str]:
    """Return the texts of files that diagnostics point into, as far as they can be read."""
    files = {diagnostic.span.file for diagnostic in diagnostics if diagnostic.span and diagnostic.span.line}
    texts = {file: _text(file) for file in files}
    return {file: text for file, text in texts.items() if text is not None}


def _text(path: str) -> str | None:
    try:
        with open_bytes(path) as file:
            return file.read(_MAX_SOURCE_BYTES).decode("utf-8", errors="replace")
    except OSError:  # the diagnostic is shown without source lines
        return None
