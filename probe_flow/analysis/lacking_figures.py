"""Statistics that one side lacks of a tensor while it has them of others like it: its dump is damaged, or was cut.

What a collector never records of a kind of tensor (a norm of integers, a mean of float64) is no gap: frameworks differ
in that. Single elements may have more figures than larger tensors of their type, never less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from probe_flow.records import Mode, Statistics, TensorKind, TensorRef
from probe_flow.records.figures import AT_ONCE, FEW
from probe_flow.records.row import Row

_WORDS = {"min": "minimum", "max": "maximum", "mean": "mean", "l2norm": "norm"}
_SIDES = "target", "golden"
_NOTHING = Statistics()

_Class: TypeAlias = tuple[str, str, bool]
"""Tensors of which a dump has the same figures: side, dtype, and whether they are single elements."""


class _Gap(Struct, frozen=True):
    """What one side lacks of a tensor and the other has."""

    side: str
    tensor: TensorRef
    figures: frozenset[str]


def lacking_figures(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return for each side that lacks figures of some tensors a sentence that says which."""
    gaps = [gap for row in _without_all(rows) for gap in _gaps(row)]
    if not gaps:
        return ()
    known = _known(rows, {(gap.side, gap.tensor.dtype) for gap in gaps})
    causes = []
    for side in _SIDES:
        found = [(gap.tensor, lost) for gap in gaps if gap.side == side and (lost := gap.figures & known[_class(gap)])]
        if found:
            tensor, lost = found[0]
            *words, word = [word for name, word in _WORDS.items() if name in lost]
            which = f"{', '.join(words)} and {word}" if words else word
            more = f" (and of {len(found) - 1} more)" if len(found) > 1 else ""
            causes.append(
                f"the {side} recorded no {which} of `{tensor.id}`{more}, though it did of other {tensor.dtype} tensors "
                f"and the other side has it: the dump of the {side} is damaged, dump it again"
            )
    return tuple(causes)


def _without_all(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows of statistics of which some may lack; of many most are passed over at once."""
    if len(rows) < FEW:
        yield from rows
        return
    import numpy as np

    from probe_flow.records.figure_columns import RecordedColumns

    columns, width = RecordedColumns(), len(_WORDS)
    for begin in range(0, len(rows), AT_ONCE):
        some = rows[begin : begin + AT_ONCE]
        sides = [columns.of([getattr(row.pair, side) for row in some]) for side in _SIDES]
        masks = [(cells.are_floats | cells.are_whole)[:, :width] for cells in sides]
        yield from (some[place] for place in np.flatnonzero(~np.all(masks, axis=(0, 2))).tolist())


def _gaps(row: Row) -> Iterator[_Gap]:
    target, golden = row.pair.target, row.pair.golden
    if target is None or golden is None or not target.numel or row.pair.rule.is_self:
        return
    if row.measurement is not None and row.measurement.mode is not Mode.STATISTICS:
        return
    sides = target, golden
    figures = [_figures(tensor) for tensor in sides]
    for which, (side, tensor) in enumerate(zip(_SIDES, sides, strict=True)):
        lost = figures[1 - which] - figures[which]
        if lost and tensor.kind is TensorKind.STATISTICS:
            yield _Gap(side, tensor, lost)


def _figures(tensor: TensorRef) -> frozenset[str]:
    """Return which figures are known of a tensor; of elements all are."""
    if tensor.kind is TensorKind.TENSOR:
        return frozenset(_WORDS)
    if tensor.kind is not TensorKind.STATISTICS:
        return frozenset()
    recorded = tensor.recorded or _NOTHING
    return frozenset(name for name in _WORDS if getattr(recorded, name) is not None)


def _class(gap: _Gap) -> _Class:
    return gap.side, gap.tensor.dtype, gap.tensor.numel == 1


def _known(rows: Sequence[Row], wanted: set[tuple[str, str]]) -> dict[_Class, frozenset[str]]:
    """Return which figures the dump of a side has of any tensor of a type."""
    known: defaultdict[_Class, frozenset[str]] = defaultdict(frozenset)
    for row in rows:
        for side, tensor in zip(_SIDES, (row.pair.target, row.pair.golden), strict=True):
            if tensor is not None and (side, tensor.dtype) in wanted and tensor.kind is TensorKind.STATISTICS:
                known[side, tensor.dtype, tensor.numel == 1] |= _figures(tensor)
    for side, dtype in wanted:
        known[side, dtype, True] |= known[side, dtype, False]
    return known
