"""Read runs of the TensorFlow debugger (tfdbg) into a catalog: those of sessions, and those of TensorFlow 2."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.selection import EVERYTHING, Selection, keeps_no_execution, keeps_no_node
from probe_flow.dumps.tfdbg.event import DTYPES, IDENTITY, GraphNode, TensorEvent, read_graph_event, read_tensor_event
from probe_flow.dumps.tfdbg.event_files import GRAPHS, TRACES, event_sets, read_graphs, read_traces
from probe_flow.dumps.tfdbg.problems import (
    below,
    figures_only,
    half_written,
    no_tensor,
    not_of_the_debugger,
    one_of_sets,
    several_devices,
    several_graphs,
)
from probe_flow.dumps.tfdbg.runs import (
    DEVICE_PREFIX,
    GRAPH_PREFIX,
    METADATA_PREFIX,
    Run,
    RunChoice,
    chosen_runs,
)
from probe_flow.errors import Diagnostic, FormatError, IncompleteError, Severity, UsageError
from probe_flow.files.walk import DumpFile, DumpListing, dump_root, fingerprint, list_dump
from probe_flow.records import (
    ArrayFacts,
    Catalog,
    Edge,
    Execution,
    Extent,
    Flow,
    Node,
    NodeKey,
    Problem,
    SlotRole,
    TensorKind,
    TensorRef,
    TensorTables,
    shared_slot,
)
from probe_flow.records.frameworks import TFDBG

_FILE = re.compile(r"(?P<node>.+)_(?P<slot>\d{1,6})_(?P<op>Debug[A-Za-z]+)_(?P<time>\d{1,20})(?:-\d{1,9})?", re.DOTALL)
"""The time is in microseconds; a number behind it tells files of one microsecond apart."""

_ARGUMENT = re.compile(r"_arg_(.+)_(\d{1,6})_\d{1,6}")
_INSERTED = re.compile(r"/_\d{1,9}(?=/|$)")
"""What TensorFlow calls what it inserts: a fed placeholder `input/x` runs as `_arg_input/x_0_0` (name, output, number),
copies and bodies of control flow get a part of digits (`merge/_15`, `lp/body/_9/add`)."""

_COPIES = frozenset({"Copy", "CopyHost"})

_MAX_LISTED = 5
_LOST_SHARE = 0.25
"""Share of a run's tensors without file from which it did not end. Branches that are not taken leave none either."""


class _File(Struct, frozen=True):
    """A tensor's file: its place, when it was written, and what it says or why that cannot be read.

    ``node`` and ``slot`` are those of the user's graph, ``ran_as`` is the operator that ran, and ``item`` the name of
    the tensor in the run where that is another one.
    """

    device: str
    file: DumpFile
    time: int
    node: str
    slot: int
    event: TensorEvent | None
    problem: Problem | None = None
    ran_as: str = ""
    item: str | None = None


def read_tfdbg(
    path: str | os.PathLike[str], *, side: str, select: Selection = EVERYTHING, run: RunChoice = "last"
) -> Catalog:
    """Describe every tensor that the TensorFlow debugger wrote; their elements stay on disk.

    Operators have the names of the user's graph: what TensorFlow calls a fed placeholder or a part of a control flow is
    undone where that is unambiguous, and the name in the run is the tensor's ``item``. What a loop wrote several
    times are several calls. `Catalog.attrs` has ``select`` and ``runs`` (names of the folders).

    A folder of TensorFlow 2's debugger (`enable_dump_debug_info`) is read too: its newest run, with the names that
    operators have inside of functions.

    Args:
        path: the folder of the runs, or of one run.
        side: name of the stage.
        select: steps (with ``run="all"``) and nodes to read.
        run: ``last``, or a number from 0 in order of time: one run, which then has no step and so is compared with
            each; ``all``: every run is a step.

    Raises:
        UsageError: PF3201 no such folder, PF3304 nothing selected, PF3442 no such run.
        IncompleteError: PF3202 no run, or no tensor in what is read.
    """
    problems: list[Problem] = []
    reader = _Reader(problems, select.node_filter())
    sets = event_sets(Path(path))
    if sets:
        root = dump_root(path)
        if len(sets) > 1:
            problems.append(one_of_sets(root, sets))
        files = list(reader.read_events(root, sets[-1]))
        return _catalog(reader, root, side, select, files, sets[-1:])
    root, runs = chosen_runs(os.fspath(path), run, problems)
    kept = [each for each in runs if select.takes_execution(None, each.step, None)]
    if not kept:
        raise UsageError(keeps_no_execution(Execution(step=each.step) for each in runs))
    read: list[DumpFile] = []
    for each in kept:
        read += reader.read(each)
    return _catalog(reader, root, side, select, read, [each.folder.name for each in kept])


