"""One execution of a dump.json as a tree of modules and calls, as construct.json gives it, repaired.

The rules are those of msprobe's ``graph`` and ``graph_visualize`` (`GraphLayout`): where a backward call names no
caller, or a wrong one, that of its forward call says which; runs of calls between modules become a collection.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby

from probe_flow.errors import Diagnostic, IncompleteError, Severity
from probe_flow.graphs.micro_steps import micro_steps
from probe_flow.graphs.recompute import recomputed
from probe_flow.records import Catalog, Execution, Node, NodeKind, Phase, TensorRef
from probe_flow.records.model_graph import GRAPH_ROOT, NO_PARTNER, GraphKind, GraphLayout, GraphNode, ModelGraph

ROOT_NAME = "DefaultModel"
COLLECTION = "Apis_Between_Modules"

_API, _MODULE = GraphKind.API, GraphKind.MODULE
_NO_PHASE, _OF_API = Phase.NONE, NodeKind.API
"""Asked for each call: a member of an enumeration takes longer to find than most else."""

_FORWARD = re.compile(r"\.forward\.(\d+)$")
_BACKWARD = re.compile(r"\.backward\.(\d+)$")
_GRADIENTS = re.compile(r"\.parameters_grad(\.\d+)?$")
_APIS = re.compile(r"(Tensor|Torch|Functional|NPU|VF|Distributed|Aten|Mint|Primitive|Jit|MintFunctional|MindSpeed).")


def build_graphs(
    catalog: Catalog, executions: Collection[Execution] | None = None, *, layout: GraphLayout = GraphLayout.OWN
) -> Iterator[ModelGraph]:
    """Yield the graph of each execution of a dump, in order of first appearance.

    Args:
        catalog: of a dump.json dump.
        executions: which ones; None = all.
        layout: by whose rules.

    Raises:
        IncompleteError: PF7150 where the dump does not say what called what.
    """
    nodes = catalog.nodes_by_run()
    undumped: dict[Execution, list[Node]] = defaultdict(list)
    for node in catalog.undumped:
        undumped[node.key.execution].append(node)
    tensors = catalog.tensors_by_execution()
    for run in nodes if executions is None else executions:
        yield _graph(catalog, run, nodes.get(run, ()), undumped[run], tensors.get(run, ()), layout)


def build_graph(catalog: Catalog, execution: Execution, *, layout: GraphLayout = GraphLayout.OWN) -> ModelGraph:
    """Return the graph of one execution.

    Raises:
        IncompleteError: PF7150 where the dump does not say what called what.
    """
    return next(build_graphs(catalog, (execution,), layout=layout))


def _graph(
    catalog: Catalog,
    run: Execution,
    nodes: Sequence[Node],
    undumped: Sequence[Node],
    tensors: Sequence[TensorRef],
    layout: GraphLayout,
) -> ModelGraph:
    order = catalog.call_order.get(run)
    if not order:
        raise _no_modules(catalog, run)
    calls = [nodes[number] if number >= 0 else undumped[-1 - number] for number in order]
    draft = Draft(layout)
    draft.add_calls(calls, {_entry(node): node for node in nodes} if len(order) < len(nodes) else {})
    if layout is not GraphLayout.MSPROBE_VIS:
        draft.move_recomputed(catalog)
    draft.settle()
    draft.collect_apis()
    if layout is not GraphLayout.MSPROBE_VIS:
        draft.add_gradients(nodes)
    steps, count = micro_steps(draft.names, draft.kinds, draft.calls, draft.children, layout)
    found = zip(draft.names, draft.kinds, draft.parents, draft.calls, steps, strict=True)
    graph_nodes = [GraphNode(*each) for each in found]
    children = [draft.children.get(number, ()) for number in range(len(graph_nodes))]
    return ModelGraph(catalog, run, tensors, graph_nodes, children, count, layout, tuple(draft.problems))


class Draft:
    """A graph while it is built: columns of its nodes, by number."""

    def __init__(self, layout: GraphLayout) -> None:
        self.layout = layout
        self._is_own = layout is GraphLayout.OWN
        self.names = [ROOT_NAME]
        self.kinds = [GraphKind.MODULE]
        self.parents = [NO_PARTNER]
        self.calls: list[Node | None] = [None]
        self.children: dict[int, list[int]] = {GRAPH_ROOT: []}
        self.numbers = {ROOT_NAME: GRAPH_ROOT}
        self.problems: list[Diagnostic] = []

    def add_calls(self, calls: Sequence[Node], others: Mapping[str, Node]) -> None:
        """Add the calls and whatever they name as their caller.

        Args:
            calls: in the order of construct.json.
            others: other nodes of the dump, by entry.
        """
        listed = {_entry(call): call for call in calls}
        callers = {entry: call.caller for entry, call in listed.items()}
        for entry, call in listed.items():
            caller = _repaired(callers, entry, callers[entry], self.layout)
            around = GRAPH_ROOT
            if caller:
                around = self.numbers.get(caller, NO_PARTNER)
                if around == NO_PARTNER:
                    around = self._add(caller, listed.get(caller) or others.get(caller))
            number = self.numbers.get(entry, NO_PARTNER)
            if number == NO_PARTNER:
                number = self._add(entry, call)
            if self.parents[number] == NO_PARTNER and number not in (around, GRAPH_ROOT):
                self._link(number, around)

    def _add(self, name: str, call: Node | None, kind: GraphKind | None = None) -> int:
        number = self.numbers[name] = len(self.names)
        self.names.append(name)
        self.calls.append(call)
        self.kinds.append(kind or self._kind(name, call))
        self.parents.append(NO_PARTNER)
        return number

    def _kind(self, name: str, call: Node | None) -> GraphKind:
        if self._is_own and call is not None and call.key.phase is not _NO_PHASE:
            return _API if call.kind is _OF_API else _MODULE
        return _API if _is_api(name.partition(".")[0]) else _MODULE

    def _link(self, number: int, around: int) -> None:
        self.parents[number] = around
        inside = self.children.get(around)
        if inside is None:
            self.children[around] = [number]
        else:
            inside.append(number)

    def move_recomputed(self, catalog: Catalog) -> None:
        """Move what a backward pass computed again below the backward call that did so."""
        top = self.children[GRAPH_ROOT]
        moved = set()
        for number, around in recomputed(self.numbers, self.kinds, self.calls, self.parents, top, catalog):
            self._link(number, around)
            moved.add(number)
        if moved:
            self.children[GRAPH_ROOT] = [each for each in top if each not in moved]

    def settle(self) -> None:
        """Put what the root does not reach below it: callers that construct.json does not list, and circles.

        msprobe loses the former, and what lies below them.
        """
        reached = bytearray(len(self.names))
        due = [GRAPH_ROOT]
        while due:
            number = due.pop()
            reached[number] = True
            due += self.children.get(number, ())
        for start in range(len(self.names)):
            if reached[start]:
                continue
            number, path = start, {start}
            while (around := self.parents[number]) != NO_PARTNER and around not in path:
                path.add(around)
                number = around
            self._adopt(number)
            due = [number]
            while due:
                each = due.pop()
                reached[each] = True
                due += self.children.get(each, ())

    def _adopt(self, number: int) -> None:
        """Put a node below the root that lies nowhere, or in a circle."""
        name, around = self.names[number], self.parents[number]
        if around == NO_PARTNER:
            what = f"construct.json names `{name}` as the caller of others and does not list it"
        else:
            what = f"`{name}` is its own ancestor"
            self.children[around].remove(number)
        message = f"{what}; the graph shows it at the top"
        self.problems.append(Diagnostic("PF7151", message, severity=Severity.WARNING, tensor=name))
        if around != NO_PARTNER or self.layout is GraphLayout.OWN:
            self._link(number, GRAPH_ROOT)

    def collect_apis(self) -> None:
        """Put each run of two API calls or more between modules into a collection."""
        inside: list[int] = []
        count = 0
        for kind, run in groupby(self.children[GRAPH_ROOT], self.kinds.__getitem__):
            members = [*run]
            if kind is GraphKind.API and len(members) > 1:
                number = self._add(f"{COLLECTION}.{count}", None, GraphKind.COLLECTION)
                count += 1
                self.parents[number] = GRAPH_ROOT
                self.children[number] = members
                for member in members:
                    self.parents[member] = number
                members = [number]
            inside += members
        self.children[GRAPH_ROOT] = inside

    def add_gradients(self, nodes: Sequence[Node]) -> None:
        """Add the gradients of parameters below the last backward call of their module."""
        of_module: dict[str, list[Node]] = {}
        for node in nodes:
            if node.kind is NodeKind.PARAMETERS_GRAD:
                entry = _entry(node)
                if entry not in self.numbers:
                    of_module.setdefault(_GRADIENTS.sub("", entry), []).append(node)
        if not of_module:
            return
        last = dict.fromkeys(of_module, 0)
        for name in self.numbers:
            found = _BACKWARD.search(name)
            if found is not None and name[: found.start()] in last:
                module = name[: found.start()]
                last[module] = max(last[module], int(found[1]))
        for module, gradients in of_module.items():
            around = self.numbers.get(f"{module}.backward.{last[module]}")
            if around is not None:
                for node in gradients:
                    self._link(self._add(_entry(node), node, GraphKind.MODULE), around)


def _entry(node: Node) -> str:
    entry = node.entry
    assert entry is not None, "call_order is of dumps of calls"
    return entry


@cache
def _is_api(prefix: str) -> bool:
    return _APIS.match(prefix + ".") is not None


def _repaired(callers: Mapping[str, str | None], entry: str, caller: str | None, layout: GraphLayout) -> str | None:
    """Return the caller of a call, by its forward call where it is a backward call that names none or a wrong one.

    Args:
        callers: as construct.json has them.
        entry: the call.
        caller: what construct.json says.
        layout: by whose rules.
    """
    if "backward" not in entry:
        return caller
    is_old = layout is GraphLayout.MSPROBE_VIS
    is_module = _BACKWARD.search(entry) is not None
    if caller:
        return caller if is_old or not is_module else _without_inplace(callers, entry, caller)
    if is_module:
        above = callers.get(_BACKWARD.sub(r".forward.\1", entry))
        if above and (twin := _FORWARD.sub(r".backward.\1", above)) in callers:
            return twin
    elif not is_old and entry.endswith(".backward"):
        above = callers.get(entry.replace("backward", "forward"))
        if above and (twin := above.replace("forward", "backward")) in callers:
            return twin
    return caller


def _without_inplace(callers: Mapping[str, str | None], entry: str, caller: str) -> str | None:
    """Return the caller of a module's backward call.

    A module that changes its input in place never ends its backward call, and what follows seems to lie in it. So a
    caller whose path is not the one that the module lies at is not believed.
    """
    parts, above = entry.split("."), caller.split(".")
    if len(parts) < 5 or len(above) < 4 or parts[:-4] == above[:-3]:
        return caller
    forward = _BACKWARD.sub(r".forward.\1", entry)
    if forward not in callers:
        return caller
    around = callers[forward]
    if not around:
        return None
    twin = _FORWARD.sub(r".backward.\1", around)
    return twin if twin in callers else caller


def _no_modules(catalog: Catalog, run: Execution) -> IncompleteError:
    level = catalog.attrs.get("level")
    if catalog.attrs.get("format") != "dump_json":
        what = f"`{catalog.root}` has tensors of single operators and kernels, and nothing of the modules that ran them"
        cure = "a graph is of a `dump.json`: run the script with the debugger or `dump.torch` at level mix or L0"
        return IncompleteError(Diagnostic("PF7150", what, path=catalog.root, help=cure))
    how = f", which is of level {level}," if level else ""
    what = f"`{catalog.root}`{how} does not say what called what in {run}: its construct.json is missing or empty"
    cure = "a graph needs a dump of level mix or L0: set `level` so and dump again"
    return IncompleteError(Diagnostic("PF7150", what, path=catalog.root, help=cure))
