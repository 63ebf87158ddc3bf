"""A comparison as JUnit XML, for CI systems that show test results (Jenkins, GitLab, GitHub actions that read it).

The file keeps to what those readers have in common (the schema of the Jenkins xUnit plug-in): ``testsuites`` of
``testsuite`` with ``properties``, ``testcase`` with at most one of ``skipped``, ``error`` and ``failure``, and
``system-out``. One suite is one execution, one test case one node; a last suite holds what concerns the whole run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probe_flow.files.atomic import atomic_text
from probe_flow.record.conclusion import concluded, dumps_line, last_line
from probe_flow.record.facts import figure
from probe_flow.record.rows import RowReader, reason_of
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, Finding, NodeKey, Phase, Role, Row, Status

MAX_ROWS_TOLD = 50
"""Rows of one node that its test case lists; a node may own thousands of tensors."""

RUN_SUITE = "the whole run"

_NOT_XML = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HARMLESS = re.compile(r"[\w .:,#/()+-]*", re.ASCII)
_COMPARED = frozenset({Status.PASS, Status.WARNING, Status.FAIL})


@dataclass(frozen=True, slots=True)
class _Case:
    """One test case; ``outcome`` is ``failure``, ``error``, ``skipped`` or empty."""

    classname: str
    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""
    details: tuple[str, ...] = ()


@dataclass(slots=True)
class _Suite:
    name: str
    cases: list[_Case] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        return sum(case.outcome == outcome for case in self.cases)


def write_junit(comparison: Comparison, path: Path, *, run: RunRecord) -> None:
    """Write the comparison as JUnit XML.

    A node fails when the gate fails on it: with the gate ``findings`` where a finding names it, with ``all_pass`` where
    one of its rows fails. A node of which every failure is waived or accepted in the baseline is skipped, with the
    reason. Other rows that miss a limit are told in the text of a test case that passes. A node with an
    unreadable tensor is an error; one of which nothing was compared is skipped, with the reason. Findings without a
    node and the reasons why a run is incomplete are test cases of the last suite.

    Args:
        comparison: what is reported.
        path: the file; it appears whole or not at all.
        run: the record of the run so far.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    record = concluded(comparison, run)
    suites = [*_suites(comparison), _run_suite(comparison, record)]
    with atomic_text(path) as file:
        file.writelines(line + "\n" for line in _document(suites, record))


def xml_text(value: object) -> str:
    r"""Return text that XML 1.0 can hold: control characters and lone surrogates become ``\x1b`` and the like."""
    return _plain(value).replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;")


def _attribute(value: object) -> str:
    text = str(value)
    if _HARMLESS.fullmatch(text):
        return f'"{text}"'
    text = xml_text(text).replace("\n", "&#10;").replace("\t", "&#9;")
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return '"' + text.replace('"', "&quot;") + '"'


def _plain(value: object) -> str:
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), str(value))


def _suites(comparison: Comparison) -> list[_Suite]:
    """Return a suite per execution, in order of appearance."""
    reader = RowReader(comparison)
    accused = _accused(comparison)
    rows: dict[str, dict[tuple[bool, NodeKey], list[Row]]] = {}
    by_execution: dict[int, dict[tuple[bool, NodeKey], list[Row]]] = {}
    for row in comparison.rows:
        key = row.pair.shown.node
        nodes = by_execution.get(id(key.execution))
        if nodes is None:
            nodes = by_execution[id(key.execution)] = rows.setdefault(str(key.execution), {})
        nodes.setdefault((row.pair.target is None, key), []).append(row)
    return [
        _Suite(
            name, [_case(node_rows, accused.get(key, ()), comparison, reader) for (_, key), node_rows in nodes.items()]
        )
        for name, nodes in rows.items()
    ]


def _accused(comparison: Comparison) -> dict[NodeKey, list[Finding]]:
    """Return the findings that fail the gate, or would if they were not excused, by node."""
    found: dict[NodeKey, list[Finding]] = {}
    if comparison.gate != "all_pass":
        for finding in comparison.findings:
            if (finding.fails or finding.excuse is not None) and finding.node is not None:
                found.setdefault(finding.node, []).append(finding)
    return found


def _case(rows: Sequence[Row], findings: Sequence[Finding], comparison: Comparison, reader: RowReader) -> _Case:
    key = rows[0].pair.shown.node
    is_golden_only = rows[0].pair.target is None
    if not findings and all(row.verdict.status is Status.PASS for row in rows):
        return _Case(reader.op_type(rows[0]) or "unknown", _node_name(key, is_golden_only=is_golden_only))
    details = tuple(_row_line(row) for row in rows if row.verdict.status is not Status.PASS)
    if len(details) > MAX_ROWS_TOLD:
        details = (*details[:MAX_ROWS_TOLD], f"and {len(details) - MAX_ROWS_TOLD} more, in comparison.jsonl")
    case = _Case(reader.op_type(rows[0]) or "unknown", _node_name(key, is_golden_only=is_golden_only), details=details)
    failing = [row for row in rows if row.verdict.status is Status.FAIL]
    unreadable = [row for row in rows if row.verdict.status is Status.ERROR]
    accusing = [finding for finding in findings if finding.fails]
    if accusing and not is_golden_only:
        evidence = [finding.evidence for finding in accusing]
        return _with(case, "failure", accusing[0].kind.value, "; ".join(evidence))
    counting = [row for row in failing if row.verdict.excuse is None]
    if comparison.gate == "all_pass" and counting:
        return _with(case, "failure", "fail", _row_line(counting[0]))
    if unreadable:
        return _with(case, "error", "unreadable", _row_line(unreadable[0]))
    given = (*(finding.excuse for finding in findings), *(row.verdict.excuse for row in failing))
    excuses = [excuse.text for excuse in given if excuse is not None]
    if excuses:
        return _with(case, "skipped", "", "; ".join(dict.fromkeys(excuses)))
    if not any(row.verdict.status in _COMPARED for row in rows):
        return _with(case, "skipped", "", reason_of(rows[0]) or rows[0].verdict.status.value.replace("_", " "))
    return case


