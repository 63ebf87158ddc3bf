"""Dumps of calls for graphs: a folder with dump.json, construct.json and stack.json, or a catalog without files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.graphs.tree import build_graphs
from probe_flow.records import Catalog
from probe_flow.records.model_graph import GraphLayout, ModelGraph

Calls = Mapping[str, str | None]


def tensor(low: float = -1.0, high: float = 2.0, norm: float = 3.0, **more: Any) -> dict[str, Any]:
    """Return an item of dump.json with statistics; its mean lies in the middle."""
    found = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3]}
    return {**found, "Max": high, "Min": low, "Mean": (low + high) / 2, "Norm": norm, **more}


def entry(name: str, read: Sequence[Any] = (), given: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the entry of a call with its items."""
    is_backward = "backward" in name.split(".")[-2:]
    return {"input": [*read], "output": [*given]} if is_backward else {"input_args": [*read], "output": [*given]}


def write_dump(
    folder: Path,
    calls: Mapping[str, Any],
    entries: Mapping[str, Any] | None = None,
    *,
    stacks: Mapping[str, Sequence[str]] | None = None,
    **head: Any,
) -> Path:
    """Write a dump whose construct.json has these calls; each without an entry of its own gets one."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in calls if name != "megatron_micro_step_number"]
    data = {name: entry(name, [tensor()], [tensor()]) for name in names} if entries is None else dict(entries)
    top = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, **head, "data": data}
    for name, content in (("dump", top), ("construct", calls), ("stack", stacks or {})):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def read(folder: Path, side: str = "target") -> Catalog:
    """Return what a dump holds."""
    return read_dump_json(folder, side=side)


def graph_of(folder: Path, layout: GraphLayout = GraphLayout.OWN, side: str = "target") -> ModelGraph:
    """Return the only graph of a dump."""
    (graph,) = build_graphs(read(folder, side), layout=layout)
    return graph


def parents_of(graph: ModelGraph) -> dict[str, str]:
    """Return the name of the node around each node but the root, in order of creation."""
    return {node.name: graph.nodes[node.parent].name for node in graph.nodes[1:] if node.parent >= 0}


def children_of(graph: ModelGraph, name: str) -> list[str]:
    """Return the names of the children of a node."""
    return [graph.nodes[child].name for child in graph.children[graph.numbers[name]]]
