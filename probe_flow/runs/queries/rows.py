"""What was not matched and why, and where the divergence begins: answers that the rows and the record hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from probe_flow.record.run_folder import StoredRun
from probe_flow.runs.queries.base import EVERYWHERE, Scope, side

_QUOTED = re.compile(r"`[^`]*`")
_PLACE = ("comparison", "rank", "graph", "step", "node", "call", "phase")


@dataclass(slots=True)
class Alone:
    """Rows without a counterpart for one reason.

    Args:
        side: the side that has the tensors.
        verdict: of the rows.
        reason: with names left out.
        count: how many rows.
        rows: the first of them.
    """

    side: str
    verdict: str
    reason: str
    count: int = 0
    rows: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class UnmatchedAnswer:
    """What has no counterpart.

    Args:
        groups: by side and reason, the largest first.
        coverage: what `run.json` says of both sides.
        count: rows without a counterpart.
        total: rows that were looked at.
    """

    groups: list[Alone]
    coverage: Mapping[str, Any]
    count: int = 0
    total: int = 0

    def data(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        return {
            "unmatched": self.count,
            "total": self.total,
            "coverage": self.coverage,
            "groups": [
                {
                    "side": group.side,
                    "verdict": group.verdict,
                    "reason": group.reason,
                    "count": group.count,
                    "rows": group.rows,
                }
                for group in self.groups
            ],
        }


def unmatched(run: StoredRun, *, limit: int | None, scope: Scope = EVERYWHERE) -> UnmatchedAnswer:
    """Return the rows that have one side only, grouped by reason; of each group the first `limit` rows."""
    groups: dict[tuple[str, str, str], Alone] = {}
    answer = UnmatchedAnswer([], run.record.get("coverage") or {})
    for row in run.rows(comparison=scope.comparison):
        if not scope.keeps(row):
            continue
        answer.total += 1
        has = "target" if side(row, "target") else "golden"
        if side(row, "golden" if has == "target" else "target"):
            continue
        answer.count += 1
        reason = _QUOTED.sub("`...`", str(row.get("reason") or "no reason is recorded"))
        key = (has, str(row.get("verdict")), reason)
        group = groups.setdefault(key, Alone(*key))
        group.count += 1
        if limit is None or len(group.rows) < limit:
            group.rows.append(row)
    answer.groups = sorted(groups.values(), key=lambda group: -group.count)
    return answer


@dataclass(slots=True)
class OriginAnswer:
    """Where the divergence begins.

    Args:
        first: the first divergence, None when there is none.
        nonfinite: where NaN or infinities begin, None when nowhere.
        suspects: other places that the analysis names, ranked.
        findings: all that the analysis found, ranked.
        rows: the rows of the first divergence's node (or of the node where NaN begins).
        inherited: rows that only pass an error on.
    """

    first: Mapping[str, Any] | None
    nonfinite: Mapping[str, Any] | None
    suspects: list[Mapping[str, Any]]
    findings: list[Mapping[str, Any]]
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    inherited: int = 0

    @property
    def named(self) -> Mapping[str, Any] | None:
        """The place to look at first."""
        return self.first or self.nonfinite

    def data(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        return {
            "first_divergence": self.first,
            "nonfinite_origin": self.nonfinite,
            "suspects": self.suspects,
            "findings": self.findings,
            "rows": self.rows,
            "inherited": self.inherited,
        }


def origin(run: StoredRun, *, scope: Scope = EVERYWHERE) -> OriginAnswer:
    """Return where the divergence begins, as the run concluded.

    Of one comparison when the scope names one; within a rank, step or graph it begins at the first place there that
    fails the gate.
    """
    record = run.record
    if scope.comparison is not None:
        run.check_comparison(scope.comparison)
        record = record["comparisons"][scope.comparison]
    answer = OriginAnswer(
        first=record.get("first_divergence"),
        nonfinite=record.get("nonfinite_origin"),
        suspects=list(record.get("suspects") or ()),
        findings=list(record.get("findings") or ()),
    )
    if scope.narrows:
        answer = _narrowed(answer, scope)
    named = answer.named
    for row in run.rows(comparison=scope.comparison):
        if not scope.keeps(row):
            continue
        answer.inherited += row.get("role") == "inherited"
        if named is not None and all(row.get(key) == named.get(key) for key in _PLACE if key in named):
            answer.rows.append(row)
    return answer


def _narrowed(answer: OriginAnswer, scope: Scope) -> OriginAnswer:
    findings = [each for each in answer.findings if each.get("node") is None or scope.keeps(each)]
    suspects = [each for each in answer.suspects if scope.keeps(each)]
    failing = [each for each in findings if each.get("fails")]
    first = next((each for each in suspects if any(_is_at(finding, each) for finding in failing)), None)
    nonfinite = answer.nonfinite if answer.nonfinite is not None and scope.keeps(answer.nonfinite) else None
    return OriginAnswer(first, nonfinite, suspects, findings)


def _is_at(finding: Mapping[str, Any], place: Mapping[str, Any]) -> bool:
    return all(finding.get(key) == place.get(key) for key in (*_PLACE, "direction", "index"))
