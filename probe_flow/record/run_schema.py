"""JSON Schema of run.json."""

from __future__ import annotations

from typing import Any

from probe_flow.record.schema_words import (
    COUNT,
    COUNT_OR_NULL,
    GRAPH,
    INTEGER_OR_NULL,
    METRICS,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    closed,
    document,
    number,
    open_object,
    or_null,
    words,
)
from probe_flow.records import FindingKind, Phase, Role, SlotRole, Status, WaiverState

RUN_SCHEMA = "probe_flow.run/1"
"""``schema`` of run.json: format and version."""


def _place_properties() -> dict[str, Any]:
    return {
        "node": TEXT_OR_NULL,
        "op_type": TEXT_OR_NULL,
        "rank": INTEGER_OR_NULL,
        "graph": GRAPH,
        "step": INTEGER_OR_NULL,
        "call": COUNT_OR_NULL,
        "phase": {"enum": [*(phase.value for phase in Phase), None]},
        "direction": {"enum": [*(role.value for role in SlotRole), None]},
        "index": TEXT_OR_NULL,
        "golden_node": TEXT_OR_NULL,
        "metrics": METRICS,
        "evidence": TEXT,
        "size": {"type": "string", "description": "How large the unexplained error is, in a few words."},
        "source": {"type": "string", "description": "File and line of the call, where the dump has stacks."},
        "comparison": {"type": "string", "description": "Stage, when the run compares more than once."},
    }


def _conclusions() -> dict[str, Any]:
    """What a comparison concludes; a run states the same over all of its comparisons."""
    place = {"$ref": "#/$defs/place"}
    return {
        "counts": {"type": "object", "propertyNames": words(Status), "additionalProperties": COUNT},
        "roles": {"type": "object", "propertyNames": words(Role), "additionalProperties": COUNT},
        "coverage": {
            "type": "object",
            "propertyNames": {"enum": ["target", "golden"]},
            "additionalProperties": {"$ref": "#/$defs/coverage"},
        },
        "caveats": {**TEXTS, "description": "What has to be said beside the verdict: partly compared, same dump ..."},
        "first_divergence": or_null(place),
        "suspects": {"type": "array", "items": place},
        "nonfinite_origin": or_null(place),
        "findings": {"type": "array", "items": {"$ref": "#/$defs/finding"}},
        "gate": closed({"name": TEXT, "passed": TRUTH, "policy": TEXT}),
        "nodes": {**COUNT, "description": "Operators of all sides: the lines of nodes.jsonl."},
        "waivers": {"type": "array", "items": {"$ref": "#/$defs/waiver"}},
        "baseline": {"$ref": "#/$defs/baseline"},
    }


_OPTIONAL_CONCLUSIONS = ("nodes", "waivers", "baseline")


def _waiver() -> dict[str, Any]:
    return closed(
        {
            "where": {"type": "string", "description": "Patterns of the rows that it covers."},
            "reason": TEXT,
            "owner": TEXT,
            "expires": {"type": "string", "description": "Last day on which it holds, as YYYY-MM-DD."},
            "bound": TEXT_OR_NULL,
            "state": words(WaiverState),
            "rows": {**COUNT, "description": "Failing rows that it covers."},
            "findings": {**COUNT, "description": "Findings that it covers."},
            "exceeded": {**COUNT, "description": "Failures that fit its patterns but not its bound."},
        }
    )


def _baseline() -> dict[str, Any]:
    change = closed(
        {
            "node": TEXT_OR_NULL,
            "op_type": TEXT,
            "graph": GRAPH,
            "call": COUNT,
            "phase": words(Phase),
            "slot": TEXT,
            "kind": {"type": "string", "description": "Kind of the finding; `fail` or `nonfinite` for a row."},
            "accepted": number(),
            "now": number(),
            "new": TRUTH,
        }
    )
    changes = {"type": "array", "items": change}
    return closed(
        {
            "file": TEXT,
            "tolerance": number(),
            "accepted": {**COUNT, "description": "Deviations of the baseline that occur, and not larger."},
            "counts": closed({"worse": COUNT, "better": COUNT, "absent": COUNT}),
            "worse": changes,
            "better": changes,
            "absent": changes,
        }
    )


