"""Executions and nodes: who owns tensors, in which run of which graph, in which order."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from msgspec import Struct, field


class Phase(enum.Enum):
    FORWARD = "forward"
    BACKWARD = "backward"
    NONE = "none"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


class OrderSource(enum.Enum):
    """What `Node.order` comes from."""

    TIMESTAMP = "timestamp"
    FILE = "file"
    GRAPH = "graph"


class Execution(Struct, frozen=True, gc=False, cache_hash=True):
    """One run of one graph on one rank. Unknown parts are None; ``step`` counts from 0."""

    rank: int | None = None
    step: int | None = None
    graph: int | str | None = None
    device: int | None = None
    model: str | None = None
    micro_step: int | None = None

    @property
    def identity(self) -> tuple[int | None, int | str | None, int | None, int | None]:
        """What two sides must share to be the same execution: ``(rank, graph, step, micro_step)``."""
        return self.rank, self.graph, self.step, self.micro_step

    def __str__(self) -> str:
        parts = (("rank", self.rank), ("graph", self.graph), ("step", self.step), ("micro_step", self.micro_step))
        return " ".join(f"{name} {value}" for name, value in parts if value is not None) or "the only execution"


class NodeKey(Struct, frozen=True, gc=False, cache_hash=True):
    """Identity of a node. ``name`` is the true name (mapping files resolved); ``call`` counts calls or loops from 0."""

    execution: Execution
    name: str
    call: int = 0
    phase: Phase = Phase.FORWARD


class Node(Struct, frozen=True, gc=False):
    """An operator, API, module, cell or layer.

    Args:
        key: identity.
        op_type: the framework's type name, e.g. ``MatMulV2`` or ``aten.mm.default``.
        parent: true name of the module or scope that owns the node.
        originals: names of the original operators that a fused node was made of, in order.
        passes: names of the compiler passes that made it.
        relation_attrs: facts about the relation to the originals, for rules that need them.
        stack_id: key into `Catalog.stacks`.
        order: position in execution order within the execution; comparable between nodes of one catalog only.
        order_source: what ``order`` comes from.
        attrs: further attributes for people (``nodes.jsonl``).
    """

    key: NodeKey
    op_type: str
    parent: str | None = None
    originals: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    relation_attrs: Mapping[str, str] = field(default_factory=dict)
    stack_id: str | None = None
    order: int = 0
    order_source: OrderSource = OrderSource.FILE
    attrs: Mapping[str, object] = field(default_factory=dict)
