"""What a compiler makes of one operator of the program: several of the device, of which the golden shows the last.

TorchAir runs `addmm` as a product and a sum, and FX shows no tensor between them. So the sum is right by its own inputs
whatever the product is, and the product has no result to be understood by. Both together are what the golden computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from probe_flow.apis.calls import Call, Plain
from probe_flow.apis.calls import Path as Place
from probe_flow.apis.numpy_core.fused import Fused, Part
from probe_flow.apis.numpy_core.names import DEVICE
from probe_flow.comparing.graph_attributes import frozen
from probe_flow.comparing.recompute_worker import SideCall
from probe_flow.records import NodeKey, Pairs, SlotRole, TensorKind, TensorRef
from probe_flow.records.row import Row

Given = tuple[int, NodeKey, int]
"""Which input of an operator another one gave: its place, and that one with its result."""


def given_unseen(rows: Sequence[Row], pairs: Pairs, nodes: Mapping[NodeKey, object]) -> dict[NodeKey, Given]:
    """Return the nodes that read one float tensor which another gave and the golden does not show."""
    unseen = {
        (row.pair.target.node, row.pair.target.slot.path[0])
        for row in rows
        if row.pair.golden is None and row.pair.target is not None and row.pair.target.node in nodes
        and row.pair.target.slot.role is SlotRole.INPUT and row.pair.target.kind is TensorKind.TENSOR
        and "float" in row.pair.target.dtype
    }  # fmt: skip
    found: dict[NodeKey, list[Given]] = {}
    for edge in pairs.target.edges if unseen else ():
        if (edge.consumer, edge.input) in unseen:
            found.setdefault(edge.consumer, []).append((edge.input, edge.producer, edge.output))
    return {node: given[0] for node, given in found.items() if len(given) == 1}


def chained(name: str, given: SideCall, result: int, reader: SideCall, place: int) -> SideCall:
    """Return an operator together with the one that gave an input of it, as one operator.

    Args:
        name: of the one that gave it.
        given: computes the input.
        result: which of its results that is.
        reader: reads it.
        place: which of its inputs that is.
    """
    inner, outer = _parts_of(given), _parts_of(reader)
    others = [number for number in range(len(reader.call.args)) if number != place]
    numbers = {number: len(given.call.args) + at for at, number in enumerate(others)}

    def moved(read: int | tuple[int, int]) -> int | tuple[int, int]:
        if not isinstance(read, int):
            return read[0] + len(inner.parts), read[1]
        return inner.gives[result] if read == place else numbers[read]

    parts = (structs.replace(part, reads=tuple(map(moved, part.reads))) for part in outer.parts)
    gives = tuple((part + len(inner.parts), number) for part, number in outer.gives)
    args = (*given.call.args, *(reader.call.args[number] for number in others))
    inputs: dict[Place, TensorRef] = dict(given.inputs)
    inputs.update(((numbers[number],), reader.inputs[number,]) for number in others)
    call = Call(DEVICE, f"{given.call.api}+{reader.call.api}", args, {}, reader.call.results)
    fused = Fused((*inner.parts, *parts), gives, shown=f"numpy together with `{name}`, which the golden does not show")
    return SideCall(call, is_mindspore=False, inputs=inputs, results=reader.results, parts=fused)


def _parts_of(side: SideCall) -> Fused:
    if side.parts is not None:
        return side.parts
    attributes = tuple((name, frozen(leaf.value)) for name, leaf in side.call.kwargs.items() if isinstance(leaf, Plain))
    part = Part(side.call.api, tuple(range(len(side.call.args))), attributes)
    return Fused((part,), tuple((0, number) for number in range(len(side.call.results))))
