"""What the schemas of result files are made of: the types of their values, and objects of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"

JSON = Mapping[str, Any]

TEXT: JSON = {"type": "string"}
TEXT_OR_NULL: JSON = {"type": ["string", "null"]}
INTEGER: JSON = {"type": "integer"}
INTEGER_OR_NULL: JSON = {"type": ["integer", "null"]}
COUNT: JSON = {"type": "integer", "minimum": 0}
COUNT_OR_NULL: JSON = {"type": ["integer", "null"], "minimum": 0}
TRUTH: JSON = {"type": "boolean"}
TEXTS: JSON = {"type": "array", "items": TEXT}
GRAPH: JSON = {"type": ["integer", "string", "null"], "description": "Graph id; null when the dump names none."}
SHAPE: JSON = {"type": ["array", "null"], "items": COUNT, "description": "Logical shape; [] is a scalar."}
NUMBER: JSON = {
    "description": "null = not computable or not recorded; NaN and infinities are texts.",
    "anyOf": [{"type": ["number", "boolean", "null"]}, {"enum": ["nan", "inf", "-inf"]}],
}
METRICS: JSON = {"type": "object", "additionalProperties": {"$ref": "#/$defs/number"}}
ANY: JSON = {}


def document(name: str, title: str, body: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "$schema": DIALECT,
        "$id": f"urn:probe-flow:schema:{name}:1",
        "title": title,
        **body,
        "$defs": {"number": NUMBER, **defs},
    }


def closed(properties: Mapping[str, Any], *, optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return a closed object: every property required except ``optional``, no other allowed."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def open_object(*required: str, **properties: JSON) -> dict[str, Any]:
    """Return an object that may have further properties."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def words(values: type[enum.Enum]) -> dict[str, Any]:
    return {"enum": [value.value for value in values]}


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def number() -> dict[str, Any]:
    return {"$ref": "#/$defs/number"}
