"""Nodes of one phase under their callers, with what makes them alike: kinds, shapes, parameters, values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from msgspec import Struct

from probe_flow.matching.alike.operations import family, is_bookkeeping, kin
from probe_flow.matching.alike.values import fingerprint
from probe_flow.matching.name.side import Side
from probe_flow.records import Node, NodeKind, SlotRole, TensorKind, TensorRef
from probe_flow.relations.call_tree import ROOT, enclosing, module_path

MAX_TELLING = 24
"""Parameters, own and below, by whose values a module is recognised."""

MAX_TELLING_OF_CALL = 4
Shapes = tuple[tuple[int, ...], ...]
_NUMERIC = frozenset({TensorKind.TENSOR, TensorKind.STATISTICS, TensorKind.UNREADABLE})


class Traits(Struct, frozen=True):
    """What a node is compared by.

    Args:
        is_module: module or cell, in contrast to a call of an API.
        family: kind of operation, or of class.
        path: dotted path of a module, name of an API.
        inputs, outputs, parameters: shapes of its own numeric tensors; of parameters with sorted dimensions.
        weight: number of nodes from here down.
        content: kinds of work and parameter shapes from here down, with their counts.
        telling: tensors by whose values it is recognised: parameters from here down, or later arguments of a call.
        tensors: its own.
        signature: equal for equal structure, from here down, names aside.
        weights, exact: the same with the values of `telling`, with all values.
    """

    is_module: bool
    family: str
    path: str
    inputs: Shapes
    outputs: Shapes
    parameters: Shapes
    weight: int
    content: Mapping[Hashable, int]
    telling: tuple[TensorRef, ...]
    tensors: Sequence[TensorRef]
    signature: int
    weights: int
    exact: int


class PhaseTree:
    """Nodes of one phase under their nearest callers among them, siblings in the order in which they ended."""

    def __init__(
        self, side: Side, numbers: Sequence[int], *, knows_callers: bool, interned: dict[Hashable, int]
    ) -> None:
        self.side = side
        self.numbers = sorted(numbers)
        self.parent = side.calls.nearest(self.numbers) if knows_callers else enclosing(side.nodes, self.numbers)
        self.children: dict[int, list[int]] = {ROOT: []}
        for number in self.numbers:
            self.children.setdefault(self.parent[number], []).append(number)
        self.traits: dict[int, Traits] = {}
        self.bottom_up = list(self._bottom_up())
        for number in self.bottom_up:
            below = [self.traits[child] for child in self.children.get(number, ())]
            self.traits[number] = _traits(side, number, below, interned)

    def is_module(self, number: int) -> bool:
        """Say whether a node is a module."""
        return is_module(self.side.nodes[number])

    def _bottom_up(self) -> Iterator[int]:
        trail = list(self.children[ROOT])
        ordered: list[int] = []
        while trail:
            number = trail.pop()
            ordered.append(number)
            trail += self.children.get(number, ())
        return reversed(ordered)


def is_module(node: Node) -> bool:
    """Say whether a node is a module or cell."""
    return node.kind is NodeKind.MODULE


def _traits(side: Side, number: int, below: Sequence[Traits], interned: dict[Hashable, int]) -> Traits:
    node, tensors = side.nodes[number], side.tensors[number]
    module = is_module(node)
    kind = family(node.op_type)
    shapes: dict[SlotRole, list[tuple[int, ...]]] = {}
    telling: list[TensorRef] = []
    for ref in tensors:
        if ref.kind in _NUMERIC and ref.logical_shape is not None:
            shapes.setdefault(ref.slot.role, []).append(ref.logical_shape)
            is_later = ref.slot.role is SlotRole.INPUT and not module and ref.slot.path[0] != 0
            if (is_later and len(telling) < MAX_TELLING_OF_CALL) or ref.slot.role is SlotRole.PARAMETER:
                telling.append(ref)
    inputs, outputs = tuple(shapes.get(SlotRole.INPUT, ())), tuple(shapes.get(SlotRole.OUTPUT, ()))
    parameters = tuple(sorted(tuple(sorted(shape)) for shape in shapes.get(SlotRole.PARAMETER, ())))
    own = telling[:MAX_TELLING]
    has_parameter = any(map(_is_parameter, telling))
    for child in below:
        if has_parameter and len(telling) >= MAX_TELLING:
            break
        telling += child.telling
        has_parameter = has_parameter or any(map(_is_parameter, child.telling))

    def intern(*parts: Hashable) -> int:
        return interned.setdefault(parts, len(interned))

    signature = intern(
        module, None if module else kind, inputs, outputs, parameters, tuple(child.signature for child in below)
    )
    return Traits(
        is_module=module,
        family=kind,
        path=module_path(node.key.name) if module else node.key.name,
        inputs=inputs,
        outputs=outputs,
        parameters=parameters,
        weight=1 + sum(child.weight for child in below),
        content=_content(kind, parameters, below, is_module=module),
        telling=_most_telling(telling),
        tensors=tensors,
        signature=signature,
        weights=intern("weights", signature, fingerprint(own), tuple(child.weights for child in below)),
        exact=intern("exact", signature, fingerprint(tensors), tuple(child.exact for child in below)),
    )


def _most_telling(refs: Sequence[TensorRef]) -> tuple[TensorRef, ...]:
    """Return the parameters among tensors, or all where there is none."""
    return (tuple(filter(_is_parameter, refs)) or tuple(refs))[:MAX_TELLING]


def _is_parameter(ref: TensorRef) -> bool:
    return ref.slot.role is SlotRole.PARAMETER


def _content(kind: str, parameters: Shapes, below: Sequence[Traits], *, is_module: bool) -> Mapping[Hashable, int]:
    if not is_module:
        return {} if is_bookkeeping(kind) or kind == "biasadd" else {kin(kind): 1}
    counts: dict[Hashable, int] = {}
    for child in below:
        for token, count in child.content.items():
            counts[token] = counts.get(token, 0) + count
    if parameters:
        counts[parameters] = counts.get(parameters, 0) + 1
    elif not below:
        counts[kind] = counts.get(kind, 0) + 1
    return counts