def run_schema() -> dict[str, Any]:
    coverage = {
        **closed(
            {
                "tensors": COUNT,
                "compared": COUNT,
                "expected": {**COUNT, "description": "Not compared: by nature without a counterpart."},
                "outside": {**COUNT, "description": "Not compared: not asked for (selection, scope of a mapping)."},
                "missing": {**COUNT, "description": "Not compared although they should be; unreadable ones included."},
                "unreadable": COUNT,
                "outputs": {**COUNT, "description": "Tensors that an operator wrote."},
                "outputs_compared": COUNT,
                "outputs_missing": COUNT,
                "outputs_nonfinite": {**COUNT, "description": "Compared, NaN or infinite everywhere on both sides."},
                "outputs_zero": {**COUNT, "description": "Compared, zero everywhere on both sides."},
                "outputs_silent": {**COUNT, "description": "Of operators that ran without them in the dump."},
            }
        ),
        "description": "Tensors of one side, by what became of them.",
    }
    finding = closed(
        {
            "kind": words(FindingKind),
            **_place_properties(),
            "severity": number(),
            "fails": {"type": "boolean", "description": "Whether the gate `findings` fails on it."},
            "row": {**COUNT_OR_NULL, "description": "`order` of the record in comparison.jsonl that shows it."},
            "advice": {
                "type": "array",
                "items": closed({"code": TEXT, "text": TEXT}),
                "description": "What to do about it; `probe-flow explain CODE` says more.",
            },
            "waived": {"type": "string", "description": "Why it does not fail the gate: a waiver."},
            "accepted": {"type": "string", "description": "Why it does not fail the gate: the baseline."},
        },
        optional=("comparison", "source", "advice", "waived", "accepted"),
    )
    conclusions = _conclusions()
    body = {
        "type": "object",
        "properties": {
            "schema": {"const": RUN_SCHEMA},
            "run_id": TEXT,
            "workflow": open_object(
                name=TEXT, path=TEXT, folder=TEXT, description=TEXT_OR_NULL, sample=TRUTH, templates=TEXTS
            ),
            "params": {"type": "object"},
            "verdict": {
                "enum": ["pass", "fail", "incomplete", None],
                "description": "null: the run was not asked to compare.",
            },
            "status": {
                "enum": ["running", "ended", "interrupted"],
                "description": "`running` also of a run that was killed.",
            },
            "exit_code": {"enum": [0, 1, 2, 3, 129, 130, 143], "description": "Above 128: the number of a signal."},
            "incomplete": {**TEXTS, "description": "Why the run is incomplete."},
            **conclusions,
            "comparisons": {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/conclusions"},
                "description": "By stage; suspects and findings stand above, with `comparison` for several.",
            },
            "stages": {
                "type": "array",
                "items": open_object(
                    "name",
                    "uses",
                    "status",
                    name=TEXT,
                    uses=TEXT,
                    status=TEXT,
                    wall_s=number(),
                    reason=TEXT_OR_NULL,
                ),
            },
            "inputs": {
                "type": "array",
                "items": open_object(
                    "fingerprint",
                    stage=TEXT,
                    path=TEXT,
                    framework=TEXT,
                    task=TEXT,
                    nodes=COUNT,
                    tensors=COUNT,
                    fingerprint=TEXT,
                ),
            },
            "versions": {"type": "object", "additionalProperties": TEXT},
            "cache": {"type": "object"},
            "timings": open_object(started=TEXT, wall_s=number()),
            "executor": {"type": "object"},
            "problems": {
                "type": "array",
                "items": open_object(
                    code=TEXT,
                    severity=TEXT,
                    message=TEXT,
                    file=TEXT_OR_NULL,
                    line=COUNT_OR_NULL,
                    column=COUNT_OR_NULL,
                    path=TEXT_OR_NULL,
                    help=TEXT_OR_NULL,
                    notes=TEXTS,
                    stage=TEXT_OR_NULL,
                    tensor=TEXT_OR_NULL,
                ),
                "description": "Diagnostics of the run.",
            },
            "artifacts": {**TEXTS, "description": "Files of the run, relative to its folder."},
        },
        "required": [
            "schema",
            "workflow",
            "params",
            "verdict",
            "exit_code",
            *(name for name in conclusions if name not in ("gate", *_OPTIONAL_CONCLUSIONS)),
            "stages",
            "inputs",
            "versions",
            "timings",
            "artifacts",
        ],
    }
    defs = {
        "coverage": coverage,
        "place": closed(_place_properties(), optional=("comparison", "source")),
        "finding": finding,
        "dump": closed({"path": TEXT, "framework": TEXT, "task": TEXT, "tensors": COUNT, "executions": COUNT}),
        "conclusions": closed(
            {"dumps": {"type": "object", "additionalProperties": {"$ref": "#/$defs/dump"}}, **conclusions},
            optional=(*_OPTIONAL_CONCLUSIONS, "suspects", "findings"),
        ),
        "waiver": _waiver(),
        "baseline": _baseline(),
    }
    return document("run", "run.json: what a run of probe_flow concluded", body, defs)
