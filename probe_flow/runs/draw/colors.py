"""Colours and labels of drawn neighbourhoods: the same whether graphviz draws them or we do."""

from __future__ import annotations

from probe_flow.record.places import printable
from probe_flow.reports.marks import LOOKS, Mark, excess_text, fill_of
from probe_flow.reports.palette import COLOURS
from probe_flow.runs.queries.subgraph import Flowing, Shown, Subgraph

NO_FILL = "#ffffff"
LINE = "#59636e"
INK = "#1f2328"

_FIRST_TO_SEE = frozenset({Mark.ORIGIN, Mark.DRIFT})
_NOT_COMPARED = frozenset({Mark.GAP, Mark.MISSING})
_MAX_LABEL = 40
_ORIGIN_WIDTH = 3.5


def fill(shown: Shown) -> str:
    """Return the colour of a node by its role and by how much of its error is unexplained."""
    return NO_FILL if shown.mark is None else COLOURS[fill_of(shown.mark, shown.excess)][0]


def ink(shown: Shown) -> str:
    """Return the colour of the text on a node."""
    return COLOURS["on-origin"][0] if shown.mark in _FIRST_TO_SEE else INK


def border(shown: Shown) -> tuple[str, float]:
    """Return colour and width of a node's border: the thickest one is where the error begins."""
    if shown.mark is None:
        return LINE, 1.0
    name = Mark.ORIGIN if shown.mark in _FIRST_TO_SEE else shown.mark
    return COLOURS[f"{name.value}-mark"][0], _ORIGIN_WIDTH if shown.mark in _FIRST_TO_SEE else 1.0


def is_dashed(shown: Shown) -> bool:
    """Return True for a node whose tensors were not compared."""
    return shown.mark is None or shown.mark in _NOT_COMPARED


def is_root(shown: Shown) -> bool:
    """Return True for the node that the neighbourhood is of; it has a second border."""
    return shown.distance == 0


def label(shown: Shown) -> tuple[str, ...]:
    """Return the lines on a node: type, name, role, published verdict."""
    lines = (printable(shown.node.op_type), printable(shown.node.title), _role(shown), _rule(shown))
    return tuple(_short(line) for line in lines if line)


def tooltip(shown: Shown) -> str:
    """Return what stands there when the pointer rests on a node: the whole name and the dump's own."""
    node = shown.node
    entry = f", {printable(node.name)}" if node.name != node.node else ""
    judged = ", ".join(filter(None, (_role(shown), _rule(shown))))
    return f"{printable(node.title)} ({printable(node.op_type)}){entry}: {judged or 'no row'}"


def _role(shown: Shown) -> str:
    if shown.mark is None:
        return ""
    look = LOOKS[shown.mark]
    size = f", {excess_text(shown.excess)}" if shown.excess is not None and not shown.excess <= 1.0 else ""
    return f"{look.sign} {look.word}{size}"


def _rule(shown: Shown) -> str:
    return f"row rule: {printable(shown.verdict).replace('_', ' ')}" if shown.verdict else ""


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
