"""Golden arrays that hold what a later layer computed in place.

A Caffe layer whose top is its bottom overwrites what it read. Blobs that are saved when the whole network has run then
give the layers before it the array of the last one in place: four layers of a convolution, a norm, its scale and a
rectifier have one array. It is the golden of the last layer alone, so that every other one seems wrong. What it looks
like: golden arrays of several layers, one reading the other, are equal to the element, the target's are not, and the
last one agrees.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.offline.origins import KEEPING_TYPES
from probe_flow.matching.offline.reasons import OfflineReason
from probe_flow.records import NodeKey, Pairs, Statistics, TensorRef
from probe_flow.records.row import Row

_CODE = "PF5133"
_OFF = 0.05
"""By how much a tensor is off that another layer computed, at least."""

_NEARER = 8.0
"""How many times as near the layer is that the array belongs to."""

_SHOWN = 3


def leave_overwritten(rows: list[Row], pairs: Pairs) -> tuple[Diagnostic, ...]:
    """Take golden arrays that a layer in place overwrote out of the comparison; return what the run says of them.

    Once one array is seen to be of a later layer, all that are equal to those of layers behind them are taken for that,
    unless those layers change nothing on the device either, as a reshape and a permutation do.
    """
    alike = _alike(rows)
    if not alike:
        return ()
    readers: dict[NodeKey, list[NodeKey]] = defaultdict(list)
    for edge in pairs.target.edges:
        readers[edge.producer].append(edge.consumer)
    found: dict[int, tuple[TensorRef, TensorRef]] = {}
    for is_seen in (False, True):
        for members in alike:
            for row in members:
                for other in _behind(row, members, readers, pairs) if _off(row) > _OFF else ():
                    if _off(row) > _NEARER * _off(other) or (is_seen and _ends(row) != _ends(other)):
                        found.setdefault(id(row.pair.golden), (_golden(row), _golden(other)))
        if not found:
            return ()
    for number, row in enumerate(rows):
        pair = found.get(id(row.pair.golden))
        if pair is not None and row.measurement is not None and _off(row) > _OFF:
            rows[number] = _without_golden(row, *pair)
    problem = Diagnostic(
        _CODE,
        f"{len(found)} golden arrays are those of later layers, which computed in place: "
        + ", ".join(f"`{mine.node.name}` has that of `{other.node.name}`" for mine, other in _some(found)),
        severity=Severity.WARNING,
        help="give each layer a top of its own before the network runs, as `dump.caffe` does",
        path=pairs.golden.root,
    )
    return (problem,)


def _alike(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of outputs whose golden arrays have the same figures, though they are of several layers."""
    found: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        golden = row.measurement.golden_statistics if row.measurement is not None and row.is_produced else None
        if (
            golden is not None
            and row.pair.golden is not None
            and golden.min != golden.max
            and _span(golden) is not None
        ):
            found[(row.node.execution, row.pair.golden.numel, golden)].append(row)
    return [members for members in found.values() if len({id(row.pair.golden) for row in members}) > 1]


def _behind(row: Row, members: Sequence[Row], readers: dict[NodeKey, list[NodeKey]], pairs: Pairs) -> Iterator[Row]:
    """Yield the members that read, one behind the other, what a member gives; of a line the last one first."""
    nodes = {each.node: each for each in members}
    reached: dict[NodeKey, None] = {}
    left = [row.node]
    while left:
        for reader in readers.get(left.pop(), ()):
            node = pairs.target.nodes.get(reader)
            is_way = reader in nodes or (node is not None and node.op_type in KEEPING_TYPES)
            if is_way and reader not in reached:
                reached[reader] = None
                left.append(reader)
    for key in reversed(reached):
        if key in nodes and nodes[key].pair.golden is not row.pair.golden:
            yield nodes[key]


def _off(row: Row) -> float:
    """Return by what part of its size a target is off; of statistics by what part of the golden's span its ends are."""
    measurement = row.measurement
    distance = None if measurement is None else measurement.metric("relative_euclidean_distance")
    if isinstance(distance, float) and math.isfinite(distance):
        return distance
    target = None if measurement is None else measurement.target_statistics
    golden = None if measurement is None else measurement.golden_statistics
    if target is None or golden is None or _span(target) is None or (span := _span(golden)) is None:
        return 0.0
    return (
        max(abs(float(target.min or 0) - float(golden.min or 0)), abs(float(target.max or 0) - float(golden.max or 0)))
        / span
    )


def _ends(row: Row) -> tuple[object, object]:
    figures = None if row.measurement is None else row.measurement.target_statistics
    return (None, None) if figures is None else (figures.min, figures.max)


def _span(figures: Statistics) -> float | None:
    if figures.min is None or figures.max is None or figures.nan or figures.inf:
        return None
    return float(figures.max) - float(figures.min)


def _golden(row: Row) -> TensorRef:
    assert row.pair.golden is not None
    return row.pair.golden


def _some(found: dict[int, tuple[TensorRef, TensorRef]]) -> list[tuple[TensorRef, TensorRef]]:
    return list(found.values())[:_SHOWN]


def _without_golden(row: Row, golden: TensorRef, other: TensorRef) -> Row:
    text = f"the golden array of `{golden.node.name}` is that of `{other.node.name}`, which computed in place"
    return Row(replace(row.pair, golden=None, reason=OfflineReason.OVERWRITTEN.missing(text)))
