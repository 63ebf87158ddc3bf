"""Graphs of a model: the calls of one execution as a tree, and two such trees compared, for whoever draws them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from probe_flow.errors import Diagnostic
from probe_flow.records.catalog import Catalog
from probe_flow.records.levels import Level
from probe_flow.records.node import Execution, Node, NodeKey, NodeKind, Phase
from probe_flow.records.row import Row
from probe_flow.records.tensor import TensorRef
from probe_flow.records.tensor_traits import SlotRole

GRAPH_ROOT = 0
"""Number of the root of every graph."""

NO_PARTNER = -1
"""Stands for the golden node of a target node that has none, and for the parent of the root."""

_OUTPUT = SlotRole.OUTPUT


class GraphKind(enum.Enum):
    """What a node of a graph is. ``collection``: calls of APIs between modules, which no call made together."""

    MODULE = "module"
    API = "api"
    COLLECTION = "collection"

    __hash__ = object.__hash__  # Enum's own is a call of Python


class GraphLayout(enum.Enum):
    """By whose rules a graph is built, matched and scored: ours, or those of msprobe with what is wrong in them.

    ``msprobe_vis``: of the version that writes ``.vis`` (1.2.1). ``msprobe_vis_db``: of the one that writes ``.vis.db``
    (26.2.0), whose scores are 0, 0.5 and 1 for pass, warning and error.
    """

    OWN = "own"
    MSPROBE_VIS = "msprobe_vis"
    MSPROBE_VIS_DB = "msprobe_vis_db"


class GraphNode(Struct, frozen=True, gc=False):
    """One node of a graph.

    Args:
        name: entry of the call; of the root ``DefaultModel``.
        kind: what it is.
        parent: number of the node around it; `NO_PARTNER` for the root.
        call: the call, where one stands behind it; what is known by name only has none.
        micro_step: number of the micro step, from 0; None where it belongs to none.
    """

    name: str
    kind: GraphKind
    parent: int = NO_PARTNER
    call: Node | None = None
    micro_step: int | None = None


class ModelGraph(Struct, frozen=True, dict=True):
    """The calls of one execution as a tree, without circles.

    Args:
        catalog: the dump.
        execution: which of its executions.
        tensors: those of the execution, in the order of the catalog.
        nodes: in order of creation, the root first; names are distinct.
        children: of each node its children by number, in the order of construct.json.
        micro_steps: how many micro steps there are, 1 at least.
        layout: by whose rules it was built.
        problems: what was repaired while it was built, where something of the dump was wrong.
    """

    catalog: Catalog
    execution: Execution
    tensors: Sequence[TensorRef]
    nodes: Sequence[GraphNode]
    children: Sequence[Sequence[int]]
    micro_steps: int = 1
    layout: GraphLayout = GraphLayout.OWN
    problems: tuple[Diagnostic, ...] = ()

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Number of each node by its name."""
        return {node.name: number for number, node in enumerate(self.nodes)}

    def around(self, number: int) -> list[int]:
        """Return the numbers of the nodes around a node, the root first."""
        found: list[int] = []
        while (number := self.nodes[number].parent) != NO_PARTNER:
            found.append(number)
        return found[::-1]

    def chain(self, number: int) -> list[str]:
        """Return the names of the nodes around a node, the root first."""
        return [self.nodes[each].name for each in self.around(number)]

    def ended(self) -> list[int]:
        """Return the nodes as they end: children before their parent, siblings in their order. The root is last."""
        found: list[int] = []
        due = [GRAPH_ROOT]
        while due:
            number = due.pop()
            found.append(number)
            due += self.children[number]
        return found[::-1]

    def stack_of(self, number: int) -> tuple[str, ...]:
        """Return the frames of a node, innermost first; of a backward call without frames those of its forward call."""
        call = self.nodes[number].call
        if call is None:
            return ()
        frames = self.catalog.stacks.get(call.stack_id or "", ())
        if frames or call.key.phase is not Phase.BACKWARD:
            return frames
        # Every call of a module was made at the same place, and some are left out of the dump.
        first = 0 if call.kind is NodeKind.MODULE else call.key.call
        forward = self.catalog.nodes.get(NodeKey(call.key.execution, call.key.name, first))
        return self.catalog.stacks.get(forward.stack_id or "", ()) if forward is not None else ()

    @cached_property
    def _owned(self) -> Mapping[NodeKey, tuple[int, int]]:
        """Where the tensors of each call begin and end."""
        found: dict[NodeKey, tuple[int, int]] = {}
        last, begin = None, 0
        for number, tensor in enumerate(self.tensors):
            if tensor.node is not last and tensor.node != last:
                if last is not None:
                    found[last] = begin, number
                last, begin = tensor.node, number
        if last is not None:
            found[last] = begin, len(self.tensors)
        return found

    def tensors_of(self, number: int) -> Sequence[TensorRef]:
        """Return the tensors of a node in the order of the catalog; none where no call stands behind it."""
        call = self.nodes[number].call
        begin, end = self._owned.get(call.key, (0, 0)) if call is not None else (0, 0)
        return self.tensors[begin:end]

    def is_output(self, tensor: TensorRef) -> bool:
        """Return True for what a node gives, and False for what it reads, parameters and their gradients among it.

        msprobe goes by the whole name, in which a module may be called ``input`` or ``output``.
        """
        if self.layout is GraphLayout.OWN or tensor.item is None:
            return tensor.traits.slot.role is _OUTPUT
        return ".output." in tensor.item and ".input." not in tensor.item


