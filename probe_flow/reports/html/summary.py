"""The first screen of the HTML report: the verdict, where it begins, how much was compared, what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from probe_flow.errors import Diagnostic
from probe_flow.record.conclusion import (
    caveats,
    concluded,
    dumps_line,
    error_reasons,
    headline,
    last_line,
    verdict_word,
)
from probe_flow.record.excuses import excuses_text
from probe_flow.record.facts import advice_texts, gaps, inherited
from probe_flow.record.places import in_dump, operator, printable, readable, slot, where
from probe_flow.record.run_json import plain
from probe_flow.record.same_places import SamePlace, same_places
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, Flow
from probe_flow.reports.marks import LOOKS
from probe_flow.reports.phrases import count_missing, note_on_failing_rows

MAX_GAPS = 12
MAX_FINDINGS = 50
MAX_EXCUSES = 12


def summary(
    comparison: Comparison,
    ranks: bytes,
    places: Mapping[int, int],
    errors: Sequence[Diagnostic],
    run: RunRecord,
) -> dict[str, Any]:
    """Return what stands above the rows.

    Args:
        comparison: what is reported.
        ranks: the rank of the mark of each of its rows.
        places: `Row.order` -> place of the row in the report, for the rows that findings name.
        errors: problems that make the run incomplete, whatever the comparison says.
        run: the record of the run so far.
    """
    incomplete = _incomplete(comparison, errors)
    # What the terminal summary knows of a run, from this comparison alone: the run itself has not ended yet.
    facts = concluded(replace(comparison, incomplete=tuple(incomplete)), run)
    word, conclusions = verdict_word(facts), plain(facts.comparisons[""])
    passing_on = inherited([comparison])
    groups = same_places(facts.findings)
    shown = {
        "dumps": dumps_line(facts),
        "done": facts.done,
        "in_order": comparison.pairs.target.flow is not Flow.NONE,
        "verdict": facts.verdict,
        "word": word,
        "headline": headline(facts, word),
        "conclusion": last_line(facts),
        "caveats": caveats(facts),
        "note": ". ".join(filter(None, (note_on_failing_rows(facts, passing_on), *_excuses(facts)))),
        "incomplete": incomplete,
        "counts": conclusions["counts"],
        "roles": _roles(comparison, ranks),
        "coverage": conclusions["coverage"],
        "gaps": [
            {"count": gap.count, "side": gap.side, "kind": gap.kind, "example": gap.example}
            for gap in gaps([comparison], limit=MAX_GAPS)
        ],
        "findings": _findings(groups, places, facts),
        "more_findings": max(0, len(groups) - MAX_FINDINGS),
        "gate": conclusions["gate"],
        "next": _next_step(facts),
        "advice": advice_texts(facts) if facts.verdict == "fail" else [],
    }
    names = _cut_names([found.first for found in groups[:MAX_FINDINGS]])
    return {field: _with_whole_names(value, names) for field, value in shown.items()} if names else shown


def _cut_names(findings: Sequence[FindingRecord]) -> dict[str, str]:
    """Return what sentences make of very long names of findings -> the names; the page shows their two ends."""
    names = {name for each in findings for name in (each.node, each.name, each.golden_node) if name is not None}
    forms = [form for name in sorted(names) for form in (f"`{name}`", name)]
    return {readable(form): printable(form) for form in forms if readable(form) != printable(form)}


def _with_whole_names(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for cut, whole in names.items():
            value = value.replace(cut, whole)
        return value
    if isinstance(value, dict):
        return {key: _with_whole_names(each, names) for key, each in value.items()}
    return [_with_whole_names(each, names) for each in value] if isinstance(value, list) else value


def _roles(comparison: Comparison, ranks: bytes) -> list[dict[str, Any]]:
    """Return how many rows have which mark, those that matter most first.

    ``excused`` counts those of them that a waiver or the baseline takes out of the gate.
    """
    found = zip(comparison.rows, ranks, strict=True)
    excused = Counter(rank for row, rank in found if row.verdict.excuse is not None)
    counts = ((mark, ranks.count(mark.rank)) for mark in LOOKS)
    return [{"name": mark.value, "count": count, "excused": excused[mark.rank]} for mark, count in counts if count]


def _excuses(facts: RunRecord) -> list[str]:
    """Return what became of waivers and baseline, one sentence each."""
    named = zip(("waiver", "baseline"), excuses_text(facts), strict=True)
    texts = [f"{name}: {text}" for name, found in named for text in found]
    more = [f"and {len(texts) - MAX_EXCUSES} more, in run.json"] if len(texts) > MAX_EXCUSES else []
    return texts[:MAX_EXCUSES] + more


def _incomplete(comparison: Comparison, errors: Sequence[Diagnostic]) -> list[str]:
    """Return why the run is incomplete: what the comparison says, and errors that it does not tell of."""
    told = tuple(comparison.incomplete)
    untold = [(error.code, error.message) for error in errors]
    return [*told, *error_reasons(each for each in untold if not any(each[0] in reason for reason in told))]


def _findings(groups: Sequence[SamePlace], places: Mapping[int, int], run: RunRecord) -> list[dict[str, Any]]:
    """Return a conclusion for each tensor, then as many of the same in other executions as there is room for."""
    heads = [_finding(found.first, places, run) | {"also": found.elsewhere} for found in groups[:MAX_FINDINGS]]
    repeats = (other for found in groups for other in found.others)
    room = MAX_FINDINGS - len(heads)
    return heads + [_finding(other, places, run) | {"repeats": True} for other in islice(repeats, room)]


def _finding(finding: FindingRecord, places: Mapping[int, int], run: RunRecord) -> dict[str, Any]:
    """Return one conclusion, with the row that shows it where there is one."""
    is_placed = finding.node is not None
    return {
        "kind": finding.kind.value,
        "fails": finding.fails,
        "operator": operator(finding) if is_placed else None,
        "entry": in_dump(finding),
        "slot": slot(finding),
        "where": where(finding) if is_placed else "",
        "golden": None if finding.golden_node is None else readable(finding.golden_node),
        "evidence": finding.evidence,
        "severity": finding.severity,
        "row": places.get(finding.row) if finding.row is not None else None,
        "metrics": finding.metrics,
        "advice": [readable(f"{step.text} ({step.code})") for step in run.steps_for(finding)],
    }


def _next_step(run: RunRecord) -> str:
    first = run.first or run.nonfinite
    if run.verdict is None:
        return "Look through the graph. Compare the dump, or look for overflows in it, to see its values here too."
    if run.verdict in ("incomplete", "stopped"):
        return "Remove the causes listed here, then run the same workflow again."
    if run.verdict == "pass" and (count := count_missing(run)):
        return f"See why {count} tensor{'' if count == 1 else 's'} had no counterpart; what was {run.done} is right."
    if run.verdict == "pass":
        return "Nothing has to be done. A click on the heading of the errors shows the largest ones."
    if first is not None:
        return f"Look at the inputs and outputs of {operator(first)}."
    return "Go through the failing rows: press n for the next one."
