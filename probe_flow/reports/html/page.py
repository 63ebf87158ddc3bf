"""The HTML report: one file that opens from disk without a network, for people who look for the wrong operator."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import pydantic_core

from probe_flow.files.atomic import atomic_text
from probe_flow.record.facts import figure, printable
from probe_flow.record.json_values import json_value
from probe_flow.record.rows import reason_of
from probe_flow.records import ComparedPair, Comparison
from probe_flow.reports.html.assets import Assets, assets
from probe_flow.reports.html.payload import payload
from probe_flow.reports.marks import LOOKS, Mark, RowMarks

PLAIN_CHARACTERS = 256 * 1024
"""Data up to this size stands in the report as readable JSON, larger data compressed (DEFLATE, base64)."""

COMPRESSION = 2
"""Level 4 takes 1.6 times as long for 5 % less, level 6 four times for 12 %."""

ROWS_WITHOUT_SCRIPTS = 20
"""Rows listed for browsers that run no scripts."""

_WRONG = frozenset({Mark.ORIGIN, Mark.DRIFT, Mark.INHERITED, Mark.OVER})


def write_html(comparison: Comparison, path: Path, *, run: Mapping[str, Any]) -> None:
    """Write the report as one file, whole or not at all.

    Args:
        comparison: what is reported.
        path: where the file shall be.
        run: facts of run.json so far: ``run_id``, ``workflow``, ``params``, ``versions``, ``timings``, ``executor``,
            ``stages``; what is absent is not shown.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    text = render_html(comparison, run=run)
    with atomic_text(path) as file:
        file.write(text)


def render_html(comparison: Comparison, *, run: Mapping[str, Any]) -> str:
    """Return the report as text.

    The page makes no request and runs no script but its own: its Content-Security-Policy names their digests. Texts
    from dumps go into the page as JSON data and reach the screen as text only.
    """
    data = payload(comparison, run=run)
    parts = assets()
    workflow = run.get("workflow")
    name = printable(workflow.get("name") or "") if isinstance(workflow, Mapping) else ""
    return Template(parts.template).substitute(
        policy=escape(parts.policy),
        title=escape(f"{data['summary']['word']}: {name or 'comparison'} - probe_flow"),
        early_scripts=_tags("script", parts.early_scripts),
        styles=_tags("style", parts.styles),
        without_scripts=_without_scripts(comparison, data["summary"]),
        data=_data_block(data),
        licences=_licences(parts),
        scripts=_tags("script", parts.scripts),
    )


def _tags(name: str, texts: Iterable[str]) -> str:
    return "\n".join(f"<{name}>{text}</{name}>" for text in texts)


def _data_block(data: Mapping[str, Any]) -> str:
    r"""Return the data as a block that no text in it can end: ``<`` is ``\u003c`` inside JSON."""
    raw = _json(data)
    if len(raw) <= PLAIN_CHARACTERS:
        plain = raw.decode("utf-8").replace("<", "\\u003c")
        return f'<script type="application/json" id="data">{plain}</script>'
    packed = base64.b64encode(zlib.compress(raw, level=COMPRESSION)).decode("ascii")
    return f'<script type="text/plain" id="data">{packed}</script>'


def _json(data: Mapping[str, Any]) -> bytes:
    try:
        return pydantic_core.to_json(data, fallback=json_value)
    except pydantic_core.PydanticSerializationError:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=json_value)
        # Lone surrogates (file names that are not UTF-8) have no place in UTF-8; JSON has an escape for them.
        return text.encode("utf-8", errors="backslashreplace")


def _licences(parts: Assets) -> str:
    return "\n".join(f"<h3>{escape(library)}</h3>\n<pre>{escape(text)}</pre>" for library, text in parts.licences)


def _without_scripts(comparison: Comparison, summary: Mapping[str, Any]) -> str:
    """Return the summary for browsers that run no scripts: verdict, origin, coverage, the first failing rows."""
    lines = [
        f"<p>{_safe(summary['dumps'])}</p>",
        f"<h1>{_safe(summary['word'])}</h1>",
        f"<p><strong>{_safe(summary['conclusion'])}</strong></p>",
    ]
    lines += [f"<p>{_safe(text)}</p>" for text in summary["incomplete"]]
    for finding in (found for found in summary["findings"] if not found.get("repeats")):
        place = ", ".join(finding[key] for key in ("operator", "slot", "where") if finding[key])
        also = f"; also in {finding['also']}" if finding["also"] else ""
        lines.append(f"<p>{_safe(finding['kind'])}: {_safe(place)}: {_safe(finding['evidence'] + also)}</p>")
    lines += [
        f"<p>{side}: {found['compared']} of {found['tensors']} tensors compared, {found['expected']} not, as "
        f"expected, {found['outside']} not asked for, {found['missing']} missing</p>"
        for side, found in summary["coverage"].items()
    ]
    counts = ", ".join(f"{role['count']} {LOOKS[Mark(role['name'])].word}" for role in summary["roles"])
    lines.append(f"<p>Tensors: {_safe(counts or 'none')}</p>")
    marks = RowMarks.of(comparison)
    wrong = [(row, mark) for row in comparison.rows if (mark := marks.of_row(row)) in _WRONG]
    if wrong:
        lines += ["<h2>Where the error begins, and the first that carry it on</h2>", *_table(wrong)]
    lines.append("<p>All rows, the plot and the search need JavaScript.</p>")
    return "\n".join(lines)


def _table(wrong: Sequence[tuple[ComparedPair, Mark]]) -> list[str]:
    """Return a table of the first rows by importance, in execution order."""
    ranked = sorted(wrong, key=lambda found: -found[1].rank)  # a stable sort keeps the order of execution
    shown = sorted(ranked[:ROWS_WITHOUT_SCRIPTS], key=lambda found: found[0].order)
    head = "".join(f"<th>{name}</th>" for name in ("tensor", "role", "relative error", "row rule", "why"))
    return ["<table>", f"<tr>{head}</tr>", *(_table_row(row, mark) for row, mark in shown), "</table>"]


def _table_row(row: ComparedPair, mark: Mark) -> str:
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
    return escape(printable(text))
