"""Pairing of leftover entries of other names, by order.

A common subsequence over what they are and which shapes they have, between the entries that are paired already.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from probe_flow.matching.name.calls import CallPairs
from probe_flow.matching.name.name_space import GRADIENTS
from probe_flow.matching.name.side import Side
from probe_flow.matching.shared.alignment import common_subsequence
from probe_flow.records import NodeKind, Phase

FUZZY_CONFIDENCE = 0.6


def add_fuzzy(target: Side, golden: Side, calls: CallPairs) -> frozenset[int]:
    """Pair leftover nodes, most alike first; return the target numbers of the pairs added.

    Two entries are alike when they agree in direction, tensor shapes and, from round to round less strictly, in parent
    and type; modules in the end by their shapes alone. Pairs never cross those that are there.
    """
    before = set(calls.golden_of)
    for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.NONE):
        for signature in (_parent_and_type, _parent_and_shapes, _type_and_shapes, _shapes_of_module):
            for mine, theirs in _gaps(target, golden, calls, phase):
                keys = [[signature(side, n) for n in numbers] for side, numbers in ((target, mine), (golden, theirs))]
                found = common_subsequence(keys[0], keys[1])
                calls.add((mine[row], theirs[column]) for row, column in found)
        if phase is Phase.FORWARD:
            _pair_gradients(target, golden, calls, before)
    return frozenset(calls.golden_of.keys() - before)


def _pair_gradients(target: Side, golden: Side, calls: CallPairs, before: set[int]) -> None:
    """Pair the backward calls, and the gradients of parameters, of forwards that were paired here."""
    gradients = [
        {
            (node.key.name.removesuffix(GRADIENTS), node.key.call, node.key.phase): number
            for number, node in enumerate(side.nodes)
            if node.key.phase is not Phase.FORWARD
        }
        for side in (target, golden)
    ]
    found = []
    for number, partner in calls.golden_of.items():
        if number not in before:
            keys = target.nodes[number].key, golden.nodes[partner].key
            for phase in (Phase.BACKWARD, Phase.NONE):
                mine, theirs = (at.get((key.name, key.call, phase)) for at, key in zip(gradients, keys, strict=True))
                if mine is not None and theirs is not None:
                    found.append((mine, theirs))
    calls.add((one, other) for one, other in found if one not in calls.golden_of and other not in calls.target_of)


def _gaps(target: Side, golden: Side, calls: CallPairs, phase: Phase) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yield the unpaired nodes of one direction between two pairs that follow each other on both sides."""
    anchors = _increasing(
        [
            (number, calls.golden_of[number])
            for number, node in enumerate(target.nodes)
            if number in calls.golden_of and node.key.phase is phase
        ]
    )
    gaps = []
    row = column = -1
    for next_row, next_column in [*anchors, (len(target.nodes), len(golden.nodes))]:
        mine = _open(target, calls.golden_of, row + 1, next_row, phase)
        theirs = _open(golden, calls.target_of, column + 1, next_column, phase)
        if mine and theirs:
            gaps.append((mine, theirs))
        row, column = next_row, next_column
    yield from gaps


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out pairs that stand in another order on the golden side."""
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        if not kept or pair[1] > kept[-1][1]:
            kept.append(pair)
    return kept


def _open(side: Side, paired: dict[int, int], start: int, stop: int, phase: Phase) -> list[int]:
    nodes = side.nodes
    return [
        number
        for number in range(start, stop)
        if number not in paired and number not in side.repeats and nodes[number].key.phase is phase
    ]


def _parent_and_type(side: Side, number: int) -> Hashable:
    return _parent_and_shapes(side, number), side.nodes[number].op_type


def _parent_and_shapes(side: Side, number: int) -> Hashable:
    """Compare what was called where: a module by its path without class, an API by its caller and name."""
    node, kind = side.nodes[number], side.nodes[number].kind
    name = side.names[number]
    where = name.rpartition(".")[0] if kind is NodeKind.MODULE else (node.parent, name)
    return kind, where, side.shape_signature(number)


def _type_and_shapes(side: Side, number: int) -> Hashable:
    return side.nodes[number].kind, side.nodes[number].op_type, side.shape_signature(number)


def _shapes_of_module(side: Side, number: int) -> Hashable:
    """Compare modules by shapes alone; no API is like another one of another name."""
    is_module = side.nodes[number].kind is NodeKind.MODULE
    return side.shape_signature(number) if is_module else (id(side), number)
