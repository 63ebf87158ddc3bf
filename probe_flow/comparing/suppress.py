"""Waivers and baseline of a comparison: what the gate leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct

from probe_flow.comparing.asked import Asked
from probe_flow.errors import Diagnostic
from probe_flow.records import Baseline, BaselineUse, Coverage, Finding, Pairs, Verdict, WaiverUse
from probe_flow.records.row import Row
from probe_flow.work import Context


class Excused(Struct, frozen=True):
    """Verdicts and findings after waivers and baseline, and what became of those."""

    verdicts: Sequence[Verdict]
    findings: tuple[Finding, ...]
    waivers: tuple[WaiverUse, ...] = ()
    baseline: BaselineUse | None = None
    problems: tuple[Diagnostic, ...] = ()


def open_baseline(asked: Asked, context: Context) -> Baseline | None:
    """Return the baseline of the stage, None when it has none. To be called before anything is measured.

    Raises:
        UsageError: PF7310 when the file cannot be read, PF7311 when it belongs to another workflow or stage.
    """
    if asked.baseline is None:
        return None
    from probe_flow.record.baseline_file import read_baseline

    return read_baseline(asked.baseline).of(workflow=context.facts.workflow.name, comparison=context.stage)


def waiver_metrics(asked: Asked) -> list[str]:
    """Return the metrics that bounds of waivers ask for."""
    return list(dict.fromkeys(metric for waiver in asked.waivers for metric in waiver.bounds))


def excuse(
    rows: Sequence[Row],
    pairs: Pairs,
    verdicts: Sequence[Verdict],
    findings: tuple[Finding, ...],
    *,
    asked: Asked,
    baseline: Baseline | None,
    coverage: Mapping[str, Coverage],
    context: Context,
) -> Excused:
    """Return what the gate judges: failures that are waived or accepted are marked as such."""
    found = Excused(verdicts, findings)
    if asked.waivers:
        from probe_flow.analysis.suppressions.waivers import waive

        waived = waive(rows, pairs, verdicts, findings, asked.waivers, today=_began(context))
        found = Excused(waived.verdicts, waived.findings, waived.uses, problems=waived.problems)
    if baseline is None:
        return found
    from probe_flow.analysis.suppressions.baseline import weigh

    weighed = weigh(
        rows, pairs, found.verdicts, found.findings, baseline,
        gate=asked.gate, tolerance=asked.baseline_tolerance, coverage=coverage,
    )  # fmt: skip
    return Excused(weighed.verdicts, weighed.findings, found.waivers, weighed.use, (*found.problems, *weighed.problems))


def _began(context: Context) -> date:
    """Return the day on which the run began, where it ran: `run.json` has it, so that anyone can tell later."""
    return date.fromisoformat(context.facts.timings.started[: len("2026-12-31")])
