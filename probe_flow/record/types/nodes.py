"""A line of nodes.jsonl: one node of one side."""

from __future__ import annotations

from typing import Literal

from probe_flow.record.types.values import Anything, Count, Graph, Record, Shape
from probe_flow.records import Phase, SlotRole, TensorKind


class EdgeRecord(Record, frozen=True):
    """Where an input of a node comes from.

    Args:
        input: Input of this node that the edge reaches.
        producer: `node` of the producer, which is of the same execution.
        call: Call of the producer.
        phase: Direction of that call.
        output: Output of the producer that it leaves.
    """

    input: int
    producer: str
    call: Count
    phase: Phase
    output: int


class ArgumentRecord(Record, frozen=True):
    """One leaf of a node's tree of arguments and results.

    Args:
        direction: Which tensors of the node.
        index: Path of the slot as text.
        path: Place in the argument tree: positions as integers, names as texts.
        kind: What the slot holds.
        dtype: Numeric type; for opaque things the format's own word.
        shape: Logical shape; [] is a scalar.
        value: Value of a scalar, text of an opaque thing, else null.
    """

    direction: SlotRole
    index: str
    path: tuple[int | str, ...]
    kind: TensorKind
    dtype: str
    shape: Shape
    value: Anything


class NodeRecord(Record, frozen=True, kw_only=True):
    """One line of nodes.jsonl: a node.

    Args:
        comparison: Stage, where nodes of several comparisons are read together; in no file.
        side: Whose node it is.
        order: Comparable between nodes of one execution and side only.
        rank: Rank of the execution.
        graph: Graph id; null when the dump names none.
        step: Step of the execution: token, iteration.
        node: True name, in the target's name space unless golden-only.
        name: Name of its entry in the dump; the same as `node` where the format has no other.
        call: Number of the call, from 0.
        phase: Direction of the call.
        op_type: The framework's type.
        parent: True name of the module or scope that owns the node.
        edges: What feeds it, as far as the dump says.
        stack: Source frames, innermost first; or the line of this file, from 1, whose node has the same frames.
        originals: Names of the operators that a fused node was made of.
        passes: Compiler passes that made it.
        attributes: Further facts of the dump.
        arguments: Its tensors and scalars.
    """

    comparison: str | None = None
    side: Literal["target", "golden", "reference"]
    order: int
    rank: int | None
    graph: Graph
    step: int | None
    node: str
    name: str
    call: Count
    phase: Phase
    op_type: str
    parent: str | None
    edges: tuple[EdgeRecord, ...]
    stack: tuple[str, ...] | Count
    originals: tuple[str, ...]
    passes: tuple[str, ...]
    attributes: dict[str, Anything]
    arguments: tuple[ArgumentRecord, ...]
