"""comparison.jsonl, nodes.jsonl, details.jsonl: pairs, nodes and closer looks as lines, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from probe_flow.files.atomic import atomic_text
from probe_flow.record.json_values import json_line, json_number, unsplit
from probe_flow.record.jsonl_nodes import NodeLines
from probe_flow.record.jsonl_rows import RowLines
from probe_flow.records import Comparison, ErrorMap

CHUNK = 2000
"""Rows made into text at once; a few megabytes."""

_T = TypeVar("_T")


def write_comparison_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record a pair in execution order; schema in ``schemas/comparison.schema.json``.

    ``null`` = not computable or not known; NaN and infinities are ``"nan"``, ``"inf"``, ``"-inf"``. File names are
    relative to their dump. The same comparison gives the same bytes.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    lines = RowLines(comparison)
    with atomic_text(path) as file:
        file.writelines(unsplit(lines.text(rows)) for rows in _chunks(comparison.rows))


def write_nodes_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record a node: the target's in execution order, then the golden's, then the reference's.

    The schema is ``schemas/nodes.schema.json``. An edge stands once, with the node that consumes it.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    pairs = comparison.pairs
    with atomic_text(path) as file:
        for side, catalog in (("target", pairs.target), ("golden", pairs.golden), ("reference", pairs.reference)):
            if catalog is not None:
                lines = NodeLines(side, catalog)
                file.writelines(unsplit(lines.text(nodes)) for nodes in _chunks(catalog.nodes.values()))


def write_details_jsonl(comparison: Comparison, path: Path) -> None:
    """Write one record for each row that was looked at more closely; the schema is ``schemas/details.schema.json``.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        for order, detail in sorted(comparison.details.items()):
            record = {
                "order": order,
                "start": detail.start,
                "target": [json_number(value) for value in detail.target],
                "golden": [json_number(value) for value in detail.golden],
                "edges": [json_number(value) for value in detail.edges],
                "counts": list(detail.counts),
                "equal": detail.equal,
                "maps": [_map(each) for each in detail.maps],
            }
            file.write(json_line(record))


def _map(found: ErrorMap) -> dict[str, Any]:
    return {
        "shape": found.shape,
        "down": found.down,
        "across": found.across,
        "cell": found.cell,
        "errors": [json_number(error) for error in found.errors],
        "alike": found.alike,
        "mismatch": found.mismatch,
    }


def _chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
