"""The policy of pre-checks takes over what was found where each API ran: a result there is judged with its benchmark.

Pairs that nobody has judged are skipped and say so; they make a run incomplete.
"""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.analysis.policies.base import judged_verdict
from probe_flow.records import Status, Verdict
from probe_flow.records.row import Row

_NOT_JUDGED = Verdict(
    Status.SKIPPED, ("not_judged",), ("the policy `precheck` is for pairs of the stage `precheck`; name another one",)
)


class PrecheckPolicy:
    """The verdicts that pairs bring along."""

    name = "precheck"
    needs = ("cosine", "max_abs_err", "max_rel_err")

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return one verdict per row."""
        return [judged_verdict(row.pair) if row.pair.rule.is_judged else _NOT_JUDGED for row in rows]
