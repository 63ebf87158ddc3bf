"""Operators that write what they are told to, or leave memory as it is, by their names and types."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from probe_flow.records import Pairs
from probe_flow.records.row import Row

EMPTY = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "empty_with_format", "new_empty", "new_empty_strided")
)
"""Operators that return memory as it is."""

FILLS = EMPTY.union(
    ("full", "full_like", "new_full", "fill", "masked_fill", "maskedfill", "where", "select", "selectv2"),
    ("scalar_tensor", "lift_fresh_copy", "const", "constant", "constantofshape"),
)
"""Operators that write what they are told to, or nothing; the words of their names, without underscores at the ends."""

_NUMBER = re.compile(r"_?\d+$")


@lru_cache(maxsize=4096)
def _words(name: str) -> frozenset[str]:
    """Return the parts of a name of an operator: ``masked_fill`` of ``Tensor.masked_fill_``, ``fill`` of ``Fill_3``."""
    return frozenset(_NUMBER.sub("", part).strip("_") for part in name.lower().split("."))


def is_fill(row: Row, pairs: Pairs, kinds: Collection[str] = FILLS) -> bool:
    """Whether a row belongs to an operator of these, by its name or type."""
    node = pairs.target.nodes.get(row.node)
    words = _words(row.node.name) | _words(node.op_type if node is not None else "")
    return not words.isdisjoint(kinds)
