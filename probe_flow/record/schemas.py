"""JSON Schemas (draft 2020-12) of the result files, from the declared types; the files in ``schemas/`` are these."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec import inspect as types

from probe_flow.record.types.nodes import NodeRecord
from probe_flow.record.types.rows import DetailRecord, RowRecord
from probe_flow.record.types.run import HEAD, RunRecord
from probe_flow.record.types.values import Figure

DIALECT = "https://json-schema.org/draft/2020-12/schema"

ROOTS: Mapping[str, tuple[int, type[Struct]]] = {
    "run": (2, RunRecord),
    "comparison": (2, RowRecord),
    "nodes": (2, NodeRecord),
    "details": (1, DetailRecord),
}
"""Version and type by the name of the schema; of a file of lines, one line."""

NOT_STORED = {RowRecord: "comparison", NodeRecord: "comparison"}
"""What readers add to a line: the stage of several."""

_NUMBER = {
    "description": "null = not computable or not recorded; NaN and infinities are texts.",
    "anyOf": [{"type": ["number", "boolean", "null"]}, {"enum": ["nan", "inf", "-inf"]}],
}
_FIGURE = types.type_info(Figure)
_WORDS: Mapping[type[types.Type], str] = {
    types.NoneType: "null",
    types.BoolType: "boolean",
    types.IntType: "integer",
    types.FloatType: "number",
    types.StrType: "string",
}
_ARGUMENT = re.compile(r"^    (?P<name>\w+): (?P<text>.*(?:\n      +.*)*)", re.MULTILINE)


def schema_names() -> tuple[str, ...]:
    """Return the names of the schemas: ``NAME.schema.json`` each."""
    return tuple(ROOTS)


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a result file (``run``: the whole file; the others: one line of it)."""
    version, root = ROOTS[name]
    defs: dict[str, Any] = {}
    body = _object(types.type_info(root), defs)
    return {
        "$schema": DIALECT,
        "$id": f"urn:probe-flow:schema:{name}:{version}",
        "title": body.pop("description").rstrip("."),
        **body,
        "$defs": {"number": _NUMBER, **defs},
    }


def schema_text(name: str) -> str:
    """Return the text of ``schemas/NAME.schema.json``."""
    return json.dumps(schema(name), indent=2) + "\n"


def descriptions(kind: type[Struct]) -> dict[str, str]:
    """Return what each field of a declared type means, in the order in which the fields are published."""
    texts: dict[str, str] = {}
    for each in (*reversed(kind.__mro__), kind):
        section = inspect.cleandoc(each.__doc__ or "").partition("\nArgs:\n")[2] if issubclass(each, Struct) else ""
        texts |= {found["name"]: " ".join(found["text"].split()) for found in _ARGUMENT.finditer(section)}
    return {name: texts[name] for name in published(kind)}


def published(kind: type[Struct]) -> tuple[str, ...]:
    """Return the keys of a record in the order in which they are published."""
    head = HEAD if kind is RunRecord else ()
    left_out = (*head, NOT_STORED.get(kind, ""))
    return (*head, *(name for name in kind.__struct_fields__ if name not in left_out))


def _object(kind: types.Type, defs: dict[str, Any]) -> dict[str, Any]:
    """Return a closed object: what has no default is required."""
    assert isinstance(kind, types.StructType)
    fields = {field.name: field for field in kind.fields}
    texts = descriptions(kind.cls)
    properties = {name: {**_schema(fields[name].type, defs), "description": text} for name, text in texts.items()}
    return {
        "description": inspect.cleandoc(kind.cls.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if fields[name].required],
        "additionalProperties": False,
    }


def _schema(kind: types.Type, defs: dict[str, Any]) -> dict[str, Any]:
    if kind == _FIGURE:
        return {"$ref": "#/$defs/number"}
    if isinstance(kind, types.UnionType):
        return _union(list(_flat([_schema(each, defs) for each in kind.types])))
    if isinstance(kind, types.StructType):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.cls.__name__.removesuffix("Record")).lower()
        if name not in defs:
            defs[name] = {}
            defs[name] = _object(kind, defs)
        return {"$ref": f"#/$defs/{name}"}
    if isinstance(kind, types.EnumType):
        return {"enum": [member.value for member in kind.cls]}
    if isinstance(kind, types.LiteralType):
        return {"enum": list(kind.values)} if len(kind.values) > 1 else {"const": kind.values[0]}
    if isinstance(kind, types.VarTupleType):
        sizes = {"minItems": kind.min_length, "maxItems": kind.max_length}
        return {
            "type": "array",
            "items": _schema(kind.item_type, defs),
            **{name: size for name, size in sizes.items() if size is not None},
        }
    if isinstance(kind, types.DictType):
        keys, values = _schema(kind.key_type, defs), _schema(kind.value_type, defs)
        return {
            "type": "object",
            **({"propertyNames": keys} if "enum" in keys else {}),
            **({"additionalProperties": values} if values else {}),
        }
    if isinstance(kind, types.AnyType):
        return {}
    limits = {"minimum": getattr(kind, "ge", None), "maximum": getattr(kind, "le", None)}
    return {"type": _WORDS[type(kind)], **{name: limit for name, limit in limits.items() if limit is not None}}


def _flat(options: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for option in options:
        yield from option["anyOf"] if list(option) == ["anyOf"] else (option,)


def _union(options: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one of some schemas; in one object where they allow it."""
    if all(option.keys() <= {"enum", "type"} and option.get("type", "null") == "null" for option in options):
        return {"enum": [word for option in options for word in option.get("enum", (None,))]}
    names = [option.get("type") for option in options]
    rest = {key: value for option in options for key, value in option.items() if key != "type"}
    if None not in names and sum(len(option) > 1 for option in options) <= 1:
        return {"type": names, **rest}
    return {"anyOf": options}
