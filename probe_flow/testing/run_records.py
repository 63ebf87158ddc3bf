"""Records of runs: what every run.json has, with what a test says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from probe_flow.record.types.run import RUN_SCHEMA, RunRecord

FINDING: Mapping[str, Any] = {
    "kind": "origin", "node": "Add_2", "name": "Add_2", "op_type": "AddV2", "rank": 0, "graph": 1, "step": 0, "call": 0,
    "phase": "forward", "direction": "output", "index": "0", "golden_node": "add_1", "metrics": {}, "evidence": "",
    "size": "", "severity": 2.0, "fails": True, "row": None,
}  # fmt: skip

WORKFLOW: Mapping[str, Any] = {"name": "", "path": "w.yaml", "folder": "", "description": None, "sample": False}

GATE: Mapping[str, Any] = {"name": "findings", "passed": True, "policy": "torchair"}

PROBLEM: Mapping[str, Any] = {
    "code": "PF3011", "severity": "warning", "message": "", "file": None, "line": None, "column": None,
    "end_line": None, "end_column": None, "path": None, "help": None, "notes": [], "stage": None, "tensor": None,
}  # fmt: skip

STAGE: Mapping[str, Any] = {"name": "", "uses": "", "status": "done", "wall_s": 0.0, "reason": None}

INPUT: Mapping[str, Any] = {
    "stage": "target", "path": "/dumps", "framework": "torchair_ge", "task": "tensor", "nodes": 0, "tensors": 0,
    "fingerprint": "ab",
}  # fmt: skip

COVERAGE: Mapping[str, int] = dict.fromkeys(
    (
        "tensors", "compared", "expected", "outside", "missing", "unreadable", "outputs", "outputs_compared",
        "outputs_missing", "outputs_nonfinite", "outputs_zero", "outputs_silent",
    ),
    0,
)  # fmt: skip

CONCLUSIONS: Mapping[str, Any] = {
    "counts": {}, "roles": {}, "coverage": {}, "caveats": [], "first_divergence": None, "suspects": [],
    "nonfinite_origin": None, "finding_counts": {},
}  # fmt: skip


def finding(**said: Any) -> dict[str, Any]:
    """Return a finding; its name is that of its node if nothing else is said."""
    return {**FINDING, **({"name": said["node"]} if "node" in said else {}), **said}


def run_data(**said: Any) -> dict[str, Any]:
    """Return the content of run.json, by default of a run that compared nothing and passes.

    Findings, coverage, the workflow and what comparisons conclude need only what matters to the test. The findings are
    counted, and the first divergence is the first failing origin, if nothing else is said.
    """
    findings = [finding(**each) for each in said.get("findings", ())]
    kinds = dict.fromkeys(each["kind"] for each in findings)
    failing = Counter(each["kind"] for each in findings if each["fails"] and each["node"] is not None)
    first = (place for place, each in enumerate(findings) if each["kind"] == "origin" and each["fails"])
    nonfinite = (place for place, each in enumerate(findings) if each["kind"] == "nonfinite_origin")
    record = {
        "schema": RUN_SCHEMA, "run_id": "run", "params": {}, "status": "ended", "verdict": "pass",
        "exit_code": 0, "incomplete": [], **CONCLUSIONS, "stages": [], "inputs": [],
        "first_divergence": next(first, None), "nonfinite_origin": next(nonfinite, None),
        "finding_counts": {
            kind: {"found": sum(each["kind"] == kind for each in findings), "failing": failing[kind]} for kind in kinds
        },
        "versions": {}, "timings": {"started": "2026-01-02T03:04:05+00:00", "wall_s": None}, "executor": {},
        "artifacts": [], "problems": [], **said, "findings": findings,
    }  # fmt: skip
    record["workflow"] = {**WORKFLOW, **said.get("workflow", {})}
    record["coverage"] = {side: {**COVERAGE, **counts} for side, counts in record["coverage"].items()}
    for name, whole in (("problems", PROBLEM), ("stages", STAGE), ("inputs", INPUT)):
        record[name] = [{**whole, **each} for each in record[name]]
    record["comparisons"] = {
        name: {**CONCLUSIONS, "dumps": {}, **part, **({"gate": {**GATE, **part["gate"]}} if "gate" in part else {})}
        for name, part in said.get("comparisons", {}).items()
    }
    return record


def run_record(**said: Any) -> RunRecord:
    """Return the record of a run that compared nothing and passes, with what is said of it as in `run_data`."""
    return msgspec.convert(run_data(**said), RunRecord)