def _catalog(
    reader: _Reader, root: Path, side: str, select: Selection, files: Sequence[DumpFile], names: Sequence[str]
) -> Catalog:
    problems = reader.problems
    if not reader.nodes:
        if reader.names:
            raise UsageError(keeps_no_node(reader.names))
        raise IncompleteError(no_tensor(root, names, problems))
    problems.extend(select.unanswered(dict.fromkeys(key.execution for key in reader.nodes)))
    return Catalog(
        side,
        TFDBG,
        "tensor",
        str(root),
        reader.nodes,
        tuple(reader.tensors),
        edges=tuple(reader.edges),
        problems=tuple(problems),
        fingerprint=fingerprint(files),
        attrs={"select": select.as_attrs(), "runs": tuple(names)},
        flow=Flow.GRAPH,
    )


class _Reader(Struct):
    """Collects nodes and tensors of all runs that are read."""

    problems: list[Problem]
    takes: Callable[[str], bool]
    nodes: dict[NodeKey, Node] = field(default_factory=dict)
    tensors: list[TensorRef] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    tables: TensorTables = field(default_factory=TensorTables)

    def read(self, run: Run) -> Sequence[DumpFile]:
        """Read one run and return its files."""
        listing = list_dump(run.folder)
        self.problems.extend(replace(each, path=below(run, each.path)) for each in listing.problems)
        graph = {node.name: node for node in _graphs(run, listing, self.problems)}
        found = _of_one_device(list(_tensor_files(run, listing, self.problems)), run, self.problems)
        lost = _without_file(graph, found)
        if len(lost) > _LOST_SHARE * (len(lost) + len(found)):
            self.problems.append(half_written(run, lost, len(found)))
        self.take(run, graph, found)
        return listing.files

    def read_events(self, root: Path, prefix: str) -> Sequence[DumpFile]:
        """Read a run of TensorFlow 2's debugger, whose tensors lie in one file, and return its files."""
        listing = list_dump(root)
        self.problems.extend(listing.problems)
        files = {file.name: file for file in listing.files}
        traces, graphs = files.get(f"{prefix}.{TRACES}"), files.get(f"{prefix}.{GRAPHS}")
        if traces is None:  # a link or a pipe has its name, which the problems of the listing say
            return []
        known = read_graphs(graphs.path, self.problems) if graphs is not None else {}
        first: dict[str, str] = {}
        others: dict[str, None] = {}
        found: list[_File] = []
        for trace in read_traces(traces.path, self.problems):
            event = trace.event
            if first.setdefault(event.node, trace.context) != trace.context:
                others[event.node] = None
                continue
            found.append(_File(trace.context, traces, trace.time, event.node, event.slot, event))
        if others:
            self.problems.append(several_graphs(traces, list(others)))
        graph = {name: known[context][name] for name, context in first.items() if name in known.get(context, {})}
        self.take(Run(root, 0), graph, found)
        return [file for file in (traces, graphs) if file is not None]

    def take(self, run: Run, graph: dict[str, GraphNode], found: list[_File]) -> None:
        """Add the tensors of one run."""
        usual = usual_names(dict.fromkeys(file.node for file in found), graph)
        by_node: dict[str, dict[int, list[_File]]] = defaultdict(lambda: defaultdict(list))
        for file in map(partial(_renamed, usual), found):
            by_node[file.node][file.slot].append(file)
        self._add(run, by_node, graph)
        true_names = {name: usual.get(name, (name, None))[0] for name in graph}
        self.edges.extend(_edges(Execution(step=run.step), graph, true_names, self.nodes))
        self.problems.extend(_without_numbers(run, found))

    def _add(self, run: Run, by_node: dict[str, dict[int, list[_File]]], graph: dict[str, GraphNode]) -> None:
        execution = Execution(step=run.step)
        calls: list[tuple[int, str, int, list[_File]]] = []
        for name, slots in by_node.items():
            self.names.append(name)
            if not self.takes(name):
                continue
            for files in slots.values():
                files.sort(key=lambda file: (file.time, file.file.name))
            for call in range(max(map(len, slots.values()))):
                files = [slots[slot][call] for slot in sorted(slots) if call < len(slots[slot])]
                calls.append((min(file.time for file in files), name, call, files))
        calls.sort(key=lambda each: each[:3])
        for time, name, call, files in calls:
            key = NodeKey(execution, name, call)
            node = graph.get(files[0].ran_as)
            self.nodes[key] = Node(key, "" if node is None else node.op, order=time, facts=ArrayFacts(safe_name(name)))
            for file in files:
                self.tensors.append(_tensor_ref(file, key).stored_in(self.tables))
                if file.problem is not None:
                    self.problems.append(replace(file.problem, path=below(run, file.file.relative)))


