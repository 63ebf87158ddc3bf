"""JSON Schemas (draft 2020-12) of the result files; the files in ``schemas/`` are these, held equal by a test."""

from __future__ import annotations

import json
from typing import Any

from probe_flow.record.run_schema import run_schema
from probe_flow.record.schema_words import (
    ANY,
    COUNT,
    COUNT_OR_NULL,
    GRAPH,
    INTEGER,
    INTEGER_OR_NULL,
    METRICS,
    SHAPE,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    closed,
    document,
    number,
    or_null,
    words,
)
from probe_flow.records import Phase, Role, SlotRole, Status, TensorKind


def schema_names() -> tuple[str, ...]:
    """Return the names of the schemas: ``NAME.schema.json`` each."""
    return ("run", "comparison", "nodes", "details")


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a result file (``run``: the whole file; the others: one line of it)."""
    return {"run": run_schema, "comparison": _comparison, "nodes": _nodes, "details": _details}[name]()


def schema_text(name: str) -> str:
    """Return the text of ``schemas/NAME.schema.json``."""
    return json.dumps(schema(name), indent=2) + "\n"


def _node_identity() -> dict[str, Any]:
    return {
        "rank": INTEGER_OR_NULL,
        "graph": GRAPH,
        "step": INTEGER_OR_NULL,
        "node": {"type": "string", "description": "True name, in the target's name space unless golden-only."},
        "call": COUNT,
        "phase": words(Phase),
        "op_type": TEXT,
    }


def _comparison() -> dict[str, Any]:
    side = closed(
        {
            "name": {"type": "string", "description": "Tensor id within its execution."},
            "file": {"type": ["string", "null"], "description": "Relative to the dump of its side."},
            "dtype": TEXT,
            "shape": SHAPE,
            "layout": TEXT,
            "value": {"description": "Value of a scalar, text of an opaque thing, else null."},
            "requires_grad": {"type": ["boolean", "string", "null"]},
            "checksum": TEXT_OR_NULL,
            "min": number(),
            "max": number(),
            "mean": number(),
            "l2norm": number(),
            "nan": COUNT_OR_NULL,
            "inf": COUNT_OR_NULL,
        }
    )
    side_or_null = or_null({"$ref": "#/$defs/side"})
    record = closed(
        {
            "order": COUNT,
            **_node_identity(),
            "group": TEXT,
            "direction": words(SlotRole),
            "index": {"type": "string", "description": "Path of the slot, e.g. 0, 1.0, weight."},
            "kind": words(TensorKind),
            "target": side_or_null,
            "golden": side_or_null,
            "reference": side_or_null,
            "rule": {"type": "string", "description": "Matching rule that made the pair."},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "metrics": METRICS,
            "verdict": words(Status),
            "reason": TEXT_OR_NULL,
            "role": words(Role),
            "excess": {
                **number(),
                "description": "The error over the limit of what rounding and the inputs explain: 1 is the limit, null "
                "where nothing was judged.",
            },
            "transform": {
                "type": "array",
                "items": TEXT,
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
    return document("comparison", "One line of comparison.jsonl: a pair of tensors", record, {"side": side})


def _nodes() -> dict[str, Any]:
    edge = closed(
        {
            "input": {**INTEGER, "description": "Input of this node that the edge reaches."},
            "producer": TEXT,
            "call": COUNT,
            "phase": words(Phase),
            "output": {**INTEGER, "description": "Output of the producer that it leaves."},
        }
    )
    argument = closed(
        {
            "direction": words(SlotRole),
            "index": TEXT,
            "path": {
                "type": "array",
                "items": {"type": ["integer", "string"]},
                "description": "Place in the argument tree: positions as integers, names as texts.",
            },
            "kind": words(TensorKind),
            "dtype": TEXT,
            "shape": SHAPE,
            "value": ANY,
        }
    )
    record = closed(
        {
            "side": {"enum": ["target", "golden", "reference"]},
            "order": {"type": "integer", "description": "Comparable between nodes of one execution and side only."},
            **_node_identity(),
            "parent": TEXT_OR_NULL,
            "edges": {"type": "array", "items": {"$ref": "#/$defs/edge"}},
            "stack": {**TEXTS, "description": "Source frames, innermost first."},
            "originals": TEXTS,
            "passes": TEXTS,
            "attributes": {"type": "object"},
            "arguments": {"type": "array", "items": {"$ref": "#/$defs/argument"}},
        }
    )
    return document("nodes", "One line of nodes.jsonl: a node", record, {"edge": edge, "argument": argument})


def _details() -> dict[str, Any]:
    numbers = {"type": "array", "items": number()}
    counts = {"type": "array", "items": COUNT}
    error_map = closed(
        {
            "shape": {**counts, "description": "Of the tensor, as its indices count."},
            "down": {**counts, "description": "Axes that are folded into rows, in C order."},
            "across": {**counts, "description": "Axes that are folded into columns."},
            "cell": {**counts, "description": "Rows and columns that a cell holds; the last ones may hold fewer."},
            "errors": {
                "type": "array",
                "items": number(),
                "description": "Largest absolute error of each cell, row by row, in 4 significant digits; null where "
                "no element is finite on both sides or none was compared.",
            },
            "alike": {**counts, "description": "Cells with NaN or infinities that both sides have."},
            "mismatch": {**counts, "description": "Cells where the sides disagree about NaN or infinities."},
        }
    )
    record = closed(
        {
            "order": {**COUNT, "description": "`order` of the row in comparison.jsonl."},
            "start": {**COUNT, "description": "Flat index of the first value of `target` and `golden`."},
            "target": {**numbers, "description": "Values around the largest error."},
            "golden": {**numbers, "description": "Values at the same places."},
            "edges": {**numbers, "description": "Bounds of the classes of absolute error, rising; the first is 0."},
            "counts": {"type": "array", "items": COUNT, "description": "Elements in each class."},
            "equal": {**COUNT, "description": "Elements without an error, in no class."},
            "maps": {
                "type": "array",
                "items": {"$ref": "#/$defs/error_map"},
                "description": "Where in the tensor the errors are, for the rows that are asked about first.",
            },
        }
    )
    return document(
        "details", "One line of details.jsonl: a row looked at more closely", record, {"error_map": error_map}
    )
