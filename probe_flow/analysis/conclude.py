"""Turn the search for the origin into findings with evidence in words, and into the role of every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from probe_flow.analysis.checksums import checksum_origins
from probe_flow.analysis.drift import find_drift
from probe_flow.analysis.measured import MeasuredPair
from probe_flow.analysis.origin import Diagnosis, Suspect, diagnose
from probe_flow.records import Finding, FindingKind, Pairs, Role, Status, Verdict

STRONG = 2.0
"""A suspect of this score is an origin even downstream of another one: its inputs' errors do not explain it."""


def conclude(
    rows: Sequence[MeasuredPair], pairs: Pairs, verdicts: Sequence[Verdict]
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Return the findings, the most important first, and the verdicts with their roles."""
    diagnosis = diagnose(rows, pairs)
    origins = _origins(diagnosis)
    inherited = _heirs(diagnosis, origins)
    findings = [_origin_finding(suspect, rows, diagnosis, inherited) for suspect in origins]
    findings.extend(
        _nonfinite_finding(suspect, rows) for suspect in diagnosis.suspects if suspect.figure == "nonfinite"
    )
    checksums = checksum_origins(rows)
    findings.extend(_checksum_finding(number, rows) for number in checksums)
    if not findings:
        findings.extend(find_drift(rows, diagnosis))
    origin_rows = {suspect.row for suspect in origins} | set(checksums)
    roles = [
        replace(verdict, role=_role(number, verdict, diagnosis, origin_rows)) for number, verdict in enumerate(verdicts)
    ]
    return _first_nonfinite_only(findings), roles


def _origins(diagnosis: Diagnosis) -> list[Suspect]:
    strong = [suspect for suspect in diagnosis.suspects if suspect.score >= STRONG]
    weak = [suspect for suspect in diagnosis.suspects if suspect.score < STRONG and not suspect.inherits]
    return strong + weak


def _heirs(diagnosis: Diagnosis, origins: Sequence[Suspect]) -> Mapping[int, int]:
    """Return origin row -> number of rows that descend from it."""
    chosen = {suspect.row for suspect in origins}
    return Counter(root for row, root in diagnosis.tainted.items() if row not in chosen)


def _role(number: int, verdict: Verdict, diagnosis: Diagnosis, origin_rows: set[int]) -> Role:
    if number in origin_rows:
        return Role.ORIGIN
    if number in diagnosis.tainted:
        return Role.INHERITED
    if diagnosis.deviations[number] is not None or verdict.status is Status.PASS:
        return Role.CLEAN
    return Role.UNKNOWN


def _origin_finding(
    suspect: Suspect, rows: Sequence[MeasuredPair], diagnosis: Diagnosis, heirs: Mapping[int, int]
) -> Finding:
    row = rows[suspect.row]
    count = heirs.get(suspect.row, 0)
    tail = f"; {count} later tensor{'s inherit' if count != 1 else ' inherits'} it" if count else ""
    writer = unmatched_writer(suspect.row, rows)
    shown = row if writer is None else rows[writer]
    head = "" if writer is None else f"has no counterpart in the golden and wrote `{row.pair.shown.id}`: "
    return Finding(
        kind=FindingKind.ORIGIN,
        node=shown.node,
        slot=shown.pair.shown.slot,
        evidence=head + _evidence(suspect, row, diagnosis) + tail,
        severity=suspect.score,
        row=suspect.row if writer is None else writer,
        metrics=row.measurement.metrics if row.measurement else {},
    )


def unmatched_writer(number: int, rows: Sequence[MeasuredPair]) -> int | None:
    """Return the target-only row that wrote what this input row reads, by equal recorded statistics, or None.

    An operator that only the target executes is never compared, so the fault shows at whatever reads its output.
    """
    row = rows[number]
    read = row.pair.target
    if row.is_produced or read is None or read.recorded is None or read.recorded.l2norm is None:
        return None
    for earlier in range(number - 1, -1, -1):
        written = rows[earlier].pair.target
        if written is None or rows[earlier].pair.golden is not None or not rows[earlier].is_produced:
            continue
        same_run = written.node.execution == read.node.execution
        if same_run and written.recorded == read.recorded and written.shape == read.shape:
            return earlier
    return None


def _evidence(suspect: Suspect, row: MeasuredPair, diagnosis: Diagnosis) -> str:
    deviation, allowed = suspect.deviation, suspect.allowance
    if deviation is None or allowed is None:
        return "the values differ"
    if suspect.figure == "nonfinite":
        return f"nan or inf at {deviation.nonfinite} positions where the golden has none, and the inputs agree"
    floor = allowed.floor / deviation.size if deviation.size else 0.0
    what = "output" if row.is_produced else row.pair.shown.slot.role.value
    detail = {
        "rms": "",
        "peak": f", worst element off by {deviation.peak:.2g} among values up to {deviation.top:.2g}",
        "gain": f", scale off by {deviation.gain:+.2%}",
    }[suspect.figure]
    found = f"{what} differs ({deviation.relative:.1e}{detail}"
    if not row.is_produced:
        by = f"{suspect.excess:.3g} x what rounding explains, floor {floor:.1e}"
        return f"{found}, {by}) before the node has done anything"
    errors = [d.relative for n in suspect.inputs if (d := diagnosis.deviations[n]) is not None]
    agree = (
        f"inputs agree ({max(errors):.1e}, floor {floor:.1e})"
        if errors
        else f"no input was compared (floor {floor:.1e})"
    )
    return f"{agree}, {found}, {suspect.excess:.3g} x what rounding and the inputs explain)"


def _nonfinite_finding(suspect: Suspect, rows: Sequence[MeasuredPair]) -> Finding:
    row = rows[suspect.row]
    assert row.measurement is not None
    count = row.measurement.nonfinite_mismatch
    return Finding(
        kind=FindingKind.NONFINITE_ORIGIN,
        node=row.node,
        slot=row.pair.shown.slot,
        evidence=f"first nan or inf that the golden does not have: {count} of {row.measurement.count} elements",
        severity=float(count),
        row=suspect.row,
        metrics=row.measurement.metrics,
    )


def _checksum_finding(number: int, rows: Sequence[MeasuredPair]) -> Finding:
    row = rows[number]
    return Finding(
        kind=FindingKind.CHECKSUM_ORIGIN,
        node=row.node,
        slot=row.pair.shown.slot,
        evidence="checksum differs although the checksums of the inputs are equal",
        severity=1.0,
        row=number,
    )


def _first_nonfinite_only(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Keep one finding about non-finite values: where they begin. What follows only inherits."""
    seen = False
    kept = []
    for finding in findings:
        if finding.kind is FindingKind.NONFINITE_ORIGIN:
            if seen:
                continue
            seen = True
        kept.append(finding)
    return tuple(kept)
