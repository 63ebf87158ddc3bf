"""The fixed binary tree over block numbers that makes a fold independent of how the work was split.

Level by level node ``2 i`` joins node ``2 i + 1``; the last node of a level without partner moves up unchanged. A span
of blocks reduces to the few subtrees that lie wholly inside it, so any split, in any order of completion, performs the
same additions in the same order and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

Record = TypeVar("Record")
Join = Callable[[Record, Record], Record]


class Node(NamedTuple):
    """The root of a subtree: it holds blocks ``[position << level, (position + 1) << level)``."""

    level: int
    position: int
    record: object

    @property
    def first_block(self) -> int:
        """Number of the first block of the subtree."""
        return self.position << self.level

    @property
    def end_block(self) -> int:
        """Number of the block after the last one."""
        return (self.position + 1) << self.level


def reduce_span(first_block: int, records: Iterable[Record], join: Join[Record]) -> tuple[Node, ...]:
    """Return the subtrees of consecutive blocks, in block order.

    Args:
        first_block: number of the first block.
        records: one per block; consumed as a stream, about ``2 log2`` of them are held.
        join: merges two neighbours, the left one first.
    """
    stack: list[Node] = []
    for number, record in enumerate(records, start=first_block):
        _push(stack, Node(0, number, record), join)
    return tuple(stack)


def fold_nodes(nodes: Iterable[Node], join: Join[Record]) -> Record:
    """Return the record of the whole tensor from the subtrees of all its spans, in any order.

    Raises:
        ValueError: if the subtrees leave a gap, overlap, or there are none.
    """
    stack: list[Node] = []
    end = 0
    for node in sorted(nodes, key=lambda node: node.first_block):
        if node.first_block != end:
            raise ValueError(f"blocks {end} to {node.first_block} are missing or measured twice")
        end = node.end_block
        _push(stack, node, join)
    if not stack:
        raise ValueError("there is no block to fold")
    # What is left has falling levels: each node is the last of its level and moves up to the one before it.
    result = stack.pop().record
    while stack:
        result = join(stack.pop().record, result)  # type: ignore[arg-type]
    return result  # type: ignore[return-value]


def _push(stack: list[Node], node: Node, join: Join[Record]) -> None:
    while node.position & 1 and stack and stack[-1][:2] == (node.level, node.position - 1):
        left = stack.pop()
        node = Node(node.level + 1, node.position >> 1, join(left.record, node.record))  # type: ignore[arg-type]
    stack.append(node)
