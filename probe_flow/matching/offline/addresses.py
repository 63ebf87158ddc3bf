"""Who feeds whom in a device dump, from the addresses of its tensors, where no rule file says it.

A device reuses memory: an input holds what was written to its address last, in the order in which operators ran. Only
a writer of equal type and shape counts, or of as many elements one after the other, which a view between them that has
no file may have taken in another shape; anything else is a part of it, or memory that was not dumped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from probe_flow.matching.offline.axes import is_plain
from probe_flow.matching.offline.index import DumpIndex
from probe_flow.records import Edge, NodeKey, SlotRole, TensorRef

Feeds = Mapping[int, TensorRef]
"""Identity of an input -> the output that was written to its address."""


def nodes_in_order(side: DumpIndex) -> list[NodeKey]:
    """Return the nodes as they ran."""
    return sorted(side.nodes, key=lambda key: side.nodes[key].order)


def feeds(side: DumpIndex) -> Feeds:
    """Return the output behind each input of which the addresses tell one."""
    written: dict[object, TensorRef] = {}
    found: dict[int, TensorRef] = {}
    for key in nodes_in_order(side):
        for ref in side.of(key, SlotRole.INPUT):
            writer = written.get(ref.facts.address)
            if writer is not None and _holds(writer, ref):
                found[id(ref)] = writer
        for ref in side.of(key, SlotRole.OUTPUT):
            address = ref.facts.address
            if address:
                written[address] = ref
    return found


def _holds(writer: TensorRef, ref: TensorRef) -> bool:
    if writer.dtype != ref.dtype or writer.shape == ref.shape:
        return writer.dtype == ref.dtype
    return writer.numel == ref.numel and is_plain(writer) and is_plain(ref)


def address_edges(side: DumpIndex, found: Feeds) -> Iterator[Edge]:
    """Yield the same as edges."""
    for key in side.nodes:
        for ref in side.of(key, SlotRole.INPUT):
            writer = found.get(id(ref))
            places = (writer.slot.path[0], ref.slot.path[0]) if writer is not None else (None, None)
            if writer is not None and isinstance(places[0], int) and isinstance(places[1], int):
                yield Edge(writer.node, places[0], key, places[1])
