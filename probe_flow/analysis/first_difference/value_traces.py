"""Who wrote what an entry reads, where the dump has no graph: equal values, traced back call by call.

Values are recognised by their checksum, or by shape and statistics together; zeros and values without statistics are
not recognised. The last writer before the reader counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from probe_flow.analysis.first_difference.entry_differences import statistics_of
from probe_flow.records import Comparison, DifferenceKind, EntryDifference
from probe_flow.records.measured import PRODUCED

_Print: TypeAlias = tuple[object, ...]
"""What tells the values of a tensor from others."""


def sources_of(
    entry: EntryDifference, entries: Sequence[EntryDifference], comparison: Comparison
) -> tuple[EntryDifference | None, EntryDifference | None]:
    """Return the calls without counterpart behind the wrong data that an entry reads.

    Args:
        entry: of the target, with inputs that differ.
        entries: all of its execution, in order.
        comparison: has their rows.

    Returns:
        The first of the chain of target calls that wrote what it reads, and the golden call that wrote what its
        counterpart reads; None where there is none.
    """
    before = entries[: next(place for place, each in enumerate(entries) if each is entry)]
    writers = _writers(before, comparison, is_golden=False)
    found, wanted, seen = None, _read(entry, comparison, is_golden=False), {entry.node}
    while wanted:
        writer = next((writers[text] for text in wanted if text in writers), None)
        if writer is None or writer.kind is not DifferenceKind.UNMATCHED or writer.node in seen:
            break
        found = writer
        seen.add(writer.node)
        wanted = _read(writer, comparison, is_golden=False, is_all=True)
    alone = _writers([each for each in entries if each.is_golden_only], comparison, is_golden=True)
    missing = next((alone[text] for text in _read(entry, comparison, is_golden=True) if text in alone), None)
    return found, missing


def _writers(
    entries: Iterable[EntryDifference], comparison: Comparison, *, is_golden: bool
) -> Mapping[_Print, EntryDifference]:
    writers: dict[_Print, EntryDifference] = {}
    for entry in entries:
        for position in entry.rows:
            if comparison.rows[position].pair.shown.slot.role in PRODUCED:
                text = _print(position, comparison, is_golden=is_golden)
                if text is not None:
                    writers[text] = entry
    return writers


def _read(entry: EntryDifference, comparison: Comparison, *, is_golden: bool, is_all: bool = False) -> Sequence[_Print]:
    """Return the values that an entry reads: those that differ from the other side's, or all of them."""
    found = []
    for position in entry.rows:
        if comparison.rows[position].pair.shown.slot.role in PRODUCED:
            continue
        own, other = (_print(position, comparison, is_golden=side) for side in (is_golden, not is_golden))
        if own is not None and (is_all or own != other):
            found.append(own)
    return found


def _print(position: int, comparison: Comparison, *, is_golden: bool) -> _Print | None:
    row = comparison.rows[position]
    tensor = row.pair.golden if is_golden else row.pair.target
    if tensor is None:
        return None
    if tensor.checksum is not None:
        return (tensor.checksum,)
    found = statistics_of(row)[is_golden]
    if found is None or found.max is None or not found.l2norm:
        return None
    return tensor.shape, found.max, found.min, found.mean, found.l2norm
