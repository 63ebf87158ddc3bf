"""One execution of a catalog, prepared for matching by name: nodes by number, their tensors, callers and repeats."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct, field

from probe_flow.dumps.dump_json.names import OPTIMIZER, parse_entry_name
from probe_flow.matching.name.name_space import Named, Rename, own_name
from probe_flow.records import Catalog, Execution, Node, NodeKey, NodeKind, Phase, TensorRef
from probe_flow.relations.call_tree import ROOT, CallTree, call_trees

MAX_CANDIDATES = 64
"""Earlier calls of one name and caller, the latest first, at which a recomputation may begin."""

_LIBRARIES = ("/torch/", "/torch_npu/", "/mindspore/")
_OPTIMIZERS = ("/torch/optim/", "/torch_npu/optim/", "/mindspore/nn/optim/", "/mindspore/mint/optim/",
               "/mindspore/experimental/optim/")  # fmt: skip


def find_recomputed(nodes: Sequence[Node]) -> dict[int, int]:
    """Return node number of each recomputed forward -> node number of the forward that it repeats.

    Args:
        nodes: one execution, in the order of the dump.
    """
    runs = _forward_runs(nodes)
    if len(runs) < 2:  # no forward call behind a backward one: nothing to repeat
        return {}
    search = _Search(nodes)
    for run in runs:
        search.take(run)
    return search.repeats


def _forward_runs(nodes: Sequence[Node]) -> list[list[int]]:
    """Return the stretches of forward calls between backward calls; other phases do not interrupt."""
    runs: list[list[int]] = [[]]
    for number, node in enumerate(nodes):
        if node.key.phase is Phase.FORWARD:
            runs[-1].append(number)
        elif node.key.phase is Phase.BACKWARD and runs[-1]:
            runs.append([])
    return [run for run in runs if run]


class _Search:
    """The forward calls seen so far, by name and caller, and which of them were repeated."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.repeats: dict[int, int] = {}
        self._what = [(node.key.name, node.parent) for node in nodes]
        at = {
            (node.key.name, node.key.call): number
            for number, node in enumerate(nodes)
            if node.key.phase is Phase.BACKWARD
        }
        self._gradient = [at.get((node.key.name, node.key.call)) for node in nodes]
        self._originals: list[int] = []
        self._places: dict[tuple[str, str | None], list[int]] = {}

    def take(self, run: list[int]) -> None:
        """Split one run of forward calls into repeats of earlier stretches and calls of its own."""
        known = len(self._originals)
        start = 0
        while start < len(run):
            stretch = self._longest_repeated(run, start, known) if known else []
            if stretch:
                self.repeats.update(zip(run[start : start + len(stretch)], stretch, strict=True))
                start += len(stretch)
                continue
            self._places.setdefault(self._what[run[start]], []).append(len(self._originals))
            self._originals.append(run[start])
            start += 1

    def _longest_repeated(self, run: list[int], start: int, known: int) -> list[int]:
        """Return the earlier calls that `run` repeats from `start` on, as many as possible; empty for none."""
        places = self._places.get(self._what[run[start]], [])
        while places and self._is_done(self._originals[places[-1]], run[start]):
            places.pop()
        best: list[int] = []
        earlier = bisect_left(places, known)
        for place in reversed(places[max(len(places) - MAX_CANDIDATES, 0) : earlier]):
            best = max(best, self._repeated_at(run, start, place, known), key=len)
        return best

    def _is_done(self, first: int, now: int) -> bool:
        gradient = self._gradient[first]
        return gradient is not None and gradient < now

    def _repeated_at(self, run: list[int], start: int, place: int, known: int) -> list[int]:
        stretch: list[int] = []
        any_gradient = False
        for offset in range(min(len(run) - start, known - place)):
            again, first = run[start + offset], self._originals[place + offset]
            due, repeated = self._gradient[first], self._gradient[again]
            both = due is not None and repeated is not None
            if self._what[again] != self._what[first] or self._is_done(first, again) or both:
                break
            stretch.append(first)
            any_gradient = any_gradient or due is not None or repeated is not None
        return stretch if any_gradient else []


Scope = int | str | None
"""What called a node: a node number, the name of something that was not dumped, or None for nothing."""


