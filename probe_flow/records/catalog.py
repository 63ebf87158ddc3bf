"""The catalog: what a reader finds in a dump without loading tensor data."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter, is_
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Diagnostic
from probe_flow.records.figures import Integers
from probe_flow.records.frameworks import Framework
from probe_flow.records.node import Execution, ManyNodes, Node, NodeKey
from probe_flow.records.tensor import ManyTensors, TensorRef
from probe_flow.records.tensor_data import TensorTable
from probe_flow.records.tensor_traits import TensorTraits

Problem = Diagnostic
"""Something a reader could not take: a malformed file, a skipped duplicate. Never an exception of the run."""


class Flow(enum.Enum):
    """How the nodes of a dump depend on each other, which decides where an error can have come from.

    ``graph``: by `Catalog.edges`; where there are none, what a node read is unknown. ``order``: one call after the
    other, and what a later one reads an earlier one wrote; edges, where there are any, say so exactly. ``time``: nodes
    of one name follow each other, and each starts from the one before it; those of different names do not depend on
    each other. ``none``: no node depends on another.
    """

    GRAPH = "graph"
    ORDER = "order"
    TIME = "time"
    NONE = "none"


class Edge(Struct, frozen=True, gc=False):
    """Data flow between two dumped nodes of one execution, operators that were not dumped (views, casts) skipped.

    Output number ``output`` of ``producer`` reaches input number ``input`` of ``consumer``.
    """

    producer: NodeKey
    output: int
    consumer: NodeKey
    input: int


class GraphTensor(Struct, frozen=True, gc=False):
    """A tensor that an operator of a graph gives, as the text describes it; None for what it does not say.

    Args:
        dtype: e.g. ``DT_FLOAT``.
        shape: dimensions with commas between them.
        fx_name: the FX tensor that it is, e.g. ``add_1-aten.add.Tensor.OUTPUT.0``.
    """

    dtype: str | None = None
    shape: str | None = None
    fx_name: str | None = None


_Producer: TypeAlias = str | tuple[str, int] | None
"""What an input of an operator is connected to: of a producer's first output its name alone."""


class GraphOp(Struct, frozen=True, gc=False):
    """One operator of the framework's own graph text, dumped or not; made by `of`.

    Args:
        name: name in the graph.
        op_type: type in the graph.
        position: place in the file, from 0 (topological in all known writers).
        fed: producers of its data inputs; of most operators one, without a tuple around it.
        gives: what it gives; of most operators one tensor, without a tuple around it.
        settings: checksum of its attributes (axes, the value of a constant); 0 without any.
    """

    name: str
    op_type: str
    position: int
    fed: str | tuple[_Producer, ...] = ()
    gives: GraphTensor | tuple[GraphTensor, ...] = ()
    settings: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        op_type: str,
        position: int,
        inputs: Sequence[tuple[str, int] | None] = (),
        outputs: Sequence[GraphTensor] = (),
        *,
        settings: int = 0,
    ) -> GraphOp:
        """Make an operator of what it reads and gives.

        Args:
            name, op_type, position: as they are.
            inputs: producers as ``(name, output index)`` per data input; None where nothing is connected.
            outputs: what it gives.
            settings: checksum of its attributes.
        """
        fed = tuple(each[0] if each is not None and not each[1] else each for each in inputs)
        only = fed[0] if len(fed) == 1 else None
        gives = outputs[0] if len(outputs) == 1 else tuple(outputs)
        return cls(name, op_type, position, only if isinstance(only, str) else fed, gives, settings)

    @property
    def inputs(self) -> tuple[tuple[str, int] | None, ...]:
        """Producers as ``(name, output index)`` per data input; None where nothing is connected."""
        fed = self.fed
        if isinstance(fed, str):
            return ((fed, 0),)
        return tuple((each, 0) if isinstance(each, str) else each for each in fed)

    @property
    def outputs(self) -> tuple[GraphTensor, ...]:
        """What it gives."""
        return self.gives if isinstance(self.gives, tuple) else (self.gives,)


