"""run.json: what a run concludes, for programs; this module supplies the part that comes from comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from probe_flow.files.atomic import atomic_text
from probe_flow.record.advice import Advice, advise
from probe_flow.record.excuses import baseline_facts, waiver_facts
from probe_flow.record.json_values import any_json_text, json_number, json_text
from probe_flow.record.rows import source_line
from probe_flow.records import Catalog, ComparedPair, Comparison, Coverage, Finding, FindingKind, Role, Status

DIVERGENCES = frozenset({FindingKind.ORIGIN, FindingKind.CHECKSUM_ORIGIN})
"""Findings that name a place where the two sides part."""

_COVERAGE_FIELDS = (
    "tensors",
    "compared",
    "expected",
    "outside",
    "missing",
    "unreadable",
    "outputs",
    "outputs_compared",
    "outputs_missing",
    "outputs_nonfinite",
    "outputs_zero",
    "outputs_silent",
)


def comparison_summary(comparison: Comparison) -> dict[str, Any]:
    """Return what run.json says of one comparison.

    Keys: ``dumps`` (what both sides are), ``counts`` (every verdict, zeros included), ``roles`` (rows of every role),
    ``coverage`` per side (``missing`` includes ``unreadable``), ``caveats`` (what has to be said beside the verdict),
    ``first_divergence`` (the first failing origin, as the analysis ranks them, or None), ``suspects`` (every origin,
    ranked, then findings of kind ``suspect``), ``nonfinite_origin`` (or None), ``findings`` (all, ranked) and ``gate``
    (its name, its answer, the policy of the rows), ``nodes`` (how many all sides have); ``waivers`` and ``baseline``
    where the comparison has them.
    """
    rows = _rows_of_findings(comparison)
    divergences = [finding for finding in comparison.findings if finding.kind in DIVERGENCES]
    nonfinite = [finding for finding in comparison.findings if finding.kind is FindingKind.NONFINITE_ORIGIN]
    near = [finding for finding in comparison.findings if finding.kind is FindingKind.SUSPECT]
    failing = [finding for finding in divergences if finding.fails]
    counts = Counter(row.verdict.status for row in comparison.rows)
    roles = Counter(row.verdict.role for row in comparison.rows)
    return {
        "dumps": {
            side: _dump(catalog) for side, catalog in zip(("target", "golden"), _sides(comparison), strict=False)
        },
        "counts": {status.value: counts[status] for status in Status},
        "roles": {role.value: roles[role] for role in Role},
        "coverage": {side: _coverage(comparison.coverage.get(side, Coverage())) for side in ("target", "golden")},
        "caveats": list(comparison.caveats),
        "first_divergence": _place(failing[0], comparison, rows) if failing else None,
        "suspects": [_place(finding, comparison, rows) for finding in (*divergences, *near)],
        "nonfinite_origin": _place(nonfinite[0], comparison, rows) if nonfinite else None,
        "findings": [
            _finding(finding, comparison, rows, advice)
            for finding, advice in zip(comparison.findings, advise(comparison.findings, comparison), strict=True)
        ],
        "gate": {"name": comparison.gate, "passed": comparison.gate_passed, "policy": comparison.policy},
        "nodes": sum(len(each.nodes) for each in _sides(comparison)),
        **({"waivers": waiver_facts(comparison.waivers)} if comparison.waivers else {}),
        **({"baseline": baseline_facts(comparison.baseline)} if comparison.baseline is not None else {}),
    }


def _sides(comparison: Comparison) -> list[Catalog]:
    pairs = comparison.pairs
    return [each for each in (pairs.target, pairs.golden, pairs.reference) if each is not None]


def _dump(catalog: Catalog) -> dict[str, Any]:
    return {
        "path": catalog.root,
        "framework": catalog.framework.name,
        "task": catalog.task,
        "tensors": len(catalog.tensors),
        "executions": len(catalog.executions),
    }


LISTS = ("suspects", "findings")
"""Conclusions that may be thousands: they stand once in a record, at its top."""


def run_json_text(record: Mapping[str, Any]) -> str:
    """Return a run record as the text of run.json: strict JSON, keys in the order given, an entry of a list a line."""
    return "".join(_run_json(record))


def write_run_json(record: Mapping[str, Any], path: Path) -> None:
    """Write a run record; NaN and infinities become ``"nan"``, ``"inf"``, ``"-inf"``.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        file.writelines(_run_json(record))


