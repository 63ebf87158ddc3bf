"""What is checked of the records of a stored run when they are read: enough for those who read them to rely on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeGuard

Check = Callable[[Any], bool]

Types = Mapping[str, frozenset[type]]
"""Allowed types of the value of each key."""

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


def wrong_run_key(record: Mapping[str, Any]) -> str | None:
    """Return the first key of ``run.json`` whose value has another form than in every record; None when all fit."""
    for key, check in _RUN.items():
        if key in record and not check(record[key]):
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


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_place(value: object) -> bool:
    """Say whether a value is a place in a run: the whole run has no node."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("metrics", {}), dict)
        and all(
            value.get(key).__class__ in kinds
            for key, kinds in {**_PLACE, "node": _TEXT_OR_NONE}.items()
            if key in value
        )
    )


def _are_places(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_place, value))


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_object, value))


def are_counts(value: object) -> TypeGuard[dict[str, int]]:
    """Say whether a value is an object of whole numbers."""
    return isinstance(value, dict) and all(each.__class__ is int for each in value.values())


def _is_coverage(value: object) -> bool:
    return isinstance(value, dict) and all(map(are_counts, value.values()))


def _is_stage(value: object) -> bool:
    return isinstance(value, dict) and all(value.get(key).__class__ in _TEXT_OR_NONE for key in ("name", "uses"))


def _is_place_or_none(value: object) -> bool:
    return value is None or _is_place(value)


_RUN: Mapping[str, Check] = MappingProxyType(
    {
        "counts": are_counts,
        "coverage": _is_coverage,
        "suspects": _are_places,
        "findings": _are_places,
        "first_divergence": _is_place_or_none,
        "nonfinite_origin": _is_place_or_none,
        "comparisons": _is_object,
        "stages": lambda value: _is_list(value) and all(map(_is_stage, value)),
        "inputs": _are_objects,
        "params": _is_object,
        "artifacts": _is_list,
        "incomplete": _is_list,
        "problems": _are_objects,
    }
)
