"""What called what in each execution of a dump: the one record of it, which matching, the search and the reports read.

A dump names the caller of a call by its entry (`Node.caller`), else by name alone (`Node.parent`); where it names none,
the paths of modules say what encloses what (`enclosing`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from probe_flow.records import CallFacts, Catalog, Execution, Node, NodeKey, NodeKind, Phase

ROOT = -1
"""Stands for the caller of what nothing called."""


def left_out(numbers: Collection[int]) -> frozenset[int]:
    """Return the call numbers of a name that a dump lacks: a program counts its calls of each name from 0."""
    return frozenset(range(max(numbers, default=0))).difference(numbers)


class CallTree(Struct, frozen=True, dict=True):
    """The calls of one execution by number, and who called each. Every way up ends at the root.

    Args:
        calls: with entry, micro step and order in `Node`: first the nodes of the catalog in the order of the dump, then
            what it has no node of. Those are calls that construct.json alone names (`Catalog.undumped`), and callers of
            which nothing is known but the name.
        callers: number of the caller of each call, or `ROOT`.
        dumped: how many of the calls are nodes of the catalog.
    """

    calls: Sequence[Node]
    callers: Sequence[int]
    dumped: int

    @cached_property
    def numbers(self) -> Mapping[NodeKey, int]:
        """Number of each call by its key; where two have one, that of the catalog's node."""
        return numbers_of(self.calls)

    @property
    def has_callers(self) -> bool:
        """Whether the dump says of any call what called it; that gradients belong to a module is no call."""
        return any(
            caller != ROOT and call.key.phase is not Phase.NONE
            for call, caller in zip(self.calls, self.callers, strict=True)
        )

    @property
    def has_calls_inside(self) -> bool:
        """Whether anything was called by a call."""
        return any(caller != ROOT for caller in self.callers)

    def around(self, number: int) -> Iterator[int]:
        """Yield the callers of a call, innermost first."""
        while (number := self.callers[number]) != ROOT:
            yield number

    def nearest(self, numbers: Collection[int]) -> dict[int, int]:
        """Return the nearest caller of each of some calls that is one of them, `ROOT` where none is."""
        among = set(numbers)
        return {number: next((each for each in self.around(number) if each in among), ROOT) for number in numbers}


def numbers_of(calls: Sequence[Node]) -> Mapping[NodeKey, int]:
    """Return the number of each call by its key; of two with one key the first counts."""
    return {calls[number].key: number for number in reversed(range(len(calls)))}


def call_trees(catalog: Catalog) -> Mapping[Execution, CallTree]:
    """Return the call tree of each execution that has nodes, in order of first appearance; made when asked for."""
    return _CallTrees(catalog)


def each_call_tree(catalog: Catalog) -> Iterator[tuple[Execution, CallTree]]:
    """Yield the same one by one."""
    yield from _CallTrees(catalog).items()


class _CallTrees(Mapping[Execution, CallTree]):
    def __init__(self, catalog: Catalog) -> None:
        self._nodes = catalog.nodes_by_run()
        self._others: dict[Execution, list[Node]] = {}
        for node in catalog.undumped:
            self._others.setdefault(node.key.execution, []).append(node)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Execution]:
        return iter(self._nodes)

    def __getitem__(self, run: Execution) -> CallTree:
        return call_tree(self._nodes[run], self._others.get(run, ()))


def call_tree(nodes: Sequence[Node], undumped: Sequence[Node] = ()) -> CallTree:
    """Return the call tree of one execution.

    Where a name alone is known of a caller, the first call of that name and phase is meant, and for the gradients of
    parameters the backward call. Of nodes with one entry the last counts. A backward call of a module that changes its
    input in place never ends, so that it has no entry and what follows seems to be its own: what lies around a backward
    call without entry is what lay around the forward call.

    Args:
        nodes: in the order of the dump.
        undumped: other calls that ran.
    """
    calls = [*nodes, *undumped]
    if not any(node.parent is not None or node.caller is not None for node in calls):
        return CallTree(calls, [ROOT] * len(calls), len(nodes))
    search = _Search(calls, len(nodes))
    # It appends callers of which only the name is known.
    callers = [
        search.caller(call) if number < len(nodes) else search.caller_of_undumped(call)
        for number, call in enumerate(calls)
    ]
    return CallTree(calls, without_circles(callers), len(nodes))


