"""A neighbourhood drawn in layers, from producers at the top to consumers at the bottom, without any other program.

Layers are longest ways from the top; inside a layer nodes move towards the mean of their neighbours, a few times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from probe_flow.reports.questions_subgraph import Flowing, Subgraph
from probe_flow.reports.subgraph_colors import INK, LINE, border, drawn_name, edge_label, fill, label, tooltip

_CHARACTER = 6.6
"""Width of a character at 11 px, on the generous side."""

_LINE_HEIGHT = 14.0
_PADDING = 8.0
_GAP_X = 24.0
_GAP_Y = 56.0
_MARGIN = 16.0
_TITLE = 28.0
_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class _Box:
    """A placed node: middle of its upper side, width and height."""

    x: float
    y: float
    width: float
    height: float


def drawn_in_layers(graph: Subgraph) -> str:
    """Return the drawing as SVG; it names no font or picture that would have to be fetched."""
    layers = _ordered(_layers(graph), graph.edges)
    boxes, width, height = _placed(graph, layers)
    width = max(width, len(drawn_name(graph)) * _CHARACTER + 2 * _MARGIN)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f"<title>{escape(drawn_name(graph))}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<text x="{_MARGIN:g}" y="{_MARGIN + 4:g}" fill="{INK}">{escape(drawn_name(graph))}</text>',
        *[_edge(edge, boxes) for edge in graph.edges],
        *[_node(graph, number, boxes[number]) for number in range(len(graph.nodes))],
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _forward(graph: Subgraph) -> list[Flowing]:
    """Return the edges that run along the order of execution; others would close a circle."""
    order = {number: (shown.node.order, shown.node.line) for number, shown in enumerate(graph.nodes)}
    return [edge for edge in graph.edges if order[edge.producer] < order[edge.consumer]]


def _layers(graph: Subgraph) -> list[list[int]]:
    after: defaultdict[int, list[int]] = defaultdict(list)
    waiting = dict.fromkeys(range(len(graph.nodes)), 0)
    for edge in _forward(graph):
        after[edge.producer].append(edge.consumer)
        waiting[edge.consumer] += 1
    depth = dict.fromkeys(waiting, 0)
    ready = [number for number, count in waiting.items() if not count]
    while ready:
        number = ready.pop()
        for consumer in after[number]:
            depth[consumer] = max(depth[consumer], depth[number] + 1)
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    # A source is drawn right above what it feeds, not at the top.
    for number in depth:
        if not any(edge.consumer == number for edge in graph.edges) and after[number]:
            depth[number] = min(depth[consumer] for consumer in after[number]) - 1
    layers: defaultdict[int, list[int]] = defaultdict(list)
    for number, layer in depth.items():
        layers[layer].append(number)
    return [layers[layer] for layer in sorted(layers)]


def _ordered(layers: Sequence[Sequence[int]], edges: Sequence[Flowing]) -> list[list[int]]:
    near: defaultdict[int, list[int]] = defaultdict(list)
    for edge in edges:
        near[edge.producer].append(edge.consumer)
        near[edge.consumer].append(edge.producer)
    found = [list(layer) for layer in layers]
    at = {number: place - len(layer) / 2 for layer in found for place, number in enumerate(layer)}
    for _ in range(_SWEEPS):
        for layer in found:
            mean = {n: sum(at[o] for o in near[n]) / len(near[n]) if near[n] else at[n] for n in layer}
            layer.sort(key=lambda number, mean=mean: mean[number])  # type: ignore[misc]
            at |= {number: place - len(layer) / 2 for place, number in enumerate(layer)}
    return found


def _placed(graph: Subgraph, layers: Sequence[Sequence[int]]) -> tuple[dict[int, _Box], float, float]:
    sizes = {}
    for number, shown in enumerate(graph.nodes):
        lines = label(shown)
        sizes[number] = (
            max(len(line) for line in lines) * _CHARACTER + 2 * _PADDING,
            len(lines) * _LINE_HEIGHT + _PADDING,
        )
    widths = [sum(sizes[number][0] + _GAP_X for number in layer) - _GAP_X for layer in layers]
    widest = max(widths)
    boxes = {}
    y = _MARGIN + _TITLE
    for layer, width in zip(layers, widths, strict=True):
        x = _MARGIN + (widest - width) / 2
        for number in layer:
            boxes[number] = _Box(x + sizes[number][0] / 2, y, *sizes[number])
            x += sizes[number][0] + _GAP_X
        y += max(sizes[number][1] for number in layer) + _GAP_Y
    return boxes, widest + 2 * _MARGIN, y - _GAP_Y + _MARGIN


def _edge(edge: Flowing, boxes: dict[int, _Box]) -> str:
    one, other = boxes[edge.producer], boxes[edge.consumer]
    x, y, to_x, to_y = one.x, one.y + one.height, other.x, other.y
    bend = max(abs(to_y - y) / 2, _GAP_Y / 2)
    path = f"M{x:.1f} {y:.1f}C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
    title = escape(f"output {edge.output} to input {edge.input}")
    return (
        f'<g><title>{title}</title><path d="{path}" fill="none" stroke="{LINE}" marker-end="url(#arrow)"/>'
        f'<text x="{(x + to_x) / 2 + 3:.1f}" y="{(y + to_y) / 2:.1f}" font-size="9" fill="{LINE}">'
        f"{escape(edge_label(edge))}</text></g>"
    )


def _node(graph: Subgraph, number: int, box: _Box) -> str:
    shown = graph.nodes[number]
    color, width = border(shown)
    texts = "".join(
        f'<text x="{box.x:.1f}" y="{box.y + _PADDING / 2 + _LINE_HEIGHT * (place + 0.8):.1f}" '
        f'text-anchor="middle" fill="{INK}">{escape(line)}</text>'
        for place, line in enumerate(label(shown))
    )
    return (
        f"<g><title>{escape(tooltip(shown))}</title>"
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="4" fill="{fill(shown)}" stroke="{color}" stroke-width="{width:g}"/>{texts}</g>'
    )
