"""Records as text, for caches: JSON lists in field order, from which exactly the same record is made again.

Python writes the shortest text that reads back as the same float, and integers of any size, so nothing is rounded.
"""

from __future__ import annotations

import json
from typing import Any

from probe_flow.metrics.sums.record import Errors, Masked, MinMax, Record, Side, Significant, Softmax, SpanRecord
from probe_flow.metrics.sums.tree import Node

LAYOUT = 2
"""Version of the kernel's records; a change of fields, block size or formulas raises it and misses every cache."""


def record_text(part: SpanRecord | Record) -> str:
    """Return the text of what a task measured."""
    if isinstance(part, SpanRecord):
        return json.dumps(["span", part.first_block, part.n_blocks, part.nodes])
    return json.dumps(["pair", part])


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
    except (TypeError, IndexError, json.JSONDecodeError) as error:
        raise ValueError(f"not a measured record: {error}") from error


def _record(fields: list[Any]) -> Record:
    numel, target, golden, errors, softmax, minmax = fields
    return Record(
        int(numel),
        _side(target),
        None if golden is None else _side(golden),
        None if errors is None else _errors(errors),
        None if softmax is None else Softmax(*softmax),
        None if minmax is None else MinMax(*minmax),
    )


def _side(fields: list[Any]) -> Side:
    *figures, moments = fields
    return Side._make([*figures, None if moments is None else (moments[0], moments[1])])


def _errors(fields: list[Any]) -> Errors:
    *figures, masked, significant = fields
    return Errors._make(
        [
            *figures,
            None if masked is None else Masked(*masked),
            None if significant is None else Significant(*significant),
        ]
    )
