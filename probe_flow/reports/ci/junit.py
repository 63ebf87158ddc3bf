"""A comparison as JUnit XML, for CI systems that show test results (Jenkins, GitLab, GitHub actions that read it).

The file keeps to what those readers have in common (the schema of the Jenkins xUnit plug-in): ``testsuites`` of
``testsuite`` with ``properties``, ``testcase`` with at most one of ``skipped``, ``error`` and ``failure``, and
``system-out``. One suite is one execution, with a test case for each node that fails, is an error or is excused; a last
suite holds what concerns the whole run. All other nodes are counted, so that the file of a dump of any size can be read
by those systems.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from probe_flow.files.atomic import atomic_text
from probe_flow.record.conclusion import concluded, dumps_line, last_line
from probe_flow.record.places import figure
from probe_flow.record.rows import RowReader, name_in_dump, reason_of
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, Finding, NodeKey, Phase, Role, Row, Status
from probe_flow.reports.numbering import Numbering

MAX_ROWS_TOLD = 10
"""Rows of one node that its test case lists; a node may own thousands of tensors."""

MAX_NODES_TOLD = 1000
"""Test cases of nodes in one suite; where one thing is wrong everywhere, nobody reads more of them."""

MAX_REASONS_TOLD = 20
"""Reasons why nothing was compared of nodes."""

COMPARED = "all nodes that were compared and that nothing is held against"
SILENT = "all nodes of which nothing was compared"
FURTHER = {
    "failure": "further nodes that fail",
    "error": "further nodes with an unreadable tensor",
    "skipped": "further nodes that are excused",
}

RUN_SUITE = "the whole run"
RUN_CLASS = "probe_flow"

_NOT_XML = "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_HARMLESS = re.compile(r"[\w .:,#/()+-]*", re.ASCII)
_COMPARED = frozenset({Status.PASS, Status.WARNING, Status.FAIL})
_NOTHING = ("", "", "")
_SILENT = ("skipped", "silent")


class _Case(Struct, frozen=True):
    """One test case; ``outcome`` is ``failure``, ``error``, ``skipped`` or empty."""

    classname: str
    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""
    details: tuple[str, ...] = ()


def write_junit(comparison: Comparison, path: Path, *, run: RunRecord) -> None:
    """Write the comparison as JUnit XML.

    A node fails when the gate fails on it: with the gate ``findings`` where a finding names it, with ``all_pass`` where
    one of its rows fails. A node of which every failure is waived or accepted in the baseline is skipped, with the
    reason. A node with an unreadable tensor is an error. These nodes have a test case each, whose text begins with the
    name of the node's entry in its dump, where that is another; the first `MAX_NODES_TOLD` of a suite. The others are
    counted: those that pass in one case, with the number of those that miss a limit of the policy nevertheless; those
    of which nothing was compared in one that is skipped, by kind of reason. Findings without a node and the reasons why
    a run is incomplete are test cases of the last suite.

    Args:
        comparison: what is reported.
        path: the file; it appears whole or not at all.
        run: the record of the run so far.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    record = concluded(comparison, run)
    with atomic_text(path) as file:
        file.writelines(line + "\n" for line in _document(comparison, record))


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
    text = str(value)
    if text.replace("\n", " ").isprintable():  # compiling the pattern takes longer than writing most files
        return text
    return re.sub(_NOT_XML, lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


class _Nodes:
    """The rows of a comparison by execution and node, each in order of appearance.

    Only the places of rows are held, 16 bytes a row.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        import numpy as np

        self._rows = rows
        self._names: dict[str, int] = {}
        self._suites, self._firsts = array("I"), array("I")  # of each row: its execution, the first row of its node
        known: dict[int, int] = {}
        numbers, firsts = (Numbering[NodeKey](), Numbering[NodeKey]()), (array("I"), array("I"))
        last, was_golden_only, suite, first = None, False, 0, 0
        for place, row in enumerate(rows):
            pair = row.pair
            is_golden_only = pair.target is None
            key = pair.shown.node
            if key is not last or is_golden_only != was_golden_only:  # rows of one node follow each other
                last, was_golden_only = key, is_golden_only
                found = known.get(id(key.execution))
                if found is None:
                    found = known[id(key.execution)] = self._names.setdefault(str(key.execution), len(self._names))
                number, places = numbers[is_golden_only].number(key), firsts[is_golden_only]
                if number == len(places):
                    places.append(place)
                suite, first = found, places[number]
            self._suites.append(suite)
            self._firsts.append(first)
        self._order = np.lexsort((self._firsts, self._suites)).data  # stable

    def suites(self) -> Iterator[tuple[str, Iterator[list[Row]]]]:
        """Yield the name of each execution with the rows of its nodes, which must be read before the next."""
        by_suite = groupby(self._order, key=self._suites.__getitem__)
        for name, (_, places) in zip(self._names, by_suite, strict=True):
            nodes = groupby(places, key=self._firsts.__getitem__)
            yield name, ([self._rows[place] for place in found] for _, found in nodes)


def _accused(comparison: Comparison) -> dict[NodeKey, list[Finding]]:
    """Return the findings that fail the gate, or would if they were not excused, by node."""
    found: dict[NodeKey, list[Finding]] = {}
    if not comparison.judges_rows:
        for finding in comparison.findings:
            if (finding.fails or finding.excuse is not None) and finding.node is not None:
                found.setdefault(finding.node, []).append(finding)
    return found


def _cases(
    nodes: Iterable[list[Row]], comparison: Comparison, accused: Mapping[NodeKey, Sequence[Finding]]
) -> list[_Case]:
    """Return the test cases of one execution."""
    reader = RowReader(comparison)
    told: list[_Case] = []
    further, silent = Counter[str](), _NothingCompared()
    passed = missed = 0
    for rows in nodes:
        shown = rows[0].pair.shown.node
        outcome = _outcome(rows, accused.get(shown, ()), comparison)
        if outcome == _NOTHING:
            passed += 1
            missed += any(row.verdict.status is Status.FAIL for row in rows)
            continue
        name = _node_name(shown, is_golden_only=rows[0].pair.target is None)
        if outcome[:2] == _SILENT:
            silent.add(_kind_of(rows[0]), f"{name}: {outcome[2]}")
        elif len(told) >= MAX_NODES_TOLD:
            further[outcome[0]] += 1
        else:
            entry = name_in_dump(reader.node(rows[0]), shown)
            begin = (f"in the dump: {entry}",) if entry != shown.name else ()
            told.append(_Case(reader.op_type(rows[0]) or "unknown", name, *outcome, (*begin, *_details(rows))))
    return [*told, *_further(further), *_passed(passed, missed), *silent.cases()]


def _further(outcomes: Counter[str]) -> Iterator[_Case]:
    for outcome, number in outcomes.items():
        message = f"{number} more, in comparison.jsonl"
        yield _Case(RUN_CLASS, FURTHER[outcome], outcome, "further", message)


def _passed(number: int, missed: int) -> Iterator[_Case]:
    if number:
        more = (f"{missed} with tensors that miss a limit of the policy: see comparison.jsonl",) if missed else ()
        yield _Case(RUN_CLASS, COMPARED, details=(f"{number} nodes", *more))


def _kind_of(row: Row) -> str:
    """Return what kind of reason a row has for not being compared."""
    reason = row.pair.reason
    return row.verdict.status.value if reason is None else reason.kind.code


class _NothingCompared:
    """The nodes of which nothing was compared, by kind of reason."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, said: str) -> None:
        """Count a node; what is said of the first of a kind is told."""
        number, first = self._nodes.get(kind, (0, said))
        self._nodes[kind] = number + 1, first

    def cases(self) -> Iterator[_Case]:
        """Yield the test case of all, if there are any."""
        if not self._nodes:
            return
        most = sorted(self._nodes.items(), key=lambda found: -found[1][0])  # stable
        lines = [f"{number}, e.g. {first}" for _, (number, first) in most[:MAX_REASONS_TOLD]]
        if len(most) > MAX_REASONS_TOLD:
            left = sum(number for _, (number, _) in most[MAX_REASONS_TOLD:])
            lines.append(f"{left} for other reasons, in comparison.jsonl")
        total = sum(number for number, _ in self._nodes.values())
        yield _Case(RUN_CLASS, SILENT, "skipped", "", f"{total} nodes", tuple(lines))


def _details(rows: Sequence[Row]) -> tuple[str, ...]:
    told = [row for row in rows if row.verdict.status is not Status.PASS]
    more = (f"and {len(told) - MAX_ROWS_TOLD} more, in comparison.jsonl",) if len(told) > MAX_ROWS_TOLD else ()
    return (*map(_row_line, told[:MAX_ROWS_TOLD]), *more)


def _outcome(rows: Sequence[Row], findings: Sequence[Finding], comparison: Comparison) -> tuple[str, str, str]:
    """Return outcome, kind and message of a node's test case."""
    if not findings and all(row.verdict.status is Status.PASS for row in rows):
        return _NOTHING
    failing = [row for row in rows if row.verdict.status is Status.FAIL]
    unreadable = [row for row in rows if row.verdict.status is Status.ERROR]
    accusing = [finding for finding in findings if finding.fails]
    if accusing and rows[0].pair.target is not None:
        return "failure", accusing[0].kind.value, "; ".join(finding.evidence for finding in accusing)
    counting = [row for row in failing if row.verdict.excuse is None]
    if comparison.judges_rows and counting:
        return "failure", "fail", _row_line(counting[0])
    if unreadable:
        return "error", "unreadable", _row_line(unreadable[0])
    given = (*(finding.excuse for finding in findings), *(row.verdict.excuse for row in failing))
    excuses = [excuse.text for excuse in given if excuse is not None]
    if excuses:
        return "skipped", "", "; ".join(dict.fromkeys(excuses))
    if not any(row.verdict.status in _COMPARED for row in rows):
        return (*_SILENT, reason_of(rows[0]) or rows[0].verdict.status.value.replace("_", " "))
    return _NOTHING


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


def _run_cases(comparison: Comparison, record: RunRecord) -> list[_Case]:
    """Return what concerns no single node; its first case says which dumps were compared, and the verdict."""
    incomplete = record.incomplete
    said = (dumps_line(record), last_line(record))
    outcome = ("error", "incomplete", "; ".join(incomplete)) if incomplete else _NOTHING
    cases = [_Case(RUN_CLASS, f"everything that was asked for was {record.done}", *outcome, said)]
    if not comparison.judges_rows and (failing := [finding for finding in comparison.findings if finding.fails]):
        targets = (row.pair.target for row in comparison.rows)
        known = {finding.node for finding in failing}.intersection(each.node for each in targets if each is not None)
        cases += [
            _Case(RUN_CLASS, finding.kind.value, "failure", finding.kind.value, finding.evidence)
            for finding in failing
            if finding.node not in known
        ]
    return cases


def _document(comparison: Comparison, record: RunRecord) -> Iterator[str]:
    accused = _accused(comparison)
    suites = [(name, _cases(found, comparison, accused)) for name, found in _Nodes(comparison.rows).suites()]
    suites.append((RUN_SUITE, _run_cases(comparison, record)))
    total = Counter(case.outcome for _, cases in suites for case in cases)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    name = record.workflow.name or "probe_flow"
    yield (
        f'<testsuites name={_attribute(name)} tests="{total.total()}" failures="{total["failure"]}"'
        f' errors="{total["error"]}">'
    )
    for number, (name, cases) in enumerate(suites):
        yield from _suite_lines(name, number, cases, record)
    yield "</testsuites>"


def _suite_lines(name: str, number: int, cases: Sequence[_Case], record: RunRecord) -> Iterator[str]:
    counts = Counter(case.outcome for case in cases)
    stamp = f" timestamp={_attribute(_without_zone(record.timings.started))}"
    yield (
        f'<testsuite name={_attribute(name)} id="{number}" tests="{counts.total()}"'
        f' failures="{counts["failure"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}"'
        f' time="0"{stamp}>'
    )
    yield "<properties>"
    for key, value in _properties(record):
        yield f"<property name={_attribute(key)} value={_attribute(value)}/>"
    yield "</properties>"
    for case in cases:
        yield from _case_lines(case)
    yield "</testsuite>"


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
    if case.details and case.outcome in ("", "skipped"):
        yield f"<system-out>{xml_text(chr(10).join(case.details))}</system-out>"
    yield "</testcase>"
