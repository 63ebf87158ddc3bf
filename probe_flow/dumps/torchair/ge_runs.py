"""Decide which executions a TorchAir device dump holds: ranks, the run that counts, graph ids, graph texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.device_folders.layout import GeFile, GeFolder
from probe_flow.dumps.device_folders.runs import choose_runs
from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.graph.graph_text import read_ge_graph
from probe_flow.dumps.selection import Selection, keeps_no_execution
from probe_flow.dumps.torchair.ge_files import GeFiles
from probe_flow.dumps.torchair.graph_files import GraphFileName
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.walk import DumpFile
from probe_flow.records import Execution, Graph, Problem


class GeExecutions(Struct, frozen=True):
    """The chosen dump files per execution, the graphs, and the labels of graph texts that are incomplete."""

    files: Mapping[Execution, Sequence[GeFile]]
    graphs: tuple[Graph, ...]
    incomplete_graphs: tuple[str, ...]


class _Part(Struct):
    """One folder of dump files on its way to an execution."""

    folder: GeFolder
    files: list[GeFile]
    rank: int | None
    graph: int | str | None

    @property
    def folders(self) -> tuple[str, ...]:
        return self.files[0].file.folders

    @property
    def execution(self) -> Execution:
        folder = self.folder
        model = None
        if folder.model_name is not None:
            model = folder.model_name if folder.model_id is None else f"{folder.model_name}/{folder.model_id}"
        return Execution(self.rank, folder.step, self.graph, device=folder.device, model=model)


def resolve_executions(files: GeFiles, selection: Selection, time: str | None, problems: list[Problem]) -> GeExecutions:
    """Give every folder of dump files its execution.

    Raises:
        UsageError: PF3201 when `time` names a run that is not there, PF3303 when two dumps lie below the path.
    """
    parts = [
        _Part(identity, files.folders[key], identity.rank, identity.graph) for key, identity in files.identities.items()
    ]
    _name_ranks(parts, files.graphs, problems)
    parts = choose_runs(parts, time, problems)
    graphs, incomplete = _read_graphs(files.graphs, parts, selection, problems)
    _name_graphs(parts, graphs, problems)
    by_execution: dict[Execution, list[GeFile]] = defaultdict(list)
    for part in parts:
        if selection.takes_execution(part.rank, part.folder.step, part.graph):
            by_execution[part.execution].extend(part.files)
    if not by_execution:
        problems.append(keeps_no_execution(sorted((part.execution for part in parts), key=_execution_order)))
    ordered = sorted(by_execution, key=_execution_order)
    return GeExecutions({key: by_execution[key] for key in ordered}, tuple(graphs), tuple(incomplete))


def _execution_order(execution: Execution) -> tuple[object, ...]:
    return (
        -1 if execution.rank is None else execution.rank,
        _graph_order(execution.graph),
        -1 if execution.step is None else execution.step,
        execution.model or "",
        -1 if execution.device is None else execution.device,
    )


def _graph_order(graph: int | str | None) -> tuple[int, int, str]:
    return (1, 0, graph) if isinstance(graph, str) else (0, -1 if graph is None else graph, "")


def _name_ranks(parts: list[_Part], graphs: Sequence[tuple[DumpFile, GraphFileName]], problems: list[Problem]) -> None:
    """Give a rank to parts of the earlier layout, which has device ids only."""
    unnamed = [part for part in parts if part.rank is None]
    devices = sorted({part.folder.device for part in unnamed if part.folder.device is not None})
    ranks = sorted({name.rank for _, name in graphs if name.rank is not None})
    if not unnamed or (len(devices) <= 1 and len(ranks) != 1):
        return
    if len(ranks) == 1 and len(devices) <= 1:
        for part in unnamed:
            part.rank = ranks[0]
        return
    by_device = dict(zip(devices, ranks, strict=True)) if len(ranks) == len(devices) else {d: d for d in devices}
    for part in unnamed:
        if part.folder.device is not None:
            part.rank = by_device[part.folder.device]
    shown = ", ".join(f"device {device} = rank {rank}" for device, rank in by_device.items())
    problems.append(
        Diagnostic(
            "PF3213",
            f"the dump gives devices but no ranks; taken as {shown}",
            severity=Severity.NOTE,
            help="select one rank, or dump each rank into a folder of its own, if this is wrong",
        )
    )


def _read_graphs(
    files: Sequence[tuple[DumpFile, GraphFileName]],
    parts: Sequence[_Part],
    selection: Selection,
    problems: list[Problem],
) -> tuple[list[Graph], list[str]]:
    graphs: list[tuple[Graph, int]] = []
    incomplete: list[str] = []
    for file, name in sorted(files, key=lambda item: (item[1].timestamp, item[0].relative)):
        if not selection.takes_execution(name.rank, None, name.graph):
            continue
        text = read_ge_graph(Path(file.path), label=file.relative)
        problem = text.problem if text.problem is not None or text.ops else _no_operators(file)
        if problem is not None:
            problems.append(problem)
            incomplete.append(file.relative)
        own = GeFolder(model_name=text.name).graph
        graph_id = name.graph if name.graph is not None else own
        graphs.append((Graph(graph_id, name.rank, text.ops, file.relative), name.timestamp))
    return _newest_graphs(graphs, parts, problems), incomplete


def _no_operators(file: DumpFile) -> Problem:
    return Diagnostic(
        "PF3220",
        f"`{file.relative}` holds no operator ({file.size} bytes)",
        severity=Severity.WARNING,
        help="dump again, or copy the file again; the operators of this graph have no names and no edges",
        path=file.relative,
    )


def _newest_graphs(graphs: Sequence[tuple[Graph, int]], parts: Sequence[_Part], problems: list[Problem]) -> list[Graph]:
    """Keep one text per rank and graph id: the one whose operators were dumped, the newest of equals."""
    groups: dict[tuple[object, ...], list[tuple[Graph, int]]] = defaultdict(list)
    for position, (graph, timestamp) in enumerate(graphs):
        identity = (graph.rank, graph.id) if graph.id is not None else (graph.rank, None, position)
        groups[identity].append((graph, timestamp))
    kept: list[Graph] = []
    for group in groups.values():
        if len(group) == 1:
            kept.append(group[0][0])
            continue
        names = _op_names(part for part in parts if _fits(group[0][0], part))
        best = max(group, key=lambda item: (_share(item[0], names), item[1]))[0]
        kept.append(best)
        others = ", ".join(f"`{graph.file}`" for graph, _ in group if graph is not best)
        problems.append(
            Diagnostic(
                "PF3215",
                f"graph {best.id} has several texts; `{best.file}` fits the dumped operators best, {others} not used",
                severity=Severity.WARNING,
                help="dump every run into a folder of its own",
                path=best.file,
            )
        )
    return sorted(kept, key=lambda graph: (-1 if graph.rank is None else graph.rank, _graph_order(graph.id)))


def _fits(graph: Graph, part: _Part) -> bool:
    ranks_fit = graph.rank is None or part.rank is None or graph.rank == part.rank
    return ranks_fit and (graph.id is None or part.graph is None or graph.id == part.graph)


def _op_names(parts: Iterable[_Part]) -> set[str]:
    return {file.name.op_name for part in parts for file in part.files}


def _share(graph: Graph, names: set[str]) -> float:
    """Return the share of dumped names that a graph has as operators, in [0, 1]."""
    known = {safe_name(op.name) for op in graph.ops}
    return len(names & known) / len(names) if names else 0.0


def _name_graphs(parts: list[_Part], graphs: list[Graph], problems: list[Problem]) -> None:
    """Give a graph to models whose folder names none: by shared operator names, then by order of creation."""
    for position, graph in enumerate(graphs):
        if graph.id is None:
            graphs[position] = replace(graph, id=f"text{position + 1}")
    taken: set[tuple[int | None, int | str | None]] = {
        (part.rank, part.graph) for part in parts if part.graph is not None
    }
    unnamed: dict[tuple[int, int, str], list[_Part]] = defaultdict(list)
    for part in parts:
        if part.graph is None:
            model_id = -1 if part.folder.model_id is None else part.folder.model_id
            unnamed[(-1 if part.rank is None else part.rank, model_id, part.folder.model_name or "")].append(part)
    for key in sorted(unnamed):
        group = unnamed[key]
        names = _op_names(group)
        free = [graph for graph in graphs if _fits(graph, group[0]) and (group[0].rank, graph.id) not in taken]
        if not free:
            continue
        best = max(free, key=lambda graph: _share(graph, names))
        for part in group:
            part.graph = best.id
        taken.add((group[0].rank, best.id))
        problems.append(
            Diagnostic(
                "PF3213",
                f"the folder of model `{group[0].folder.model_name}` names no graph; `{best.file}` is taken, "
                f"which has {_share(best, names):.0%} of its dumped operators",
                severity=Severity.NOTE,
                path=best.file,
            )
        )