class Graph(Struct, frozen=True, gc=False):
    """One graph of a framework, by the graph id of `Execution.graph` (None when the file names none)."""

    id: int | str | None
    rank: int | None
    ops: tuple[GraphOp, ...]
    file: str


class Program(Struct, frozen=True, gc=False, eq=False):
    """The nodes of executions that run the same, as one of them has them."""

    nodes: tuple[Node, ...]


class Held(Struct, frozen=True, gc=False, eq=False):
    """The tensors of executions that run the same, but for what their dumps recorded of each.

    Args:
        owners: number of the node of each.
        traits: of each.
        tables: which of the execution's tables has the data of each; `NO_TABLE`: none, the tensor is held as it is.
        rows: its row there.
    """

    owners: Integers
    traits: tuple[TensorTraits, ...]
    tables: Integers
    rows: Integers


NO_TABLE = 255


class Ran(Struct, frozen=True, gc=False, eq=False):
    """One execution of a program: what other executions of it do not share.

    Args:
        execution: which one.
        program, held: its nodes and tensors.
        order: by how much `Node.order` is larger.
        stacks: id of a stack there -> its id here.
        tables: have the data of the tensors.
        others: tensors whose data are in no table, by number.
    """

    execution: Execution
    program: Program
    held: Held
    order: int
    stacks: Mapping[str, str]
    tables: tuple[TensorTable, ...]
    others: Mapping[int, TensorRef]

    @property
    def is_sound(self) -> bool:
        """Whether its parts fit together; of executions that were read."""
        held, sizes = self.held, [*map(len, self.tables)]
        columns = held.owners, held.traits, held.tables, held.rows
        return (
            held.owners.typecode + held.tables.typecode + held.rows.typecode == "IBI"
            and all(len(column) == len(held.rows) for column in columns)
            and len(self.program.nodes) > max(held.owners, default=0)
            and all(
                row < sizes[table] if table < len(sizes) else table == NO_TABLE and place in self.others
                for place, (table, row) in enumerate(zip(held.tables, held.rows, strict=True))
            )
        )


