"""Read a TorchAir device dump (`msprobe_ge_dump`) into a catalog: device operators, their tensors, graphs and edges."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.device_folders.layout import GeFile, is_time, rank_of
from probe_flow.dumps.device_folders.nodes import GeNodes
from probe_flow.dumps.graph.edges import DumpedOp, dumped_links
from probe_flow.dumps.graph.links import GraphLinks
from probe_flow.dumps.reduced.reduced_tensors import reduced_beside_tensors, task_of
from probe_flow.dumps.selection import EVERYTHING, Duplicates, Selection, keeps_no_node
from probe_flow.dumps.torchair.ge_files import GeFiles, sort_ge_files
from probe_flow.dumps.torchair.ge_runs import GeExecutions, resolve_executions
from probe_flow.dumps.torchair.graph_files import SourceTexts, graph_file_name
from probe_flow.errors import Diagnostic, IncompleteError, Severity
from probe_flow.files.walk import DumpListing, dump_root, fingerprint, list_dump
from probe_flow.records import Catalog, Edge, Execution, Flow, Graph, Node, NodeKey, Problem, SlotRole, TensorRef
from probe_flow.records.frameworks import TORCHAIR_GE

DUMP_FOLDER = "msprobe_ge_dump"
_MAX_LEVELS = 6
"""Folders between a graph text and a device file: rank, time, device, model, model id, token."""


def read_torchair_ge(
    path: str | os.PathLike[str],
    *,
    side: str,
    select: Selection = EVERYTHING,
    duplicates: Duplicates = "newest",
    time: str | None = None,
) -> Catalog:
    """Describe every tensor of a device dump; tensor data stay on disk.

    Files that cannot be taken become `Catalog.problems`; an operator whose file is damaged stays, with one tensor of
    kind ``unreadable``. `Node.order` is the device's time stamp in microseconds, `Node.originals` the parts of a fused
    operator, `Node.stack_id` the lines of the model behind it where a ``dynamo_*.py`` lies in the dump.
    `Catalog.attrs` holds ``select`` (the keys that were set) and ``incomplete_graphs``.

    Args:
        path: the folder `msprobe_ge_dump`, or the one that holds it.
        side: name of the stage.
        select: what to read.
        duplicates: which of several files of one operator counts.
        time: 14-digit name of the run to read when several overlap; default the newest.

    Raises:
        UsageError: PF3201 if the folder or the run is not there, PF3303 if it holds two dumps of one execution.
        IncompleteError: PF3202 if it holds no device dump.
    """
    root = ge_root(dump_root(path))
    listing = list_dump(root)
    files = sort_ge_files(listing)
    if not any(files.folders.values()):
        raise IncompleteError(_nothing_to_read(root, listing, files))
    problems = files.problems
    executions = resolve_executions(files, select, time, problems)
    problems.extend(select.unanswered(executions.files))
    reader = _Reader(root, executions, select, duplicates, problems, SourceTexts(files.sources))
    for execution, members in executions.files.items():
        reader.read(execution, members)
    if executions.files and not reader.nodes and select.nodes is not None:
        problems.append(keeps_no_node(file.name.base_name for each in executions.files.values() for file in each))
    problems.extend(_unused_graphs(executions))
    if reader.beside:
        problems.append(reduced_beside_tensors(reader.beside))
    return Catalog(
        side,
        TORCHAIR_GE,
        task_of(reader.tensors),
        str(root),
        reader.nodes,
        tuple(reader.tensors),
        edges=tuple(reader.edges),
        graphs=executions.graphs,
        stacks=reader.stacks,
        problems=tuple(problems),
        fingerprint=fingerprint(listing.files),
        attrs={"select": select.as_attrs(), "incomplete_graphs": executions.incomplete_graphs},
        flow=Flow.GRAPH if reader.edges else Flow.ORDER,
    )


def ge_root(path: Path) -> Path:
    """Return the folder that is read for a path: the dump folder itself when its parent was given."""
    inner = path / DUMP_FOLDER
    if not inner.is_dir() or inner.is_symlink():
        return path
    names = [entry.name for entry in path.iterdir()]
    is_dump = any(rank_of(name) is not None or is_time(name) or graph_file_name(name) for name in names)
    return path if is_dump else inner


class _Reader(Struct):
    """Collects nodes, tensors and edges, execution by execution."""

    root: Path
    executions: GeExecutions
    selection: Selection
    duplicates: Duplicates
    problems: list[Problem]
    sources: SourceTexts
    nodes: dict[NodeKey, Node] = field(default_factory=dict)
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tensors: list[TensorRef] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    _links: dict[int, GraphLinks] = field(default_factory=dict)
    _flows: dict[tuple[object, ...], list[tuple[str, int, str, int, bool]]] = field(default_factory=dict)
    _keys: dict[tuple[object, ...], Mapping[str, NodeKey]] = field(default_factory=dict)

    def read(self, execution: Execution, files: Sequence[GeFile]) -> None:
        links = self._graph_links(execution)
        found = GeNodes(execution, links, self.selection.node_filter(), self.duplicates)
        for node, refs in found.read(files):
            self.nodes[node.key] = node
            self.tensors.extend(refs)
        self._add_stacks(execution, found)
        self.problems.extend(found.problems)
        self.beside.extend(found.beside)
        if links is None:
            self.problems.append(_no_graph(execution, self.root))
        else:
            self._add_edges(execution, links, found)

    def _add_stacks(self, execution: Execution, found: GeNodes) -> None:
        if not self.sources.files:
            return
        parts = {key: found.parts.get(key, (key.name,)) for key in found.tensors}
        lines = self.sources.of(execution, (name for names in parts.values() for name in names))
        for key, names in parts.items():
            self.nodes[key] = self._with_stack(self.nodes[key], names, lines)

    def _with_stack(self, node: Node, parts: Sequence[str], lines: Mapping[str, str]) -> Node:
        frames = tuple(dict.fromkeys(lines[name] for name in parts if name in lines))
        if not frames:
            return node
        stack_id = "\n".join(frames)
        self.stacks[stack_id] = frames
        return replace(node, stack_id=stack_id)

    def _graph_links(self, execution: Execution) -> GraphLinks | None:
        graph = graph_of(self.executions.graphs, execution)
        if graph is None:
            return None
        return self._links.setdefault(id(graph), GraphLinks(graph))

    def _add_edges(self, execution: Execution, links: GraphLinks, found: GeNodes) -> None:
        dumped: dict[str, DumpedOp] = {}
        for key, parts in found.parts.items():
            refs = found.tensors[key]
            inputs = tuple(ref.numel for ref in refs if ref.slot.role is SlotRole.INPUT)
            outputs = tuple(ref.logical_shape for ref in refs if ref.slot.role is SlotRole.OUTPUT)
            dumped[key.name] = DumpedOp(parts, inputs, outputs)
        # Every step of a graph has the same operators, as a rule with the same shapes.
        signature = (id(links), tuple(dumped.items()))
        if signature not in self._flows:
            self._flows[signature] = dumped_links(links, dumped)
        keys = {key.name: key for key in found.parts}
        step = execution.step or 0
        before = self._keys.get((execution.rank, execution.graph, step - 1), {})
        self._keys[execution.rank, execution.graph, step] = keys
        for producer, output, consumer, index, is_left in self._flows[signature]:
            made = (before if is_left else keys).get(producer)
            if made is not None:
                self.edges.append(Edge(made, output, keys[consumer], index))


def graph_of(graphs: Sequence[Graph], execution: Execution) -> Graph | None:
    """Return the graph text of an execution: same graph id, same rank where both are known."""
    for graph in graphs:
        if graph.id == execution.graph and (None in (graph.rank, execution.rank) or graph.rank == execution.rank):
            return graph
    return None


def _no_graph(execution: Execution, root: Path) -> Problem:
    above = _text_above(root)
    cure = "copy it from the folder of the dump" if above is None else f"give the folder that holds it, `{above}`"
    return Diagnostic(
        "PF3214",
        f"no graph text (`dynamo_original_graph_*.txt`) belongs to {execution}",
        severity=Severity.WARNING,
        help=f"{cure}; without it neither names nor edges of its operators are known",
    )


def _text_above(root: Path) -> Path | None:
    """Return the folder above a part of a dump that holds graph texts, as far as one may look."""
    with suppress(OSError):
        for folder in root.parents[:_MAX_LEVELS]:
            if any(graph_file_name(entry.name) for entry in folder.iterdir()):
                return folder
    return None


def _unused_graphs(executions: GeExecutions) -> list[Problem]:
    return [
        Diagnostic(
            "PF3223",
            f"graph {graph.id} was compiled but holds no dumped execution",
            severity=Severity.NOTE,
            path=graph.file,
        )
        for graph in executions.graphs
        if not any(graph_of((graph,), execution) for execution in executions.files)
    ]


def _nothing_to_read(root: Path, listing: DumpListing, files: GeFiles) -> Diagnostic:
    found = [f"{count} x {what}" for what, count in files.odd.items()]
    found += [f"{len(files.graphs)} x graph text"] if files.graphs else []
    notes = ("looked for `{op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}` in any folder",)
    help_text = f"give the folder `{DUMP_FOLDER}` of a finished dump"
    if files.graphs:
        help_text = "graphs were compiled, but nothing was dumped: run them with `dump_config.enable_dump` switched on"
    if files.odd.get("FX array"):
        help_text = "this looks like an FX dump: read it with `dump.torchair_fx`"
    return Diagnostic(
        "PF3202",
        f"`{root.name}` holds no device dump file; found {', '.join(found) or 'nothing'} in {len(listing.files)} files",
        help=help_text,
        notes=notes,
        path=str(root),
    )
