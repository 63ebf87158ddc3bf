"""The HTML report: one file that opens from disk without a network, for people who look for the wrong operator."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from string import Template

from probe_flow.files.atomic import atomic_bytes
from probe_flow.record.places import figure, printable
from probe_flow.record.rows import reason_of
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, Row
from probe_flow.reports.html.assets import Assets, assets
from probe_flow.reports.html.nodes import AskFigures, CallFigures
from probe_flow.reports.html.packing import Piece, deflated, plain, size_of
from probe_flow.reports.html.payload import Payload
from probe_flow.reports.marks import LOOKS, Mark

PLAIN_CHARACTERS = 256 * 1024
"""Data up to this size stands in the report as readable JSON, larger data compressed (DEFLATE, base64)."""

ROWS_WITHOUT_SCRIPTS = 20
"""Rows listed for browsers that run no scripts."""

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})

_WRONG = frozenset({Mark.ORIGIN, Mark.DRIFT, Mark.INHERITED, Mark.OVER})


def write_html(comparison: Comparison, path: Path, *, run: RunRecord, figures: AskFigures = CallFigures) -> None:
    """Write the report as one file, whole or not at all.

    Args:
        comparison: what is reported.
        path: where the file shall be.
        run: the record of the run so far.
        figures: gives what graphs say of calls, for the graph of the page.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_bytes(path) as file:
        file.writelines(html_pieces(comparison, run=run, figures=figures))


def html_pieces(comparison: Comparison, *, run: RunRecord, figures: AskFigures = CallFigures) -> Iterator[bytes]:
    """Yield the report, in UTF-8.

    The page makes no request and runs no script but its own: its Content-Security-Policy names their digests. Texts
    from dumps go into the page as JSON data and reach the screen as text only.
    """
    data = Payload(comparison, run=run, figures=figures)
    parts = assets()
    name = printable(run.workflow.name)
    before, _, after = parts.template.partition("$data")
    head = Template(before).substitute(
        policy=_escaped(parts.policy),
        title=_escaped(f"{data.summary['word']}: {name or 'comparison'} - probe_flow"),
        early_scripts=_tags("script", parts.early_scripts),
        styles=_tags("style", parts.styles),
        without_scripts=_without_scripts(comparison, data),
        licences=_licences(parts),
    )
    yield head.encode("utf-8", errors="backslashreplace")
    yield from data_block(data.pieces())
    yield Template(after).substitute(scripts=_tags("script", parts.scripts)).encode()


def _tags(name: str, texts: Iterable[str]) -> str:
    return "\n".join(f"<{name}>{text}</{name}>" for text in texts)


def data_block(pieces: Iterator[Piece]) -> Iterator[bytes]:
    r"""Yield the data as a block that no text in it can end: ``<`` is ``\u003c`` inside JSON."""
    first: list[Piece] = []
    size = 0
    for piece in pieces:
        first.append(piece)
        size += size_of(piece)
        if size > PLAIN_CHARACTERS:
            yield b'<script type="text/plain" id="data">'
            yield from _base64(deflated(chain(first, pieces)))
            yield b"</script>"
            return
    yield b'<script type="application/json" id="data">'
    yield b"".join(plain(first)).replace(b"<", b"\\u003c")
    yield b"</script>"


def _base64(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        rest += piece
        whole = len(rest) - len(rest) % 3  # 3 bytes are 4 characters
        yield base64.b64encode(rest[:whole])
        rest = rest[whole:]
    yield base64.b64encode(rest)


def _licences(parts: Assets) -> str:
    return "\n".join(f"<h3>{_escaped(library)}</h3>\n<pre>{_escaped(text)}</pre>" for library, text in parts.licences)


def _without_scripts(comparison: Comparison, data: Payload) -> str:
    """Return the summary for browsers that run no scripts: verdict, origin, coverage, the first failing rows."""
    summary = data.summary
    lines = [
        f"<p>{_safe(summary['dumps'])}</p>",
        f"<h1>{_safe(summary['word'])}</h1>",
        f"<p><strong>{_safe(summary['conclusion'])}</strong></p>",
    ]
    lines += [f"<p>{_safe(text)}</p>" for text in summary["incomplete"]]
    for finding in (found for found in summary["findings"] if not found.get("repeats")):
        place = ", ".join(finding[key] for key in ("operator", "slot", "where") if finding[key])
        place += f", in the dump {finding['entry']}" if finding["entry"] else ""
        also = f"; also in {finding['also']}" if finding["also"] else ""
        lines.append(f"<p>{_safe(finding['kind'])}: {_safe(place)}: {_safe(finding['evidence'] + also)}</p>")
    lines += [
        f"<p>{side}: {found['compared']} of {found['tensors']} tensors {summary['done']}, {found['expected']} not, as "
        f"expected, {found['outside']} not asked for, {found['missing']} missing</p>"
        for side, found in summary["coverage"].items()
    ]
    counts = ", ".join(f"{role['count']} {LOOKS[Mark(role['name'])].word}" for role in summary["roles"])
    lines.append(f"<p>Tensors: {_safe(counts or 'none')}</p>")
    if wrong := list(islice(_by_importance(data.ranks), ROWS_WITHOUT_SCRIPTS)):
        lines.append("<h2>Where the error begins, and the first that carry it on</h2>")
        lines += _table([(comparison.rows[place], mark) for place, mark in wrong])
    lines.append("<p>All rows, the plot and the search need JavaScript.</p>")
    return "\n".join(lines)


def _by_importance(ranks: bytes) -> Iterator[tuple[int, Mark]]:
    """Yield the places of wrong rows with their marks, the most important marks first, each in execution order."""
    for mark in sorted(_WRONG, key=lambda mark: -mark.rank):
        place = ranks.find(mark.rank)
        while place >= 0:
            yield place, mark
            place = ranks.find(mark.rank, place + 1)


def _table(wrong: Sequence[tuple[Row, Mark]]) -> list[str]:
    """Return a table of rows, in execution order."""
    shown = sorted(wrong, key=lambda found: found[0].order)
    head = "".join(f"<th>{name}</th>" for name in ("tensor", "role", "relative error", "row rule", "why"))
    return ["<table>", f"<tr>{head}</tr>", *(_table_row(row, mark) for row, mark in shown), "</table>"]


def _table_row(row: Row, mark: Mark) -> str:
    metrics = row.measurement.metrics if row.measurement is not None else {}
    distance = metrics.get("relative_euclidean_distance")
    cells = (
        row.pair.shown.id,
        f"{LOOKS[mark].sign} {LOOKS[mark].word}",
        "" if distance is None else figure(distance),
        row.verdict.status.value.replace("_", " "),
        reason_of(row) or "",
    )
    return "<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in cells) + "</tr>"


def _safe(text: object) -> str:
    return _escaped(printable(text))


def _escaped(text: str) -> str:
    """Return what `html.escape` does, whose import lists the names of 2,000 characters."""
    return text.translate(_ESCAPES)
