"""How alike two nodes are: kind, shapes, parameters, content, values; and the same in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from probe_flow.matching.alike.operations import is_bookkeeping, kin
from probe_flow.matching.alike.values import CLOSE, EQUAL, likeness
from probe_flow.matching.structure.phase_tree import Shapes, Traits
from probe_flow.records import TensorRef

LEAST = 0.3
"""Likeness below which two nodes are not paired."""

STRONG = 0.75
"""Likeness from which a pair of modules is not looked into for a better one."""

_SAME_KIND, _SAME_KIN, _OTHER_KIND = 0.55, 0.4, 0.1
_SHAPES, _VALUES, _NAME = 0.25, 0.15, 0.05
_MODULE_PARTS = {"content": 0.35, "parameters": 0.2, "shapes": 0.2, "class": 0.05, "path": 0.05, "values": 0.15}
_TOLD = 0.4
_WORTH_VALUES = 0.5
_DIGITS = 12
"""Decimals of a likeness: equal likenesses are ties, in whatever order and by whichever Python they were added up."""
_UNLIKE_PARAMETERS = 0.5
"""Factor for modules whose own parameters have no shape in common."""


def node_likeness(one: Traits, other: Traits) -> float:
    """Return how alike two nodes are, in [0, 1]; 0 where they cannot correspond."""
    if one.is_module != other.is_module:
        return 0.0
    return _module_likeness(one, other) if one.is_module else _call_likeness(one, other)


def value_likeness(one: Traits, other: Traits) -> float | None:
    """Return how alike the values are that tell nodes apart: of parameters for modules, of all tensors for calls."""
    if one.telling and other.telling:
        found = _alike(one.telling, other.telling)
        if found is not None and one.is_module:
            return found
    return _alike(one.tensors, other.tensors)


def words(one: Traits, other: Traits) -> str:
    """Return what speaks for a pair, in words."""
    parts = []
    if one.family == other.family:
        parts.append(f"both are `{one.family}`")
    elif not one.is_module:
        relation = "related" if _is_kin(one, other) else "other"
        parts.append(f"`{one.family}` and `{other.family}` do {relation} work")
    if one.is_module and one.parameters and one.parameters == other.parameters:
        parts.append("parameters of equal shapes")
    has_shapes = one.inputs or one.outputs
    if has_shapes:
        same = one.inputs == other.inputs and one.outputs == other.outputs
        parts.append("equal shapes" if same else "shapes differ")
    if one.is_module and one.content:
        same_content = one.content == other.content
        parts.append("they hold the same calls" if same_content else "what they hold differs")
    values = value_likeness(one, other)
    if values is not None:
        parts.append("equal values" if values >= EQUAL else "close values" if values >= CLOSE else "values differ")
    return ", ".join(parts)


def _call_likeness(one: Traits, other: Traits) -> float:
    if one.family == other.family:
        score = _SAME_KIND
    elif _is_kin(one, other):
        score = _SAME_KIN
    elif (
        one.outputs
        and one.outputs == other.outputs
        and not (is_bookkeeping(one.family) or is_bookkeeping(other.family))
    ):
        score = _OTHER_KIND
    else:
        return 0.0
    score += _SHAPES * (_common(one.inputs, other.inputs) + _common(one.outputs, other.outputs)) / 2
    values = _alike(one.tensors, other.tensors)
    if values is not None and values < CLOSE and one.telling and other.telling:
        values = max(values, _alike(one.telling, other.telling) or 0.0)
    score += _VALUES * _told(values)
    return round(score + _NAME * (one.path == other.path), _DIGITS)


def _module_likeness(one: Traits, other: Traits) -> float:
    parts = {
        "shapes": (_common(one.inputs, other.inputs) + _common(one.outputs, other.outputs)) / 2,
        "class": float(one.family == other.family),
        "path": float(one.path == other.path),
    }
    if one.content or other.content:
        parts["content"] = _shared(one.content, other.content)
    factor = 1.0
    if one.parameters or other.parameters:
        parts["parameters"] = _common(one.parameters, other.parameters)
        factor = 1.0 if parts["parameters"] else _UNLIKE_PARAMETERS
    without_values = _weighted(parts)
    is_worth_it = round(factor * without_values, _DIGITS) >= _WORTH_VALUES
    parts["values"] = _told(value_likeness(one, other)) if is_worth_it else 0.0
    return round(factor * _weighted(parts), _DIGITS)


def _weighted(parts: Mapping[str, float]) -> float:
    """Return the mean of the parts by their weights."""
    weights = math.fsum(_MODULE_PARTS[name] for name in parts)
    return math.fsum(_MODULE_PARTS[name] * value for name, value in parts.items()) / weights


def _is_kin(one: Traits, other: Traits) -> bool:
    return kin(one.family) == kin(other.family)


def _common(first: Shapes, second: Shapes) -> float:
    """Return the share of shapes that two multisets have in common."""
    if first == second:
        return 1.0
    if not first or not second:
        return 0.0
    shared = sum((Counter(first) & Counter(second)).values())
    return shared / max(len(first), len(second))


def _shared(first: Mapping[Hashable, int], second: Mapping[Hashable, int]) -> float:
    """Return the share of what two modules hold that both have."""
    if first == second:
        return 1.0
    both = sum(min(count, second.get(token, 0)) for token, count in first.items())
    return both / max(sum(first.values()), sum(second.values()))


def _told(values: float | None) -> float:
    """Return what values add to a likeness; of those that differ, none differs less than another."""
    if values is None:
        return 0.5
    return values if values >= _TOLD else 0.0


def _alike(first: Sequence[TensorRef], second: Sequence[TensorRef]) -> float | None:
    """Return the mean likeness of two lists of tensors, each shape and role by itself, in order."""
    rest: dict[Hashable, list[TensorRef]] = {}
    for ref in second:
        rest.setdefault((ref.slot.role, ref.logical_shape), []).append(ref)
    total, count = 0.0, 0
    for ref in first:
        candidates = rest.get((ref.slot.role, ref.logical_shape))
        if candidates:
            value = likeness(ref, candidates.pop(0))
            if value is not None:
                total, count = total + value, count + 1
    return total / count if count else None
