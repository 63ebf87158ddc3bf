"""Diagnostics as text with source lines, for the terminal and for whoever prints an exception."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from probe_flow.errors import Diagnostic, ProbeFlowError, WorkflowError
from probe_flow.errors.diagnostics import NO_SOURCES
from probe_flow.errors.render import render_all
from probe_flow.files.opening import open_bytes

WIDTH = 120
"""Columns of a text that goes to no terminal."""

_MAX_SOURCE_BYTES = 1 << 20


def problems_text(
    diagnostics: Iterable[Diagnostic],
    *,
    sources: Mapping[str, str] = NO_SOURCES,
    color: bool = False,
    width: int | None = None,
) -> str:
    """Return diagnostics as text.

    Args:
        diagnostics: what is wrong.
        sources: texts of the files that spans name; others are read from the disk.
        color: use ANSI colours.
        width: columns of the terminal; None where the text goes to none.
    """
    problems = tuple(diagnostics)
    return render_all(problems, sources={**_texts(problems), **sources}, color=color, width=width or WIDTH)


@contextmanager
def told_whole() -> Iterator[None]:
    """Give an error of ours that leaves the block all of its diagnostics as text, as the command line prints them.

    Inside, the text of an error is one line, which other messages quote.
    """
    try:
        yield
    except ProbeFlowError as error:
        sources = error.sources if isinstance(error, WorkflowError) else NO_SOURCES
        error.args = ("\n" + problems_text(error.diagnostics, sources=sources),)
        raise


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
