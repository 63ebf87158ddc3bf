"""run.json: what a run concludes, for programs; this module supplies the part that comes from comparisons."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import asdict

from probe_flow.exit_codes import EXIT_INCOMPLETE
from probe_flow.files.atomic import atomic_text
from probe_flow.record.advice import advise
from probe_flow.record.excuses import baseline_facts, waiver_facts
from probe_flow.record.json_values import any_json_text, json_number, json_text, json_value
from probe_flow.record.rows import name_in_dump, source_line
from probe_flow.record.types.conclusions import (
    AdviceRecord,
    ComparisonRecord,
    Conclusions,
    CoverageRecord,
    DumpRecord,
    FindingCount,
    FindingRecord,
    GateRecord,
)
from probe_flow.record.types.run import HEAD, RUN_SCHEMA, RunRecord, TimingsRecord, WorkflowRecord
from probe_flow.records import (
    Catalog,
    Comparison,
    Coverage,
    ExcuseKind,
    Finding,
    FindingKind,
    Role,
    Row,
    Status,
)
from probe_flow.records.row import ManyRows, verdicts_of

DIVERGENCES = frozenset({FindingKind.ORIGIN, FindingKind.CHECKSUM_ORIGIN})
"""Findings that name a place where the two sides part."""

MAX_FINDINGS = 10_000
"""Findings of a comparison that run.json lists, about 9 MB; it counts all of them."""

MAX_FINDING_CHARACTERS = 16 * 2**20
"""Their names and evidence, so that names of thousands of characters do not make a record that no reader takes."""

_NAMED = 8
"""How often a finding and its advice name its node."""


_ENCODER = msgspec.json.Encoder(enc_hook=json_value)


NOTHING = Conclusions(
    counts={},
    roles={},
    coverage={},
    caveats=(),
    first_divergence=None,
    suspects=(),
    nonfinite_origin=None,
    finding_counts={},
)
"""What a run concludes before anything was compared."""


class Summary(NamedTuple):
    """What one comparison concludes: its record, and the findings that this points to."""

    record: ComparisonRecord
    findings: tuple[FindingRecord, ...]


def comparison_summary(comparison: Comparison) -> Summary:
    """Return what run.json says of one comparison.

    The first divergence is the first failing origin, as the analysis ranks them. Of more findings than `MAX_FINDINGS`,
    or than `MAX_FINDING_CHARACTERS` hold, the first are listed, and those that the record points to.
    """
    found = comparison.findings
    divergences = [place for place, finding in enumerate(found) if finding.kind in DIVERGENCES]
    nonfinite = [place for place, finding in enumerate(found) if finding.kind is FindingKind.NONFINITE_ORIGIN]
    failures = [place for place, finding in enumerate(found) if finding.kind is FindingKind.FAILURE]
    near = [place for place, finding in enumerate(found) if finding.kind is FindingKind.SUSPECT]
    first = next((place for place in divergences if found[place].fails), None)
    places = _listed(found, first, next(iter(nonfinite), None))
    listed = [found[place] for place in places]
    positions = {place: position for position, place in enumerate(places)}
    rows = _rows_of_findings(comparison, listed)
    verdicts = verdicts_of(comparison.rows)
    counts = Counter(verdict.status for verdict in verdicts)
    roles = Counter(verdict.role for verdict in verdicts)
    pairs = comparison.pairs
    dumps: dict[Literal["target", "golden"], Catalog] = {"target": pairs.target}
    if not pairs.is_examination:
        dumps["golden"] = pairs.golden
    record = ComparisonRecord(
        counts={status: counts[status] for status in Status},
        roles={role: roles[role] for role in Role},
        coverage={side: _coverage(comparison.coverage.get(side, Coverage())) for side in dumps},
        caveats=tuple(comparison.caveats),
        first_divergence=None if first is None else positions[first],
        suspects=tuple(positions[place] for place in (*divergences, *failures, *near) if place in positions),
        nonfinite_origin=positions[nonfinite[0]] if nonfinite else None,
        finding_counts=_finding_counts(found),
        gate=GateRecord(comparison.gate, comparison.gate_passed, comparison.policy),
        nodes=sum(len(each.nodes) for each in comparison.pairs.catalogs),
        waivers=waiver_facts(comparison.waivers),
        baseline=baseline_facts(comparison.baseline) if comparison.baseline is not None else None,
        dumps={side: _dump(catalog) for side, catalog in dumps.items()},
    )
    advice = advise(listed, comparison)
    findings = (_finding(*each, comparison, rows) for each in zip(listed, advice, strict=True))
    return Summary(record, tuple(findings))


def _listed(found: Sequence[Finding], *wanted: int | None) -> Sequence[int]:
    """Return the places of the findings that are listed."""
    sizes = (len(each.evidence) + _NAMED * len(each.node.name if each.node else "") for each in found[:MAX_FINDINGS])
    count = sum(1 for size in accumulate(sizes) if size <= MAX_FINDING_CHARACTERS)
    return [*range(count), *sorted({place for place in wanted if place is not None and place >= count})]


def _finding_counts(findings: Sequence[Finding]) -> dict[FindingKind, FindingCount]:
    found = Counter(finding.kind for finding in findings)
    failing = Counter(finding.kind for finding in findings if finding.fails and finding.node is not None)
    return {kind: FindingCount(count, failing[kind]) for kind, count in found.items()}


def _dump(catalog: Catalog) -> DumpRecord:
    return DumpRecord(catalog.root, catalog.framework.name, catalog.task, len(catalog.tensors), len(catalog.executions))


def begun(workflow: WorkflowRecord, versions: dict[str, str]) -> RunRecord:
    """Return the record of a run of which nothing is known but what ran."""
    return RunRecord(
        schema=RUN_SCHEMA,
        run_id="",
        workflow=workflow,
        params={},
        status="running",
        verdict="incomplete",
        exit_code=EXIT_INCOMPLETE,
        incomplete=("the run has not ended",),
        **asdict(NOTHING),
        findings=(),
        comparisons={},
        stages=(),
        inputs=(),
        versions=versions,
        timings=TimingsRecord("", None),
        executor={},
        artifacts=(),
        problems=(),
    )


def run_json_text(record: RunRecord) -> str:
    """Return a run record as the text of run.json: strict JSON, an entry of a list a line."""
    return "".join(_run_json(record))


def write_run_json(record: RunRecord, path: Path) -> None:
    """Write a run record; NaN and infinities in what users and dumps give become ``"nan"``, ``"inf"``, ``"-inf"``.

    10,000 findings, 11 MB, take 70 ms of CPU (the json module: 190), a run without any 0.4 ms and 3 to 15 of the disk.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        file.writelines(_run_json(record))