class Side(Struct, frozen=True):
    """Nodes of one execution by number, in the order of the dump.

    Args:
        nodes: the nodes.
        tensors: tensors of each node.
        scopes: caller of each node.
        calls: the call tree of the execution; its first calls are the nodes.
        repeats: recomputed forward -> the forward that it repeats.
        named: what each node is called where both sides meet.
        names: the same as text.
        level: level of the dump (``L0``: modules only, ``L1``: APIs only, ``mix``).
        records_callers: whether the dump says who called whom; else the paths of modules are all that is known.
        of_phase: nodes of each phase by call number (the dump has them in the order of completion).
        forwards: the forward call of each name and call number.
        silent: name and phase of the calls that ran, and of which the dump has no values.
        of_optimizer: the calls that an optimizer made.
    """

    nodes: Sequence[Node]
    tensors: Sequence[Sequence[TensorRef]]
    scopes: Sequence[Scope]
    repeats: Mapping[int, int]
    named: Sequence[Named]
    names: Sequence[str]
    level: str
    records_callers: bool
    of_phase: Mapping[Phase, Sequence[int]]
    forwards: Mapping[tuple[str, int], int]
    calls: CallTree
    silent: AbstractSet[tuple[str, Phase]]
    of_optimizer: AbstractSet[int] = frozenset()
    shapes: dict[int, Hashable] = field(default_factory=dict)

    def numbers(self, phase: Phase) -> Sequence[int]:
        """Return the nodes of one phase by call number."""
        return self.of_phase[phase]

    def forward_of(self, number: int) -> int | None:
        """Return the forward of a backward call, where it was dumped."""
        key = self.nodes[number].key
        return self.forwards.get((key.name, key.call)) if key.phase is Phase.BACKWARD else None

    def lone_updates(self, other: Side) -> AbstractSet[int]:
        """Return the calls of an optimizer, where the other side records none of its own: nothing there is one."""
        return frozenset() if other.of_optimizer else self.of_optimizer

    def shape_signature(self, number: int) -> Hashable:
        """Return the shapes of all tensors of a node, with their slots."""
        if number not in self.shapes:
            self.shapes[number] = tuple(
                (tensor.slot.role.value, tensor.slot.path, tensor.logical_shape) for tensor in self.tensors[number]
            )
        return self.shapes[number]

    def neighbour_signature(self, number: int) -> Hashable:
        """Return the names of what the dump has before and after a node."""
        before = self.names[number - 1] if number else None
        after = self.names[number + 1] if number + 1 < len(self.nodes) else None
        return before, after

    def full_signature(self, number: int) -> Hashable:
        """Return shapes and neighbours together."""
        return self.shape_signature(number), self.neighbour_signature(number)


class Sides(Mapping[Execution, Side]):
    """The executions of a catalog in order of first appearance, each prepared when it is asked for.

    Args:
        catalog: the catalog.
        rename: what its nodes are called where both sides meet.
    """

    def __init__(self, catalog: Catalog, rename: Rename = own_name) -> None:
        self._renamer = _Renamer(rename)
        self._level = str(catalog.attrs.get("level", ""))
        self._calls, self._tensors = call_trees(catalog), catalog.tensors_by_execution()
        self._optimizers = _optimizer_stacks(catalog)

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Execution]:
        return iter(self._calls)

    def __getitem__(self, run: Execution) -> Side:
        calls = self._calls[run]
        nodes = calls.calls[: calls.dumped]
        updates = frozenset(number for number, node in enumerate(nodes) if _is_of_optimizer(node, self._optimizers))
        return _side(calls, _by_node(calls, self._tensors[run]), self._level, self._renamer, updates)


def _by_node(calls: CallTree, tensors: Sequence[TensorRef]) -> dict[NodeKey, list[TensorRef]]:
    """Return the tensors of each node, none for some."""
    owned: dict[NodeKey, list[TensorRef]] = {node.key: [] for node in calls.calls[: calls.dumped]}
    last: object = None
    mine: list[TensorRef] = []
    for tensor in tensors:
        if tensor.node is not last:  # hashing a key costs more than all else; readers share one per node
            last = tensor.node
            mine = owned[last]
        mine.append(tensor)
    return owned


