"""JSON Schemas (draft 2020-12) of the result files; the files in ``schemas/`` are these, held equal by a test."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any

from probe_flow.records import FindingKind, Phase, Role, SlotRole, Status, TensorKind, WaiverState

RUN_SCHEMA = "probe_flow.run/1"
"""``schema`` of run.json: format and version."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_JSON = Mapping[str, Any]

_TEXT: _JSON = {"type": "string"}
_TEXT_OR_NULL: _JSON = {"type": ["string", "null"]}
_INTEGER: _JSON = {"type": "integer"}
_INTEGER_OR_NULL: _JSON = {"type": ["integer", "null"]}
_COUNT: _JSON = {"type": "integer", "minimum": 0}
_COUNT_OR_NULL: _JSON = {"type": ["integer", "null"], "minimum": 0}
_TRUTH: _JSON = {"type": "boolean"}
_TEXTS: _JSON = {"type": "array", "items": _TEXT}
_GRAPH: _JSON = {"type": ["integer", "string", "null"], "description": "Graph id; null when the dump names none."}
_SHAPE: _JSON = {"type": ["array", "null"], "items": _COUNT, "description": "Logical shape; [] is a scalar."}
_NUMBER: _JSON = {
    "description": "null = not computable or not recorded; NaN and infinities are texts.",
    "anyOf": [{"type": ["number", "boolean", "null"]}, {"enum": ["nan", "inf", "-inf"]}],
}
_METRICS: _JSON = {"type": "object", "additionalProperties": {"$ref": "#/$defs/number"}}
_ANY: _JSON = {}


