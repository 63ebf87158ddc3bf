"""comparison.jsonl, nodes.jsonl, details.jsonl: pairs, nodes and closer looks as lines, for programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from probe_flow.files.atomic import atomic_text
from probe_flow.record.float_texts import Number, number_texts
from probe_flow.record.json_values import json_line, json_number, json_text, json_value, unsplit
from probe_flow.record.rows import (
    RowReader,
    TensorsByNode,
    checksum_of,
    name_in_dump,
    reason_of,
    shape_of,
    statistics_of,
)
from probe_flow.record.run_json import plain
from probe_flow.record.types.details import DetailRecord, MapRecord
from probe_flow.records import (
    Catalog,
    Comparison,
    Edge,
    ErrorMap,
    Node,
    NodeKey,
    Pair,
    Row,
    SideSummary,
    SlotRole,
    TensorKind,
    TensorRef,
    TensorType,
    Verdict,
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
        self._stack_lines: dict[tuple[str, ...], int] = {}
        self._slots: dict[tuple[SlotRole, tuple[int | str, ...]], str] = {}
        self._kinds: dict[tuple[TensorKind, str, tuple[int, ...] | None], str] = {}

    def text(self, nodes: Sequence[Node]) -> str:
        """Return the lines of some nodes; what line readers split at inside of texts is for the caller to treat."""
        return "".join([self._line(node) for node in nodes])

    def _line(self, node: Node) -> str:
        key = node.key
        execution = key.execution
        edges = sorted(self._edges.get(key, ()), key=_edge_order)
        arguments = ", ".join([self._argument(tensor) for tensor in self._tensors.of(key)])
        self._line_number += 1
        return (
            f'{{"side": "{self._side}", "order": {node.order}, "rank": {json_text(execution.rank)}, '
            f'"graph": {json_text(execution.graph)}, "step": {json_text(execution.step)}, '
            f'"node": {json_text(key.name)}, "name": {json_text(name_in_dump(node, key))}, "call": {key.call}, '
            f'"phase": "{key.phase._value_}", '
            f'"op_type": {json_text(node.op_type)}, "parent": {json_text(node.parent)}, '
            f'"edges": [{", ".join([_edge(edge) for edge in edges])}], "stack": {self._stack(node.stack_id)}, '
            f'"originals": {json_text(node.originals) if node.originals else "[]"}, '
            f'"passes": {json_text(node.passes) if node.passes else "[]"}, '
            f'"attributes": {_attributes(node.attributes)}, "arguments": [{arguments}]}}\n'
        )

    def _stack(self, stack_id: str | None) -> str:
        """Return the frames of a node, or the line above that has them."""
        frames = self._stacks.get(stack_id, ()) if stack_id is not None else ()
        if not frames:
            return "[]"
        line = self._stack_lines.setdefault(frames, self._line_number)
        return json_text(frames) if line == self._line_number else str(line)

    def _argument(self, tensor: TensorRef) -> str:
        """Return one leaf of the argument tree; ``path`` is its place in it."""
        slot, shape = tensor.slot, shape_of(tensor)
        place = self._slots.get((slot.role, slot.path))
        if place is None:
            place = self._slots[slot.role, slot.path] = (
                f'{{"direction": "{slot.role.value}", "index": {json_text(slot.index)}, "path": {json_text(slot.path)}'
            )
        kind = self._kinds.get((tensor.kind, tensor.dtype, shape))
        if kind is None:
            kind = self._kinds[tensor.kind, tensor.dtype, shape] = (
                f', "kind": "{tensor.kind.value}", "dtype": {json_text(tensor.dtype)}, "shape": {json_text(shape)}'
            )
        value = "null" if tensor.value is None else json_text(json_value(tensor.value))
        return f'{place}{kind}, "value": {value}}}'


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
    return "{" + ", ".join([f"{json_text(name)}: {json_text(json_value(attrs[name]))}" for name in sorted(attrs)]) + "}"


_STATISTICS = attrgetter("min", "max", "mean", "l2norm", "nan", "inf")
_GRADS: Mapping[int, str] = {
    id(grad): f'"value": null, "requires_grad": {json_text(grad)}, "checksum": null' for grad in (None, False, True)
}
"""What is said of a tensor without value and checksum, by the object that says whether it needs a gradient."""

_NO_METRICS: Mapping[str, Number] = {}


class RowLines:
    """Writes the records of pairs, keys in their fixed order.

    Texts of nodes, files and types are kept for the rows written together: neighbours share them.

    Args:
        comparison: what the rows belong to.
    """

    def __init__(self, comparison: Comparison) -> None:
        pairs = comparison.pairs
        self._reader = RowReader(comparison)
        self._target, self._golden = _Nodes(pairs.target), _Nodes(pairs.golden)
        self._slots: dict[tuple[SlotRole, tuple[int | str, ...]], tuple[str, str]] = {}
        self._stored: dict[tuple[str | None, TensorType], str] = {}

    def text(self, rows: Sequence[Row]) -> str:
        """Return the lines of some rows; what line readers split at inside of texts is for the caller to treat."""
        for texts in (self._stored, self._target.descriptions, self._target.names, self._golden.descriptions):
            texts.clear()
        pairs, measured = [row.pair for row in rows], [row.measurement for row in rows]
        columns = (
            rows,
            pairs,
            self._sides(
                [pair.target for pair in pairs], [each.target if each is not None else None for each in measured]
            ),
            self._sides(
                [pair.golden for pair in pairs], [each.golden if each is not None else None for each in measured]
            ),
            self._sides(
                [pair.reference for pair in pairs], [each.reference if each is not None else None for each in measured]
            ),
            number_texts([pair.confidence for pair in pairs]),
            number_texts([row.verdict.excess for row in rows]),
            _metrics([each.metrics if each is not None else _NO_METRICS for each in measured]),
        )
        return "".join([self._line(*cells) for cells in zip(*columns, strict=True)])

    def _line(
        self,
        row: Row,
        pair: Pair,
        target: str,
        golden: str,
        reference: str,
        confidence: str,
        excess: str,
        metrics: str,
    ) -> str:
        shown, verdict = pair.shown, row.verdict
        nodes = self._target if pair.target is not None else self._golden
        return (
            f'{{"order": {row.order}, {nodes.described(shown.node)}, "group": {json_text(pair.group)}, '
            f'{self._slot(shown)[0]}, "kind": "{shown.kind._value_}", "target": {target}, "golden": {golden}, '
            f'"reference": {reference}, "rule": {json_text(pair.rule.name)}, "confidence": {confidence}, '
            f'"metrics": {metrics}, "verdict": "{verdict.status._value_}", "reason": {json_text(reason_of(row))}, '
            f'"role": "{verdict.role._value_}", "excess": {excess}{_transform(pair)}{_excuse(verdict)}}}\n'
        )

    def _sides(self, tensors: Sequence[TensorRef | None], summaries: Sequence[SideSummary | None]) -> list[str]:
        if all(tensor is None for tensor in tensors):
            return ["null"] * len(tensors)
        statistics = map(_STATISTICS, map(statistics_of, tensors, summaries))
        numbers = iter(number_texts(list(chain.from_iterable(statistics))))
        return [
            "null"
            if tensor is None
            else f'{self._side(tensor, summary)}, "min": {low}, "max": {high}, "mean": {mean}, "l2norm": {norm}, '
            f'"nan": {nan}, "inf": {inf}}}'
            for tensor, summary, low, high, mean, norm, nan, inf in zip(
                tensors, summaries, *[numbers] * 6, strict=False
            )
        ]

    def _side(self, tensor: TensorRef, summary: SideSummary | None) -> str:
        """Return what comes before the statistics."""
        value, grad, checksum = tensor.value, tensor.requires_grad, checksum_of(tensor, summary)
        known = _GRADS.get(id(grad)) if value is None and checksum is None else None
        facts = known or (
            f'"value": {json_text(value if value is None else json_value(value))}, '
            f'"requires_grad": {json_text(grad if grad is None or grad is False else json_value(grad))}, '
            f'"checksum": {json_text(checksum)}'
        )
        name = f"{self._target.name(tensor.node)}{self._slot(tensor)[1]}"
        return f'{{"name": "{name}", {self._stored_as(tensor)}, {facts}'

    def _slot(self, tensor: TensorRef) -> tuple[str, str]:
        """Return the keys of the slot, and the end of the tensor's name."""
        slot = tensor.slot
        found = self._slots.get((slot.role, slot.path))
        if found is None:
            keys = f'"direction": "{slot.role.value}", "index": {json_text(slot.index)}'
            found = self._slots[slot.role, slot.path] = keys, json_text(f".{slot}")[1:-1]
        return found

    def _stored_as(self, tensor: TensorRef) -> str:
        key = tensor.holder, tensor.type
        found = self._stored.get(key)
        if found is None:
            shape = shape_of(tensor)
            found = self._stored[key] = (
                f'"file": {json_text(self._reader.file(tensor))}, "dtype": {json_text(tensor.dtype)}, '
                f'"shape": {json_text(shape)}, "layout": {json_text(tensor.layout)}'
            )
        return found


