"""A line of details.jsonl: a row looked at more closely."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from probe_flow.record.types.values import Count, Figure, Record


class MapRecord(Record, frozen=True):
    """Where in a tensor the errors are.

    Args:
        shape: Of the tensor, as its indices count.
        down: Axes that are folded into rows, in C order.
        across: Axes that are folded into columns.
        cell: Rows and columns that a cell holds; the last ones may hold fewer.
        errors: Largest absolute error of each cell, row by row, in 4 significant digits; null where no element is \
finite on both sides or none was compared.
        alike: Cells with NaN or infinities that both sides have.
        mismatch: Cells where the sides disagree about NaN or infinities.
    """

    shape: tuple[Count, ...]
    down: tuple[Count, ...]
    across: tuple[Count, ...]
    cell: Annotated[tuple[Count, ...], Meta(min_length=2, max_length=2)]
    errors: tuple[Figure, ...]
    alike: tuple[Count, ...]
    mismatch: tuple[Count, ...]


class DetailRecord(Record, frozen=True):
    """One line of details.jsonl: a row looked at more closely.

    Args:
        order: `order` of the row in comparison.jsonl.
        start: Flat index of the first value of `target` and `golden`.
        target: Values around the largest error.
        golden: Values at the same places.
        edges: Bounds of the classes of absolute error, rising; the first is 0.
        counts: Elements in each class.
        equal: Elements without an error, in no class.
        maps: Where in the tensor the errors are, for the rows that are asked about first.
    """

    order: Count
    start: Count
    target: tuple[Figure, ...]
    golden: tuple[Figure, ...]
    edges: tuple[Figure, ...]
    counts: tuple[Count, ...]
    equal: Count
    maps: tuple[MapRecord, ...]
