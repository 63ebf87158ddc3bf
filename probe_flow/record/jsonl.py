"""comparison.jsonl, nodes.jsonl, details.jsonl: pairs, nodes and closer looks as lines, for programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TypeVar

from probe_flow.files.atomic import atomic_bytes, atomic_text
from probe_flow.record.json_values import json_text, json_value, number_texts, unsplit
from probe_flow.record.row_index import Digest, RowIndex, call_code, head_of, state_byte
from probe_flow.record.row_lines import RowLines
from probe_flow.record.rows import TensorsByNode, name_in_dump, shape_of
from probe_flow.records import (
    CallFacts,
    Catalog,
    Comparison,
    Edge,
    ErrorMap,
    Execution,
    Node,
    NodeKey,
    Row,
    TensorDetail,
    TensorRef,
)


class NodeLines:
    """Writes the records of one side's nodes, keys in their fixed order (`types.nodes.NodeRecord`).

    The first node with a stack has its frames, those after it the number of its line.

    Args:
        side: ``target``, ``golden`` or ``reference``.
        catalog: what the nodes belong to.
        before: lines of other sides above in the file.
    """

    def __init__(self, side: str, catalog: Catalog, *, before: int = 0) -> None:
        self._side = side
        self._line_number = before
        self._tensors = TensorsByNode(catalog.tensors)
        self._edges: defaultdict[NodeKey, list[Edge]] = defaultdict(list)
        for edge in catalog.edges:
            self._edges[edge.consumer].append(edge)
        self._stacks = catalog.stacks
        self._lines_of_frames: dict[tuple[str, ...], int] = {}
        self._lines_of_stacks: dict[str, str] = {}
        self._execution: Execution | None = None
        self._run = ""
        self._facts: dict[int, str] = {}
        self._arguments: dict[tuple[int, ...], str] = {}

    def text(self, nodes: Sequence[Node]) -> str:
        """Return the lines of some nodes; what line readers split at inside of texts is for the caller to treat."""
        self._arguments.clear()
        return "".join([self._line(node) for node in nodes])

    def _line(self, node: Node) -> str:
        key = node.key
        execution = key.execution
        self._line_number += 1
        if execution is not self._execution:
            self._execution = execution
            self._run = (
                f'"rank": {json_text(execution.rank)}, "graph": {json_text(execution.graph)}, '
                f'"step": {json_text(execution.step)}'
            )
        name = json_text(name_in_dump(node, key))
        return (
            f'{{"side": "{self._side}", "order": {node.order}, {self._run}, '
            f'"node": {json_text(key.name)}, "name": {name}, "call": {key.call}, '
            f'"phase": "{key.phase._value_}", '
            f'"op_type": {json_text(node.op_type)}, "parent": {json_text(node.parent)}, '
            f'"edges": [{self._edges_of(key) if self._edges else ""}], "stack": {self._stack(node.stack_id)}, '
            f'"originals": {json_text(node.originals) if node.originals else "[]"}, '
            f'"passes": {json_text(node.passes) if node.passes else "[]"}, '
            f'"attributes": {{{self._attributes_of(node, name)}}}, "arguments": [{self._arguments_of(key)}]}}\n'
        )

    def _edges_of(self, key: NodeKey) -> str:
        return ", ".join(map(_edge, sorted(self._edges.get(key, ()), key=_edge_order)))

    def _attributes_of(self, node: Node, name: str) -> str:
        """Return the attributes of a node; calls of one kind and caller share all but the name of their entry."""
        facts = node.facts
        if not isinstance(facts, CallFacts) or facts.entry is not None or node.rules is not None:
            return _attributes(node.attributes)
        shared = self._facts.get(id(facts))  # which the catalog keeps alive
        if shared is None:
            others = node.attributes
            del others["entry"]  # the first of them in order
            shared = self._facts[id(facts)] = _attributes(others)
        return f'"entry": {name}, {shared}'

    def _stack(self, stack_id: str | None) -> str:
        """Return the frames of a node, or the line above that has them."""
        known = None if stack_id is None else self._lines_of_stacks.get(stack_id)
        if known is not None:
            return known
        frames = self._stacks.get(stack_id, ()) if stack_id is not None else ()
        if stack_id is None or not frames:
            return "[]"
        line = self._lines_of_frames.setdefault(frames, self._line_number)
        self._lines_of_stacks[stack_id] = str(line)
        return json_text(frames) if line == self._line_number else str(line)

    def _arguments_of(self, key: NodeKey) -> str:
        """Return the leaves of the argument tree, which nodes written together share if they are alike.

        What is said of a tensor is in its traits, which the catalog keeps alive.
        """
        tensors = [*self._tensors.of(key)]
        alike = tuple([id(tensor.traits) for tensor in tensors])
        found = self._arguments.get(alike)
        if found is None:
            found = self._arguments[alike] = ", ".join(map(_argument, tensors))
        return found


def _argument(tensor: TensorRef) -> str:
    """Return one leaf of the argument tree; ``path`` is its place in it."""
    slot = tensor.slot
    return (
        f'{{"direction": "{slot.role.value}", "index": {json_text(slot.index)}, "path": {json_text(slot.path)}, '
        f'"kind": "{tensor.kind.value}", "dtype": {json_text(tensor.dtype)}, "shape": {json_text(shape_of(tensor))}, '
        f'"value": {_any_text(tensor.value)}}}'
    )


def _edge_order(edge: Edge) -> tuple[int, str, int, str, int]:
    producer = edge.producer
    return edge.input, producer.name, producer.call, producer.phase.value, edge.output


def _edge(edge: Edge) -> str:
    producer = edge.producer
    return (
        f'{{"input": {edge.input}, "producer": {json_text(producer.name)}, "call": {producer.call}, '
        f'"phase": "{producer.phase.value}", "output": {edge.output}}}'
    )


def _attributes(attrs: Mapping[str, object]) -> str:
    return ", ".join([f"{json_text(name)}: {_any_text(attrs[name])}" for name in sorted(attrs)])


def _any_text(value: object) -> str:
    return json_text(value if value.__class__ is str else json_value(value))


CHUNK = 1500
"""Rows made into text at once; a few megabytes."""

_T = TypeVar("_T")


def write_comparison_jsonl(comparison: Comparison, path: Path) -> RowIndex:
    """Write one record a pair in execution order, and return their index; schema in ``schemas/comparison.schema.json``.

    ``null`` = not computable or not known; NaN and infinities are ``"nan"``, ``"inf"``, ``"-inf"``. File names are
    relative to their dump. The same comparison gives the same bytes.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    lines, index = RowLines(comparison), RowIndex()
    with atomic_bytes(path) as file:
        for rows in _chunks(comparison.rows):
            texts, errors = lines.texts(rows)
            orders = [row.order for row in rows]
            _add_calls(index, rows)
            index.add_facts(orders, errors, [_state(row) for row in rows])
            is_ascii = all(map(str.isascii, texts))  # as nearly always
            file.write(index.add_lines([*map(head_of, orders)], [*map(str.encode if is_ascii else _encoded, texts)]))
    return index


