"""A short summary as GitHub-flavoured Markdown, for the summary of a CI job and for comments on merge requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from probe_flow.files.atomic import atomic_text
from probe_flow.record.conclusion import concluded, dumps_line, last_line, verdict_word
from probe_flow.record.excuses import excuses_text
from probe_flow.record.facts import advice_texts, counts_text, covered_columns, gaps, largest_errors
from probe_flow.record.places import PlacedTensor, figure, in_dump, operator, readable, slot, where
from probe_flow.record.same_places import elsewhere, suspected
from probe_flow.record.types.conclusions import ComparisonRecord, FindingRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, FindingKind
from probe_flow.reports.phrases import FIGURES_FIRST

MAX_WORST = 10
MAX_SUSPECTS = 5
MAX_GAPS = 5
MAX_CAUSES = 10
MAX_FIGURES = 4

_SIGNS = {"PASS": "\u2705", "FAIL": "\u274c"}
_UNFINISHED_SIGN = "\u26a0\ufe0f"
_SHOWN_ABOVE = frozenset(
    {
        FindingKind.ORIGIN,
        FindingKind.CHECKSUM_ORIGIN,
        FindingKind.NONFINITE_ORIGIN,
        FindingKind.FAILURE,
        FindingKind.SUSPECT,
    }
)
_SPECIAL = re.compile(r"[\\`*_\[\]#|~$]|^[-+=]|(?<=^\d)[.)]")
_ENTITIES = re.compile(r"[&<>@]|(?<=www)\.|:(?=//)", re.IGNORECASE)
_BACKTICKS = re.compile("`+")


def write_markdown(comparison: Comparison, path: Path, *, run: RunRecord, files: Sequence[str] = ()) -> None:
    """Write the summary.

    Args:
        comparison: what is reported.
        path: the file; it appears whole or not at all.
        run: the record of the run so far.
        files: names of result files to list.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        file.write(markdown_text(comparison, run=run, files=files))