class Catalog(Struct, frozen=True, gc=False):
    """Everything known of one dump.

    Args:
        side: ``target``, ``golden`` or ``reference`` - the name of the stage that read it.
        framework: what wrote it.
        task: ``tensor``, ``statistics``, ``md5``, ``structure``; ``benchmark`` of what was computed here.
        root: absolute path of the dump folder; names shown to people are relative to it.
        nodes: by key, in execution order within each execution.
        tensors: in the order of their nodes, inputs before outputs, numeric index order.
        undumped: calls that ran, by what lies with the dump, and of which the dump has no entry. `Node.order` is that
            of the dumped call that ended next.
        call_order: execution -> its calls in the order of construct.json, in which graphs show those of one caller: n
            is its n-th node, -1 - n its n-th call of `undumped`. Executions without construct.json are left out.
        edges: data flow between the dumped nodes; empty when the dump has no graph.
        graphs: framework graphs found beside the dump.
        stacks: stack id -> source frames, innermost first.
        problems: what could not be taken, each with file, reason and next step.
        fingerprint: digest of names, sizes and times of the files, for provenance and cache keys.
        attrs: what readers and matchers of one format tell each other.
        flow: how its nodes depend on each other; a comparison goes by that of its target.
        ran: of a dump of many ranks the executions, of which nodes and tensors are then made when they are asked for
            (`records.tables.catalogs`); what ranks have in common is there once.
    """

    side: str
    framework: Framework
    task: str
    root: str
    nodes: Mapping[NodeKey, Node]
    tensors: Sequence[TensorRef]
    undumped: tuple[Node, ...] = ()
    call_order: Mapping[Execution, Integers] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    graphs: tuple[Graph, ...] = ()
    stacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    fingerprint: str = ""
    attrs: Mapping[str, object] = field(default_factory=dict)
    flow: Flow = Flow.ORDER
    ran: tuple[Ran, ...] = ()

    @property
    def executions(self) -> tuple[Execution, ...]:
        """The distinct executions, in order of first appearance."""
        if self.ran:
            return tuple(each.execution for each in self.ran)
        return tuple(dict.fromkeys(key.execution for key in self.nodes))

    @property
    def repeats(self) -> Sequence[str]:
        """Folders with the dumps of further runs of the same model, which give its noise floor."""
        found = self.attrs.get("repeats", ())
        return found if isinstance(found, (list, tuple)) else ()

    def with_repeats(self, folders: Sequence[object]) -> Catalog:
        """Return it with such folders; as it is where there are none."""
        return replace(self, attrs={**self.attrs, "repeats": tuple(map(str, folders))}) if folders else self

    def with_nodes_of(self, other: Catalog) -> Catalog:
        """Return it with the nodes of another dump, the same objects, in place of equal ones of its own.

        Two dumps of one program have mostly the same nodes, which take a sixth of the memory of a run's rows.
        """
        common = {key: found for key, node in self.nodes.items() if (found := other.nodes.get(key)) == node}
        if not common:
            return self
        nodes: Mapping[NodeKey, Node] = {node.key: node for node in map(common.get, self.nodes, self.nodes.values())}
        if len(common) == len(nodes) == len(other.nodes) and all(map(is_, nodes, other.nodes)):
            nodes = other.nodes
        tensors = []
        own: NodeKey | None = None
        for tensor in self.tensors:
            if tensor.node is not own:
                own = tensor.node
                shared = common.get(own)
            tensors.append(tensor if shared is None else replace(tensor, node=shared.key))
        return replace(self, nodes=nodes, tensors=tuple(tensors))

    def node_like(self, key: NodeKey) -> Node | None:
        """Return the node of a key, None where there is none; of executions that run the same that of one of them."""
        return self.nodes.like(key) if isinstance(self.nodes, ManyNodes) else self.nodes.get(key)

    def in_full(self) -> Catalog:
        """Return it with all nodes and tensors at once, each of which is then one object."""
        if not self.ran:
            return self
        nodes = dict(self.nodes.items())
        tensors = tuple([TensorRef(each.node, each.traits, each.data, each.number) for each in self.tensors])
        return replace(self, nodes=nodes, tensors=tensors, ran=())

    def nodes_by_run(self) -> Mapping[Execution, Sequence[Node]]:
        """Return the nodes of every execution, in catalog order."""
        if isinstance(self.nodes, ManyNodes):
            return self.nodes.by_run()
        found: dict[Execution, list[Node]] = {}
        for run, some in groupby(self.nodes.values(), attrgetter("key.execution")):
            found.setdefault(run, []).extend(some)
        return found

    def nodes_by_execution(self) -> dict[Execution, dict[NodeKey, Node]]:
        """Return the nodes of every execution, in catalog order."""
        found: dict[Execution, dict[NodeKey, Node]] = {}
        for key, node in self.nodes.items():
            found.setdefault(key.execution, {})[key] = node
        return found

    def tensors_by_execution(self) -> Mapping[Execution, Sequence[TensorRef]]:
        """Return the tensors of every execution, in catalog order; an empty list where it has none."""
        if isinstance(self.tensors, ManyTensors):
            return self.tensors.by_run()
        found: dict[Execution, list[TensorRef]] = {execution: [] for execution in self.executions}
        if len(found) == 1:
            return dict.fromkeys(found, self.tensors)
        execution: Execution | None = None
        members: list[TensorRef] = []
        for tensor in self.tensors:
            # Neighbours mostly share the object; hashing an execution per tensor would cost more than all the rest.
            if tensor.node.execution is not execution:
                execution = tensor.node.execution
                members = found.setdefault(execution, [])
            members.append(tensor)
        return found