def _metrics(rows: Sequence[Mapping[str, Number]]) -> list[str]:
    """Return the metrics of each row, those of rows with the same ones together."""
    places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, metrics in enumerate(rows):
        places[tuple(metrics)].append(place)
    texts = ["{}"] * len(rows)
    for names, those in places.items():
        ordered = sorted(names)
        line = "{" + ", ".join([json_text(name).replace("%", "%%") + ": %s" for name in ordered]) + "}"
        columns = [number_texts([rows[place][name] for place in those]) for name in ordered]
        for place, numbers in zip(those, zip(*columns, strict=True), strict=bool(names)):
            texts[place] = line % numbers
    return texts


def _transform(pair: Pair) -> str:
    return f', "transform": {json_text(list(pair.transform))}' if pair.transform else ""


def _excuse(verdict: Verdict) -> str:
    excuse = verdict.excuse
    return "" if excuse is None else f', "{excuse.kind.value}": {json_text(excuse.text)}'


class _Nodes:
    """What the rows of one side say of their nodes.

    Texts are kept by the `id` of the key: the comparison keeps keys alive, and hashing one costs more than its text.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._nodes = catalog.nodes
        self.descriptions: dict[int, str] = {}
        self.names: dict[int, str] = {}

    def described(self, key: NodeKey) -> str:
        found = self.descriptions.get(id(key))
        if found is None:
            node = self._nodes.get(key)
            execution = key.execution
            found = self.descriptions[id(key)] = (
                f'"rank": {json_text(execution.rank)}, "graph": {json_text(execution.graph)}, '
                f'"step": {json_text(execution.step)}, "node": {json_text(key.name)}, '
                f'"name": {json_text(name_in_dump(node, key))}, "call": {key.call}, '
                f'"phase": "{key.phase.value}", "op_type": {json_text(node.op_type if node else "")}'
            )
        return found

    def name(self, key: NodeKey) -> str:
        """Return the begin of the names of the node's tensors, as `TensorRef.id` has them."""
        found = self.names.get(id(key))
        if found is None:
            call = f"#{key.call}" if key.call else ""
            phase = ".backward" if key.phase.value == "backward" else ""
            found = self.names[id(key)] = json_text(f"{key.name}{call}{phase}")[1:-1]
        return found


