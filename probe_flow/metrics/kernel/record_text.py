"""Records as text, for caches: JSON lists in field order, from which exactly the same record is made again.

Python writes the shortest text that reads back as the same float, and integers of any size, so nothing is rounded.
"""

from __future__ import annotations

import json
from typing import Any

from probe_flow.metrics.accumulators.registry import ACCUMULATORS
from probe_flow.metrics.sums.record import Accumulator, Errors, Record, Side, SpanRecord
from probe_flow.metrics.sums.tree import Node

LAYOUT = 3
"""Version of the kernel's records; a change of fields, block size or formulas raises it and misses every cache. What an
accumulator finds has a version of its own."""


def record_text(part: SpanRecord | Record) -> str:
    """Return the text of what a task measured."""
    if isinstance(part, SpanRecord):
        return json.dumps(["span", part.first_block, part.n_blocks, part.nodes], default=_named)
    return json.dumps(["pair", part], default=_named)


def _named(found: Accumulator) -> tuple[str, str]:
    return found.name, found.to_text()


def record_of(text: str) -> SpanRecord | Record:
    """Return what a text was made of.

    Raises:
        ValueError: if the text is no such record.
    """
    try:
        kind, *fields = json.loads(text)
        if kind == "pair":
            return _record(fields[0])
        if kind != "span":
            raise ValueError(f"a record of kind `{kind}`")
        first_block, n_blocks, nodes = fields
        subtrees = tuple(Node(int(level), int(place), _record(record)) for level, place, record in nodes)
        return SpanRecord(int(first_block), int(n_blocks), subtrees)
    except (TypeError, LookupError, json.JSONDecodeError) as error:
        raise ValueError(f"not a measured record: {error}") from error


def _record(fields: list[Any]) -> Record:
    numel, target, golden, errors, accumulators = fields
    return Record(
        int(numel),
        Side._make(target),
        None if golden is None else Side._make(golden),
        None if errors is None else Errors._make(errors),
        tuple(ACCUMULATORS[name].from_text(text) for name, text in accumulators),
    )
