"""Lines of comparison.jsonl, put together from texts: what many rows share is made once, numbers all at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from probe_flow.records import (
    Catalog,
    ComparedPair,
    Comparison,
    NodeKey,
    Pair,
    SideSummary,
    SlotRole,
    TensorRef,
    Verdict,
)
from probe_flow.reports.float_texts import Number, number_texts
from probe_flow.reports.json_values import json_text, json_value
from probe_flow.reports.rows import NodeIndex, RowReader, checksum_of, file_of, reason_of, shape_of, statistics_of

_STATISTICS = attrgetter("min", "max", "mean", "l2norm", "nan", "inf")
_AFTER_MIN = (', "max": ', ', "mean": ', ', "l2norm": ', ', "nan": ', ', "inf": ')
_GRADS: Mapping[int, str] = {
    id(grad): f'"value": null, "requires_grad": {json_text(grad)}, "checksum": null, "min": '
    for grad in (None, False, True)
}
"""What is said of a tensor without value and checksum, by the object that says whether it needs a gradient."""

_NO_METRICS: Mapping[str, Number] = {}


class RowLines:
    """Writes the records of pairs, keys in their fixed order.

    Args:
        comparison: what the rows belong to.
    """

    def __init__(self, comparison: Comparison) -> None:
        pairs = comparison.pairs
        self._reader = RowReader(comparison)
        self._target, self._golden = _Nodes(pairs.target), _Nodes(pairs.golden)
        self._slots: dict[tuple[SlotRole, tuple[int | str, ...]], tuple[str, str]] = {}
        self._stored: dict[tuple[object, ...], str] = {}
        self._metrics: dict[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._before: list[str] = []
        self._numbers: list[Number] = []

    def text(self, rows: Sequence[ComparedPair]) -> str:
        """Return the lines of some rows; what line readers split at inside of texts is for the caller to treat."""
        self._before, self._numbers = [], []
        text = ""
        for row in rows:
            text = self._row(row, text)
        pieces = [""] * (2 * len(self._before) + 1)
        pieces[0:-1:2] = self._before
        pieces[1::2] = number_texts(self._numbers)
        pieces[-1] = text
        return "".join(pieces)

    def _row(self, row: ComparedPair, text: str) -> str:
        """Add a row that begins after `text`; return what follows its last number."""
        pair, measured, verdict = row.pair, row.measurement, row.verdict
        shown = pair.shown
        nodes = self._target if pair.target is not None else self._golden
        text += (
            f'{{"order": {row.order}, {nodes.described(shown.node)}, "group": {json_text(pair.group)}, '
            f'{self._slot(shown)[0]}, "kind": "{shown.kind._value_}", "target": '
        )
        text = self._side(pair.target, measured.target if measured is not None else None, text) + ', "golden": '
        text = self._side(pair.golden, measured.golden if measured is not None else None, text) + ', "reference": '
        text = self._side(pair.reference, measured.reference if measured is not None else None, text)
        text += f', "rule": {json_text(pair.rule)}, "confidence": '
        self._before.append(text)
        self._numbers.append(pair.confidence)
        text = self._measured(measured.metrics if measured is not None else _NO_METRICS)
        return (
            f'{text}, "verdict": "{verdict.status._value_}", "reason": {json_text(reason_of(row))}, '
            f'"role": "{verdict.role._value_}"{_transform(pair)}{_excuse(verdict)}}}\n'
        )

    def _side(self, tensor: TensorRef | None, summary: SideSummary | None, text: str) -> str:
        if tensor is None:
            return text + "null"
        value, grad, checksum = tensor.value, tensor.attrs.get("requires_grad"), checksum_of(tensor, summary)
        known = _GRADS.get(id(grad)) if value is None and checksum is None else None
        facts = known or (
            f'"value": {json_text(value if value is None else json_value(value))}, '
            f'"requires_grad": {json_text(grad if grad is None or grad is False else json_value(grad))}, '
            f'"checksum": {json_text(checksum)}, "min": '
        )
        self._before.append(
            f'{text}{{"name": "{self._target.name(tensor.node)}{self._slot(tensor)[1]}", '
            f"{self._stored_as(tensor)}, {facts}"
        )
        self._before += _AFTER_MIN
        self._numbers += _STATISTICS(statistics_of(tensor, summary))
        return "}"

    def _measured(self, metrics: Mapping[str, Number]) -> str:
        if not metrics:
            return ', "metrics": {}'
        known = self._metrics.get(tuple(metrics))
        if known is None:
            names = tuple(sorted(metrics))
            labels = tuple(f", {json_text(name)}: " for name in names)
            known = self._metrics[tuple(metrics)] = names, (', "metrics": {' + labels[0][2:], *labels[1:])
        self._before += known[1]
        self._numbers += [metrics[name] for name in known[0]]
        return "}"

    def _slot(self, tensor: TensorRef) -> tuple[str, str]:
        """Return the keys of the slot, and the end of the tensor's name."""
        slot = tensor.slot
        found = self._slots.get((slot.role, slot.path))
        if found is None:
            keys = f'"direction": "{slot.role.value}", "index": {json_text(slot.index)}'
            found = self._slots[slot.role, slot.path] = keys, json_text(f".{slot}")[1:-1]
        return found

    def _stored_as(self, tensor: TensorRef) -> str:
        key = (file_of(tensor), tensor.dtype, tensor.shape, tensor.logical_shape, tensor.layout)
        found = self._stored.get(key)
        if found is None:
            shape = shape_of(tensor)
            found = self._stored[key] = (
                f'"file": {json_text(self._reader.file(tensor))}, "dtype": {json_text(tensor.dtype)}, '
                f'"shape": {json_text(shape)}, "layout": {json_text(tensor.layout)}'
            )
        return found


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
        self._index = NodeIndex(catalog)
        self._described: dict[int, str] = {}
        self._names: dict[int, str] = {}

    def described(self, key: NodeKey) -> str:
        found = self._described.get(id(key))
        if found is None:
            node = self._index.get(key)
            execution = key.execution
            found = self._described[id(key)] = (
                f'"rank": {json_text(execution.rank)}, "graph": {json_text(execution.graph)}, '
                f'"step": {json_text(execution.step)}, "node": {json_text(key.name)}, "call": {key.call}, '
                f'"phase": "{key.phase.value}", "op_type": {json_text(node.op_type if node else "")}'
            )
        return found

    def name(self, key: NodeKey) -> str:
        """Return the begin of the names of the node's tensors, as `TensorRef.id` has them."""
        found = self._names.get(id(key))
        if found is None:
            call = f"#{key.call}" if key.call else ""
            phase = ".backward" if key.phase.value == "backward" else ""
            found = self._names[id(key)] = json_text(f"{key.name}{call}{phase}")[1:-1]
        return found
