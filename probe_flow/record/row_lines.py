"""The lines of comparison.jsonl: text is made for many rows at once, their numbers column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from probe_flow.record.json_values import json_text, json_value, number_texts
from probe_flow.record.row_index import distance_of, error_of
from probe_flow.record.rows import RowReader, gap_of, name_in_dump, reason_of, shape_of
from probe_flow.records import (
    Comparison,
    Expectation,
    Measurement,
    Node,
    NodeKey,
    Pair,
    Row,
    TensorRef,
    Verdict,
)
from probe_flow.records.figure_columns import FIGURES, MeasuredColumns, SideColumns


class RowLines:
    """Writes the records of pairs, keys in their fixed order.

    Texts of types are kept for the rows written together; those of nodes and files are made once for neighbours.

    Args:
        comparison: what the rows belong to.
    """

    def __init__(self, comparison: Comparison) -> None:
        pairs = comparison.pairs
        self._reader = RowReader(comparison)
        self._target, self._golden = pairs.target, pairs.golden
        self._columns = [SideColumns(side) for side in ("target", "golden", "reference")]
        self._measured = MeasuredColumns()
        self._traits: dict[int, _Traits] = {}

    def texts(self, rows: Sequence[Row]) -> tuple[list[str], list[float]]:
        """Return the lines of some rows without their begin, which is the order, and the errors as the index has them.

        What line readers split at inside of texts is for the caller to treat.
        """
        self._traits.clear()
        pairs = [row.pair for row in rows]
        metrics, errors = self._metrics([row.measurement for row in rows])
        columns = (
            rows,
            self._heads(pairs),
            *(self._sides(rows, side) for side in self._columns),
            number_texts([pair.confidence for pair in pairs]),
            number_texts([row.verdict.excess for row in rows]),
            metrics,
        )
        return list(map(_line, *columns)), errors

    def _heads(self, pairs: Sequence[Pair]) -> list[str]:
        """Return what is said of the node and the slot of each row."""
        found: list[str] = []
        key, grouping, is_golden, head = None, None, False, ""
        for pair in pairs:
            shown = pair.shown
            if shown.node is not key or pair.grouping is not grouping or is_golden != (pair.target is None):
                key, grouping, is_golden = shown.node, pair.grouping, pair.target is None
                node = (self._golden if is_golden else self._target).nodes.get(key)
                head = f', {_described(node, key)}, "group": {json_text(pair.group)}, '
            found.append(head + self._traits_of(shown).slot)
        return found

    def _sides(self, rows: Sequence[Row], side: SideColumns) -> list[str]:
        tensors = side.tensors(rows)
        if all(tensor is None for tensor in tensors):
            return ["null"] * len(tensors)
        figures = side.figures(rows)
        numbers = (number_texts(figures.values(column)) for column in range(len(FIGURES)))
        found: list[str] = []
        node, name = None, ""
        path: str | None = None
        file = "null"
        for tensor, checksum, low, high, mean, norm, nan, inf in zip(
            tensors, side.checksums(rows), *numbers, strict=True
        ):
            if tensor is None:
                found.append("null")
                continue
            if tensor.node is not node:
                node, name = tensor.node, _name(tensor.node)
            holder = tensor.holder
            if holder is not path:
                path, file = holder, "null" if holder is None else json_text(self._reader.relative(holder))
            traits = self._traits_of(tensor)
            found.append(
                f'{{"name": "{name}{traits.end}, "file": {file}, {traits.said}, '
                f'"checksum": {"null" if checksum is None else json_text(checksum)}, "min": {low}, "max": {high}, '
                f'"mean": {mean}, "l2norm": {norm}, "nan": {nan}, "inf": {inf}}}'
            )
        return found

    def _traits_of(self, tensor: TensorRef) -> _Traits:
        found = self._traits.get(id(tensor.traits))
        if found is None:
            found = self._traits[id(tensor.traits)] = _Traits.of(tensor)
        return found

    def _metrics(self, measured: Sequence[Measurement | None]) -> tuple[list[str], list[float]]:
        """Return the metrics and the error of each row; those of rows with the same metrics are made together."""
        texts, errors = ["{}"] * len(measured), [0.0] * len(measured)
        for group in self._measured.metrics(measured):
            ordered = sorted(group.names)
            line = "{" + ", ".join([json_text(name).replace("%", "%%") + ": %s" for name in ordered]) + "}"
            columns = dict(zip(group.names, group.columns, strict=True))
            numbers = zip(*(number_texts(columns[name]) for name in ordered), strict=True)
            for place, cells in zip(group.places, numbers, strict=bool(ordered)):
                texts[place] = line % cells
            for place, error in zip(group.places, distance_of(columns) or (), strict=False):
                errors[place] = error_of(error)
        return texts, errors


class _Traits(NamedTuple):
    """What is said of tensors with the same traits.

    Args:
        slot: keys of the slot and the kind.
        end: end of the tensor's name.
        said: type and value.
    """

    slot: str
    end: str
    said: str

    @classmethod
    def of(cls, tensor: TensorRef) -> _Traits:
        slot, value, grad = tensor.slot, tensor.value, tensor.requires_grad
        return cls(
            f'"direction": "{slot.role.value}", "index": {json_text(slot.index)}, "kind": "{tensor.kind.value}"',
            json_text(f".{slot}")[1:],
            f'"dtype": {json_text(tensor.dtype)}, "shape": {json_text(shape_of(tensor))}, '
            f'"layout": {json_text(tensor.layout)}, "value": {json_text(json_value(value))}, '
            f'"requires_grad": {json_text(json_value(grad))}',
        )


def _line(
    row: Row, head: str, target: str, golden: str, reference: str, confidence: str, excess: str, metrics: str
) -> str:
    pair, verdict = row.pair, row.verdict
    return (
        f'{head}, "target": {target}, "golden": {golden}, '
        f'"reference": {reference}, "rule": {json_text(pair.rule.name)}, "confidence": {confidence}, '
        f'"metrics": {metrics}, "verdict": "{verdict.status._value_}", "reason": {json_text(reason_of(row))}, '
        f'"role": "{verdict.role._value_}", "excess": {excess}{_missing(row)}{_transform(pair)}{_excuse(verdict)}}}\n'
    )


def _missing(row: Row) -> str:
    return ', "missing": true' if gap_of(row) is Expectation.MISSING else ""


def _transform(pair: Pair) -> str:
    return f', "transform": {json_text(list(pair.transform))}' if pair.transform else ""


def _excuse(verdict: Verdict) -> str:
    excuse = verdict.excuse
    return "" if excuse is None else f', "{excuse.kind.value}": {json_text(excuse.text)}'


def _described(node: Node | None, key: NodeKey) -> str:
    """Return what a row says of its node."""
    execution = key.execution
    return (
        f'"rank": {json_text(execution.rank)}, "graph": {json_text(execution.graph)}, '
        f'"step": {json_text(execution.step)}, "node": {json_text(key.name)}, '
        f'"name": {json_text(name_in_dump(node, key))}, "call": {key.call}, '
        f'"phase": "{key.phase.value}", "op_type": {json_text(node.op_type if node else "")}'
    )


def _name(key: NodeKey) -> str:
    """Return the begin of the names of the node's tensors, as `TensorRef.id` has them."""
    call = f"#{key.call}" if key.call else ""
    phase = ".backward" if key.phase.value == "backward" else ""
    return json_text(f"{key.name}{call}{phase}")[1:-1]