CHUNK = 2000
"""Rows made into text at once; a few megabytes."""

_T = TypeVar("_T")


def write_comparison_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record a pair in execution order; schema in ``schemas/comparison.schema.json``.

    ``null`` = not computable or not known; NaN and infinities are ``"nan"``, ``"inf"``, ``"-inf"``. File names are
    relative to their dump. The same comparison gives the same bytes.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    lines = RowLines(comparison)
    with atomic_text(path) as file:
        file.writelines(unsplit(lines.text(rows)) for rows in _chunks(comparison.rows))


def write_nodes_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record a node: the target's in execution order, then the golden's, then the reference's.

    The schema is ``schemas/nodes.schema.json``. An edge stands once, with the node that consumes it, and so does a
    stack, with the first node of its side that has it.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    pairs = comparison.pairs
    before = 0
    with atomic_text(path) as file:
        for side, catalog in (("target", pairs.target), ("golden", pairs.golden), ("reference", pairs.reference)):
            if catalog is not None:
                lines = NodeLines(side, catalog, before=before)
                before += len(catalog.nodes)
                file.writelines(unsplit(lines.text(nodes)) for nodes in _chunks(catalog.nodes.values()))


def write_details_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record for each row that was looked at more closely; the schema is ``schemas/details.schema.json``.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        for order, detail in sorted(comparison.details.items()):
            record = DetailRecord(
                order,
                detail.start,
                tuple(map(json_number, detail.target)),
                tuple(map(json_number, detail.golden)),
                tuple(map(json_number, detail.edges)),
                detail.counts,
                detail.equal,
                tuple(map(_map, detail.maps)),
            )
            file.write(json_line(plain(record)))


def _map(found: ErrorMap) -> MapRecord:
    errors = tuple(map(json_number, found.errors))
    return MapRecord(found.shape, found.down, found.across, found.cell, errors, found.alike, found.mismatch)


def _chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
