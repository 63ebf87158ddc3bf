"""The difference of two runs as one HTML file that needs no script and makes no request."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from probe_flow.files.atomic import atomic_text
from probe_flow.record.places import printable
from probe_flow.reports.html.assets import asset_text
from probe_flow.runs.diff.differences import RunDiff
from probe_flow.runs.diff.inputs import input_lines
from probe_flow.runs.diff.rows import MEANINGS, Kind, RowChange
from probe_flow.runs.diff.text import (
    answer_word,
    counts_line,
    finding_lines,
    headline,
    outcome,
    run_text,
    table,
)

MAX_ROWS = 5000
"""Rows of one kind; browsers lay out tens of thousands slowly, and the JSON form has all."""

_OPEN = frozenset({Kind.WORSE, Kind.LOST, Kind.VANISHED})


def write_diff_html(found: RunDiff, path: Path, *, names: tuple[str, str]) -> None:
    """Write the page, whole or not at all.

    Args:
        found: the difference.
        path: the file.
        names: of the runs, as the user typed them.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        file.writelines(f"{line}\n" for line in _page(found, names))


def _page(found: RunDiff, names: tuple[str, str]) -> Iterator[str]:
    style = asset_text("diff.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    answer = outcome(found)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">'
    yield f"<title>{_safe(answer_word(found))}: {_safe(names[0])} to {_safe(names[1])} - probe_flow</title>"
    yield f"<style>{style}</style>\n</head>\n<body>\n<main>"
    yield f'<h1><span class="answer {answer}">{_safe(answer_word(found))}</span> {_safe(headline(found))}</h1>'
    yield "<dl>"
    for letter, run, name in zip("AB", (found.a, found.b), names, strict=True):
        yield f"<dt>{letter}</dt><dd>{_safe(run_text(run, name))}</dd>"
    yield f"<dt>tensors</dt><dd>{_safe(counts_line(found))}; tolerance {found.tolerance:g}</dd>\n</dl>"
    for problem in found.problems:
        yield f'<p class="problem">[{problem.code}] {_safe(problem.message)}</p>'
    yield from _list("Dumps that differ", input_lines(found.inputs))
    yield from _list("Findings that fail", finding_lines(found))
    for kind in Kind:
        yield from _rows(kind, [change for change in found.rows if change.kind is kind])
    verdicts = [f"{count}: {old} to {new}" for (old, new), count in sorted(found.verdicts.items())]
    yield from _list("Other verdicts", [text.replace("_", " ") for text in verdicts])
    yield "</main>\n</body>\n</html>"


def _list(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield f"<h2>{_safe(title)}</h2>\n<ul>"
        yield from (f"<li>{_safe(text)}</li>" for text in texts)
        yield "</ul>"


def _rows(kind: Kind, rows: Sequence[RowChange]) -> Iterator[str]:
    if not rows:
        return
    yield f'<details id="{kind.value}"{" open" if kind in _OPEN else ""}>'
    yield f"<summary>{kind.value.capitalize()} ({len(rows)})<small>{_safe(MEANINGS[kind])}</small></summary>"
    header, *lines = table(rows[:MAX_ROWS])
    head = "".join(f'<th scope="col">{_safe(name)}</th>' for name in header)
    yield f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>'
    for change, cells in zip(rows, lines, strict=False):
        mark = ' class="regression"' if change.is_regression else ""
        yield f"<tr{mark}>{''.join(f'<td>{_safe(cell)}</td>' for cell in cells)}</tr>"
    yield "</tbody>\n</table></div>"
    if len(rows) > MAX_ROWS:
        yield f"<p>and {len(rows) - MAX_ROWS} more, in the output of <code>--format json</code></p>"
    yield "</details>"


def _safe(text: object) -> str:
    return escape(printable(text))
