"""Records as text, for caches: JSON lists in field order, from which exactly the same record is made again.

The shortest text is written that reads back as the same float, and integers of any size, so nothing is rounded. Records
with NaN or infinities, for which JSON has no word, are written and read by Python's own module, the others by msgspec,
which takes an eighth of the time.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from probe_flow.metrics.accumulators.registry import ACCUMULATORS
from probe_flow.metrics.sums.record import Errors, Record, Side, SpanRecord
from probe_flow.metrics.sums.tree import Node

LAYOUT = 4
"""Version of the kernel's records; a change of fields, block size or formulas raises it and misses every cache. What an
accumulator finds has a version of its own."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def record_text(part: SpanRecord | Record) -> str:
    """Return the text of what a task measured."""
    fields: list[object] = ["pair", _plain(part)] if isinstance(part, Record) else _span(part)
    text = _encode(fields)
    return json.dumps(fields) if b"null" in text else text.decode()  # msgspec's word for NaN and infinities too


def _span(part: SpanRecord) -> list[object]:
    nodes = [(level, position, _plain(record)) for level, position, record in part.nodes]
    return ["span", part.first_block, part.n_blocks, nodes]


def _plain(record: Any) -> object:
    """Return a record with its accumulators as names and texts."""
    found = record.accumulators
    return (*record[:-1], [(each.name, each.to_text()) for each in found]) if found else record


def record_of(text: str) -> SpanRecord | Record:
    """Return what a text was made of.

    Raises:
        ValueError: if the text is no such record.
    """
    try:
        kind, *fields = _loaded(text)
        if kind == "pair":
            return _record(fields[0])
        if kind != "span":
            raise ValueError(f"a record of kind `{kind}`")
        first_block, n_blocks, nodes = fields
        subtrees = tuple(Node(int(level), int(place), _record(record)) for level, place, record in nodes)
        return SpanRecord(int(first_block), int(n_blocks), subtrees)
    except (TypeError, LookupError, json.JSONDecodeError) as error:
        raise ValueError(f"not a measured record: {error}") from error


def _loaded(text: str) -> Any:
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def _record(fields: list[Any]) -> Record:
    numel, target, golden, errors, accumulators = fields
    return Record(
        int(numel),
        Side._make(target),
        None if golden is None else Side._make(golden),
        None if errors is None else Errors._make(errors),
        tuple(ACCUMULATORS[name].from_text(text) for name, text in accumulators),
    )