def _renamed(usual: Mapping[str, tuple[str, int | None]], file: _File) -> _File:
    """Return a file under the name of its operator in the user's graph."""
    found = usual.get(file.node)
    if found is None:
        return replace(file, ran_as=file.node)
    name, slot = found
    item = f"{file.node}:{file.slot}"
    return replace(file, node=name, slot=file.slot if slot is None else slot, ran_as=file.node, item=item)


def _without_file(graph: Mapping[str, GraphNode], found: Sequence[_File]) -> list[str]:
    """Return the tensors of which the graph has a copy for the debugger, and the run no file."""
    there = {f"{file.node}:{file.slot}" for file in found}
    watched = (node.inputs[0] for node in graph.values() if node.op in _COPIES and node.inputs)
    return [
        name for name in dict.fromkeys(each if ":" in each else f"{each}:0" for each in watched) if name not in there
    ]


def _graphs(run: Run, listing: DumpListing, problems: list[Problem]) -> Iterator[GraphNode]:
    for file in listing.files:
        if file.name.startswith(GRAPH_PREFIX) and len(file.folders) == 1:
            try:
                yield from read_graph_event(file.path)
            except FormatError as error:
                # Names and values need no graph: types of operators are what is lost.
                severity = Severity.WARNING
                problems.append(replace(error.diagnostic, severity=severity, path=below(run, file.relative)))


def _tensor_files(run: Run, listing: DumpListing, problems: list[Problem]) -> Iterator[_File]:
    other_ops: dict[str, int] = defaultdict(int)
    for file in listing.files:
        is_of_device = bool(file.folders) and file.folders[0].startswith(DEVICE_PREFIX)
        if file.name.startswith(METADATA_PREFIX) and len(file.folders) <= 1:
            continue
        named = _FILE.fullmatch("/".join((*file.folders[1:], file.name))) if is_of_device else None
        if named is None:
            problems.append(not_of_the_debugger(run, file))
            continue
        if named["op"] != IDENTITY:
            other_ops[named["op"]] += 1
            continue
        time = int(named["time"])
        try:
            event = read_tensor_event(file.path)
        except FormatError as error:
            yield _File(file.folders[0], file, time, named["node"], int(named["slot"]), None, error.diagnostic)
        else:
            yield _File(file.folders[0], file, time, event.node, event.slot, event)
    problems.extend(figures_only(run, op, count) for op, count in other_ops.items())


def _of_one_device(found: Sequence[_File], run: Run, problems: list[Problem]) -> list[_File]:
    """Return the files, those of an operator that ran on several devices for the first of them only."""
    devices: dict[str, set[str]] = defaultdict(set)
    for file in found:
        devices[file.node].add(file.device)
    several = {node: min(names) for node, names in devices.items() if len(names) > 1}
    if several:
        problems.append(several_devices(run, several, devices))
    return [file for file in found if several.get(file.node, file.device) == file.device]


