"""What a policy is, and the verdicts that do not depend on any: one-sided, unreadable and incomparable rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from probe_flow.errors import Diagnostic
from probe_flow.records import Pair, SlotRole, Status, TensorKind, Verdict
from probe_flow.records.row import Row, by_node

_INCOMPARABLE = ("PF5", "PF3102", "PF3103")
"""Codes of pairs that were read but cannot be compared: no numbers, several parts, everything of comparing."""


class Policy(Protocol):
    """Judges all measured rows of one node at once, since many rules relate inputs to outputs."""

    @property
    def name(self) -> str:
        """Name for reports."""

    @property
    def needs(self) -> Sequence[str]:
        """Ids of the metrics that it judges by: they are measured whatever else the workflow asks for."""

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return one verdict per row, in the same order. Every row has a measurement."""


def judge_all(rows: Sequence[Row], policy: Policy) -> list[Verdict]:
    """Return the verdict of every row: those without a measurement by what kept it, the others by ``policy``.

    Args:
        rows: in execution order, so that those of a node follow each other.
        policy: judges the measured ones.
    """
    verdicts: list[Verdict | None] = [_without_measurement(row) for row in rows]
    passed = Verdict(Status.PASS)  # one for all: most rows pass, and there is no more to say of them
    for numbers in by_node(rows):
        judged = [number for number in numbers if verdicts[number] is None]
        for number, verdict in zip(judged, policy.judge([rows[number] for number in judged]), strict=True):
            verdicts[number] = passed if verdict == passed else verdict
    return [verdict for verdict in verdicts if verdict is not None]


@lru_cache(maxsize=256)
def _unmatched(status: Status, *codes: str) -> Verdict:
    """Return the verdict of a one-sided row, the same object for all rows of a code: why is said by the pair."""
    return Verdict(status, codes)


def verdict_of_failure(failure: Diagnostic) -> Verdict:
    """Return the verdict of a row that could not be measured: incomparable values, or an error."""
    status = Status.NOT_COMPARABLE if failure.code.startswith(_INCOMPARABLE) else Status.ERROR
    return Verdict(status, (failure.code,), (failure.message,))


def judged_verdict(pair: Pair) -> Verdict:
    """Return the verdict of whoever made a pair and judged it."""
    reason = pair.reason
    if reason is None or reason.kind.verdict is None:
        return Verdict(Status.PASS)
    return Verdict(reason.kind.verdict, (reason.code,), (reason.text,))


def _without_measurement(row: Row) -> Verdict | None:
    pair = row.pair
    if row.measurement is not None and pair.target is not None and pair.golden is not None:
        return None
    shown = pair.shown
    reasons = (pair.reason.text,) if pair.reason else ()
    rules = (pair.reason.code,) if pair.reason else ()
    if shown.kind is TensorKind.UNREADABLE and (pair.target is None or pair.golden is None):
        return Verdict(Status.ERROR, ("unreadable",), (shown.reason or "the tensor could not be read", *reasons))
    if pair.golden is None:
        return _unmatched(Status.UNMATCHED_TARGET, *rules)
    if pair.target is None:
        return _unmatched(Status.UNMATCHED_GOLDEN, *rules)
    if pair.rule.is_judged and (found := judged_verdict(pair)).status is Status.FAIL:
        return found
    if row.failure is not None:
        found = verdict_of_failure(row.failure)
        if found.status is Status.ERROR:
            return found
        # A matcher that foresaw it says more: which shapes the two have, and what to do about it.
        is_foreseen = pair.reason is not None and pair.reason.is_gap
        told = reasons if is_foreseen else found.reasons
        if shown.slot.role is SlotRole.CALL:  # how the two were paired is all that is known of them
            told = (row.failure.message, *reasons)
        return Verdict(found.status, found.rule_ids, told)
    return Verdict(Status.SKIPPED, rules, reasons or ("the row was not selected for comparison",))