class _Renamer:
    """Renames nodes and callers, each distinct one once."""

    def __init__(self, rename: Rename) -> None:
        self._rename = rename
        self._known: dict[tuple[str, str | None], Named] = {}
        self._callers: dict[str, str] = {}

    def of(self, node: Node) -> Named:
        what = node.key.name, node.parent
        found = self._known.get(what)
        if found is None:
            found = self._known[what] = self._rename(node.key.name, node.kind or NodeKind.API, node.parent)
        return found

    def caller(self, entry: str) -> str:
        """Return the common name of a caller that was not dumped."""
        found = self._callers.get(entry)
        if found is None:
            found = self._callers[entry] = self._caller(entry)
        return found

    def _caller(self, entry: str) -> str:
        parsed = parse_entry_name(entry)
        if parsed is None:
            return self._rename(entry, NodeKind.MODULE, None).name
        return f"{self._rename(parsed.name, parsed.kind, None).name}.{parsed.call}.{parsed.phase.value}"


def _side(
    calls: CallTree, owned: Mapping[NodeKey, list[TensorRef]], level: str, renamer: _Renamer, updates: AbstractSet[int]
) -> Side:
    nodes = calls.calls[: calls.dumped]
    tensors = [owned[node.key] for node in nodes]
    recorded = [node.caller for node in nodes]
    scopes: list[Scope] = []
    for node, entry, caller in zip(nodes, recorded, calls.callers, strict=False):
        if entry is not None and ROOT != caller < calls.dumped:
            scopes.append(caller)
        else:
            scope = node.parent if entry is None else entry
            scopes.append(renamer.caller(scope) if scope is not None else None)
    of_phase = _by_phase(nodes)
    forwards = {(nodes[n].key.name, nodes[n].key.call): n for n in of_phase[Phase.FORWARD]}
    named = [renamer.of(node) for node in nodes]
    for number in of_phase[Phase.BACKWARD]:  # the caller of a gradient is not always recorded
        named[number] = named[forwards.get((nodes[number].key.name, nodes[number].key.call), number)]
    names = [each.name for each in named]
    if any(each.is_wrapper for each in named):
        scopes = [_behind(scope, scopes, named) for scope in scopes]
    return Side(
        nodes=nodes,
        tensors=tensors,
        scopes=scopes,
        repeats=find_recomputed(nodes),
        named=named,
        names=names,
        level=level,
        records_callers=any(entry is not None for entry in recorded),
        of_phase=of_phase,
        forwards=forwards,
        silent={(renamer.of(node).name, node.key.phase) for node in calls.calls[calls.dumped :]},
        of_optimizer=updates,
        calls=calls,
    )


def _behind(scope: Scope, scopes: Sequence[Scope], named: Sequence[Named]) -> Scope:
    """Return what called the wrappers that a call was made through."""
    while isinstance(scope, int) and named[scope].is_wrapper:
        scope = scopes[scope]
    return scope


def _by_phase(nodes: Sequence[Node]) -> dict[Phase, list[int]]:
    found: dict[Phase, list[int]] = {phase: [] for phase in Phase}
    for number, node in enumerate(nodes):
        found[node.key.phase].append(number)
    calls = [node.key.call for node in nodes]
    for numbers in found.values():
        numbers.sort(key=calls.__getitem__)
    return found


def _optimizer_stacks(catalog: Catalog) -> AbstractSet[str]:
    """Return the ids of the stacks of calls that an optimizer made: what it lets a program compute is not its own."""
    return {key for key, frames in catalog.stacks.items() if _is_in_optimizer(frames)}


def _is_in_optimizer(frames: tuple[str, ...]) -> bool:
    for frame in frames:  # innermost first
        path = frame.partition(", line ")[0].replace("\\", "/")
        if not any(library in path for library in _LIBRARIES):
            return False
        if any(optimizer in path for optimizer in _OPTIMIZERS):
            return True
    return False


def _is_of_optimizer(node: Node, stacks: AbstractSet[str]) -> bool:
    """Return whether an optimizer made a call, by its caller or its stack."""
    return node.caller == OPTIMIZER or node.stack_id in stacks
