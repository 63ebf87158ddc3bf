"""Conclude without a path of values: every node that fails is a finding, and nothing is an origin of anything else.

For dumps whose nodes do not depend on each other (`Flow.NONE`: single arrays, APIs that ran alone), or only on what has
their own name and came before (`Flow.TIME`). The policy judges; there is no budget of errors, since no node has inputs
whose errors could explain its own. A reference, and the noise of repeated runs, clear what they clear everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from probe_flow.analysis.limits import Limits
from probe_flow.analysis.model.deviation import ErrorFigure, deviation_of
from probe_flow.analysis.search.reference_check import clears, golden_errors
from probe_flow.records import Finding, FindingKind, NodeKey, Pairs, Role, Status, Verdict
from probe_flow.records.row import Row, by_node, number_or_first


def conclude_each(
    rows: Sequence[Row],
    pairs: Pairs,  # noqa: ARG001 - what every search is asked with
    verdicts: Sequence[Verdict],
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Return a finding per node with a failing row, the largest error first, and the verdicts with their roles.

    Rows that pass or are cleared are clean; those that fail have no role.
    """
    cleared = _cleared(rows, verdicts)
    found = sorted(_failures(rows, verdicts, cleared), key=lambda finding: -finding.severity)
    return (*found, *golden_errors(rows, cleared)), _with_roles(verdicts, dict.fromkeys(cleared, Role.CLEAN))


def conclude_in_time(
    rows: Sequence[Row],
    pairs: Pairs,  # noqa: ARG001 - what every search is asked with
    verdicts: Sequence[Verdict],
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Return a finding for the first failing node of each name, in time; what fails later under that name inherits it.

    Time goes by step, micro step, then by the order of the rows, rank by rank.
    """
    cleared = _cleared(rows, verdicts)
    first: dict[tuple[object, ...], Finding] = {}
    heirs: set[NodeKey] = set()
    for finding in sorted(_failures(rows, verdicts, cleared), key=_time):
        node = _node(finding)
        if first.setdefault((node.execution.rank, node.execution.graph, node.name), finding) is not finding:
            heirs.add(node)
    failing = [n for n, verdict in enumerate(verdicts) if verdict.status is Status.FAIL]
    roles = {
        **{number: Role.INHERITED for number in failing if rows[number].node in heirs},
        **{finding.row: Role.ORIGIN for finding in first.values() if finding.row is not None},
        **dict.fromkeys(cleared, Role.CLEAN),
    }
    return (*first.values(), *golden_errors(rows, cleared)), _with_roles(verdicts, roles)


def _node(finding: Finding) -> NodeKey:
    assert finding.node is not None, "a failure is one of a node"
    return finding.node


def _time(finding: Finding) -> tuple[int, int, int]:
    run = _node(finding).execution
    return number_or_first(run.step), number_or_first(run.micro_step), finding.row or 0


def _with_roles(verdicts: Sequence[Verdict], roles: Mapping[int, Role]) -> list[Verdict]:
    """Return the verdicts with these roles; without one, what passes is clean. Equal verdicts are one object."""
    known: dict[Verdict, Verdict] = {}
    found = []
    for number, verdict in enumerate(verdicts):
        usual = Role.CLEAN if verdict.status is Status.PASS else Role.UNKNOWN
        full = replace(verdict, role=roles.get(number, usual))
        found.append(known.setdefault(full, full))
    return found


_MEASURED = tuple(ErrorFigure(name) for name in Limits._fields)


def _cleared(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> list[int]:
    """Return failing rows whose target is not to blame in any figure, by the reference or the noise of repeats."""
    return [
        number
        for number, (row, verdict) in enumerate(zip(rows, verdicts, strict=True))
        if verdict.status is Status.FAIL
        and (row.third is not None or row.noise)
        and all(clears(row, figure) for figure in _figures(row))
    ]


def _figures(row: Row) -> Iterable[ErrorFigure]:
    """Return the figures in which a row is off."""
    deviation = deviation_of(row)
    return (ErrorFigure.NONFINITE,) if deviation is not None and deviation.nonfinite else _MEASURED


def _failures(rows: Sequence[Row], verdicts: Sequence[Verdict], cleared: Sequence[int]) -> Iterator[Finding]:
    """Yield a finding per node with failing rows that are not cleared, at the row that is off most."""
    passed_over = set(cleared)
    for numbers in by_node(rows):
        failing = [n for n in numbers if verdicts[n].status is Status.FAIL and n not in passed_over]
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
    size = f"relative error {error:.1e}" if math.isfinite(error) else (verdict.rule_ids or ("",))[0]
    return Finding.at(number, row, FindingKind.FAILURE, reasons + more, severity=error, size=size)