def _with(case: _Case, outcome: str, kind: str, message: str) -> _Case:
    return _Case(case.classname, case.name, outcome, kind, message, case.details)


def _node_name(key: NodeKey, *, is_golden_only: bool) -> str:
    call = f"#{key.call}" if key.call else ""
    phase = ".backward" if key.phase is Phase.BACKWARD else ""
    return f"{key.name}{call}{phase}{' (golden only)' if is_golden_only else ''}"


def _row_line(row: Row) -> str:
    """Return one row in words: ``output.0: fail, inherited, relative_euclidean_distance 0.08: reason``."""
    verdict = row.verdict
    metrics = row.measurement.metrics if row.measurement is not None else {}
    distance = metrics.get("relative_euclidean_distance")
    parts = [verdict.status.value.replace("_", " ")]
    if verdict.role in (Role.ORIGIN, Role.INHERITED):
        parts.append(verdict.role.value)
    if distance is not None:
        parts.append(f"relative_euclidean_distance {figure(distance)}")
    reason = reason_of(row)
    return f"{row.pair.shown.slot}: {', '.join(parts)}" + (f": {reason}" if reason else "")


def _run_suite(comparison: Comparison, record: RunRecord) -> _Suite:
    """Return what concerns no single node; its first case says which dumps were compared, and the verdict."""
    incomplete = record.incomplete
    said = (dumps_line(record), last_line(record))
    complete = _Case("probe_flow", "everything that was asked for was compared", details=said)
    if incomplete:
        complete = _with(complete, "error", "incomplete", "; ".join(incomplete))
    cases = [complete]
    if comparison.gate != "all_pass":
        known = {row.pair.target.node for row in comparison.rows if row.pair.target is not None}
        cases += [
            _Case("probe_flow", finding.kind.value, "failure", finding.kind.value, finding.evidence)
            for finding in comparison.findings
            if finding.fails and finding.node not in known
        ]
    return _Suite(RUN_SUITE, cases)


def _document(suites: Sequence[_Suite], record: RunRecord) -> Iterator[str]:
    name = record.workflow.name or "probe_flow"
    tests = sum(len(suite.cases) for suite in suites)
    failures, errors = (sum(suite.count(outcome) for suite in suites) for outcome in ("failure", "error"))
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name={_attribute(name)} tests="{tests}" failures="{failures}" errors="{errors}">'
    stamp = f" timestamp={_attribute(_without_zone(record.timings.started))}"
    for number, suite in enumerate(suites):
        yield (
            f'<testsuite name={_attribute(suite.name)} id="{number}" tests="{len(suite.cases)}"'
            f' failures="{suite.count("failure")}" errors="{suite.count("error")}" skipped="{suite.count("skipped")}"'
            f' time="0"{stamp}>'
        )
        yield "<properties>"
        for key, value in _properties(record):
            yield f"<property name={_attribute(key)} value={_attribute(value)}/>"
        yield "</properties>"
        for case in suite.cases:
            yield from _case_lines(case)
        yield "</testsuite>"
    yield "</testsuites>"


def _without_zone(time: str) -> str:
    """Return an ISO 8601 time without its zone, as the schema wants it."""
    return time[: len("2026-01-02T03:04:05")]


def _properties(record: RunRecord) -> Iterator[tuple[str, object]]:
    yield "dumps", dumps_line(record)
    yield "conclusion", last_line(record)
    yield "verdict", record.verdict
    if record.gate is not None:
        yield "gate", record.gate.name
        yield "policy", record.gate.policy
    for side, coverage in record.coverage.items():
        for key in ("tensors", "compared", "expected", "outside", "missing"):
            yield f"coverage.{side}.{key}", getattr(coverage, key)
    for status, count in record.counts.items():
        yield f"rows.{status.value}", count
    for library, version in record.versions.items():
        yield f"version.{library}", version


def _case_lines(case: _Case) -> Iterator[str]:
    head = f'<testcase classname={_attribute(case.classname)} name={_attribute(case.name)} time="0"'
    if not case.outcome and not case.details:
        yield head + "/>"
        return
    yield head + ">"
    if case.outcome == "skipped":
        yield f"<skipped message={_attribute(case.message)}/>"
    elif case.outcome:
        text = xml_text("\n".join((case.message, *case.details)))
        opening = f"<{case.outcome} type={_attribute(case.kind)} message={_attribute(case.message)}>"
        yield f"{opening}{text}</{case.outcome}>"
    if case.details:
        yield f"<system-out>{xml_text(chr(10).join(case.details))}</system-out>"
    yield "</testcase>"
