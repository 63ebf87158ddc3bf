"""The record of a run: what `run.json` says, built up while the stages run."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from probe_flow.engine.run.outcome import StageOutcome
from probe_flow.engine.run.plan import Plan
from probe_flow.errors import Diagnostic
from probe_flow.packages import version_of
from probe_flow.record.run_json import NOTHING, Summary, begun
from probe_flow.record.types.conclusions import (
    ComparisonRecord,
    Conclusions,
    CoverageRecord,
    FindingCount,
    FindingRecord,
)
from probe_flow.record.types.run import (
    InputRecord,
    ProblemRecord,
    RunRecord,
    StageRecord,
    TimingsRecord,
    WorkflowRecord,
)
from probe_flow.records import Catalog
from probe_flow.version import __version__

_LIBRARIES = ("numpy", "dask", "h5py", "ml_dtypes", "numba", "torch")

K = TypeVar("K")
R = TypeVar("R", bound=msgspec.Struct)


def versions() -> dict[str, str]:
    """Return the versions of probe_flow, Python and the libraries whose arithmetic or files matter."""
    found = {"probe_flow": __version__, "python": platform.python_version()}
    return found | {library: known for library in _LIBRARIES if (known := version_of(library)) is not None}


def workflow_facts(plan: Plan) -> WorkflowRecord:
    """Return what the record says of the workflow; a relative ``path`` starts from ``folder``."""
    workflow = plan.workflow
    return WorkflowRecord(
        workflow.name,
        str(workflow.path),
        str(Path.cwd()),
        workflow.description,
        workflow.is_sample,
        tuple(workflow.templates),
    )


def input_facts(stage: str, catalog: Catalog) -> InputRecord:
    """Return the provenance of one dump."""
    return InputRecord(
        stage,
        catalog.root,
        catalog.framework.name,
        catalog.task,
        len(catalog.nodes),
        len(catalog.tensors),
        catalog.fingerprint,
    )


def stage_facts(outcome: StageOutcome) -> StageRecord:
    """Return what the record says of one stage."""
    return StageRecord(
        outcome.name, outcome.uses, outcome.status.value, round(outcome.wall_s, 6), outcome.reason or None
    )


def problem_facts(problems: Iterable[Diagnostic]) -> tuple[ProblemRecord, ...]:
    """Return what the record says of diagnostics."""
    return tuple(msgspec.convert(problem.to_dict(), ProblemRecord) for problem in problems)


def with_summaries(record: RunRecord, summaries: Mapping[str, Summary]) -> RunRecord:
    """Return the record with what its comparisons conclude.

    The conclusions of one comparison are those of the run. Of several, in the order of the stages: counts and coverage
    are added up, findings are listed with the stage they come from, and the first divergence is that of the first
    comparison that has one.
    """
    if len(summaries) == 1:
        ((name, (part, findings)),) = summaries.items()
        return _with(record, part, findings, {name: part})
    merged, findings, comparisons = NOTHING, (), dict[str, ComparisonRecord]()
    for stage, (alone, own) in summaries.items():
        part = comparisons[stage] = _shifted(alone, len(findings))
        findings += tuple(replace(each, comparison=stage) for each in own)
        merged = _merged(merged, part)
    return _with(record, merged, findings, comparisons)


def so_far(record: RunRecord, unwritten: Container[str]) -> RunRecord:
    """Return the record of a run that goes on: without files that are not whole yet, and without its findings.

    Findings may be thousands, and stages many.
    """
    nothing: dict[str, Any] = {"first_divergence": None, "suspects": (), "nonfinite_origin": None}
    comparisons = {name: replace(part, **nothing) for name, part in record.comparisons.items()}
    artifacts = tuple(name for name in record.artifacts if name not in unwritten)
    return replace(record, findings=(), comparisons=comparisons, artifacts=artifacts, **nothing)


def _with(
    record: RunRecord,
    part: Conclusions,
    findings: tuple[FindingRecord, ...],
    comparisons: dict[str, ComparisonRecord],
) -> RunRecord:
    conclusions = {name: getattr(part, name) for name in Conclusions.__struct_fields__}
    return replace(record, **conclusions, findings=findings, comparisons=comparisons)


def _shifted(part: ComparisonRecord, before: int) -> ComparisonRecord:
    """Return conclusions that point into the findings of the run, of which some of other comparisons come before."""
    first, nonfinite = part.first_divergence, part.nonfinite_origin
    return replace(
        part,
        first_divergence=None if first is None else first + before,
        suspects=tuple(position + before for position in part.suspects),
        nonfinite_origin=None if nonfinite is None else nonfinite + before,
    )


def _merged(merged: Conclusions, part: ComparisonRecord) -> Conclusions:
    first, nonfinite = merged.first_divergence, merged.nonfinite_origin
    return replace(
        merged,
        counts=_sum(merged.counts, part.counts),
        roles=_sum(merged.roles, part.roles),
        coverage=_added(merged.coverage, part.coverage, CoverageRecord),
        caveats=tuple(dict.fromkeys((*merged.caveats, *part.caveats))),
        first_divergence=part.first_divergence if first is None else first,
        suspects=(*merged.suspects, *part.suspects),
        nonfinite_origin=part.nonfinite_origin if nonfinite is None else nonfinite,
        finding_counts=_added(merged.finding_counts, part.finding_counts, FindingCount),
    )


def _sum(one: Mapping[K, int], other: Mapping[K, int]) -> dict[K, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *(key for key in other if key not in one))}


def _added(one: Mapping[K, R], other: Mapping[K, R], kind: type[R]) -> dict[K, R]:
    """Return records of counts, those under one key added up."""
    found = dict(one)
    for key, part in other.items():
        counts = Counter(asdict(part))
        counts.update(asdict(found[key]) if key in found else {})
        found[key] = kind(**counts)
    return found


def base_record(plan: Plan, *, run_id: str, started: str) -> RunRecord:
    """Return the record as it stands when a run begins: incomplete, until the end says otherwise."""
    return replace(
        begun(workflow_facts(plan), versions()),
        run_id=run_id,
        params=dict(plan.workflow.params),
        timings=TimingsRecord(started, None),
        executor={"scheduler": plan.executor.scheduler, "workers": plan.executor.workers},
        problems=problem_facts(plan.warnings),
    )


def stage_list(outcomes: Sequence[StageOutcome]) -> tuple[StageRecord, ...]:
    """Return the stages of the record, in the order in which they ran."""
    return tuple(map(stage_facts, outcomes))
