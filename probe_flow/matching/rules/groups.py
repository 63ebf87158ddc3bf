"""Fusion groups: device operators that stand for the same originals, in order of first appearance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from probe_flow.matching.rules.records import FusionGroup, FusionOp
from probe_flow.records import Relation

Key = Callable[[FusionOp], tuple[str, ...]]


def key_of(op: FusionOp) -> tuple[str, ...]:
    """Return what operators of one group have in common."""
    return ("", op.l1_group) if op.l1_group else key_of_originals(op)


def key_of_originals(op: FusionOp) -> tuple[str, ...]:
    """Return what operators of one group have in common when L1 groups do not count."""
    return op.originals or (op.name,)


def numbered(ops: Sequence[FusionOp], key_of: Key = key_of) -> list[FusionOp]:
    """Return the operators with the index of their group, in the given order.

    An operator whose name its group has already is left out: slices of one operator differ in nothing else.
    """
    indexes: dict[tuple[str, ...], int] = {}
    seen: set[tuple[int, str]] = set()
    kept: list[FusionOp] = []
    for op in ops:
        index = indexes.setdefault(key_of(op), len(indexes))
        if (index, op.name) not in seen:
            seen.add((index, op.name))
            kept.append(replace(op, group=index))
    return kept


def grouped(ops: Sequence[FusionOp]) -> list[list[FusionOp]]:
    """Return the operators of each group; every index from 0 on occurs."""
    groups: list[list[FusionOp]] = [[] for _ in range(1 + max((op.group for op in ops), default=-1))]
    for op in ops:
        groups[op.group].append(op)
    return groups


def fusion_groups(ops: Sequence[FusionOp], keys: Sequence[tuple[str, ...]]) -> tuple[FusionGroup, ...]:
    """Return the groups of operators that are in order of their ids; ``keys`` by index."""
    return tuple(
        FusionGroup(index, key, _relation(members), tuple(members))
        for index, (key, members) in enumerate(zip(keys, grouped(ops), strict=True))
    )


def keys_of(ops: Sequence[FusionOp], key_of: Key = key_of) -> list[tuple[str, ...]]:
    """Return the key of each group, by index."""
    return [key_of(members[0]) for members in grouped(ops)]


def _relation(ops: Sequence[FusionOp]) -> Relation:
    first = ops[0]
    if len(ops) == 1:
        return Relation.ONE_TO_MANY if len(first.originals) > 1 else Relation.ONE_TO_ONE
    if first.l1_group:
        return Relation.L1
    return Relation.MANY_TO_MANY if len(first.originals) > 1 else Relation.MANY_TO_ONE
