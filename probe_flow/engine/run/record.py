"""The record of a run: what `run.json` says, built up while the stages run."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import probe_flow
from probe_flow.engine.run.outcome import StageOutcome
from probe_flow.engine.run.plan import Plan
from probe_flow.record.run_json import LISTS
from probe_flow.record.run_schema import RUN_SCHEMA
from probe_flow.records import Catalog

_LIBRARIES = ("numpy", "dask", "h5py", "ml_dtypes", "numba", "torch")

_FIRST_OF = ("first_divergence", "nonfinite_origin")


def versions() -> dict[str, str]:
    """Return the versions of probe_flow, Python and the libraries whose arithmetic or files matter."""
    found = {"probe_flow": probe_flow.__version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def workflow_facts(plan: Plan) -> dict[str, Any]:
    """Return what the record says of the workflow; a relative ``path`` starts from ``folder``."""
    workflow = plan.workflow
    return {
        "name": workflow.name,
        "path": str(workflow.path),
        "folder": str(Path.cwd()),
        "description": workflow.description,
        "sample": workflow.is_sample,
        **({"templates": list(workflow.templates)} if workflow.templates else {}),
    }


def input_facts(stage: str, catalog: Catalog) -> dict[str, Any]:
    """Return the provenance of one dump."""
    return {
        "stage": stage,
        "path": catalog.root,
        "framework": catalog.framework.name,
        "task": catalog.task,
        "nodes": len(catalog.nodes),
        "tensors": len(catalog.tensors),
        "fingerprint": catalog.fingerprint,
    }


def stage_facts(outcome: StageOutcome) -> dict[str, Any]:
    """Return what the record says of one stage."""
    return {
        "name": outcome.name,
        "uses": outcome.uses,
        "status": outcome.status.value,
        "wall_s": round(outcome.wall_s, 6),
        "reason": outcome.reason or None,
    }


def merge_summaries(summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parts of the record that come from comparisons.

    One comparison's summary stands as it is. Of several, in the order of the stages: counts and coverage are added
    up, findings and suspects are listed with the stage they come from, and the first divergence is that of the first
    comparison that has one.
    """
    if len(summaries) == 1:
        return {key: value for key, value in next(iter(summaries.values())).items() if key != "dumps"}
    merged: dict[str, Any] = {
        "counts": {},
        "roles": {},
        "coverage": {},
        "caveats": [],
        **dict.fromkeys(_FIRST_OF),
        **{key: [] for key in LISTS},
    }
    for stage, summary in summaries.items():
        for key in ("counts", "roles"):
            _add(merged[key], summary[key])
        merged["caveats"] = list(dict.fromkeys((*merged["caveats"], *summary["caveats"])))
        for side, coverage in summary["coverage"].items():
            _add(merged["coverage"].setdefault(side, {}), coverage)
        for key in LISTS:
            merged[key] += [{**entry, "comparison": stage} for entry in summary[key]]
        for key in _FIRST_OF:
            if merged[key] is None and summary[key] is not None:
                merged[key] = {**summary[key], "comparison": stage}
    return merged


def _add(total: dict[str, int], part: Mapping[str, int]) -> None:
    for key, count in part.items():
        total[key] = total.get(key, 0) + count


def base_record(plan: Plan, *, run_id: str, started: str) -> dict[str, Any]:
    """Return the record as it stands when a run begins: incomplete, until the end says otherwise."""
    return {
        "schema": RUN_SCHEMA,
        "run_id": run_id,
        "workflow": workflow_facts(plan),
        "params": dict(plan.workflow.params),
        "status": "running",
        "verdict": "incomplete",
        "exit_code": 3,
        "incomplete": ["the run has not ended"],
        **merge_summaries({}),
        "comparisons": {},
        "stages": [],
        "inputs": [],
        "versions": versions(),
        "timings": {"started": started, "wall_s": None},
        "executor": {"scheduler": plan.executor.scheduler, "workers": plan.executor.workers},
        "artifacts": [],
        "problems": [warning.to_dict() for warning in plan.warnings],
    }


def stage_list(outcomes: Sequence[StageOutcome]) -> list[dict[str, Any]]:
    """Return the stages of the record, in the order in which they ran."""
    return [stage_facts(outcome) for outcome in outcomes]