class _Search:
    """Finds callers by entry and by name."""

    def __init__(self, calls: list[Node], dumped: int) -> None:
        self._calls = calls
        callers = [call.caller for call in calls]
        entries = {*callers} - {None}
        names = {call.parent for call, caller in zip(calls, callers, strict=True) if caller is None} - {None}
        self._by_entry: dict[str, int] = {}
        self._by_name: dict[tuple[str, Phase], int] = {}
        self._parents: dict[str, str] = {}
        self._by_key: dict[NodeKey, int] | None = None
        self._unknown: dict[NodeKey, int] = {}
        for number in (*range(dumped, len(calls)), *range(dumped)):  # what was dumped counts more
            call = calls[number]
            if entries and (entry := call.entry) in entries:
                self._by_entry[entry] = number
        for number, call in enumerate(calls):
            if call.parent is not None:
                self._parents[call.key.name] = call.parent
            if call.key.name in names:
                self._by_name.setdefault((call.key.name, call.key.phase), number)

    def caller(self, call: Node) -> int:
        """Return the number of the caller, which may be a new call."""
        key, entry = call.key, call.caller
        if entry is not None:
            found = self._by_entry.get(entry)
            if found is not None:
                return found
            unknown = NodeKey(key.execution, call.parent or entry, _call(entry), key.phase)
            return self._numbered(unknown, CallFacts(NodeKind.MODULE, entry=entry))
        if call.parent is None:
            return ROOT
        phases = (Phase.BACKWARD, Phase.FORWARD) if key.phase is Phase.NONE else (key.phase,)
        for phase in phases:
            found = self._by_name.get((call.parent, phase))
            if found is not None:
                return found
        return self._numbered(NodeKey(key.execution, call.parent, 0, phases[0]), None)

    def caller_of_undumped(self, call: Node) -> int:
        """Return the number of the caller of a call that has no entry."""
        key = call.key
        forward = self._number(NodeKey(key.execution, key.name, key.call)) if key.phase is Phase.BACKWARD else None
        if forward is None:
            return self.caller(call)
        around = self.caller(self._calls[forward])
        if around == ROOT:
            return ROOT
        above = self._calls[around].key
        twin = self._number(NodeKey(above.execution, above.name, above.call, Phase.BACKWARD))
        return self.caller(call) if twin is None else twin

    def _number(self, key: NodeKey) -> int | None:
        if self._by_key is None:
            self._by_key = {self._calls[number].key: number for number in reversed(range(len(self._calls)))}
        return self._by_key.get(key)

    def _numbered(self, key: NodeKey, facts: CallFacts | None) -> int:
        found = self._unknown.get(key)
        if found is None:
            found = self._unknown[key] = len(self._calls)
            self._calls.append(Node(key, "", self._parents.get(key.name), facts=facts))
        return found


def _call(entry: str) -> int:
    number = entry.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0


def without_circles(callers: Sequence[int]) -> list[int]:
    """Return the callers without those that close a circle, which only a damaged dump has."""
    found = list(callers)
    is_done = [False] * len(found)
    for start in range(len(found)):
        path: dict[int, None] = {}
        at = start
        while at != ROOT and not is_done[at]:
            path[at] = None
            caller = found[at]
            if caller in path:
                found[at] = caller = ROOT
            at = caller
        for each in path:
            is_done[each] = True
    return found


def completion_order(callers: Sequence[int]) -> list[int]:
    """Return the calls as they end: what a call made before the call itself, calls of one caller in their order.

    Args:
        callers: of all calls, without circles.
    """
    made: dict[int, list[int]] = {}
    for number, caller in enumerate(callers):
        made.setdefault(caller, []).append(number)
    ended: list[int] = []
    due = [*made.get(ROOT, ())]
    while due:
        number = due.pop()
        ended.append(number)
        due += made.get(number, ())
    return ended[::-1]


def enclosing(calls: Sequence[Node], numbers: Sequence[int]) -> dict[int, int]:
    """Return the module call that holds each module by its path, and `ROOT` for calls of APIs.

    Args:
        calls: of one execution, in the order in which they ended.
        numbers: those to look at, ascending, of one phase.
    """
    held: dict[str, list[int]] = {}
    for number in numbers:
        if calls[number].kind is NodeKind.MODULE:
            held.setdefault(module_path(calls[number].key.name), []).append(number)
    found = dict.fromkeys(numbers, ROOT)
    for path, inner in held.items():
        outer = path.rpartition(".")[0]
        while outer and outer not in held:
            outer = outer.rpartition(".")[0]
        for number in inner if outer else ():
            place = bisect_right(held[outer], number)
            if place < len(held[outer]):
                found[number] = held[outer][place]
    return found


def module_path(name: str) -> str:
    """Return the dotted path of a module from its name: `layers.0.attn` of `Module.layers.0.attn.Attn`."""
    return name.partition(".")[2].rpartition(".")[0]
