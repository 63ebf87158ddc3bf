"""The JSON Schema of workflow files (draft 2020-12), made from the models, for editors and other tools.

Wherever something other than free text is expected, a text ``${...}`` is allowed as well: its value is known later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.packages import Registry
from probe_flow.stages.base import StageType
from probe_flow.workflow.model import NAME, WorkflowFile

SCHEMA_FILE = "workflow.schema.json"
SCHEMA_ID = "urn:probe-flow:workflow:1"

Schema: TypeAlias = "dict[str, Any]"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{model}"
_INTERPOLATION = "Interpolation"
_FIXED_KEYS = frozenset({"uses", "version", "type"})
"""Keys whose value must be there when the file is read by an editor: they choose a schema."""


def schema_text(types: Mapping[str, StageType]) -> str:
    """Return the schema as the bytes of its file: sorted nowhere, two spaces, a final line break."""
    return json.dumps(workflow_schema(types), indent=2, ensure_ascii=False) + "\n"


def usable(types: Registry[StageType]) -> tuple[dict[str, StageType], list[Diagnostic]]:
    """Return the stages that a schema can be made of, and a warning for each stage of a package that is left out."""
    found = {uses: types[uses] for uses in types.built_in}
    problems: list[Diagnostic] = []
    for uses in types:
        if uses in found:
            continue
        try:
            workflow_schema({**found, uses: types[uses]})
            found[uses] = types[uses]
        except UsageError as error:
            problems += error.diagnostics
        except Exception as error:  # its options are of a package
            problems += types.unusable(uses, f"its options have no schema: {error}").diagnostics
    return found, [replace(each, severity=Severity.WARNING) for each in problems]


def workflow_schema(types: Mapping[str, StageType]) -> Schema:
    """Return the schema of a workflow file.

    Args:
        types: the stages by ``uses``.
    """
    schema = WorkflowFile.model_json_schema(ref_template=_REF)
    definitions: Schema = schema.pop("$defs")
    stages = []
    for uses, type_ in types.items():
        stage = type_.options.model_json_schema(ref_template=_REF)
        for name, definition in stage.pop("$defs", {}).items():
            assert definitions.setdefault(name, definition) == definition, f"two models are called {name}"
        definitions[uses] = {**stage, "title": uses}
        stages.append({"$ref": _REF.format(model=uses)})
    for definition in (schema, *definitions.values()):
        _admit_interpolation(definition)
    definitions[_INTERPOLATION] = {
        "title": _INTERPOLATION,
        "description": "A value that is known when the workflow is read: `${params.x}`, `${env.X}`, `${matrix.x}`.",
        "type": "string",
        "pattern": r"^\$\{.*\}$",
    }
    properties = schema["properties"]
    properties["params"]["propertyNames"] = {"pattern": NAME}
    properties["stages"] |= {"minProperties": 1, "propertyNames": {"pattern": NAME}}
    return {"$schema": _DIALECT, "$id": SCHEMA_ID, **_whole_or_extending(schema, stages), "$defs": definitions}


def _whole_or_extending(schema: Schema, stages: list[Schema]) -> Schema:
    """Return a schema that asks a workflow that extends another one only for known keys at its top.

    What it changes is complete only together with its base, which an editor does not read.
    """
    properties = schema["properties"]
    whole = {
        "required": schema.pop("required"),
        "properties": {
            "params": {"additionalProperties": properties["params"].pop("additionalProperties")},
            "stages": {"additionalProperties": {"oneOf": stages}},
        },
    }
    properties["stages"].pop("additionalProperties", None)
    change = {"type": ["object", "null"]}
    extending = {"properties": {"params": {"additionalProperties": change}, "stages": {"additionalProperties": change}}}
    return {
        "title": "probe_flow workflow",
        **{key: value for key, value in schema.items() if key != "title"},
        "if": {"required": ["extends"]},
        "then": extending,
        "else": whole,
    }


def _admit_interpolation(definition: Schema) -> None:
    for name, value in definition.get("properties", {}).items():
        if name not in _FIXED_KEYS:
            definition["properties"][name] = _admitting(value)


def _admitting(schema: Schema) -> Schema:
    """Return a property's schema that also takes an interpolation where it would not take any text."""
    inner = dict(schema)
    if "items" in inner:
        inner["items"] = _admitting(inner["items"])
    if isinstance(inner.get("additionalProperties"), dict):
        inner["additionalProperties"] = _admitting(inner["additionalProperties"])
    if "anyOf" in inner:
        options = [_admitting_inside(option) for option in inner["anyOf"]]
        if not any(_takes_any_text(option) for option in options):
            options.append({"$ref": _REF.format(model=_INTERPOLATION)})
        return {**inner, "anyOf": options}
    if _takes_any_text(inner) or "$ref" in inner or inner.get("type") == "object" or not _is_typed(inner):
        return inner
    kept: Schema = {key: inner.pop(key) for key in ("title", "description", "default", "examples") if key in inner}
    return {**kept, "anyOf": [inner, {"$ref": _REF.format(model=_INTERPOLATION)}]}


def _admitting_inside(option: Schema) -> Schema:
    """Return a branch of a union; the union itself takes the interpolation, its items take their own."""
    inner = dict(option)
    for key in ("items", "additionalProperties"):
        if isinstance(inner.get(key), dict):
            inner[key] = _admitting(inner[key])
    return inner


def _is_typed(schema: Schema) -> bool:
    return "type" in schema or "enum" in schema or "const" in schema


def _takes_any_text(schema: Schema) -> bool:
    return schema.get("type") == "string" and not schema.keys() & {"enum", "const", "pattern"}
