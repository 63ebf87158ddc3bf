"""Names of the graph texts that TorchAir writes beside a dump: ``dynamo_original_graph_*.txt``."""

from __future__ import annotations

import re

from msgspec import Struct

_GRAPH_FILE = re.compile(r"dynamo_original_graph_(\d+)(?:_rank_(\d+))?(?:_pid_(\d+))?(?:_ts_(\d+))?\.txt")
_TIMESTAMP_DIGITS = 14
"""A graph file's only number is a time stamp, not a graph id, from this many digits on."""


class GraphFileName(Struct, frozen=True):
    """The numbers in the name of a graph text; old names hold a time stamp only."""

    graph: int | None
    rank: int | None
    pid: int | None
    timestamp: int


def graph_file_name(name: str) -> GraphFileName | None:
    """Return the numbers in the name of a ``dynamo_original_graph_*.txt``, None for other files."""
    found = _GRAPH_FILE.fullmatch(name)
    if found is None:
        return None
    first, rank, pid, timestamp = (int(text) if text is not None else None for text in found.groups())
    assert first is not None, "the pattern demands a number"
    if rank is None and timestamp is None and len(found.group(1)) >= _TIMESTAMP_DIGITS:
        return GraphFileName(None, None, None, first)
    return GraphFileName(first, rank, pid, timestamp or 0)
