"""What was not matched and why, and where the divergence begins: answers that the rows and the record hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, field

from probe_flow.record.row_index import RowState, call_code
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.run_json import DIVERGENCES, plain
from probe_flow.record.types.conclusions import AdviceRecord, Conclusions, CoverageRecord, FindingRecord
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import Role
from probe_flow.runs.queries.base import EVERYWHERE, Scope

_QUOTED = re.compile(r"`[^`]*`")


class Alone(Struct):
    """Rows without a counterpart for one reason.

    Args:
        side: the side that has the tensors.
        verdict: of the rows.
        is_missing: whether they count against coverage.
        reason: with names left out.
        count: how many rows.
        rows: the first of them.
    """

    side: str
    verdict: str
    is_missing: bool
    reason: str
    count: int = 0
    rows: list[RowRecord] = field(default_factory=list)


class UnmatchedAnswer(Struct):
    """What has no counterpart.

    Args:
        groups: by side and reason, what counts against coverage first, then the largest.
        coverage: what `run.json` says of both sides.
        count: rows without a counterpart.
        total: rows that were looked at.
    """

    groups: list[Alone]
    coverage: Mapping[Literal["target", "golden"], CoverageRecord]
    count: int = 0
    total: int = 0

    def data(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        return {
            "unmatched": self.count,
            "total": self.total,
            "coverage": {side: plain(found) for side, found in self.coverage.items()},
            "groups": [
                {
                    "side": group.side,
                    "verdict": group.verdict,
                    "missing": group.is_missing,
                    "reason": group.reason,
                    "count": group.count,
                    "rows": [plain(row) for row in group.rows],
                }
                for group in self.groups
            ],
        }


def unmatched(run: StoredRun, *, limit: int | None, scope: Scope = EVERYWHERE) -> UnmatchedAnswer:
    """Return the rows that have one side only, grouped by reason; of each group the first `limit` rows."""
    groups: dict[tuple[str, str, bool, str], Alone] = {}
    answer = UnmatchedAnswer([], run.record.coverage)
    for rows in run.stored_rows(comparison=scope.comparison):
        answer.total += sum(end - begin for begin, end in rows.index.spans(scope.keeps))
        for row in rows.rows(rows.index.numbers(_is_alone, scope.keeps)):
            has = "golden" if row.target is None else "target"
            answer.count += 1
            reason = _QUOTED.sub("`...`", row.reason or "no reason is recorded")
            key = (has, row.verdict.value, row.missing, reason)
            group = groups.setdefault(key, Alone(*key))
            group.count += 1
            if limit is None or len(group.rows) < limit:
                group.rows.append(row)
    answer.groups = sorted(groups.values(), key=lambda group: (not group.is_missing, -group.count))
    return answer


def _is_alone(state: RowState) -> bool:
    return not (state.has_target and state.has_golden)


class OriginAnswer(Struct):
    """Where the divergence begins.

    Args:
        first: the first divergence, None when there is none.
        nonfinite: where NaN or infinities begin, None when nowhere.
        suspects: other places that the analysis names, ranked.
        findings: all that the analysis found, ranked.
        rows: the rows of the first divergence's node (or of the node where NaN begins).
        inherited: rows that only pass an error on.
        advice: what to do about the place to look at first.
    """

    first: FindingRecord | None
    nonfinite: FindingRecord | None
    suspects: list[FindingRecord]
    findings: list[FindingRecord]
    rows: list[RowRecord] = field(default_factory=list)
    inherited: int = 0
    advice: tuple[AdviceRecord, ...] = ()

    @property
    def named(self) -> FindingRecord | None:
        """The place to look at first."""
        return self.first or self.nonfinite

    def data(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        return {
            "first_divergence": plain(self.first) if self.first is not None else None,
            "nonfinite_origin": plain(self.nonfinite) if self.nonfinite is not None else None,
            "suspects": [plain(each) for each in self.suspects],
            "findings": [plain(each) for each in self.findings],
            "rows": [plain(row) for row in self.rows],
            "inherited": self.inherited,
        }


def origin(run: StoredRun, *, scope: Scope = EVERYWHERE, shown: str = "RUN") -> OriginAnswer:
    """Return where the divergence begins, as the run concluded.

    Of one comparison when the scope names one; within a rank, step or graph it begins at the first place there that
    fails the gate.

    Args:
        run: the run.
        scope: what is asked about.
        shown: the run's folder as the user typed it, for commands.
    """
    record, findings = run.record, run.record.findings
    part: Conclusions = record
    if scope.comparison is not None:
        run.check_comparison(scope.comparison)
        part, findings = record.comparisons[scope.comparison], record.findings_of(scope.comparison)
    answer = OriginAnswer(
        first=record.at(part.first_divergence),
        nonfinite=record.at(part.nonfinite_origin),
        suspects=[each for each in map(record.at, part.suspects) if each is not None],
        findings=list(findings),
    )
    if scope.narrows:
        answer = _narrowed(answer, scope)
    named = answer.named
    stage = named.comparison if named is not None else None
    answer.advice = record.steps_for(named, shown) if named is not None else ()
    for rows in run.stored_rows(comparison=scope.comparison):
        answer.inherited += sum(1 for _ in rows.index.numbers(_is_inherited, scope.keeps))
        if named is not None and (stage is None or rows.comparison in (None, stage)):
            of_node = rows.rows(rows.index.numbers_of_calls(_codes(named)))
            answer.rows += [row for row in of_node if scope.keeps(row) and _node_of(row) == _node_of(named)]
    return answer


def _is_inherited(state: RowState) -> bool:
    return state.role is Role.INHERITED


def _codes(place: FindingRecord) -> tuple[int, ...]:
    """Return the code of the call that a finding names, if it names one."""
    if place.node is None or place.call is None or place.phase is None:
        return ()
    return (call_code(place, place.node, place.call, place.phase),)


def _narrowed(answer: OriginAnswer, scope: Scope) -> OriginAnswer:
    findings = [each for each in answer.findings if each.node is None or scope.keeps(each)]
    suspects = [each for each in answer.suspects if scope.keeps(each)]
    failing = {_tensor_of(each) for each in findings if each.fails}
    first = next((each for each in suspects if each.kind in DIVERGENCES and _tensor_of(each) in failing), None)
    nonfinite = answer.nonfinite if answer.nonfinite is not None and scope.keeps(answer.nonfinite) else None
    return OriginAnswer(first, nonfinite, suspects, findings)


_node_of = attrgetter("rank", "graph", "step", "node", "call", "phase")
_tensor_of = attrgetter("comparison", "rank", "graph", "step", "node", "call", "phase", "direction", "index")
