"""Examine one dump by itself: the record, gate and coverage of a comparison, without a golden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from probe_flow.analysis.coverage import caveats, cover, examination_gaps
from probe_flow.analysis.policies.base import verdict_of_failure
from probe_flow.analysis.search.nonfinite import conclude_nonfinite
from probe_flow.analysis.search.overflow import conclude_overflow
from probe_flow.analysis.silent_operators import silence_problems, silent_sides
from probe_flow.comparing.asked import Asked
from probe_flow.comparing.steps import check_memory, gate_passes, with_verdicts
from probe_flow.comparing.suppress import excuse, open_baseline
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.measure.run import examine_tensors
from probe_flow.records import Catalog, Comparison, Finding, Pair, Pairs, Row, Rule, Status, TensorKind, Verdict
from probe_flow.records.row import in_execution_order
from probe_flow.work import Context

EXAMINED = Rule("examined")
_WITHOUT_VALUE = frozenset((TensorKind.OPAQUE, TensorKind.NULL))


Search: TypeAlias = Callable[
    [Sequence[Row], Pairs, Callable[[Row], Verdict]], tuple[tuple[Finding, ...], list[Verdict]]
]
"""Returns the findings of an examination, the most important first, and the verdicts of all rows."""


def examine_nonfinite(dump: Catalog, asked: Asked, context: Context) -> Comparison:
    """Return where NaN and infinities begin in a dump: `Pairs.is_examination`, findings of kind ``nonfinite_origin``.

    Args:
        dump: of any scenario.
        asked: its gate, waivers, baseline and required coverage; the rest is about pairs.
        context: scheduler, cache and settings.
    """
    return _examine(dump, asked, context, conclude_nonfinite, "nonfinite")


def examine_overflow(dump: Catalog, asked: Asked, context: Context, *, growth: float) -> Comparison:
    """Return the same with the level of every call, and sudden growth; mean and norm count too.

    Args:
        dump, asked, context: as of `examine_nonfinite`.
        growth: from how many times its largest input on a result is named.
    """
    return _examine(dump, asked, context, partial(conclude_overflow, growth=growth), "overflow")


def _examine(dump: Catalog, asked: Asked, context: Context, search: Search, policy: str) -> Comparison:
    check_memory(len(dump.tensors), context.settings.memory_bytes)
    baseline = open_baseline(asked, context)
    pairs = examined(dump)
    rows = examine_tensors(in_execution_order(pairs), context)
    findings, verdicts = search(rows, pairs, unmeasured)
    silent = silent_sides(pairs)
    coverage = {"target": cover(pairs, rows, verdicts, silent)["target"]}
    excused = excuse(
        rows, pairs, verdicts, findings, asked=asked, baseline=baseline, coverage=coverage, context=context
    )
    return Comparison(
        pairs=pairs,
        rows=with_verdicts(rows, excused.verdicts),
        findings=excused.findings,
        coverage=coverage,
        gate=asked.gate,
        gate_passed=gate_passes(asked.gate, excused.findings, excused.verdicts),
        incomplete=examination_gaps(rows, verdicts, coverage, required=asked.required.coverage),
        caveats=caveats(pairs, coverage, required=asked.required),
        policy=policy,
        problems=(*dump.problems, *silence_problems(silent, pairs), *excused.problems),
        waivers=excused.waivers,
        baseline=excused.baseline,
    )


def unmeasured(row: Row) -> Verdict:
    """Return the verdict of a row of which nothing was measured: what failed, or that it holds no value."""
    if row.failure is not None:
        return verdict_of_failure(row.failure)
    reason = row.pair.reason
    assert reason is not None, "what has values is measured, or fails"
    return Verdict(Status.NOT_COMPARABLE, (reason.code,), (reason.text,))


def examined(dump: Catalog) -> Pairs:
    """Return each tensor of a dump alone, against a golden that is no dump; the dump counts as the target."""
    reason = CommonReason.NOT_TENSOR.expected("it holds no numeric value")
    pairs = [
        Pair(tensor, None, "", EXAMINED, reason=reason if tensor.kind in _WITHOUT_VALUE else None)
        for tensor in dump.tensors
    ]
    return Pairs.alone(dump, tuple(pairs))