def _tensor_ref(file: _File, key: NodeKey) -> TensorRef:
    slot = shared_slot(SlotRole.OUTPUT, (file.slot,))
    path = file.file.path
    event, item = file.event, file.item
    if event is None:
        reason = file.problem.message if file.problem is not None else None
        return TensorRef.of(key, slot, TensorKind.UNREADABLE, source=path, reason=reason, item=item)
    name, canonical = DTYPES.get(event.dtype, (f"data type {event.dtype}", None))
    reason = event.opaque_reason
    if canonical is None or reason is not None:
        return TensorRef.of(
            key,
            slot,
            TensorKind.OPAQUE,
            dtype=name,
            stored_dtype=name,
            shape=event.shape,
            source=path,
            reason=reason,
            item=item,
        )
    extents = (Extent(path, event.offset, event.nbytes, "raw"),)
    return TensorRef.of(
        key, slot, TensorKind.TENSOR, canonical, name, event.shape, event.shape, extents=extents, item=item
    )


def _edges(
    execution: Execution, graph: dict[str, GraphNode], usual: dict[str, str], nodes: dict[NodeKey, Node]
) -> Iterator[Edge]:
    """Yield the data flow between operators that were dumped, of a loop the first turn.

    The graph is the one that ran: what is dumped goes through a copy that the debugger put there.
    """
    for node in graph.values():
        consumer = NodeKey(execution, usual[node.name])
        if consumer not in nodes:
            continue
        for number, text in enumerate(node.inputs):
            copy = graph.get(text)
            source = copy.inputs[0] if copy is not None and copy.op in _COPIES and copy.inputs else text
            name, _, output = source.partition(":")
            producer = NodeKey(execution, usual.get(name, name))
            if not text.startswith("^") and producer in nodes:
                yield Edge(producer, int(output) if output.isdigit() else 0, consumer, number)


def _without_numbers(run: Run, found: Sequence[_File]) -> Iterator[Problem]:
    """Yield a note for each reason why tensors hold no numbers."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for file in found:
        reason = file.event.opaque_reason if file.event is not None else None
        if reason is not None:
            by_reason[reason].append(f"{file.node}:{file.slot}")
    for reason, names in by_reason.items():
        yield Diagnostic(
            "PF3444",
            f"{len(names)} tensor{'s' if len(names) > 1 else ''} of `{run.folder.name}` cannot be compared: {reason}",
            severity=Severity.NOTE,
            notes=tuple(f"`{name}`" for name in names[:_MAX_LISTED]),
            path=run.folder.name,
        )


def usual_name(name: str) -> tuple[str, int | None]:
    """Return the name in the user's graph, and the output that it stands for where the name says that.

    >>> usual_name("_arg_input/x_0_0"), usual_name("lp/body/_9/add_0"), usual_name("merge/_15"), usual_name("a_1/b")
    (('input/x', 0), ('lp/body/add_0', None), ('merge', None), ('a_1/b', None))
    """
    argument = _ARGUMENT.fullmatch(name)
    if argument is not None:
        return argument[1], int(argument[2])
    return _INSERTED.sub("", name), None


def usual_names(names: Iterable[str], known: Collection[str]) -> dict[str, tuple[str, int | None]]:
    """Return the usual name of every operator of a run that has another one.

    A name that the run has anyway, or that two operators would share, stays as it is: none is taken for another.

    Args:
        names: true names of what was dumped.
        known: names of all operators of the run, dumped or not.
    """
    found: dict[str, tuple[str, int | None]] = {}
    owners: dict[tuple[str, int | None], str] = {}
    shared: set[tuple[str, int | None]] = set()
    for name in names:
        usual = usual_name(name)
        if usual[0] == name or not usual[0] or usual[0] in known:
            continue
        if owners.setdefault(usual, name) != name:
            shared.add(usual)
        found[name] = usual
    return {name: usual for name, usual in found.items() if usual not in shared}
