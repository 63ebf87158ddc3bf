"""Read MindSpore's graph-mode kernel dumps (`rank_{r}/{net}/{graph}/{iteration}`): tensors, statistics, or both.

A node is named by its flattened scope without the operator's number, which shifts when an operator is inserted;
operators of one name are told apart by the order of these numbers, and by time where one ran in a loop. Parameters
hold the values that they have after the iteration.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from probe_flow.dumps.mindspore_graph.flow import (
    Beside,
    Link,
    edges_of,
    links_of,
    network_inputs,
    read_beside,
    text_of_another_graph,
)
from probe_flow.dumps.mindspore_graph.graph_files import GraphFiles, no_tensors, sort_graph_files
from probe_flow.dumps.mindspore_graph.ir_code import IrFile, Stacks
from probe_flow.dumps.mindspore_graph.ir_files import read_ir_files
from probe_flow.dumps.mindspore_graph.items import (
    UNKNOWN,
    Item,
    calls_of,
    empty_item,
    item_of_file,
    join,
    tensor_ref,
    unnamed_item,
    without_halved,
)
from probe_flow.dumps.mindspore_graph.layout import RunFolder
from probe_flow.dumps.mindspore_graph.names import PARAMETER
from probe_flow.dumps.mindspore_graph.statistic_csv import read_statistics
from probe_flow.dumps.selection import EVERYTHING, Selection, keeps_no_execution, keeps_no_node
from probe_flow.errors import Diagnostic, IncompleteError, Severity
from probe_flow.files.walk import DumpListing, dump_root, fingerprint, list_dump
from probe_flow.records import (
    CallFacts,
    Catalog,
    Edge,
    Execution,
    Node,
    NodeKey,
    NodeKind,
    Problem,
    TensorKind,
    TensorRef,
    TensorTables,
)
from probe_flow.records.frameworks import MINDSPORE

LEVEL = "L2"
"""The collector's word for dumps of kernels."""


def read_mindspore_graph(
    path: str | os.PathLike[str],
    *,
    side: str,
    select: Selection = EVERYTHING,
    ir: Sequence[Path] = (),
) -> Catalog:
    """Describe every tensor of a kernel dump; tensor data stay on disk.

    Edges come from the graph texts in `rank_{r}/graphs` where every iteration is one run of one graph; otherwise there
    are none, and producers are found by value. Stacks are the lines of code that these texts, and those named with
    ``ir``, give for an operator.

    Args:
        path: any folder from the root of the dump down to one iteration.
        side: name of the stage.
        select: what to read; a step is an iteration.
        ir: more IR texts, or folders of them.

    Raises:
        UsageError: PF3201 if the folder is not there; PF3460 if a text of ``ir`` is not there or none.
        IncompleteError: PF3450 if it holds no kernel dump.
    """
    root = dump_root(path)
    listing = list_dump(root)
    files = sort_graph_files(listing)
    if not any(run.tensors or run.statistics or run.unnamed for run in files.runs.values()):
        raise IncompleteError(_nothing_to_read(listing, files))
    texts, problems = read_ir_files(ir) if ir else ((), ())
    files.problems.extend(problems)
    reading = _Reading(files, select, texts)
    reading.read()
    edges = tuple(reading.edges())
    return Catalog(
        side,
        MINDSPORE,
        "tensor" if any(tensor.kind is TensorKind.TENSOR for tensor in reading.tensors) else "statistics",
        str(root),
        reading.nodes,
        tuple(reading.tensors),
        edges=edges,
        stacks=reading.stacks,
        problems=tuple(reading.problems),
        fingerprint=fingerprint(listing.files),
        attrs={"select": reading.selection.as_attrs(), "level": LEVEL},
    )