def _run_json(record: Mapping[str, Any]) -> Iterator[str]:
    comparisons = {
        name: {key: value for key, value in summary.items() if key not in LISTS}
        for name, summary in (record.get("comparisons") or {}).items()
    }
    yield from _texts({**record, "comparisons": comparisons} if comparisons else record)
    yield "\n"


def _texts(value: object, margin: str = "\n") -> Iterator[str]:
    """Yield the text of a value in pieces; what is inside of a list goes to the C encoder, which does not indent."""
    inner = margin + "  "
    if isinstance(value, Mapping) and value:
        comma = ""
        for key, item in value.items():
            yield f"{comma or '{'}{inner}{json_text(str(key))}: "
            yield from _texts(item, inner)
            comma = ","
        yield margin + "}"
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield f"{',' if number else '['}{inner}{any_json_text(item)}"
        yield margin + "]"
    else:
        yield any_json_text(value)


def with_lists(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of run.json whose comparisons have their suspects and findings, as the run had them."""
    comparisons = record.get("comparisons") or {}
    for name, summary in comparisons.items():
        for key in LISTS if isinstance(summary, dict) else ():
            if key not in summary:
                entries = record.get(key) or ()
                of_this = [entry for entry in entries if len(comparisons) == 1 or entry.get("comparison") == name]
                summary[key] = [{key: entry[key] for key in entry if key != "comparison"} for entry in of_this]
    return record


def _coverage(coverage: Coverage) -> dict[str, int]:
    return {name: getattr(coverage, name) for name in _COVERAGE_FIELDS}


def _rows_of_findings(comparison: Comparison) -> dict[int, ComparedPair]:
    wanted = {finding.row for finding in comparison.findings if finding.row is not None}
    return {row.order: row for row in comparison.rows if row.order in wanted} if wanted else {}


def _place(finding: Finding, comparison: Comparison, rows: Mapping[int, ComparedPair]) -> dict[str, Any]:
    """Return where a finding points, by the target's names, with the golden node that it was judged by."""
    row = rows.get(finding.row) if finding.row is not None else None
    golden = row.pair.golden if row is not None else None
    key, slot = finding.node, finding.slot
    execution = key.execution if key is not None else None
    node = None
    if key is not None:
        node = comparison.pairs.target.nodes.get(key) or comparison.pairs.golden.nodes.get(key)
    source = source_line(comparison.pairs, key) if key is not None else None
    return {
        "node": key.name if key else None,
        "op_type": node.op_type if node else None,
        "rank": execution.rank if execution else None,
        "graph": execution.graph if execution else None,
        "step": execution.step if execution else None,
        "call": key.call if key else None,
        "phase": key.phase.value if key else None,
        "direction": slot.role.value if slot else None,
        "index": slot.index if slot else None,
        "golden_node": golden.node.name if golden is not None else None,
        "metrics": {name: json_number(value) for name, value in sorted(finding.metrics.items())},
        "evidence": finding.evidence,
        "size": finding.size,
        **({"source": f"{source[0]}:{source[1]}"} if source is not None else {}),
    }


def _finding(
    finding: Finding, comparison: Comparison, rows: Mapping[int, ComparedPair], advice: Sequence[Advice]
) -> dict[str, Any]:
    return {
        "kind": finding.kind.value,
        **_place(finding, comparison, rows),
        "severity": json_number(finding.severity),
        "fails": finding.fails,
        "row": finding.row,
        **({"advice": [{"code": each.code, "text": each.text} for each in advice]} if advice else {}),
        **({finding.excuse.kind.value: finding.excuse.text} if finding.excuse is not None else {}),
    }
