"""Write a drawing of a neighbourhood into a file."""

from __future__ import annotations

from pathlib import Path

from probe_flow.files.atomic import atomic_text
from probe_flow.runs.draw.dot import dot_text, drawn_by_dot
from probe_flow.runs.draw.svg import drawn_in_layers
from probe_flow.runs.queries.subgraph import Subgraph


def write_drawing(graph: Subgraph, path: Path) -> str:
    """Write a neighbourhood as SVG, or as a file for graphviz when the name ends in ``.dot`` or ``.gv``.

    Returns what was written, for people.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    text, by = dot_text(graph), "as text for graphviz"
    if path.suffix.lower() not in (".dot", ".gv"):
        found = drawn_by_dot(graph)
        text, by = (found, "drawn by graphviz") if found is not None else (drawn_in_layers(graph), "drawn in layers")
    with atomic_text(path) as file:
        file.write(text)
    return f"wrote {path}: {len(graph.nodes)} nodes, {by}"
