"""The lines of comparison.jsonl: text is made for many rows at once, their numbers column by column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from probe_flow.record.json_values import Number, json_text, json_value, number_texts
from probe_flow.record.row_index import distance_of, error_of
from probe_flow.record.rows import RowReader, checksum_of, name_in_dump, reason_of, shape_of
from probe_flow.records import (
    Catalog,
    Comparison,
    NodeKey,
    Pair,
    Row,
    SideSummary,
    SlotRole,
    TensorRef,
    TensorType,
    Verdict,
)
from probe_flow.records.columns.figure_columns import FIGURES, SideColumns

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
        self._columns = [SideColumns(side) for side in ("target", "golden", "reference")]
        self._slots: dict[tuple[SlotRole, tuple[int | str, ...]], tuple[str, str]] = {}
        self._stored: dict[tuple[str | None, TensorType], str] = {}

    def texts(self, rows: Sequence[Row]) -> tuple[list[str], list[float]]:
        """Return the lines of some rows without their begin, which is the order, and the errors as the index has them.

        What line readers split at inside of texts is for the caller to treat.
        """
        for texts in (self._stored, self._target.descriptions, self._target.names, self._golden.descriptions):
            texts.clear()
        pairs, measured = [row.pair for row in rows], [row.measurement for row in rows]
        metrics, errors = _metrics([each.metrics if each is not None else _NO_METRICS for each in measured])
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
            f'{self._slot(shown)[0]}, "kind": "{shown.kind._value_}", "target": {target}, "golden": {golden}, '
            f'"reference": {reference}, "rule": {json_text(pair.rule.name)}, "confidence": {confidence}, '
            f'"metrics": {metrics}, "verdict": "{verdict.status._value_}", "reason": {json_text(reason_of(row))}, '
            f'"role": "{verdict.role._value_}", "excess": {excess}{_transform(pair)}{_excuse(verdict)}}}\n'
        )

    def _sides(self, rows: Sequence[Row], side: SideColumns) -> list[str]:
        tensors = side.tensors(rows)
        if all(tensor is None for tensor in tensors):
            return ["null"] * len(tensors)
        figures = side.figures(rows)
        # Of the others the tensor has the checksum, which is what was measured of them.
        summaries = [side.summary(row) if place in figures.others else None for place, row in enumerate(rows)]
        numbers = (number_texts(figures.values(column)) for column in range(len(FIGURES)))
        return [
            "null"
            if tensor is None
            else f'{self._side(tensor, summary)}, "min": {low}, "max": {high}, "mean": {mean}, "l2norm": {norm}, '
            f'"nan": {nan}, "inf": {inf}}}'
            for tensor, summary, low, high, mean, norm, nan, inf in zip(tensors, summaries, *numbers, strict=True)
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


def _metrics(rows: Sequence[Mapping[str, Number]]) -> tuple[list[str], list[float]]:
    """Return the metrics and the error of each row; those of rows with the same metrics are made together."""
    places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, metrics in enumerate(rows):
        places[tuple(metrics)].append(place)
    texts, errors = ["{}"] * len(rows), [0.0] * len(rows)
    for names, those in places.items():
        ordered = sorted(names)
        line = "{" + ", ".join([json_text(name).replace("%", "%%") + ": %s" for name in ordered]) + "}"
        columns = dict(zip(names, zip(*(rows[place].values() for place in those), strict=True), strict=bool(names)))
        numbers = zip(*(number_texts(columns[name]) for name in ordered), strict=True)
        for place, cells in zip(those, numbers, strict=bool(names)):
            texts[place] = line % cells
        for place, error in zip(those, distance_of(columns) or (), strict=False):
            errors[place] = error_of(error)
    return texts, errors


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
