"""Conclude without a path of values: every node that fails is a finding, and nothing is an origin of anything else.

For dumps whose nodes do not depend on each other (`Flow.NONE`: single arrays, APIs that ran alone), or only on what has
their own name and came before (`Flow.TIME`). The policy alone judges; there is no budget of errors, since no node has
inputs whose errors could explain its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from probe_flow.analysis.model.deviation import deviation_of
from probe_flow.records import Finding, FindingKind, Pairs, Role, Status, Verdict
from probe_flow.records.row import Row, by_node, number_or_first


def conclude_each(
    rows: Sequence[Row],
    pairs: Pairs,  # noqa: ARG001 - what every search is asked with
    verdicts: Sequence[Verdict],
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Return a finding per node with a failing row, the largest error first, and the verdicts with their roles.

    Rows that pass are clean; those that fail have no role.
    """
    found = list(_failures(rows, verdicts))
    found.sort(key=lambda finding: -finding.severity)
    return tuple(found), [replace(each, role=_role(each)) for each in verdicts]


def conclude_in_time(
    rows: Sequence[Row],
    pairs: Pairs,  # noqa: ARG001 - what every search is asked with
    verdicts: Sequence[Verdict],
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Return a finding for the first failing node of each name, in time; what fails later under that name inherits it.

    Time goes by step, micro step, then by the order of the rows, rank by rank.
    """
    first: dict[tuple[object, ...], Finding] = {}
    inherited: set[int] = set()
    in_time = sorted(_failures(rows, verdicts), key=_time)
    for finding in in_time:
        assert finding.node is not None
        run = finding.node.execution
        name = (run.rank, run.graph, finding.node.name)
        if name in first:
            inherited.add(id(finding))
        else:
            first[name] = finding
    origins = {finding.row for finding in first.values()}
    heirs = {finding.node for finding in in_time if id(finding) in inherited}
    roles = []
    for number, (row, verdict) in enumerate(zip(rows, verdicts, strict=True)):
        role = _role(verdict)
        if verdict.status is Status.FAIL:
            role = Role.ORIGIN if number in origins else Role.INHERITED if row.node in heirs else role
        roles.append(replace(verdict, role=role))
    return tuple(first.values()), roles


def _time(finding: Finding) -> tuple[int, int, int]:
    assert finding.node is not None
    assert finding.row is not None
    run = finding.node.execution
    return number_or_first(run.step), number_or_first(run.micro_step), finding.row


def _role(verdict: Verdict) -> Role:
    return Role.CLEAN if verdict.status is Status.PASS else Role.UNKNOWN


def _failures(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> Iterator[Finding]:
    """Yield a finding per node with failing rows, at the row that is off most."""
    for numbers in by_node(rows):
        failing = [number for number in numbers if verdicts[number].status is Status.FAIL]
        if failing:
            sizes = {number: _error(rows[number]) for number in failing}
            worst = max(failing, key=lambda number: (sizes[number], -number))
            yield _finding(worst, rows[worst], verdicts[worst], sizes[worst], others=len(failing) - 1)


def _error(row: Row) -> float:
    """Return the error relative to the golden; infinite where values are missing, not finite, or of another kind."""
    deviation = deviation_of(row)
    return math.inf if deviation is None or deviation.nonfinite else deviation.relative


def _finding(number: int, row: Row, verdict: Verdict, error: float, *, others: int) -> Finding:
    reasons = "; ".join(verdict.reasons) or ", ".join(verdict.rule_ids)
    more = f"; {others} more tensor{'s' if others > 1 else ''} of it fail{'' if others > 1 else 's'}" if others else ""
    return Finding(
        kind=FindingKind.FAILURE,
        node=row.node,
        slot=row.pair.shown.slot,
        evidence=f"fails: {reasons}{more}",
        severity=error,
        row=number,
        metrics=row.measurement.metrics if row.measurement else {},
        size=f"relative error {error:.1e}" if math.isfinite(error) else (verdict.rule_ids or ("",))[0],
    )
