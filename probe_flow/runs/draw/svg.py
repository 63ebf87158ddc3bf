"""A neighbourhood drawn in layers, from producers at the top to consumers at the bottom, without any other program.

Layers are longest ways from the top; inside a layer nodes move towards the mean of their neighbours, a few times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from msgspec import Struct

from probe_flow.runs.draw.colors import (
    INK,
    LINE,
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
from probe_flow.runs.queries.subgraph import Flowing, Subgraph

_CHARACTER = 6.6
"""Width of a character at 11 px, on the generous side."""

_LINE_HEIGHT = 14.0
_PADDING = 8.0
_GAP_X = 24.0
_GAP_Y = 56.0
_MARGIN = 16.0
_TITLE = 28.0
_SWEEPS = 4
_ROOT_GAP = 4.0
"""Between the two borders of the node that the neighbourhood is of."""

_PASSING = 10.0
"""Width kept for an edge that passes a layer."""


class _Box(Struct, frozen=True):
    """A placed node: middle of its upper side, width and height."""

    x: float
    y: float
    width: float
    height: float


def drawn_in_layers(graph: Subgraph) -> str:
    """Return the drawing as SVG; it names no font or picture that would have to be fetched."""
    depth = _depths(graph)
    ways, layers = _ways(graph, depth)
    order = _ordered(layers, ways)
    boxes, width, height = _placed(graph, order)
    width = max(width, len(drawn_name(graph)) * _CHARACTER + 2 * _MARGIN)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f"<title>{escape(drawn_name(graph))}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<text x="{_MARGIN:g}" y="{_MARGIN + 4:g}" fill="{INK}">{escape(drawn_name(graph))}</text>',
        *[_edge(edge, [boxes[each] for each in way]) for edge, way in zip(graph.edges, ways, strict=True)],
        *[_node(graph, number, boxes[number]) for number in range(len(graph.nodes))],
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _depths(graph: Subgraph) -> dict[int, int]:
    """Return the layer of every node: below all its producers, and a source right above what it feeds."""
    order = {number: (shown.node.order, shown.node.line) for number, shown in enumerate(graph.nodes)}
    after: defaultdict[int, list[int]] = defaultdict(list)
    waiting = dict.fromkeys(order, 0)
    for edge in graph.edges:
        if order[edge.producer] < order[edge.consumer]:  # others would close a circle
            after[edge.producer].append(edge.consumer)
            waiting[edge.consumer] += 1
    sources = [number for number, count in waiting.items() if not count]
    depth = dict.fromkeys(order, 0)
    ready = list(sources)
    while ready:
        number = ready.pop()
        for consumer in after[number]:
            depth[consumer] = max(depth[consumer], depth[number] + 1)
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    return depth | {
        number: min(depth[consumer] for consumer in after[number]) - 1 for number in sources if after[number]
    }


def _ways(graph: Subgraph, depth: Mapping[int, int]) -> tuple[list[list[int]], list[list[int]]]:
    """Return what each edge passes, and the layers; a long edge has a place of its own in every layer between."""
    top = min(depth.values())
    layers: list[list[int]] = [[] for _ in range(max(depth.values()) - top + 1)]
    for number, layer in depth.items():
        layers[layer - top].append(number)
    ways = []
    following = len(graph.nodes)
    for edge in graph.edges:
        way = [edge.producer]
        for layer in range(depth[edge.producer] + 1, depth[edge.consumer]):
            layers[layer - top].append(following)
            way.append(following)
            following += 1
        ways.append([*way, edge.consumer])
    return ways, layers


def _ordered(layers: Sequence[Sequence[int]], ways: Sequence[Sequence[int]]) -> list[list[int]]:
    near: defaultdict[int, list[int]] = defaultdict(list)
    for one, other in (pair for way in ways for pair in pairwise(way)):
        near[one].append(other)
        near[other].append(one)
    found = [list(layer) for layer in layers]
    at = {number: place - len(layer) / 2 for layer in found for place, number in enumerate(layer)}
    for _ in range(_SWEEPS):
        for layer in found:
            mean = {n: sum(at[o] for o in near[n]) / len(near[n]) if near[n] else at[n] for n in layer}
            layer.sort(key=mean.__getitem__)
            at |= {number: place - len(layer) / 2 for place, number in enumerate(layer)}
    return found


def _placed(graph: Subgraph, layers: Sequence[Sequence[int]]) -> tuple[dict[int, _Box], float, float]:
    sizes: defaultdict[int, tuple[float, float]] = defaultdict(lambda: (_PASSING, 0.0))
    for number, shown in enumerate(graph.nodes):
        lines = label(shown)
        sizes[number] = (
            max(map(len, lines), default=0) * _CHARACTER + 2 * _PADDING,
            len(lines) * _LINE_HEIGHT + _PADDING,
        )
    widths = [sum(sizes[number][0] + _GAP_X for number in layer) - _GAP_X for layer in layers]
    widest = max(widths)
    boxes = {}
    y = _MARGIN + _TITLE
    for layer, width in zip(layers, widths, strict=True):
        x = _MARGIN + (widest - width) / 2
        height = max(sizes[number][1] for number in layer)
        for number in layer:
            wide, high = sizes[number]
            boxes[number] = _Box(x + wide / 2, y, wide, high or height)
            x += wide + _GAP_X
        y += height + _GAP_Y
    return boxes, widest + 2 * _MARGIN, y - _GAP_Y + _MARGIN


def _edge(edge: Flowing, passed: Sequence[_Box]) -> str:
    first, last = passed[0], passed[-1]
    path = f"M{first.x:.1f} {first.y + first.height:.1f}"
    for one, other in pairwise(passed):
        start, end = one.y + one.height, other.y
        bend = max(abs(end - start) / 2, _GAP_Y / 2)
        path += f"C{one.x:.1f} {start + bend:.1f} {other.x:.1f} {end - bend:.1f} {other.x:.1f} {end:.1f}"
        if other is not last:
            path += f"V{end + other.height:.1f}"
    x, y = (first.x + passed[1].x) / 2, (first.y + first.height + passed[1].y) / 2
    return (
        f"<g><title>{escape(f'output {edge.output} to input {edge.input}')}</title>"
        f'<path d="{path}" fill="none" stroke="{LINE}" marker-end="url(#arrow)"/>'
        f'<text x="{x + 3:.1f}" y="{y:.1f}" font-size="9" fill="{LINE}">{escape(edge_label(edge))}</text></g>'
    )


def _node(graph: Subgraph, number: int, box: _Box) -> str:
    shown = graph.nodes[number]
    color, width = border(shown)
    texts = "".join(
        f'<text x="{box.x:.1f}" y="{box.y + _PADDING / 2 + _LINE_HEIGHT * (place + 0.8):.1f}" '
        f'text-anchor="middle" fill="{ink(shown)}">{escape(line)}</text>'
        for place, line in enumerate(label(shown))
    )
    dashes = ' stroke-dasharray="4 3"' if is_dashed(shown) else ""
    outer = _frame(box, _ROOT_GAP, f'fill="none" stroke="{INK}"') if is_root(shown) else ""
    body = _frame(box, 0.0, f'fill="{fill(shown)}" stroke="{color}" stroke-width="{width:g}"{dashes}')
    return f"<g><title>{escape(tooltip(shown))}</title>{outer}{body}{texts}</g>"


def _frame(box: _Box, margin: float, look: str) -> str:
    x, y = box.x - box.width / 2 - margin, box.y - margin
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width + 2 * margin:.1f}" height="{box.height + 2 * margin:.1f}" '
        f'rx="{4 + margin:g}" {look}/>'
    )
