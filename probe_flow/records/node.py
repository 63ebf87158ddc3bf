"""Executions and nodes: who owns tensors, in which run of which graph, in which order."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from msgspec import Struct


class Phase(enum.Enum):
    FORWARD = "forward"
    BACKWARD = "backward"
    NONE = "none"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


class NodeKind(enum.Enum):
    """What a dump of calls records a node as."""

    API = "api"
    MODULE = "module"
    PARAMETERS_GRAD = "parameters_grad"
    DEBUG = "debug"
    KERNEL = "kernel"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


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


class NodeKey(Struct, frozen=True, gc=False):
    """Identity of a node. ``name`` is the true name (mapping files resolved); ``call`` counts calls or loops from 0."""

    execution: Execution
    name: str
    call: int = 0
    phase: Phase = Phase.FORWARD


_API, _MODULE, _DEBUG = NodeKind.API, NodeKind.MODULE, NodeKind.DEBUG
_NO_PHASE = Phase.NONE
"""Asked for each tensor: a member of an enumeration takes longer to find than all else here."""


def entry_name(key: NodeKey, kind: NodeKind) -> str:
    """Return the name that the collectors' grammar gives a call: ``Functional.conv2d.2.forward``.

    >>> entry_name(NodeKey(Execution(), "Module.fc.Linear", 3, Phase.BACKWARD), NodeKind.MODULE)
    'Module.fc.Linear.backward.3'
    """
    if kind is _API:  # first, as most are
        phase = key.phase
        return key.name if phase is _NO_PHASE else f"{key.name}.{key.call}.{phase._value_}"
    if kind is _MODULE:
        return f"{key.name}.{key.phase._value_}.{key.call}"
    return f"{key.name}.{key.call}.debug" if kind is _DEBUG else f"{key.name}.{key.call}"


class CallFacts(Struct, frozen=True, gc=False):
    """What a dump of calls says of a node. Nodes of one kind and caller share one.

    Args:
        kind: what the node is.
        caller: the caller, by its entry name.
        micro_step: number of the micro step, under Megatron.
        entry: name of the node's own entry, where `entry_name` gives another one.
        scope: where in the source graph a kernel comes from.
        evidence: what names the call where it has no entry: ``stack`` (stack.json) or ``calls`` (construct.json).
    """

    kind: NodeKind
    caller: str | None = None
    micro_step: int | None = None
    entry: str | None = None
    scope: str | None = None
    evidence: str | None = None


class DeviceFacts(Struct, frozen=True, gc=False):
    """What the files of a device operator say, and what its graph calls it.

    Args:
        file: its file, relative to the dump; only its folder, ending in ``/``, where `Node.file` gives the name.
        task_id, stream_id: numbers in the name of the file.
        slices: all files, where the device cut the operator into several.
        header_name: the operator's name in the header, where the file has another.
        graph_types: types of the operators of the graph that it was made of; several are several parts.
        fx_tensors: golden values of several parts: where to look when only the fused result can be compared.
        clean_name: name as file names have it.
    """

    file: str
    task_id: int | None = None
    stream_id: int | None = None
    slices: tuple[str, ...] = ()
    header_name: str | None = None
    graph_types: tuple[str, ...] = ()
    fx_tensors: tuple[str, ...] = ()
    clean_name: str | None = None


class ArrayFacts(Struct, frozen=True, gc=False):
    """What the files of a folder of arrays say of an operator.

    Args:
        clean_name: its name as file names have it.
        is_told: whether something besides the names of its files says its name.
        twin: the name that the next operator gets whose name is the same in file names, where there is such a file and
            nothing says whose.
    """

    clean_name: str
    is_told: bool = True
    twin: str = ""


class RuleFacts(Struct, frozen=True, gc=False):
    """What fusion rules say of a device operator.

    Args:
        op, op_id: name, and place in the order of execution, by the rules.
        passes: names of the compiler passes that made it.
        kernel: attributes of its kernel.
        is_filtered: whether quantisation leaves nothing of it to compare.
        is_inner: whether it gives no tensor of its originals.
        is_dumped: whether it has a file; one without is ordered by its id.
        silent_outputs: how many outputs of an operator that ran without a file are read by others.
    """

    op: str
    op_id: int
    passes: tuple[str, ...] = ()
    kernel: tuple[tuple[str, str], ...] = ()
    is_filtered: bool = False
    is_inner: bool = False
    is_dumped: bool = True
    silent_outputs: int | None = None


class Node(Struct, frozen=True, gc=False):
    """An operator, API, module, cell or layer.

    Args:
        key: identity.
        op_type: the framework's type name, e.g. ``MatMulV2`` or ``aten.mm.default``.
        parent: true name of the module or scope that owns the node.
        originals: names of the original operators that a fused node was made of, in order.
        stack_id: key into `Catalog.stacks`.
        order: position in execution order within the execution; comparable between nodes of one catalog only.
        facts: what its format says of it.
        rules: what fusion rules say of it.
    """

    key: NodeKey
    op_type: str
    parent: str | None = None
    originals: tuple[str, ...] = ()
    stack_id: str | None = None
    order: int = 0
    facts: CallFacts | DeviceFacts | ArrayFacts | None = None
    rules: RuleFacts | None = None

    @property
    def kind(self) -> NodeKind | None:
        """What a dump of calls records it as; None in other dumps."""
        return self.facts.kind if isinstance(self.facts, CallFacts) else None

    @property
    def entry(self) -> str | None:
        """The name of its entry in a dump of calls; None in other dumps."""
        facts = self.facts
        if not isinstance(facts, CallFacts):
            return None
        return facts.entry if facts.entry is not None else entry_name(self.key, facts.kind)

    @property
    def caller(self) -> str | None:
        """The name of its caller's entry, where the dump records callers."""
        return self.facts.caller if isinstance(self.facts, CallFacts) else None

    @property
    def clean_name(self) -> str | None:
        """Its name as file names have it, in dumps of offline models."""
        return self.facts.clean_name if isinstance(self.facts, (DeviceFacts, ArrayFacts)) else None

    @property
    def file(self) -> str | None:
        """File of a device operator, relative to the dump; by its usual name where `DeviceFacts` gives the folder."""
        facts = self.facts
        if not isinstance(facts, DeviceFacts) or not facts.file.endswith("/"):
            return facts.file if isinstance(facts, DeviceFacts) else None
        return f"{facts.file}{self.op_type}.{self.key.name}.{facts.task_id}.{facts.stream_id}.{self.order}"

    @property
    def passes(self) -> tuple[str, ...]:
        """Names of the compiler passes that made it."""
        return self.rules.passes if self.rules is not None else ()

    @property
    def attributes(self) -> dict[str, object]:
        """The facts under their names in ``nodes.jsonl``."""
        found = {**_rule_attributes(self.rules)} if self.rules is not None else {}
        facts = self.facts
        if isinstance(facts, CallFacts):
            found |= {"entry": self.entry, "kind": facts.kind._value_}
            found |= _known(
                parent_entry=facts.caller, micro_step=facts.micro_step, scope=facts.scope, evidence=facts.evidence
            )
        elif isinstance(facts, DeviceFacts):
            found |= {"task_id": facts.task_id, "file": self.file}
            found |= _known(
                stream_id=facts.stream_id,
                slices=list(facts.slices) or None,
                header_name=facts.header_name,
                graph_type=facts.graph_types[0] if len(facts.graph_types) == 1 else list(facts.graph_types) or None,
                fx_tensors=list(facts.fx_tensors) if len(facts.graph_types) > 1 else None,
            )
        if self.clean_name is not None:
            found |= {"clean_name": self.clean_name, "timestamp": self.order}
        return found


class ManyNodes(Mapping[NodeKey, Node]):
    """Nodes of a catalog that are made when they are asked for."""

    @abstractmethod
    def like(self, key: NodeKey) -> Node | None:
        """Return the node of an execution that runs the same; None where there is none."""

    @abstractmethod
    def by_run(self) -> Mapping[Execution, Sequence[Node]]:
        """Return the nodes of each execution."""


def _known(**facts: object) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}


def _rule_attributes(rules: RuleFacts) -> dict[str, object]:
    return {
        "op": rules.op,
        "op_id": str(rules.op_id),
        **dict(rules.kernel),
        **({"filtered": "yes"} if rules.is_filtered else {}),
        **({"inner": "yes"} if rules.is_inner else {}),
        **({} if rules.is_dumped else {"dumped": False}),
        **_known(silent_outputs=rules.silent_outputs),
    }
