"""Where in the source a node was called: all frames, or the one that says it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from probe_flow.records import Phase
from probe_flow.records.model_graph import GraphKind, GraphLayout, GraphNode, ModelGraph

NOT_FOUND = "This backward node cannot find the forward node and cannot retrieve stack information."
_NO_STACK = (NOT_FOUND,)
_TEMPLATE = re.compile(r"\b[A-Z][A-Za-z]*Template\(")
_LIBRARIES = ("site-packages", "dist-packages")


def frames_of(graph: ModelGraph, number: int, *, is_lean: bool) -> Sequence[str]:
    """Return the frames of a node, innermost first.

    Args:
        graph: the graph.
        number: of the node.
        is_lean: keep one frame: of a module that which calls it by its name, of an API the first outside of installed
            packages (in the layout of msprobe 1.2.1 the one behind a template of its own). All frames, where there is
            none.
    """
    frames = graph.stack_of(number)
    node = graph.nodes[number]
    if not frames:
        return _NO_STACK if _lacks_forward(graph, node) else ()
    if not is_lean:
        return frames
    if node.kind is GraphKind.MODULE:
        parts = node.name.split(".")
        return _calling(frames, parts[-4]) if len(parts) >= 4 else frames
    return _behind_template(frames) if graph.layout is GraphLayout.MSPROBE_VIS else _of_user(frames)


def _lacks_forward(graph: ModelGraph, node: GraphNode) -> bool:
    """Return True for a backward call of which the graph has no forward call."""
    if node.call is None or node.call.key.phase is not Phase.BACKWARD:
        return False
    if node.kind is GraphKind.MODULE:
        return re.sub(r"\.backward\.\d+$", ".forward.0", node.name) not in graph.numbers
    return node.name.replace("backward", "forward") not in graph.numbers


@lru_cache(maxsize=1 << 12)
def _calling(frames: Sequence[str], name: str) -> Sequence[str]:
    return next(((frame,) for frame in frames if f"{name}(" in frame), frames)


@lru_cache(maxsize=1 << 12)
def _behind_template(frames: Sequence[str]) -> Sequence[str]:
    for frame, following in pairwise(frames):
        if _TEMPLATE.search(frame):
            return (following,)
    return frames


@lru_cache(maxsize=1 << 12)
def _of_user(frames: Sequence[str]) -> Sequence[str]:
    found = (frame for frame in frames if not any(word in frame.partition(", line")[0] for word in _LIBRARIES))
    return (next(found, frames[0]),)
