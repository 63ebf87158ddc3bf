"""comparison.jsonl (one record a pair) and nodes.jsonl (one record a node): the results, for programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from probe_flow.records import (
    Catalog,
    ComparedPair,
    Comparison,
    Edge,
    Node,
    NodeKey,
    SideSummary,
    TensorRef,
)
from probe_flow.reports.atomic import atomic_text
from probe_flow.reports.json_values import json_line, json_number, json_value
from probe_flow.reports.rows import RowReader, checksum_of, reason_of, shape_of, stack_of, statistics_of


def write_comparison_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record a pair in execution order; schema in ``schemas/comparison.schema.json``.

    ``null`` = not computable or not known; NaN and infinities are ``"nan"``, ``"inf"``, ``"-inf"``. File names are
    relative to their dump. The same comparison gives the same bytes.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    reader = RowReader(comparison)
    with atomic_text(path) as file:
        file.writelines(json_line(comparison_record(row, reader)) for row in comparison.rows)


def write_nodes_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record a node: the target's in execution order, then the golden's, then the reference's.

    The schema is ``schemas/nodes.schema.json``. An edge stands once, with the node that consumes it.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    pairs = comparison.pairs
    with atomic_text(path) as file:
        for side, catalog in (("target", pairs.target), ("golden", pairs.golden), ("reference", pairs.reference)):
            if catalog is not None:
                file.writelines(json_line(record) for record in _node_records(side, catalog))


def comparison_record(row: ComparedPair, reader: RowReader) -> dict[str, Any]:
    """Return the record of one pair, keys in their fixed order."""
    pair = row.pair
    shown = pair.shown
    key = shown.node
    measured = row.measurement
    metrics = measured.metrics if measured is not None else {}
    return {
        "order": row.order,
        "rank": key.execution.rank,
        "graph": key.execution.graph,
        "step": key.execution.step,
        "node": key.name,
        "call": key.call,
        "phase": key.phase.value,
        "op_type": reader.op_type(row),
        "group": pair.group,
        "direction": shown.slot.role.value,
        "index": shown.slot.index,
        "kind": shown.kind.value,
        "target": _side(pair.target, measured.target if measured else None, reader),
        "golden": _side(pair.golden, measured.golden if measured else None, reader),
        "reference": _side(pair.reference, None, reader),
        "rule": pair.rule,
        "confidence": json_number(pair.confidence),
        "metrics": {name: json_number(metrics[name]) for name in sorted(metrics)},
        "verdict": row.verdict.status.value,
        "reason": reason_of(row),
        "role": row.verdict.role.value,
    }


def _side(tensor: TensorRef | None, summary: SideSummary | None, reader: RowReader) -> dict[str, Any] | None:
    if tensor is None:
        return None
    statistics = statistics_of(tensor, summary)
    shape = shape_of(tensor)
    return {
        "name": tensor.id,
        "file": reader.file(tensor),
        "dtype": tensor.dtype,
        "shape": None if shape is None else list(shape),
        "layout": tensor.layout,
        "value": json_value(tensor.value),
        "requires_grad": json_value(tensor.attrs.get("requires_grad")),
        "checksum": checksum_of(tensor, summary),
        "min": json_number(statistics.min),
        "max": json_number(statistics.max),
        "mean": json_number(statistics.mean),
        "l2norm": json_number(statistics.l2norm),
        "nan": statistics.nan,
        "inf": statistics.inf,
    }


def _node_records(side: str, catalog: Catalog) -> Iterator[dict[str, Any]]:
    tensors: defaultdict[NodeKey, list[TensorRef]] = defaultdict(list)
    for tensor in catalog.tensors:
        tensors[tensor.node].append(tensor)
    edges: defaultdict[NodeKey, list[Edge]] = defaultdict(list)
    for edge in catalog.edges:
        edges[edge.consumer].append(edge)
    for key, node in catalog.nodes.items():
        yield _node_record(side, catalog, node, edges.get(key, []), tensors.get(key, []))


def _node_record(
    side: str, catalog: Catalog, node: Node, edges: list[Edge], tensors: list[TensorRef]
) -> dict[str, Any]:
    key = node.key
    return {
        "side": side,
        "order": node.order,
        "rank": key.execution.rank,
        "graph": key.execution.graph,
        "step": key.execution.step,
        "node": key.name,
        "call": key.call,
        "phase": key.phase.value,
        "op_type": node.op_type,
        "parent": node.parent,
        "edges": [_edge(edge) for edge in sorted(edges, key=_edge_order)],
        "stack": list(stack_of(catalog, key)),
        "originals": list(node.originals),
        "passes": list(node.passes),
        "attributes": _attributes({**node.relation_attrs, **node.attrs}),
        "arguments": [_argument(tensor) for tensor in tensors],
    }


def _edge_order(edge: Edge) -> tuple[int, str, int, str, int]:
    producer = edge.producer
    return edge.input, producer.name, producer.call, producer.phase.value, edge.output


def _edge(edge: Edge) -> dict[str, Any]:
    producer = edge.producer
    return {
        "input": edge.input,
        "producer": producer.name,
        "call": producer.call,
        "phase": producer.phase.value,
        "output": edge.output,
    }


def _attributes(attrs: Mapping[str, object]) -> dict[str, Any]:
    return {name: json_value(attrs[name]) for name in sorted(attrs)}


def _argument(tensor: TensorRef) -> dict[str, Any]:
    """One leaf of the argument tree; ``path`` is its place in it."""
    shape = shape_of(tensor)
    return {
        "direction": tensor.slot.role.value,
        "index": tensor.slot.index,
        "path": list(tensor.slot.path),
        "kind": tensor.kind.value,
        "dtype": tensor.dtype,
        "shape": None if shape is None else list(shape),
        "value": json_value(tensor.value),
    }
