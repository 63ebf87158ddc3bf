"""What is checked of the records of a stored run when they are read: enough for those who read them to rely on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeGuard

Check = Callable[[Any], bool]

Types = Mapping[str, frozenset[type]]
"""Allowed types of the value of each key."""

_LARGEST = 2**64
"""Magnitude of the largest whole number in a record: what a tensor can hold."""

_TEXT: frozenset[type] = frozenset({str})
_INTEGER_OR_NONE: frozenset[type] = frozenset({int, type(None)})
_NAME_OR_NONE: frozenset[type] = frozenset({int, str, type(None)})
_TEXT_OR_NONE: frozenset[type] = frozenset({str, type(None)})
_OBJECT_OR_NONE: frozenset[type] = frozenset({dict, type(None)})
_LIST_OR_NONE: frozenset[type] = frozenset({list, type(None)})

_PLACE: Types = MappingProxyType(
    {
        "node": _TEXT,
        "rank": _INTEGER_OR_NONE,
        "graph": _NAME_OR_NONE,
        "step": _INTEGER_OR_NONE,
        "call": _INTEGER_OR_NONE,
        "phase": _TEXT_OR_NONE,
    }
)
ROW: Types = MappingProxyType(
    {
        **_PLACE,
        "verdict": _TEXT,
        "role": _TEXT_OR_NONE,
        "metrics": _OBJECT_OR_NONE,
        "target": _OBJECT_OR_NONE,
        "golden": _OBJECT_OR_NONE,
        "reference": _OBJECT_OR_NONE,
        "transform": _LIST_OR_NONE,
    }
)
"""Types of the values of a row; what is absent counts as null."""

NODE: Types = MappingProxyType(
    {
        **_PLACE,
        "side": _TEXT,
        "edges": _LIST_OR_NONE,
        "stack": _LIST_OR_NONE,
        "originals": _LIST_OR_NONE,
        "passes": _LIST_OR_NONE,
        "attributes": _OBJECT_OR_NONE,
        "arguments": _LIST_OR_NONE,
    }
)
"""Types of the values of a node."""

EDGE: Types = MappingProxyType({"producer": _TEXT, "call": _INTEGER_OR_NONE, "phase": _TEXT_OR_NONE})
"""Types of what an edge of a node says of its other end."""


def wrong_key(record: object, types: Types) -> str | None:
    """Return the first key whose value is of another type, ``""`` when the record is no object; None when all fit."""
    if not isinstance(record, dict):
        return ""
    get = record.get
    for key, kinds in types.items():
        if get(key).__class__ not in kinds:
            return key
    return None


def is_detail(found: Mapping[str, Any]) -> bool:
    """Say whether a line of ``details.jsonl`` is a closer look."""
    numbers = ("target", "golden", "edges")
    return (
        found.get("start").__class__ is int
        and all(isinstance(found.get(key), list) for key in (*numbers, "counts"))
        and all(each.__class__ is int and each >= 0 for each in found["counts"])
        and all(_is_number(each) for key in numbers for each in found[key])
    )


def is_shape(value: object) -> TypeGuard[list[int]]:
    """Say whether a value is a shape."""
    return isinstance(value, list) and all(each.__class__ is int and each >= 0 for each in value)


def _is_number(value: object) -> bool:
    return value.__class__ in (int, float, str, type(None)) and not (
        isinstance(value, int) and not math.isfinite(_float(value))
    )


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def misfit(value: object, schema: Mapping[str, Any], defs: Mapping[str, Any], place: str = "") -> str | None:
    """Return what of a value is not as its JSON Schema says, in words; None when all fits.

    What is absent and what the schema does not name is left alone, so that records of earlier and later versions can
    be read. Of JSON Schema it knows what `schemas` uses.

    Args:
        value: parsed JSON.
        schema: of the value.
        defs: what ``$ref`` names.
        place: of the value in its document, such as ``findings[0].metrics``.
    """
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [misfit(value, option, defs, place) for option in schema["anyOf"]]
        return None if None in found else max((text for text in found if text), key=_depth)
    words = [schema["const"]] if "const" in schema else schema.get("enum")
    if words is not None and not any(value.__class__ is word.__class__ and value == word for word in words):
        return _told(place, value, "one of " + ", ".join("null" if word is None else str(word) for word in words))
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(_KINDS[kind][1](value) for kind in kinds):
        return _told(place, value, " or ".join(_KINDS[kind][0] for kind in kinds))
    if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return _told(place, value, "a number in its range")
    for inside, inner, part in _inside(value, schema):
        wrong = misfit(inside, inner, defs, f"{place}{part}")
        if wrong is not None:
            return wrong
    return None


def _inside(value: object, schema: Mapping[str, Any]) -> Iterator[tuple[object, Mapping[str, Any], str]]:
    """Yield the values inside a value, with their schemas and how their place is written."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties") or {}
        for key, inside in value.items():
            yield inside, properties.get(key, others), f".{key}"
    elif isinstance(value, list) and "items" in schema:
        for number, inside in enumerate(value):
            yield inside, schema["items"], f"[{number}]"


def _told(place: str, value: object, expected: str) -> str:
    what = next((words for words, fits in _KINDS.values() if fits(value)), "a number that is too large")
    return f"`{place.lstrip('.')}` is {what}, expected {expected}"


def _depth(text: str) -> int:
    """Return how deep in its document a complaint points: the alternative that fits best is told."""
    place = text.split("`")[1]
    return place.count(".") + place.count("[")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


_KINDS: Mapping[str, tuple[str, Check]] = MappingProxyType(
    {
        "null": ("null", lambda value: value is None),
        "boolean": ("true or false", lambda value: isinstance(value, bool)),
        "integer": ("a whole number", _is_whole),
        "number": ("a number", lambda value: isinstance(value, float) or _is_whole(value)),
        "string": ("a text", lambda value: isinstance(value, str)),
        "array": ("a list", lambda value: isinstance(value, list)),
        "object": ("an object", lambda value: isinstance(value, dict)),
    }
)
