"""What every command prints diagnostics with: text with source lines on stderr, or one JSON object a line."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping

import click

from probe_flow.errors import Diagnostic
from probe_flow.errors.diagnostics import NO_SOURCES


def wants_color(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether to colour: on a terminal, unless ``NO_COLOR`` is set to anything."""
    return is_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def show(diagnostics: Iterable[Diagnostic], *, sources: Mapping[str, str] = NO_SOURCES) -> None:
    """Print diagnostics to stderr for a person.

    Args:
        diagnostics: what to print.
        sources: texts of the files that spans name; others are read from the disk.
    """
    problems = tuple(diagnostics)
    if not problems:
        return
    from probe_flow.api.problems import problems_text

    is_terminal = sys.stderr.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    color = wants_color(os.environ, is_terminal=is_terminal)
    text = problems_text(problems, sources=sources, color=color, width=width)
    click.echo(text, err=True, color=color)


def show_json(diagnostics: Iterable[Diagnostic]) -> None:
    """Print diagnostics to stdout for a program: one JSON object a line."""
    for diagnostic in diagnostics:
        click.echo(json.dumps(diagnostic.to_dict(), ensure_ascii=False))