def markdown_text(comparison: Comparison, *, run: RunRecord, files: Sequence[str] = ()) -> str:
    """Return the summary: verdict, origin with evidence, coverage, the worst rows, files.

    Names come from dumps: they stand in code spans, and texts around them are escaped, so that nothing in them is
    markup, a link, or a mention of a user.
    """
    record = concluded(comparison, run)
    sections = (
        _head(record, comparison),
        _incomplete(record),
        _origin("First wrong tensor", record.first, record),
        _origin("Where NaN or infinity begins", record.nonfinite, record),
        _advice(record),
        _suspects(record),
        _other_findings(record),
        *_excuses(record.comparisons[""]),
        _coverage(record, comparison),
        _worst(comparison),
        _files(files),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def code(text: object) -> str:
    """Return text as a code span that also stands in a table, empty for empty text."""
    # A vertical bar ends a cell even inside a code span, unless it is escaped.
    shown = readable(text).replace("|", "\\|")
    if not shown:
        return ""
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def plain(text: object) -> str:
    """Return text that Markdown shows as it is, on one line: no markup, no HTML, no mention of a user."""
    shown = _SPECIAL.sub(lambda match: "\\" + match[0], readable(text))
    return _ENTITIES.sub(lambda match: f"&#{ord(match[0])};", shown)


def _head(record: RunRecord, comparison: Comparison) -> Iterator[str]:
    word = verdict_word(record)
    name = record.workflow.name
    yield plain(dumps_line(record))
    yield ""
    yield f"## {_SIGNS.get(word, _UNFINISHED_SIGN)} {word}" + (f": {plain(name)}" if name else "")
    yield ""
    yield f"**{plain(last_line(record))}**"
    yield ""
    rows = counts_text(record.counts)
    yield f"Gate {code(comparison.gate)}; by the row rule of policy {code(comparison.policy)}: {rows}"


def _incomplete(record: RunRecord) -> Iterator[str]:
    causes = record.incomplete
    if causes:
        yield "### Why it is incomplete"
        yield ""
        yield from (f"- {plain(cause)}" for cause in causes[:MAX_CAUSES])
        if len(causes) > MAX_CAUSES:
            yield f"- and {len(causes) - MAX_CAUSES} more, in `run.json`"


def _origin(title: str, place: FindingRecord | None, record: RunRecord) -> Iterator[str]:
    if place is None:
        return
    metrics = place.metrics
    names = dict.fromkeys((*(name for name in FIGURES_FIRST if name in metrics), *metrics))
    figures = ", ".join(f"{code(name)} {figure(metrics[name])}" for name in list(names)[:MAX_FIGURES])
    rows = (
        ("operator", code(operator(place))),
        ("in the dump", code(in_dump(place))),
        ("tensor", plain(slot(place))),
        ("where", plain(where(place))),
        ("also in", plain(elsewhere(suspected(record), place))),
        ("golden", code(place.golden_node or "")),
        ("called at", code(place.source or "")),
        ("evidence", plain(place.evidence)),
        ("figures", figures),
    )
    yield f"### {title}"
    yield ""
    yield from _table(("", ""), [row for row in rows if row[1]])


def _advice(record: RunRecord) -> Iterator[str]:
    texts = advice_texts(record)
    if texts:
        yield "### What to do"
        yield ""
        yield from (f"- {plain(text)}" for text in texts)


def _suspects(record: RunRecord) -> Iterator[str]:
    first = record.first
    others = [found for found in suspected(record) if first is None or not found.is_at(first)]
    if others:
        yield "### What fails" if first is None and record.failure is not None else "### Other suspects"
        yield ""
        for found in others[:MAX_SUSPECTS]:
            place = found.first
            also = f"; also in {found.elsewhere}" if found.others else ""
            yield f"- {_named(place)}: {plain(place.evidence + also)}"
        if len(others) > MAX_SUSPECTS:
            yield f"- and {len(others) - MAX_SUSPECTS} more, in `run.json`"


def _other_findings(record: RunRecord) -> Iterator[str]:
    texts = [finding.evidence for finding in record.findings if finding.kind not in _SHOWN_ABOVE]
    if texts:
        yield "### Also found"
        yield ""
        yield from (f"- {plain(text)}" for text in texts[:MAX_SUSPECTS])


def _excuses(summary: ComparisonRecord) -> Iterator[list[str]]:
    for title, texts in zip(("Waivers", "Baseline"), excuses_text(summary), strict=True):
        if texts:
            yield [f"### {title}", "", *(f"- {plain(text)}" for text in texts)]


def _coverage(record: RunRecord, comparison: Comparison) -> Iterator[str]:
    yield f"### How much was {record.done}"
    yield ""
    columns = covered_columns(record.coverage, record.done)
    rows = [(side, *(str(getattr(found, column)) for column in columns)) for side, found in record.coverage.items()]
    yield from _table(("side", *columns.values()), rows, numbers=len(columns))
    found_gaps = gaps([comparison], limit=MAX_GAPS)
    if found_gaps:
        yield ""
    for gap in found_gaps:
        yield f"- {gap.count} {gap.kind} ({gap.side}), e.g. {plain(gap.example)}"


def _worst(comparison: Comparison) -> Iterator[str]:
    largest = largest_errors([comparison], limit=MAX_WORST)
    if not largest:
        return
    yield "### Largest errors, relative to the golden tensor"
    yield ""
    rows = []
    for distance, row, place in largest:
        verdict = row.verdict.status.value.replace("_", " ")
        rows.append((_named(place), plain(where(place)), verdict, row.verdict.role.value, f"{distance:.3g}"))
    yield from _table(("tensor", "where", "verdict", "role", "error"), rows, numbers=1)


def _named(place: PlacedTensor) -> str:
    """Return operator and tensor, with the name of the operator's entry in the dump where that is another."""
    entry = in_dump(place)
    return f"{code(operator(place))} {plain(slot(place))}" + (f", in the dump {code(entry)}" if entry else "")


def _files(files: Sequence[str]) -> Iterator[str]:
    if files:
        yield "### Files"
        yield ""
        yield from (f"- {code(file)}" for file in files)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0) -> Iterator[str]:
    """Yield a table whose last ``numbers`` columns are right-aligned."""
    yield f"| {' | '.join(header)} |"
    rules = ["---"] * (len(header) - numbers) + ["--:"] * numbers
    yield f"|{'|'.join(rules)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
