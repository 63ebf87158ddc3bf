"""Of a search nothing stays but what it found: it holds more than the rows that it looks at."""

from __future__ import annotations

import gc

from comparison_rows import IN, edge, pairs_of, row

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.model.budget import Allowances
from probe_flow.analysis.search.origin import diagnose

TYPES = {"read": "linear", "wrong": "relu", "after": "linear"}
EDGES = [edge("nowhere", "read", 9), edge("read", "wrong"), edge("wrong", "after")]


def test_nothing_of_a_search_waits_for_the_collector_of_garbage():
    rows = [row("read", IN, relative=0.0), row("read", relative=0.0), row("wrong", IN, relative=0.0),
            row("wrong", relative=0.5), row("after", IN, relative=0.5), row("after", relative=0.5)]  # fmt: skip
    pairs = pairs_of(rows, TYPES, EDGES)
    diagnose(rows, pairs)  # so that what is made once is made
    gc.collect()
    gc.disable()
    try:
        found = diagnose(rows, pairs)
        left = [each for each in gc.get_objects() if isinstance(each, Allowances | Calls)]
    finally:
        gc.enable()
    assert [suspect.row for suspect in found.suspects] == [3]
    assert left == []
