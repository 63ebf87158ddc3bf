"""Waivers and baseline of a `compare` stage: from its options to what the gate leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from probe_flow.analysis.policies.bounds import parse_bound
from probe_flow.analysis.suppressions.baseline import weigh
from probe_flow.analysis.suppressions.waivers import Waiver, waive
from probe_flow.errors import Diagnostic
from probe_flow.files.yaml.places import nearest
from probe_flow.record.baseline_file import read_baseline
from probe_flow.records import Baseline, BaselineUse, Coverage, Finding, Pairs, Verdict, WaiverUse
from probe_flow.records.measured import MeasuredPair
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.stages.compare import Options


@dataclass(frozen=True, slots=True)
class Excused:
    """Verdicts and findings after waivers and baseline, and what became of those."""

    verdicts: Sequence[Verdict]
    findings: tuple[Finding, ...]
    waivers: tuple[WaiverUse, ...] = ()
    baseline: BaselineUse | None = None
    problems: tuple[Diagnostic, ...] = ()


def open_baseline(options: Options, context: Context) -> Baseline | None:
    """Return the baseline of the stage, None when it has none. To be called before anything is measured.

    Raises:
        UsageError: PF7310 when the file cannot be read, PF7311 when it belongs to another workflow or stage.
    """
    if options.baseline is None:
        return None
    workflow = context.facts.get("workflow") or {}
    return read_baseline(options.baseline).of(workflow=str(workflow.get("name") or ""), comparison=context.stage)


def waiver_metrics(options: Options) -> list[str]:
    """Return the metrics that bounds of waivers ask for."""
    return list(dict.fromkeys(metric for waiver in options.waivers for metric in waiver.bound or ()))


def excuse(
    rows: Sequence[MeasuredPair],
    pairs: Pairs,
    verdicts: Sequence[Verdict],
    findings: tuple[Finding, ...],
    *,
    options: Options,
    baseline: Baseline | None,
    coverage: Mapping[str, Coverage],
    context: Context,
) -> Excused:
    """Return what the gate judges: failures that are waived or accepted are marked as such."""
    found = Excused(verdicts, findings)
    if options.waivers:
        waived = waive(rows, pairs, verdicts, findings, _waivers(options, context), today=_began(context))
        found = Excused(waived.verdicts, waived.findings, waived.uses, problems=waived.problems)
    if baseline is None:
        return found
    weighed = weigh(
        rows, pairs, found.verdicts, found.findings, baseline,
        gate=options.gate, tolerance=options.baseline_tolerance, coverage=coverage,
    )  # fmt: skip
    return Excused(weighed.verdicts, weighed.findings, found.waivers, weighed.use, (*found.problems, *weighed.problems))


def _waivers(options: Options, context: Context) -> list[Waiver]:
    found = []
    for number, written in enumerate(options.waivers):
        given = written.where.model_dump(exclude_none=True)
        found.append(
            Waiver(
                {key: (value,) if isinstance(value, str) else tuple(value) for key, value in given.items()},
                written.reason,
                written.owner,
                date.fromisoformat(written.expires),
                {name: bound for name, text in (written.bound or {}).items() if (bound := parse_bound(text))},
                nearest(context.place, ("waivers", number)).span if context.place is not None else None,
            )
        )
    return found


def _began(context: Context) -> date:
    """Return the day on which the run began, where it ran: `run.json` has it, so that anyone can tell later."""
    return date.fromisoformat(str(context.facts["timings"]["started"])[: len("2026-12-31")])
