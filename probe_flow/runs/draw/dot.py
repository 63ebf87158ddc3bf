"""A neighbourhood in the language of graphviz, and drawn by it where it is installed."""

from __future__ import annotations

import shutil
import subprocess

from probe_flow.runs.draw.colors import (
    border,
    drawn_name,
    edge_label,
    fill,
    ink,
    is_dashed,
    is_root,
    label,
    tooltip,
)
from probe_flow.runs.queries.subgraph import Subgraph

DRAW_TIMEOUT_S = 60
MAX_SVG_BYTES = 64 * 2**20


def dot_text(graph: Subgraph) -> str:
    """Return the neighbourhood as a file for `dot`; names are quoted, whatever they hold."""
    lines = [
        "digraph neighbourhood {",
        f"  label={_quoted(drawn_name(graph))};",
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=8, color="#59636e"];',
    ]
    for number, shown in enumerate(graph.nodes):
        color, width = border(shown)
        text = "\\n".join(_escaped(line) for line in label(shown))
        style = ', style="filled,rounded,dashed"' if is_dashed(shown) else ""
        lines.append(
            f'  n{number} [label="{text}", tooltip={_quoted(tooltip(shown))}, fillcolor="{fill(shown)}", '
            f'fontcolor="{ink(shown)}", color="{color}", penwidth={width:g}, peripheries={1 + is_root(shown)}{style}];'
        )
    lines += [f"  n{edge.producer} -> n{edge.consumer} [label={_quoted(edge_label(edge))}];" for edge in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def drawn_by_dot(graph: Subgraph) -> str | None:
    """Return the drawing as SVG, None when graphviz is not installed or does not manage it."""
    program = shutil.which("dot")
    if program is None:
        return None
    try:
        ended = subprocess.run(  # noqa: S603 (a program of the user's path, with fixed arguments)
            [program, "-Tsvg"],
            input=dot_text(graph).encode("utf-8", "replace"),
            capture_output=True,
            timeout=DRAW_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if ended.returncode or b"<svg" not in ended.stdout or len(ended.stdout) > MAX_SVG_BYTES:
        return None
    return ended.stdout.decode("utf-8", "replace")


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
