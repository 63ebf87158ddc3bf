"""Graphs as ``.vis``: JSON as msprobe 1.2.1 writes it, for the viewer tb-graph-ascend. One file a step and rank.

Source: the files that msprobe 1.2.1 writes. Without indentation: the viewer reads a file whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from probe_flow.files.atomic import atomic_bytes
from probe_flow.records.model_graph import GRAPH_ROOT, GraphPair, ModelGraph
from probe_flow.reports.graph_files.items import ItemStyle
from probe_flow.reports.graph_files.json_texts import json_bytes, json_string
from probe_flow.reports.graph_files.legend import TASKS, colours, explained
from probe_flow.reports.graph_files.nodes import CODES, NodeFacts, data_folder, node_facts
from probe_flow.reports.graph_files.stacks import frames_of

_TOGETHER = 256
"""Nodes that are written at once."""


def write_vis(pair: GraphPair, path: Path, *, is_lean: bool = True, has_levels: bool = False) -> None:
    """Write the graph of a dump, or both graphs of a comparison.

    Args:
        pair: the graphs.
        path: the file.
        is_lean: write one frame of each stack, not all.
        has_levels: whether overflows were looked for.

    Raises:
        IncompleteError: PF7001 the file cannot be written; then there is none.
    """
    with atomic_bytes(path) as file:
        if pair.golden is None:
            file.write(b"{")
            _write_graph(pair, file, is_lean=is_lean, is_golden=False)
        else:
            file.write(b'{"NPU":{')
            _write_graph(pair, file, is_lean=is_lean, is_golden=False)
            file.write(b'},"Bench":{')
            _write_graph(pair, file, is_lean=is_lean, is_golden=True)
            file.write(b"}")
        rest: dict[str, Any] = {"MicroSteps": pair.target.micro_steps}
        if pair.mode is not None:
            legend = {"ToolTip": json_string(explained(pair)), "Colors": colours(pair)}
            rest = {**legend, **rest, "task": TASKS[pair.mode]}
        file.write(b"," + json_bytes({**rest, "OverflowCheck": has_levels})[1:])


def _write_graph(pair: GraphPair, file: IO[bytes], *, is_lean: bool, is_golden: bool) -> None:
    graph = pair.golden if is_golden and pair.golden is not None else pair.target
    head = {"root": graph.nodes[GRAPH_ROOT].name, "dump_data_dir": data_folder(graph)}
    file.write(json_bytes(head)[1:-1] + b',"node":{')
    pieces: list[bytes] = []
    for facts in node_facts(pair, range(len(graph.nodes)), ItemStyle.VIS, is_golden=is_golden):
        pieces.append(f"{json_string(facts.node.name)}:{_entry(facts, pair, graph, is_lean=is_lean)}".encode())
        if len(pieces) == _TOGETHER:
            file.write(b",".join(pieces) + b",")
            pieces.clear()
    if pieces:
        file.write(b",".join(pieces))
    else:
        file.seek(-1, 1)
    file.write(b"}")


def _entry(facts: NodeFacts, pair: GraphPair, graph: ModelGraph, *, is_lean: bool) -> str:
    node, number = facts.node, facts.number
    around = {
        "upnode": graph.nodes[node.parent].name if node.parent >= 0 else "None",
        "subnodes": [graph.nodes[child].name for child in graph.children[number]],
    }
    found: dict[str, Any] = {"suggestions": {}, "stack_info": frames_of(graph, number, is_lean=is_lean)}
    if node.micro_step is not None:
        found["micro_step_id"] = node.micro_step
    data: dict[str, Any] = {}
    if facts.score is not None:
        data["precision_index"] = facts.score
        if number in pair.same and graph is pair.target:
            data["Result"] = "pass" if pair.same[number] else "Different"
    if facts.level is not None:
        data["overflow_level"] = facts.level.value
    found["data"] = data
    if facts.distributed:
        found["matched_distributed"] = facts.distributed
    return (
        f'{{"id":{json_string(node.name)},"node_type":{CODES[node.kind]},"output_data":{facts.outputs},'
        f'"input_data":{facts.inputs},{json_string(around)[1:-1]},"matched_node_link":{facts.link},'
        f"{json_string(found)[1:]}"
    )