def schema_names() -> tuple[str, ...]:
    """Return the names of the schemas: ``NAME.schema.json`` each."""
    return ("run", "comparison", "nodes", "details")


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a result file (``run``: the whole file; the others: one line of it)."""
    return {"run": _run, "comparison": _comparison, "nodes": _nodes, "details": _details}[name]()


def schema_text(name: str) -> str:
    """Return the text of ``schemas/NAME.schema.json``."""
    return json.dumps(schema(name), indent=2) + "\n"


def _document(name: str, title: str, body: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "$schema": _DIALECT,
        "$id": f"urn:probe-flow:schema:{name}:1",
        "title": title,
        **body,
        "$defs": {"number": _NUMBER, **defs},
    }


def _object(properties: Mapping[str, Any], *, optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return a closed object: every property required except ``optional``, no other allowed."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _words(values: type[enum.Enum]) -> dict[str, Any]:
    return {"enum": [value.value for value in values]}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _number() -> dict[str, Any]:
    return {"$ref": "#/$defs/number"}


def _node_identity() -> dict[str, Any]:
    return {
        "rank": _INTEGER_OR_NULL,
        "graph": _GRAPH,
        "step": _INTEGER_OR_NULL,
        "node": {"type": "string", "description": "True name, in the target's name space unless golden-only."},
        "call": _COUNT,
        "phase": _words(Phase),
        "op_type": _TEXT,
    }


def _comparison() -> dict[str, Any]:
    side = _object(
        {
            "name": {"type": "string", "description": "Tensor id within its execution."},
            "file": {"type": ["string", "null"], "description": "Relative to the dump of its side."},
            "dtype": _TEXT,
            "shape": _SHAPE,
            "layout": _TEXT,
            "value": {"description": "Value of a scalar, text of an opaque thing, else null."},
            "requires_grad": {"type": ["boolean", "string", "null"]},
            "checksum": _TEXT_OR_NULL,
            "min": _number(),
            "max": _number(),
            "mean": _number(),
            "l2norm": _number(),
            "nan": _COUNT_OR_NULL,
            "inf": _COUNT_OR_NULL,
        }
    )
    side_or_null = _or_null({"$ref": "#/$defs/side"})
    record = _object(
        {
            "order": _COUNT,
            **_node_identity(),
            "group": _TEXT,
            "direction": _words(SlotRole),
            "index": {"type": "string", "description": "Path of the slot, e.g. 0, 1.0, weight."},
            "kind": _words(TensorKind),
            "target": side_or_null,
            "golden": side_or_null,
            "reference": side_or_null,
            "rule": {"type": "string", "description": "Matching rule that made the pair."},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "metrics": _METRICS,
            "verdict": _words(Status),
            "reason": _TEXT_OR_NULL,
            "role": _words(Role),
            "excess": {
                **_number(),
                "description": "The error over the limit of what rounding and the inputs explain: 1 is the limit, null "
                "where nothing was judged.",
            },
            "transform": {
                "type": "array",
                "items": _TEXT,
                "description": "In which order a side gives its axes where the two differ, e.g. golden:nhwc_to_nchw: "
                "its elements are read in the second order.",
            },
            "waived": {"type": "string", "description": "Why the row, or a finding at it, does not count: a waiver."},
            "accepted": {
                "type": "string",
                "description": "Why the row, or a finding at it, does not count: the baseline.",
            },
        },
        optional=("transform", "waived", "accepted"),
    )
    return _document("comparison", "One line of comparison.jsonl: a pair of tensors", record, {"side": side})


def _nodes() -> dict[str, Any]:
    edge = _object(
        {
            "input": {**_INTEGER, "description": "Input of this node that the edge reaches."},
            "producer": _TEXT,
            "call": _COUNT,
            "phase": _words(Phase),
            "output": {**_INTEGER, "description": "Output of the producer that it leaves."},
        }
    )
    argument = _object(
        {
            "direction": _words(SlotRole),
            "index": _TEXT,
            "path": {
                "type": "array",
                "items": {"type": ["integer", "string"]},
                "description": "Place in the argument tree: positions as integers, names as texts.",
            },
            "kind": _words(TensorKind),
            "dtype": _TEXT,
            "shape": _SHAPE,
            "value": _ANY,
        }
    )
    record = _object(
        {
            "side": {"enum": ["target", "golden", "reference"]},
            "order": {"type": "integer", "description": "Comparable between nodes of one execution and side only."},
            **_node_identity(),
            "parent": _TEXT_OR_NULL,
            "edges": {"type": "array", "items": {"$ref": "#/$defs/edge"}},
            "stack": {**_TEXTS, "description": "Source frames, innermost first."},
            "originals": _TEXTS,
            "passes": _TEXTS,
            "attributes": {"type": "object"},
            "arguments": {"type": "array", "items": {"$ref": "#/$defs/argument"}},
        }
    )
    return _document("nodes", "One line of nodes.jsonl: a node", record, {"edge": edge, "argument": argument})


def _details() -> dict[str, Any]:
    numbers = {"type": "array", "items": _number()}
    counts = {"type": "array", "items": _COUNT}
    error_map = _object(
        {
            "shape": {**counts, "description": "Of the tensor, as its indices count."},
            "down": {**counts, "description": "Axes that are folded into rows, in C order."},
            "across": {**counts, "description": "Axes that are folded into columns."},
            "cell": {**counts, "description": "Rows and columns that a cell holds; the last ones may hold fewer."},
            "errors": {
                "type": "array",
                "items": _number(),
                "description": "Largest absolute error of each cell, row by row, in 4 significant digits; null where "
                "no element is finite on both sides or none was compared.",
            },
            "alike": {**counts, "description": "Cells with NaN or infinities that both sides have."},
            "mismatch": {**counts, "description": "Cells where the sides disagree about NaN or infinities."},
        }
    )
    record = _object(
        {
            "order": {**_COUNT, "description": "`order` of the row in comparison.jsonl."},
            "start": {**_COUNT, "description": "Flat index of the first value of `target` and `golden`."},
            "target": {**numbers, "description": "Values around the largest error."},
            "golden": {**numbers, "description": "Values at the same places."},
            "edges": {**numbers, "description": "Bounds of the classes of absolute error, rising; the first is 0."},
            "counts": {"type": "array", "items": _COUNT, "description": "Elements in each class."},
            "equal": {**_COUNT, "description": "Elements without an error, in no class."},
            "maps": {
                "type": "array",
                "items": {"$ref": "#/$defs/error_map"},
                "description": "Where in the tensor the errors are, for the rows that are asked about first.",
            },
        }
    )
    return _document(
        "details", "One line of details.jsonl: a row looked at more closely", record, {"error_map": error_map}
    )


def _place_properties() -> dict[str, Any]:
    return {
        "node": _TEXT_OR_NULL,
        "op_type": _TEXT_OR_NULL,
        "rank": _INTEGER_OR_NULL,
        "graph": _GRAPH,
        "step": _INTEGER_OR_NULL,
        "call": _COUNT_OR_NULL,
        "phase": {"enum": [*(phase.value for phase in Phase), None]},
        "direction": {"enum": [*(role.value for role in SlotRole), None]},
        "index": _TEXT_OR_NULL,
        "golden_node": _TEXT_OR_NULL,
        "metrics": _METRICS,
        "evidence": _TEXT,
        "size": {"type": "string", "description": "How large the unexplained error is, in a few words."},
        "comparison": {"type": "string", "description": "Stage, when the run compares more than once."},
    }


def _conclusions() -> dict[str, Any]:
    """What a comparison concludes; a run states the same over all of its comparisons."""
    place = {"$ref": "#/$defs/place"}
    return {
        "counts": {"type": "object", "properties": {s.value: _COUNT for s in Status}, "additionalProperties": False},
        "roles": {"type": "object", "properties": {r.value: _COUNT for r in Role}, "additionalProperties": False},
        "coverage": {
            "type": "object",
            "properties": {"target": {"$ref": "#/$defs/coverage"}, "golden": {"$ref": "#/$defs/coverage"}},
            "additionalProperties": False,
        },
        "caveats": {**_TEXTS, "description": "What has to be said beside the verdict: partly compared, same dump ..."},
        "first_divergence": _or_null(place),
        "suspects": {"type": "array", "items": place},
        "nonfinite_origin": _or_null(place),
        "findings": {"type": "array", "items": {"$ref": "#/$defs/finding"}},
        "gate": _object({"name": _TEXT, "passed": _TRUTH, "policy": _TEXT}),
        "nodes": {**_COUNT, "description": "Operators of all sides: the lines of nodes.jsonl."},
        "waivers": {"type": "array", "items": {"$ref": "#/$defs/waiver"}},
        "baseline": {"$ref": "#/$defs/baseline"},
    }


_OPTIONAL_CONCLUSIONS = ("nodes", "waivers", "baseline")


def _waiver() -> dict[str, Any]:
    return _object(
        {
            "where": {"type": "string", "description": "Patterns of the rows that it covers."},
            "reason": _TEXT,
            "owner": _TEXT,
            "expires": {"type": "string", "description": "Last day on which it holds, as YYYY-MM-DD."},
            "bound": _TEXT_OR_NULL,
            "state": _words(WaiverState),
            "rows": {**_COUNT, "description": "Failing rows that it covers."},
            "findings": {**_COUNT, "description": "Findings that it covers."},
            "exceeded": {**_COUNT, "description": "Failures that fit its patterns but not its bound."},
        }
    )


def _baseline() -> dict[str, Any]:
    change = _object(
        {
            "node": _TEXT_OR_NULL,
            "op_type": _TEXT,
            "graph": _GRAPH,
            "call": _COUNT,
            "phase": _words(Phase),
            "slot": _TEXT,
            "kind": {"type": "string", "description": "Kind of the finding; `fail` or `nonfinite` for a row."},
            "accepted": _number(),
            "now": _number(),
            "new": _TRUTH,
        }
    )
    changes = {"type": "array", "items": change}
    return _object(
        {
            "file": _TEXT,
            "tolerance": _number(),
            "accepted": {**_COUNT, "description": "Deviations of the baseline that occur, and not larger."},
            "counts": _object({"worse": _COUNT, "better": _COUNT, "absent": _COUNT}),
            "worse": changes,
            "better": changes,
            "absent": changes,
        }
    )


def _run() -> dict[str, Any]:
    coverage = {
        **_object(
            {
                "tensors": _COUNT,
                "compared": _COUNT,
                "expected": {**_COUNT, "description": "Not compared: by nature without a counterpart."},
                "outside": {**_COUNT, "description": "Not compared: not asked for (selection, scope of a mapping)."},
                "missing": {**_COUNT, "description": "Not compared although they should be; unreadable ones included."},
                "unreadable": _COUNT,
                "outputs": {**_COUNT, "description": "Tensors that an operator wrote."},
                "outputs_compared": _COUNT,
                "outputs_missing": _COUNT,
                "outputs_nonfinite": {**_COUNT, "description": "Compared, NaN or infinite everywhere on both sides."},
                "outputs_zero": {**_COUNT, "description": "Compared, zero everywhere on both sides."},
                "outputs_silent": {**_COUNT, "description": "Of operators that ran without them in the dump."},
            }
        ),
        "description": "Tensors of one side, by what became of them.",
    }
    finding = _object(
        {
            "kind": _words(FindingKind),
            **_place_properties(),
            "severity": _number(),
            "fails": {"type": "boolean", "description": "Whether the gate `findings` fails on it."},
            "row": {**_COUNT_OR_NULL, "description": "`order` of the record in comparison.jsonl that shows it."},
            "advice": {
                "type": "array",
                "items": _object({"code": _TEXT, "text": _TEXT}),
                "description": "What to do about it; `probe-flow explain CODE` says more.",
            },
            "waived": {"type": "string", "description": "Why it does not fail the gate: a waiver."},
            "accepted": {"type": "string", "description": "Why it does not fail the gate: the baseline."},
        },
        optional=("comparison", "advice", "waived", "accepted"),
    )
    conclusions = _conclusions()
    body = {
        "type": "object",
        "properties": {
            "schema": {"const": RUN_SCHEMA},
            "workflow": {"type": "object"},
            "params": {"type": "object"},
            "verdict": {
                "enum": ["pass", "fail", "incomplete", None],
                "description": "null: the run was not asked to compare.",
            },
            "exit_code": {"enum": [0, 1, 2, 3, 130]},
            "incomplete": {**_TEXTS, "description": "Why the run is incomplete."},
            **conclusions,
            "comparisons": {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/conclusions"},
                "description": "By stage; suspects and findings stand above, with `comparison` for several.",
            },
            "stages": {"type": "array", "items": {"type": "object", "required": ["name", "uses", "status"]}},
            "inputs": {"type": "array", "items": {"type": "object", "required": ["fingerprint"]}},
            "versions": {"type": "object", "additionalProperties": _TEXT},
            "cache": {"type": "object"},
            "timings": {"type": "object"},
            "artifacts": {**_TEXTS, "description": "Files of the run, relative to its folder."},
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
        "place": _object(_place_properties(), optional=("comparison",)),
        "finding": finding,
        "dump": _object({"path": _TEXT, "framework": _TEXT, "task": _TEXT, "tensors": _COUNT, "executions": _COUNT}),
        "conclusions": _object(
            {"dumps": {"type": "object", "additionalProperties": {"$ref": "#/$defs/dump"}}, **conclusions},
            optional=(*_OPTIONAL_CONCLUSIONS, "suspects", "findings"),
        ),
        "waiver": _waiver(),
        "baseline": _baseline(),
    }
    return _document("run", "run.json: what a run of probe_flow concluded", body, defs)