def _encoded(text: str) -> bytes:
    return unsplit(text).encode("utf-8", "backslashreplace")


def _state(row: Row) -> int:
    pair, verdict = row.pair, row.verdict
    return state_byte(verdict.status, verdict.role, pair.target, pair.golden, pair.reference)


def _add_calls(index: RowIndex, rows: Sequence[Row]) -> None:
    """Say of which call each row is; those of one call mostly have the same key, one behind another."""
    for _, run in groupby((row.pair.shown.node for row in rows), key=id):
        keys = [*run]
        key = keys[0]
        index.add_calls(key.execution, call_code(key.execution, key.name, key.call, key.phase), len(keys))


def write_nodes_jsonl(comparison: Comparison, path: Path) -> Digest:
    """Write one record a node: the target's in execution order, then the golden's, then the reference's.

    Returns the digest of the file.

    The schema is ``schemas/nodes.schema.json``. An edge stands once, with the node that consumes it, and so does a
    stack, with the first node of its side that has it.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    pairs = comparison.pairs
    before, digest = 0, Digest()
    with atomic_bytes(path) as file:
        for side, catalog in (("target", pairs.target), ("golden", pairs.golden), ("reference", pairs.reference)):
            if catalog is not None:
                for text in _texts_of_nodes(side, catalog, before):
                    file.write(digest.add(_encoded(text)))
                before += len(catalog.nodes)
    return digest


def _texts_of_nodes(side: str, catalog: Catalog, before: int) -> Iterator[str]:
    """Yield the lines of many nodes of a side at once; what is known of it is dropped before the next one."""
    lines = NodeLines(side, catalog, before=before)
    for nodes in _chunks(catalog.nodes.values()):
        yield lines.text(nodes)


def write_details_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record for each row that was looked at more closely; the schema is ``schemas/details.schema.json``.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        for order, detail in sorted(comparison.details.items()):
            file.write(_detail_line(order, detail))


def _detail_line(order: int, detail: TensorDetail) -> str:
    """Return the line of a `DetailRecord`: a hundred numbers and little else, which become text together."""
    errors = chain.from_iterable(each.errors for each in detail.maps)
    texts = iter(number_texts([*detail.target, *detail.golden, *detail.edges, *errors]))

    def figures(values: Sequence[float | None]) -> str:
        return f"[{', '.join(islice(texts, len(values)))}]"

    start, target, golden, edges = detail.start, figures(detail.target), figures(detail.golden), figures(detail.edges)
    maps = ", ".join(_map(each, figures(each.errors)) for each in detail.maps)
    return (
        f'{{"order": {order}, "start": {start}, "target": {target}, "golden": {golden}, "edges": {edges}, '
        f'"counts": {_whole(detail.counts)}, "equal": {detail.equal}, "maps": [{maps}]}}\n'
    )


def _map(found: ErrorMap, errors: str) -> str:
    return (
        f'{{"shape": {_whole(found.shape)}, "down": {_whole(found.down)}, "across": {_whole(found.across)}, '
        f'"cell": {_whole(found.cell)}, "errors": {errors}, "alike": {_whole(found.alike)}, '
        f'"mismatch": {_whole(found.mismatch)}}}'
    )


def _whole(values: Iterable[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
