"""Colours and labels of drawn neighbourhoods: the same whether graphviz draws them or we do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from probe_flow.reports.console_facts import printable
from probe_flow.reports.questions_subgraph import Flowing, Shown, Subgraph

FILLS: Mapping[str, str] = MappingProxyType(
    {
        "pass": "#d5f0d8",
        "warning": "#fdeec2",
        "fail": "#fde3df",
        "error": "#f3c6e8",
        "not_comparable": "#e4dcf4",
        "unmatched_target": "#e6e8eb",
        "unmatched_golden": "#e6e8eb",
        "skipped": "#e6e8eb",
    }
)
CARRIES_ERROR = "#f4a79c"
"""A failing node where the divergence begins or passes; others miss a limit of the policy only."""

NO_FILL = "#ffffff"
LINE = "#59636e"
ORIGIN_LINE = "#c62828"
INK = "#1f2328"

_MAX_LABEL = 40


def fill(shown: Shown) -> str:
    """Return the colour of a node by its verdict, stronger where it carries the error."""
    if shown.verdict == "fail" and shown.role is not None:
        return CARRIES_ERROR
    return FILLS.get(shown.verdict or "", NO_FILL)


def border(shown: Shown) -> tuple[str, float]:
    """Return colour and width of a node's border: red where the divergence begins, thick for the root."""
    width = 2.5 if shown.distance == 0 else 1.0
    return (ORIGIN_LINE, max(width, 2.0)) if shown.role == "origin" else (LINE, width)


def label(shown: Shown) -> tuple[str, ...]:
    """Return the lines on a node: type, name, verdict."""
    lines = [printable(shown.node.op_type), printable(shown.node.title), shown.judged]
    return tuple(_short(line) for line in lines if line)


def tooltip(shown: Shown) -> str:
    """Return what stands there when the pointer rests on a node: the whole name and the dump's own."""
    node = shown.node
    entry = f", {printable(node.entry)}" if node.entry and node.entry != node.name else ""
    return f"{printable(node.title)} ({printable(node.op_type)}){entry}: {shown.judged or 'no row'}"


def edge_label(edge: Flowing) -> str:
    """Return the slots that an edge joins."""
    return f"{edge.output} to {edge.input}"


def drawn_name(graph: Subgraph) -> str:
    """Return the title of a drawing."""
    steps = "1 step" if graph.depth == 1 else f"{graph.depth} steps"
    more = f"; {graph.left_out} or more nodes left out" if graph.left_out else ""
    return f"{printable(graph.nodes[0].node.title)}, {steps} each way{more}"


def _short(text: str) -> str:
    """Return a text that fits on a node; the end of a name tells more than its middle."""
    if len(text) <= _MAX_LABEL:
        return text
    half = (_MAX_LABEL - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