class _Reading:
    """What has been read so far."""

    def __init__(self, files: GraphFiles, selection: Selection, texts: Sequence[IrFile]) -> None:
        self.files = files
        self.selection = selection
        self.problems = files.problems
        self.nodes: dict[NodeKey, Node] = {}
        self.tensors: list[TensorRef] = []
        self.tables = TensorTables()
        self._takes = selection.node_filter()
        self._nets = {run.net for run in files.runs}
        self._beside = {
            rank: read_beside(files.texts.get(rank, {}), files.orders.get(rank, ()), self.problems)
            for rank in {*files.texts, *files.orders}
        }
        ranks = {run.rank for run in (*files.runs, *files.empty)}
        self._stacks = {rank: Stacks([*self._beside.get(rank, Beside()).files, *texts]) for rank in ranks}
        self._runs: list[tuple[Execution, RunFolder, dict[str, list[int]] | None]] = []

    def read(self) -> None:
        """Read the selected iterations; PF3304 if there are none, or none of their operators is selected."""
        found = {self._execution(run): run for run in sorted({**self.files.runs, **self.files.empty}, key=_run_order)}
        takes = self.selection.takes_execution
        kept = {each: run for each, run in found.items() if takes(each.rank, each.step, each.graph)}
        if not kept:
            self.problems.append(keeps_no_execution(found))
        self.problems.extend(self.selection.unanswered(kept))
        names = [name for execution, run in kept.items() for name in self._read_run(execution, run)]
        if kept and not self.nodes:
            self.problems.append(keeps_no_node(names))

    def _execution(self, run: RunFolder) -> Execution:
        graph: int | str = run.graph if len(self._nets) == 1 else f"{run.net}/{run.graph}"
        return Execution(run.rank, run.step, graph, model=run.net)

    def _read_run(self, execution: Execution, run: RunFolder) -> list[str]:
        """Read an iteration and return the names of its operators, selected or not."""
        files = self.files.runs[run]
        rows = [item for file in files.statistics for item in read_statistics(file, self.problems)]
        items = join([item_of_file(file, name) for file, name in files.tensors], rows)
        items, halved = without_halved(items)
        if halved:
            self.problems.append(_halved(execution, halved))
        items += [unnamed_item(file, reason) for file, reason in files.unnamed]
        if not items:
            reason = self.files.empty.get(run)
            if reason is None:
                problem = no_tensors(f"{execution} of `{run.net}`")
                self.problems.append(problem)
                reason = problem.message
            items = [empty_item(reason)]
        calls = calls_of(items)
        self._check_repeats(execution, calls)
        self._runs.append((execution, run, _numbers(calls)))
        beside = self._beside.get(run.rank, Beside())
        text = beside.texts.get(run.graph)
        first = network_inputs(text) if text is not None else frozenset()
        places = _places(calls)
        ordered = sorted(range(len(calls)), key=lambda number: (calls[number][0].name not in first, number))
        for number in ordered:
            members = calls[number]
            if self._takes(members[0].name):
                stack = self._stacks[run.rank].stack(members[0].op_type, members[0].op, run.graph, places[number])
                node = _node(execution, members, places[number], beside, stack)
                self.nodes[node.key] = node
                members = sorted(members, key=lambda item: item.place[1:])
                found = (tensor_ref(item, node.key, self.problems) for item in members)
                self.tensors.extend(tensor.stored_in(self.tables) for tensor in found)
        return [members[0].name for members in calls]

    @property
    def stacks(self) -> dict[str, tuple[str, ...]]:
        """Stack id -> frames, over all ranks."""
        return {"\n".join(frames): frames for each in self._stacks.values() for frames in each.frames}

    def _check_repeats(self, execution: Execution, calls: Sequence[list[Item]]) -> None:
        """Report an iteration that was dumped more than once into one folder: parameters are written once each."""
        seen: dict[str, int] = defaultdict(int)
        for members in calls:
            if members[0].op_type == PARAMETER:
                seen[members[0].name] += 1
        most = max(seen.values(), default=1)
        if most > 1:
            self.problems.append(_repeated(execution, most))

    def edges(self) -> Iterator[Edge]:
        """Yield the data flow; nothing when that of any iteration is unknown, or crosses graphs."""
        links: dict[RunFolder, tuple[Link, ...]] = {}
        made: dict[object, tuple[Link, ...] | None] = {}  # the iterations of a graph are usually alike
        runs = [known for known in self._runs if known[1].step is not None]
        graphs = Counter((run.rank, run.step) for _, run, _ in runs)
        for _, run, numbers in runs:
            text = self._beside.get(run.rank, Beside()).texts.get(run.graph)
            if text is None or not text.is_one_graph or numbers is None or graphs[run.rank, run.step] > 1:
                return
            same = run.rank, run.graph, tuple((name, tuple(known)) for name, known in sorted(numbers.items()))
            if same not in made:
                made[same] = links_of(text, numbers)
            found = made[same]
            if found is None:
                self.problems.append(text_of_another_graph(self.files.texts[run.rank][run.graph]))
                return
            links[run] = found
        keys: dict[Execution, dict[tuple[str, int], NodeKey]] = defaultdict(dict)
        for key in self.nodes:
            keys[key.execution][key.name, key.call] = key
        for execution, run, _ in runs:
            yield from edges_of(links[run], execution, keys[execution])


