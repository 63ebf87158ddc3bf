"""Pairing of the tensors of two paired nodes: by slot, where kinds and dtypes can be compared at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from probe_flow.records import Expectation, Pair, Reason, TensorKind, TensorRef

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
_CLASSES = (
    ("bool", ("bool",)),
    ("integer", ("int", "uint")),
    ("float", tuple(_FLOATS)),
    ("complex", ("complex64", "complex128")),
)
_NUMERIC = frozenset({TensorKind.TENSOR, TensorKind.STATISTICS})


def pair_tensors(
    target: Sequence[TensorRef],
    golden: Sequence[TensorRef],
    *,
    group: str,
    rule: str,
    confidence: float,
    is_cross_framework: bool,
) -> Iterator[Pair]:
    """Yield the pairs of two paired nodes; what has no partner comes one-sided, with the reason.

    Tensors of equal slot are paired when their dtypes are equal or of one class: the usual floats among each other;
    across frameworks also integers of any width. None pairs with None, a scalar with a scalar of the same type.

    Args:
        target, golden: tensors of the nodes, in report order.
        group: id of the group.
        rule, confidence: how the nodes were paired.
        is_cross_framework: whether the sides come from different frameworks.
    """
    if len(target) == len(golden) and all(a.slot == b.slot for a, b in zip(target, golden, strict=True)):
        twosomes: Iterator[tuple[TensorRef | None, TensorRef | None]] = zip(target, golden, strict=True)
    else:
        twosomes = _by_slot(target, golden)
    for one, other in twosomes:
        if one is None or other is None:
            shown = one or other
            assert shown is not None
            yield Pair(one, other, group, rule, reason=_no_slot(shown, "target" if one is None else "golden"))
            continue
        yield from pair_of_two(
            one, other, group=group, rule=rule, confidence=confidence, is_cross_framework=is_cross_framework
        )


def pair_of_two(
    one: TensorRef, other: TensorRef, *, group: str, rule: str, confidence: float, is_cross_framework: bool
) -> Iterator[Pair]:
    """Yield the pair of two tensors that belong together; two one-sided pairs where they cannot be compared."""
    obstacle = _obstacle(one, other, is_cross_framework=is_cross_framework)
    if obstacle is None:
        yield Pair(one, other, group, rule, confidence=confidence, reason=_note(one, other))
    else:
        yield Pair(one, None, group, rule, reason=obstacle)
        yield Pair(None, other, group, rule, reason=obstacle)


def _by_slot(
    target: Sequence[TensorRef], golden: Sequence[TensorRef]
) -> Iterator[tuple[TensorRef | None, TensorRef | None]]:
    """Yield both sides by slot, target order first. A slot that a reader gave twice pairs in order."""
    rest: dict[object, list[TensorRef]] = {}
    for tensor in golden:
        rest.setdefault(tensor.slot, []).append(tensor)
    for tensor in target:
        candidates = rest.get(tensor.slot)
        yield tensor, candidates.pop(0) if candidates else None
    yield from zip_longest((), (tensor for left in rest.values() for tensor in left))


def _no_slot(tensor: TensorRef, side: str) -> Reason:
    return Reason(f"no_{side}_slot", f"the {side}'s call has no `{tensor.slot}`", Expectation.MISSING)


def _obstacle(one: TensorRef, other: TensorRef, *, is_cross_framework: bool) -> Reason | None:
    """Return why two tensors of one slot cannot be compared, None when they can."""
    if TensorKind.UNREADABLE in (one.kind, other.kind):
        return None
    if one.kind in _NUMERIC and other.kind in _NUMERIC:
        is_same = one.dtype == other.dtype or (one.dtype in _FLOATS and other.dtype in _FLOATS)
        if is_same or (is_cross_framework and _class_of(one.dtype) == _class_of(other.dtype) is not None):
            return None
        return _unlike("dtype", one, other)
    if one.kind is not other.kind:
        return _unlike("kind", one, other)
    if one.kind is TensorKind.NULL or one.stored_dtype == other.stored_dtype:
        return None
    return _unlike("type", one, other)


def _class_of(dtype: str) -> str | None:
    word = dtype.rstrip("0123456789") if dtype.startswith(("int", "uint")) else dtype
    return next((name for name, members in _CLASSES if word in members), None)


def _unlike(code: str, one: TensorRef, other: TensorRef) -> Reason:
    text = f"target is {_described(one)}, golden {_described(other)}: these are not compared"
    is_gap = one.kind in _NUMERIC or other.kind in _NUMERIC
    return Reason(f"{code}_incompatible", text, Expectation.MISSING if is_gap else Expectation.EXPECTED)


def _described(tensor: TensorRef) -> str:
    if tensor.kind is TensorKind.NULL:
        return "None"
    return tensor.stored_dtype or tensor.dtype or tensor.kind.value


def _note(one: TensorRef, other: TensorRef) -> Reason | None:
    if one.dtype == other.dtype or TensorKind.UNREADABLE in (one.kind, other.kind):
        return None
    text = f"dtypes differ: target {_described(one)}, golden {_described(other)}"
    return Reason("dtype_differs", text, Expectation.EXPECTED)
