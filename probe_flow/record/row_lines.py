"""The lines of comparison.jsonl: text is made for many rows at once, their numbers column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from probe_flow.record.json_values import json_text, json_value, number_texts
from probe_flow.record.row_index import distance_of, error_of
from probe_flow.record.rows import RowReader, name_in_dump, reason_of, shape_of
from probe_flow.records import (
    Catalog,
    Comparison,
    Measurement,
    NodeKey,
    Pair,
    Row,
    TensorRef,
    Verdict,
)
from probe_flow.records.columns.figure_columns import FIGURES, MeasuredColumns, SideColumns


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
        self._columns = [SideColumns(side) for side in ("target", "golden", "reference")]
        self._measured = MeasuredColumns()
        self._traits: dict[int, _Traits] = {}
        self._files: dict[str | None, str] = {}

    def texts(self, rows: Sequence[Row]) -> tuple[list[str], list[float]]:
        """Return the lines of some rows without their begin, which is the order, and the errors as the index has them.

        What line readers split at inside of texts is for the caller to treat.
        """
        for texts in (self._target.descriptions, self._target.names, self._golden.descriptions):
            texts.clear()
        self._traits.clear()
        self._files.clear()
        pairs = [row.pair for row in rows]
        metrics, errors = self._metrics([row.measurement for row in rows])
        columns = (
            rows,
            pairs,
            *(self._sides(rows, side) for side in self._columns),
            number_texts([pair.confidence for pair in pairs]),
            number_texts([row.verdict.excess for row in rows]),
            metrics,
        )
        return [self._line(*cells) for cells in zip(*columns, strict=True)], errors

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
            f', {nodes.described(shown.node)}, "group": {json_text(pair.group)}, '
            f'{self._traits_of(shown).slot}, "target": {target}, "golden": {golden}, '
            f'"reference": {reference}, "rule": {json_text(pair.rule.name)}, "confidence": {confidence}, '
            f'"metrics": {metrics}, "verdict": "{verdict.status._value_}", "reason": {json_text(reason_of(row))}, '
            f'"role": "{verdict.role._value_}", "excess": {excess}{_transform(pair)}{_excuse(verdict)}}}\n'
        )

    def _sides(self, rows: Sequence[Row], side: SideColumns) -> list[str]:
        tensors = side.tensors(rows)
        if all(tensor is None for tensor in tensors):
            return ["null"] * len(tensors)
        figures = side.figures(rows)
        numbers = (number_texts(figures.values(column)) for column in range(len(FIGURES)))
        return [
            "null"
            if tensor is None
            else f'{self._side(tensor)}, "checksum": {"null" if checksum is None else json_text(checksum)}, '
            f'"min": {low}, "max": {high}, "mean": {mean}, "l2norm": {norm}, "nan": {nan}, "inf": {inf}}}'
            for tensor, checksum, low, high, mean, norm, nan, inf in zip(
                tensors, side.checksums(rows), *numbers, strict=True
            )
        ]

    def _side(self, tensor: TensorRef) -> str:
        """Return what comes before checksum and statistics."""
        traits, path = self._traits_of(tensor), tensor.holder
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = json_text(self._reader.file(tensor))
        return f'{{"name": "{self._target.name(tensor.node)}{traits.end}, "file": {file}, {traits.said}'

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