def _node(execution: Execution, members: Sequence[Item], call: int, beside: Beside, stack: str | None) -> Node:
    first = members[0]
    scope = beside.scopes.get(first.op.base)
    return Node(
        NodeKey(execution, first.name, call, first.op.phase),
        first.op_type,
        parent=(scope.rpartition("/")[0] or None) if scope is not None else None,
        stack_id=stack,
        order=first.timestamp,
        facts=CallFacts(NodeKind.KERNEL, entry=first.op.full, scope=scope),
    )


def _places(calls: Sequence[list[Item]]) -> dict[int, int]:
    """Return list index -> call number: among calls of one name by operator number, then by time."""
    named: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, members in enumerate(calls):
        named[members[0].name].append((members[0].op.number, number))
    return {number: place for members in named.values() for place, (_, number) in enumerate(sorted(members))}


def _numbers(calls: Sequence[list[Item]]) -> dict[str, list[int]] | None:
    """Return name -> numbers of its operators, None when one ran more than once: then data flow is no graph."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for members in calls:
        if members[0].op_type != UNKNOWN:
            numbers[members[0].name].append(members[0].op.number)
    for found in numbers.values():
        found.sort()
        if len(set(found)) < len(found):
            return None
    return numbers


def _run_order(run: RunFolder) -> tuple[int, int, str, int]:
    return (-1 if run.rank is None else run.rank, -1 if run.step is None else run.step, run.net or "", run.graph)


def _repeated(execution: Execution, times: int) -> Problem:
    return Diagnostic(
        "PF3454",
        f"{execution} holds {times} values of one parameter: the model was dumped {times} times into one folder",
        severity=Severity.WARNING,
        help="dump every run into a folder of its own; operators are told apart by time until then",
    )


def _halved(execution: Execution, items: Sequence[Item]) -> Problem:
    return Diagnostic(
        "PF3458",
        f"{execution}: {len(items)} files are called Float16 and hold the first half of their elements in float32, or "
        f"are too small to tell: they are left out, first `{items[0].source}`",
        severity=Severity.WARNING,
        help="MindSpore writes them so on a CPU, where it computes float16 in float32; dump the network in float32 "
        "there (without `to_float`)",
    )


def _nothing_to_read(listing: DumpListing, files: GraphFiles) -> Diagnostic:
    found = ", ".join(f"{count} x {what}" for what, count in sorted(files.odd.items()))
    return Diagnostic(
        "PF3450",
        f"`{listing.root.name}` holds no kernel dump of MindSpore; found {found or 'nothing'} "
        f"in {len(listing.files)} files",
        help="give the folder that holds `rank_0`; dumps of eager programs (dump.json) are read by `dump.mindspore`",
        notes=("looked for `rank_{r}/{net}/{graph}/{iteration}/*.npy` and `statistic.csv` there",),
        path=str(listing.root),
    )