class LinkDirection(enum.Enum):
    """Which way a node of one rank talks to those of others."""

    SEND = "send"
    RECEIVE = "receive"
    BOTH = "send_receive"


class LinkEnd(Struct, frozen=True, gc=False):
    """A node of another rank, by its name. ``shown``: its score or its level as text, where it has one."""

    rank: int
    name: str
    shown: str | None = None


class GraphLink(Struct, frozen=True, gc=False):
    """One communication of a node with nodes of other ranks."""

    direction: LinkDirection
    ends: tuple[LinkEnd, ...]


class GraphMode(enum.Enum):
    """What two graphs were compared by."""

    STATISTICS = "statistics"
    TENSOR = "tensor"
    MD5 = "md5"
    STRUCTURE = "structure"


def _no_rows(_number: int) -> Sequence[Row | None]:
    return ()


class GraphPair(Struct, frozen=True, gc=False):
    """The graphs of one execution on both sides, or one of them alone.

    Args:
        target: the graph of the target.
        golden: that of the golden; None where one dump alone is shown.
        partners: for each node of the target the number of its golden node, or `NO_PARTNER`. A golden node may be the
            partner of several.
        scores: number of a target node -> how far it is off, in [0, 1], 0 = the same. Nodes without a score are left
            out. The score of a node in mode ``md5`` is 0 or 1 the same way.
        same: number of a target node -> whether all checksums agree; of mode ``md5`` only.
        mode: what was compared; None for one dump alone.
        levels: number of a node -> level of its overflow, of the target and of the golden.
        links: number of a node -> its communications with other ranks, of the target and of the golden.
        reasons: number of a target node -> why it has no partner, or that score.
        problems: what is worth saying about the partners.
        rows: returns for each tensor of a target node what it was compared with, measured and judged; None where it was
            not compared.
    """

    target: ModelGraph
    golden: ModelGraph | None = None
    partners: Sequence[int] = ()
    scores: Mapping[int, float] = field(default_factory=dict)
    same: Mapping[int, bool] = field(default_factory=dict)
    mode: GraphMode | None = None
    levels: tuple[Mapping[int, Level], Mapping[int, Level]] = ({}, {})
    links: tuple[Mapping[int, Sequence[GraphLink]], Mapping[int, Sequence[GraphLink]]] = ({}, {})
    reasons: Mapping[int, str] = field(default_factory=dict)
    problems: tuple[Diagnostic, ...] = ()
    rows: Callable[[int], Sequence[Row | None]] = _no_rows

    @property
    def layout(self) -> GraphLayout:
        """By whose rules the graphs were built and paired."""
        return self.target.layout