def _run_json(record: RunRecord) -> Iterator[str]:
    yield from _texts(record)
    yield "\n"


def plain(record: msgspec.Struct) -> dict[str, object]:
    """Return a stored record as an object of JSON, keys in the order in which they are published."""
    found: dict[str, object] = msgspec.to_builtins(record, enc_hook=json_value)
    return {**{name: found[name] for name in HEAD}, **found} if isinstance(record, RunRecord) else found


def _texts(value: object, margin: str = "\n") -> Iterator[str]:
    """Yield the text of a value in pieces, an entry of a list of objects a line."""
    inner = margin + "  "
    if isinstance(value, msgspec.Struct | Mapping) and (members := list(_members(value))):
        comma = ""
        for key, item in members:
            yield f"{comma or '{'}{inner}{json_text(key)}: "
            yield from _texts(item, inner)
            comma = ","
        yield margin + "}"
    elif isinstance(value, list | tuple) and any(isinstance(item, msgspec.Struct | Mapping) for item in value):
        for number, item in enumerate(value):
            yield f"{',' if number else '['}{inner}{_line(item)}"
        yield margin + "]"
    else:
        yield _line(value)


def _members(value: msgspec.Struct | Mapping[Any, object]) -> Iterator[tuple[str, object]]:
    """Yield the keys of an object and their values, in the order in which they are published."""
    if isinstance(value, Mapping):
        yield from ((str(key.value if isinstance(key, enum.Enum) else key), item) for key, item in value.items())
        return
    defaults = _defaults(type(value))
    for name in (*HEAD, *(name for name in defaults if name not in HEAD)) if isinstance(value, RunRecord) else defaults:
        item = getattr(value, name)
        if item is not defaults[name]:
            yield name, item


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return the fields of a record with their defaults, which are not published."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__  # of the last fields
    return dict.fromkeys(names, msgspec.NODEFAULT) | dict(zip(reversed(names), reversed(defaults), strict=False))


def _line(value: object) -> str:
    """Return a value as text on one line; the figures of records are words already where JSON lacks them."""
    if isinstance(value, msgspec.Struct):
        with suppress(UnicodeEncodeError):  # lone surrogates, of file names that are not UTF-8
            return msgspec.json.format(_ENCODER.encode(value), indent=0).decode()
    return any_json_text(msgspec.to_builtins(value, enc_hook=json_value))


def _coverage(found: Coverage) -> CoverageRecord:
    return CoverageRecord(*[getattr(found, name) for name in CoverageRecord.__struct_fields__])


def _rows_of_findings(comparison: Comparison, findings: Sequence[Finding]) -> dict[int, Row]:
    wanted = {finding.row for finding in findings if finding.row is not None}
    if isinstance(comparison.rows, ManyRows):
        return {number: comparison.rows[number] for number in wanted}
    return {row.order: row for row in comparison.rows if row.order in wanted} if wanted else {}


def _finding(
    finding: Finding, advice: tuple[AdviceRecord, ...], comparison: Comparison, rows: Mapping[int, Row]
) -> FindingRecord:
    """Return a finding, by the target's names, with the golden node that it was judged by."""
    row = rows.get(finding.row) if finding.row is not None else None
    golden = row.pair.golden if row is not None else None
    key, slot, excuse = finding.node, finding.slot, finding.excuse
    execution = key.execution if key is not None else None
    node = None
    if key is not None:
        node = comparison.pairs.target.nodes.get(key) or comparison.pairs.golden.nodes.get(key)
    source = source_line(comparison.pairs, key) if key is not None else None
    return FindingRecord(
        kind=finding.kind,
        node=key.name if key else None,
        name=name_in_dump(node, key) if key else None,
        op_type=node.op_type if node else None,
        rank=execution.rank if execution else None,
        graph=execution.graph if execution else None,
        step=execution.step if execution else None,
        call=key.call if key else None,
        phase=key.phase if key else None,
        direction=slot.role if slot else None,
        index=slot.index if slot else None,
        golden_node=golden.node.name if golden is not None else None,
        metrics={name: json_number(value) for name, value in sorted(finding.metrics.items())},
        evidence=finding.evidence,
        size=finding.size,
        source=f"{source[0]}:{source[1]}" if source is not None else None,
        severity=json_number(finding.severity),
        fails=finding.fails,
        row=finding.row,
        advice=advice,
        waived=excuse.text if excuse is not None and excuse.kind is ExcuseKind.WAIVED else None,
        accepted=excuse.text if excuse is not None and excuse.kind is ExcuseKind.ACCEPTED else None,
    )
