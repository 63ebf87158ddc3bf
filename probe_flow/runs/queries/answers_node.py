"""What a stored run knows of a node, as lines of text, with its neighbourhood drawn by indentation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from probe_flow.record.facts import judged_text, role_word
from probe_flow.record.json_values import json_value, number
from probe_flow.record.places import figure, in_dump, printable, slot, where
from probe_flow.record.text_table import text_table
from probe_flow.record.types.nodes import ArgumentRecord
from probe_flow.record.types.rows import RowRecord
from probe_flow.runs.queries.base import metric_of, placed
from probe_flow.runs.queries.named_answer import MAX_OTHERS, NamedAnswer
from probe_flow.runs.queries.node import Judgement, NodeView
from probe_flow.runs.queries.stored_nodes import Link, StoredNode
from probe_flow.runs.queries.subgraph import Shown, Subgraph
from probe_flow.runs.row_table import reasons_of, shape_text

_MAX_FRAMES = 6
_MAX_NEIGHBOURS = 16
_MAX_CHILDREN = 10
_MAX_ATTRIBUTE = 2000
_MAX_VALUE = 40

_NUMBERS = ("min", "max", "mean", "l2norm")
_HEADER = ("tensor", "is", "row rule", "side", "dtype", "shape", "layout", *_NUMBERS, "nan", "inf", "error", "cosine")
_RIGHT = frozenset({*_NUMBERS, "nan", "inf", "error", "cosine"})
_ERRORS = ("relative_euclidean_distance", "l2norm_diff_rel")


def node_lines(answer: NamedAnswer[NodeView], *, has_attributes: bool) -> Iterator[str]:
    """Return the lines of what is known of the nodes that a name means.

    Args:
        answer: the answer.
        has_attributes: whether each attribute is told; else only their names.
    """
    view_lines = partial(_view_lines, has_attributes=has_attributes)
    return answer.lines(view_lines, counted="nodes", where="their names")


def _view_lines(view: NodeView, *, has_attributes: bool) -> Iterator[str]:
    node = view.node
    places = where(placed(node.known._replace(call=0), node.name, node.op_type))
    yield f"{_titled(node)}  [{node.side}{', ' + places if places else ''}]"
    facts = {
        "it is": _words(view.judgement),
        "in the dump": in_dump(placed(node.known, node.name, node.op_type)),
        "parent": printable(node.parent or ""),
        "holds": _listed(view.children, _MAX_CHILDREN),
        "originals": _listed(view.record.originals, MAX_OTHERS),
        "passes": _listed(view.record.passes, MAX_OTHERS),
        "kernel": printable(node.kernel),
    }
    yield from (f"  {name:<11}  {text}" for name, text in facts.items() if text)
    yield from (f"  {'run again':<11}  {printable(each['in_words'])}" for each in view.reproductions)
    yield from _attribute_lines(view.record.attributes, is_full=has_attributes)
    stack = view.record.stack
    yield from _frame_lines(stack if isinstance(stack, tuple) else ())
    yield from _tensor_lines(view)
    yield from _flow_lines(view)
    if view.graph is not None:
        yield from _graph_lines(view.graph)


def _titled(node: StoredNode) -> str:
    return printable(node.title) + (f" ({printable(node.op_type)})" if node.op_type else "")


def _words(judgement: Judgement) -> str:
    verdict, role = judgement
    return judged_text(role, verdict) or "no row"


def _listed(names: Sequence[str], limit: int) -> str:
    more = f" ... ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(printable(name) for name in names[:limit]) + more


def _attribute_lines(attributes: Mapping[str, Any], *, is_full: bool) -> Iterator[str]:
    if not attributes:
        return
    if not is_full:
        names = _listed(list(attributes), MAX_OTHERS)
        yield f"  {'attributes':<11}  {names}  (`--attrs` tells them)"
        return
    yield "  attributes"
    for name, value in attributes.items():
        text = printable(value if isinstance(value, str) else json.dumps(json_value(value), ensure_ascii=False))
        yield f"    {printable(name)}: {text if len(text) <= _MAX_ATTRIBUTE else text[:_MAX_ATTRIBUTE] + ' ...'}"


def _frame_lines(frames: Sequence[str]) -> Iterator[str]:
    own = [frame for frame in frames if "site-packages" not in frame] or frames
    if frames:
        others = len(frames) - len(own)
        yield "  called from" + (f" ({others} frames of installed packages left out)" if others else "")
        yield from (f"    {printable(' '.join(frame.split()))}" for frame in own[:_MAX_FRAMES])
        if len(own) > _MAX_FRAMES:
            yield f"    ... {len(own) - _MAX_FRAMES} more"


def _tensor_lines(view: NodeView) -> Iterator[str]:
    """Yield the tensors of the rows, a line for each side; of nodes without rows what their record says."""
    rows = [cells for row in view.rows for cells in _row_cells(row)]
    if not rows:
        rows = list(map(_argument_cells, view.record.arguments))
    if rows:
        yield "  tensors"
        yield from text_table(_HEADER, rows, right=_RIGHT, indent=4)
    for reason in dict.fromkeys(reason for row in view.rows for reason in reasons_of(row)):
        yield f"    - {printable(reason)}"


def _row_cells(row: RowRecord) -> Iterator[tuple[str, ...]]:
    head: tuple[str, ...] = (
        slot(row),
        role_word(row.role, row.verdict),
        row.verdict.value.replace("_", " "),
    )
    error = next((value for value in (metric_of(row, name) for name in _ERRORS) if value is not None), None)
    tail = ("" if error is None else f"{error:.3g}", _figure(metric_of(row, "cosine")))
    for name, tensor in row.sides:
        numbers = [_figure(number(value)) for value in (tensor.min, tensor.max, tensor.mean, tensor.l2norm)]
        if tensor.value is not None:
            numbers = [printable(tensor.value)[:_MAX_VALUE], "", "", ""]
        yield (
            *head,
            name,
            printable(tensor.dtype),
            shape_text(tensor.shape),
            printable(tensor.layout),
            *numbers,
            *(str(count) if count is not None else "" for count in (tensor.nan, tensor.inf)),
            *tail,
        )
        head, tail = ("", "", ""), ("", "")


def _argument_cells(argument: ArgumentRecord) -> tuple[str, ...]:
    value = argument.value
    return (
        printable(f"{argument.direction.value} {argument.index}"), "", "", "",
        printable(argument.dtype or argument.kind.value), shape_text(argument.shape),
        "", "" if value is None else printable(value)[:_MAX_VALUE], *[""] * (len(_NUMBERS) - 1), "", "", "", "",
    )  # fmt: skip


def _figure(value: float | None) -> str:
    return "" if value is None else figure(value)


def _flow_lines(view: NodeView) -> Iterator[str]:
    if not view.has_flow:
        before, after = (_titled(node) if node is not None else "-" for node in (view.before, view.after))
        yield f"  {'executed':<11}  after {before}, before {after} (this dump does not tell who feeds whom)"
        return
    for name, links, sign in (("fed by", view.producers, "<-"), ("feeds", view.consumers, "->")):
        for number_, (link, judged) in enumerate(links[:_MAX_NEIGHBOURS]):
            yield f"  {name if not number_ else '':<11}  {_link(link, judged, sign)}"
        if len(links) > _MAX_NEIGHBOURS:
            yield f"  {'':<11}  ... {len(links) - _MAX_NEIGHBOURS} more"


def _link(link: Link, judged: Judgement, sign: str) -> str:
    slots = (f"input {link.input}", f"output {link.output}")
    own, other = slots if sign == "<-" else slots[::-1]
    return f"{own} {sign} {_titled(link.node)} {other}  [{_words(judged)}]"


def _graph_lines(graph: Subgraph) -> Iterator[str]:
    yield f"  neighbourhood, {graph.depth} {'step' if graph.depth == 1 else 'steps'} each way"
    for shown in sorted(graph.nodes, key=lambda each: (each.distance, each.node.order)):
        yield f"    {_step(shown)}{_titled(shown.node)}" + (f"  [{shown.judged}]" if shown.judged else "")
    if graph.left_out:
        yield f"    ... and at least {graph.left_out} more, which are too many to show"


def _step(shown: Shown) -> str:
    sign = "=" if not shown.distance else f"{shown.distance:+d}"
    return f"{sign:>4}  "
