"""Hold a comparison against the baseline: what was accepted does not fail the gate, what is worse does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from probe_flow.analysis.suppressions.waivers import excused, excused_finding, with_findings
from probe_flow.errors import Diagnostic, Severity
from probe_flow.metrics.error_figure import error_figure
from probe_flow.records import (
    ALL_PASS,
    Baseline,
    BaselineUse,
    Change,
    Coverage,
    Deviant,
    Excuse,
    ExcuseKind,
    Finding,
    FindingKind,
    NodeKey,
    Pairs,
    SideSummary,
    Status,
    TensorRef,
    Verdict,
)
from probe_flow.records.baseline import FAILING_ROW, NONFINITE_ROW, NodePlace, is_within, plain_name, stand
from probe_flow.records.row import Row

MAX_TOLD = 20
"""Changes that are told one by one."""


class Weighed(Struct, frozen=True):
    """Verdicts and findings with what the baseline accepts, and how the run stands against it."""

    verdicts: list[Verdict]
    findings: tuple[Finding, ...]
    use: BaselineUse
    problems: tuple[Diagnostic, ...]


def weigh(
    rows: Sequence[Row],
    pairs: Pairs,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],
    baseline: Baseline,
    *,
    gate: str,
    tolerance: float,
    coverage: Mapping[str, Coverage],
) -> Weighed:
    """Take what the baseline accepts out of the gate.

    With the gate ``findings``, findings are held against it; with ``all_pass``, failing rows, and a finding at an
    accepted row is accepted with it.

    Args:
        rows, pairs, verdicts, findings: the comparison, after its waivers.
        baseline: what was accepted.
        gate: ``findings`` or ``all_pass``.
        tolerance: how much larger than accepted an error may be, relative to it.
        coverage: of the run.
    """
    is_by_rows = gate == ALL_PASS
    known = {each.place: each for each in baseline.deviants}
    found: list[Deviant] = []
    waived: list[Deviant] = []

    def excuse_of(deviant: Deviant, excuse: Excuse | None) -> Excuse | None:
        (found if excuse is None else waived).append(deviant)
        before = known.get(deviant.place)
        if excuse is not None or before is None:
            return None
        if not is_within(deviant.figure, before.figure, tolerance=tolerance):
            return None
        size = f" with an error of {before.figure:.4g}" if before.figure is not None else ""
        return Excuse(ExcuseKind.ACCEPTED, f"accepted in the baseline{size}")

    judged = list(verdicts)
    concluded = list(findings)
    if is_by_rows:
        for number, verdict in enumerate(verdicts):
            if verdict.status is Status.FAIL:
                excuse = excuse_of(of_row(rows[number], pairs), verdict.excuse)
                judged[number] = excused(verdict, excuse)
        for number, finding in enumerate(findings):
            excuse = judged[finding.row].excuse if finding.row is not None else None
            if finding.fails and excuse is not None:
                concluded[number] = excused_finding(finding, excuse)
    else:
        for number, finding in enumerate(findings):
            if finding.fails or finding.excuse is not None:
                excuse = excuse_of(of_finding(finding, pairs), finding.excuse)
                concluded[number] = excused_finding(finding, excuse)
    nodes = {_place(row.node) for row in rows}
    use = stand(baseline, found, tolerance=tolerance, nodes=nodes, waived=waived)
    problems = [*_judged_otherwise(baseline, gate), *_changes(use), *_compared_less(baseline, coverage)]
    return Weighed(with_findings(judged, concluded), tuple(concluded), use, tuple(problems))


def of_finding(finding: Finding, pairs: Pairs) -> Deviant:
    """Return a finding as the baseline knows it."""
    key = finding.node
    slot = str(finding.slot) if finding.slot is not None else ""
    if finding.kind is FindingKind.NONFINITE_ORIGIN:
        figure: float | None = finding.severity
    else:
        error = error_figure(finding.metrics)
        figure = error[1] if error is not None else None
    if key is None:
        return Deviant(None, None, 0, "none", "", finding.kind.value, slot, figure)
    return _deviant(key, pairs, finding.kind.value, slot, figure)


def of_row(row: Row, pairs: Pairs) -> Deviant:
    """Return a failing row as the baseline knows it."""
    measured = row.measurement
    slot = str(row.pair.shown.slot)
    counts = [
        _nonfinite(row.pair.target, measured.target if measured is not None else None),
        _nonfinite(row.pair.golden, measured.golden if measured is not None else None),
    ]
    if counts[0] != counts[1]:
        differing = float(sum(abs(one - other) for one, other in zip(*counts, strict=True)))
        return _deviant(row.node, pairs, NONFINITE_ROW, slot, differing)
    error = error_figure(measured.metrics) if measured is not None else None
    return _deviant(row.node, pairs, FAILING_ROW, slot, error[1] if error is not None else None)


def _deviant(key: NodeKey, pairs: Pairs, kind: str, slot: str, figure: float | None) -> Deviant:
    node = pairs.target.nodes.get(key) or pairs.golden.nodes.get(key)
    op_type = node.op_type if node is not None else ""
    graph, name, call, phase = _place(key)
    return Deviant(graph, name, call, phase, plain_name(op_type), kind, plain_name(slot), figure)


def _place(key: NodeKey) -> NodePlace:
    return key.execution.graph, plain_name(key.name), key.call, key.phase.value


def _nonfinite(tensor: TensorRef | None, summary: SideSummary | None) -> tuple[int, int]:
    """Return how many NaN and how many infinities a side has, as the result files say it."""
    statistics = summary.statistics if summary is not None else tensor.recorded if tensor is not None else None
    return (statistics.nan or 0, statistics.inf or 0) if statistics is not None else (0, 0)


def _judged_otherwise(baseline: Baseline, gate: str) -> list[Diagnostic]:
    if baseline.gate == gate:
        return []
    return [
        Diagnostic(
            "PF7312",
            f"the baseline was accepted under the gate `{baseline.gate}`, this run is judged by `{gate}`",
            severity=Severity.WARNING,
            path=baseline.path,
            help="accept a new run: what one gate looks at says little of the other",
        )
    ]


def _changes(use: BaselineUse) -> list[Diagnostic]:
    groups = (
        ("PF7313", Severity.WARNING, use.worse, _worse, "look at it, or accept the run if it is to stay"),
        ("PF7314", Severity.NOTE, use.better, _better, "accept the run, so that it stays so"),
        ("PF7315", Severity.WARNING, use.absent, _absent, "accept the run if the operator is gone for good"),
    )
    found = []
    for code, severity, changes, words, cure in groups:
        found += [
            Diagnostic(code, words(change), severity=severity, path=use.path, help=cure, tensor=str(change.deviant))
            for change in changes[:MAX_TOLD]
        ]
        if len(changes) > MAX_TOLD:
            message = f"the same holds for {len(changes) - MAX_TOLD:,} more deviations"
            found.append(Diagnostic(code, message, severity=severity, path=use.path))
    return found


def _worse(change: Change) -> str:
    name = f"`{change.deviant}`: {change.deviant.kind.replace('_', ' ')}"
    if change.is_new:
        return f"{name}, which the baseline does not have{_size(change.now, ', with an error of ')}"
    return f"{name} has an error of {_figure(change.now)}, accepted was {_figure(change.accepted)}"


def _better(change: Change) -> str:
    name = f"`{change.deviant}`: {change.deviant.kind.replace('_', ' ')}"
    if change.now is None:
        return f"{name} is in the baseline and does not occur any more"
    return f"{name} has an error of {_figure(change.now)}, accepted was {_figure(change.accepted)}"


def _absent(change: Change) -> str:
    return f"the baseline names `{change.deviant}`, and this run compares no such node"


def _figure(figure: float | None) -> str:
    return "no number" if figure is None else f"{figure:.4g}"


def _size(figure: float | None, head: str) -> str:
    return "" if figure is None or math.isnan(figure) else f"{head}{figure:.4g}"


def _compared_less(baseline: Baseline, coverage: Mapping[str, Coverage]) -> list[Diagnostic]:
    return [
        Diagnostic(
            "PF7316",
            f"{coverage[side].compared} tensors of the {side} were compared, {count} when the baseline was accepted",
            severity=Severity.WARNING,
            path=baseline.path,
            help="find out why; accept the run if it is to stay so",
        )
        for side, count in baseline.compared.items()
        if side in coverage and coverage[side].compared < count
    ]
