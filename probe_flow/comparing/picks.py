"""Whether indices that differ from the golden's name what they must of the target's own input.

An index has no distance: a wrong one says by itself neither that the operator is wrong nor that it is right, since near
ties fall either way. But what the operator read lies beside it, and tells which index it must give: that of one of the
largest values (argmax, max, top k), or of the value that stands beside it in the result (sort, median, k-th value).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.elements.blocks import AT_ONCE, open_tensor
from probe_flow.errors import FormatError, NotComparableError
from probe_flow.records import Mode, Node, NodeKey, Pairs, SlotRole, TensorKind, TensorRef
from probe_flow.records.row import Pick, Row, Rows
from probe_flow.work import Context

SLAB_BYTES = 64 * 2**20
"""Largest part of an input, as float64, that is read at once: as many decisions as fit. Where the values of one take
more, it is not checked."""

_SIGNS = {"max": (1.0,), "min": (-1.0,), "either": (1.0, -1.0)}
"""By what values are multiplied, of which the largest are looked for."""

_PICKS = re.compile(
    r"(?i)\b_?((arg_?)?(?P<way>max|min)(WithValue)?|top_?k|(?P<values>sort|(nan)?median|kthvalue|cum(max|min)))(V\d+)?D?\b"
)
"""Types that give indices; `max` and `min` along an axis, and all from `sort` on, give them beside the values."""


def find_picks(rows: Rows, pairs: Pairs, context: Context) -> None:
    """Give the rows of indices that differ `Row.pick`, where the target's input is at hand."""
    around: dict[object, list[Row]] = {}
    wanted = [number for number, row in enumerate(rows) if _differs(row) and _way(pairs.target.nodes.get(row.node))]
    nodes = {rows[number].node for number in wanted}
    for row in rows if nodes else ():
        if row.node in nodes and row.measurement is not None:
            around.setdefault(row.node, []).append(row)
    fed = _fed({node for node in nodes if all(row.is_produced for row in around[node])}, rows, pairs)
    for number in wanted:
        row = rows[number]
        tensors = [(each.is_produced, each.pair.target) for each in around.get(row.node, ())]
        tensors += [(False, tensor) for tensor in fed.get(row.node, ())]
        pick = _pick(row, tensors, _way(pairs.target.nodes.get(row.node)), context.settings.io)
        if pick is not None:
            rows[number] = row.with_aside(pick=pick)


def _differs(row: Row) -> bool:
    measurement, target = row.measurement, row.pair.target
    return (
        measurement is not None
        and target is not None
        and measurement.mode is Mode.TENSOR
        and target.slot.role is SlotRole.OUTPUT
        and target.dtype.lstrip("u").startswith("int")
        and bool(measurement.metrics.get("max_abs_err"))
    )


def _way(node: Node | None) -> str:
    """Return what a node looks for: ``max``, ``min``, ``either`` (top k of unknown order), ``values``; or nothing."""
    if node is None or len(node.originals) > 1:
        return ""
    match = _PICKS.search(node.op_type)
    return ("values" if match["values"] else match["way"] or "either").lower() if match else ""


def _fed(nodes: Collection[NodeKey], rows: Rows, pairs: Pairs) -> Mapping[NodeKey, Sequence[TensorRef]]:
    """Return what the graph feeds to nodes that left no inputs (``dump_mode`` output): the outputs of others."""
    if not nodes:
        return {}
    readers: dict[object, list[NodeKey]] = {}
    for edge in pairs.target.edges:
        if edge.consumer in nodes:
            readers.setdefault((edge.producer, edge.output), []).append(edge.consumer)
    found: dict[NodeKey, list[TensorRef]] = {}
    for row in rows:
        target = row.pair.target
        if target is not None and row.is_produced:
            for reader in readers.get((row.node, target.slot.path[0]), ()):
                found.setdefault(reader, []).append(target)
    return found


def _pick(row: Row, around: Sequence[tuple[bool, TensorRef | None]], way: str, io: str) -> Pick | None:
    """Judge one row by the tensors of its node: (whether it gave it, tensor)."""
    target = row.pair.target
    assert target is not None
    floats = [
        (is_produced, tensor)
        for is_produced, tensor in around
        if tensor is not None and tensor.kind is TensorKind.TENSOR and "float" in tensor.dtype
    ]
    read = [tensor for is_produced, tensor in floats if not is_produced]
    given = [tensor for is_produced, tensor in floats if is_produced and _shape(tensor) == _shape(target)]
    if not read or not target.numel or (way == "values" and not given):
        return None
    source = max(read, key=lambda tensor: tensor.numel or 0)
    due = given[0] if way == "values" else None
    try:
        least, most = _ends(target, io)
        gaps = [
            _gap(source, target, due, axis, way, io) if least >= 0 and most < axis[1] else math.inf
            for axis in _axes(_shape(source), _shape(target))
        ]
    except (FormatError, NotComparableError):  # it was readable a moment ago: the dump is changing
        return None
    known = [gap for gap in gaps if gap is not None]
    return Pick(min(known), source.slot) if known and len(known) == len(gaps) else None


def _shape(tensor: TensorRef) -> tuple[int, ...]:
    return tuple(tensor.logical_shape or tensor.shape or ())


def _axes(source: Sequence[int], indices: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield how the indices may have been picked: (elements before the axis, its length, elements behind it, picks)."""
    count, given = math.prod(source), list(indices)
    for axis, length in enumerate(source):
        rest = [*source[:axis], *source[axis + 1 :]]
        picks = given[axis] if len(given) == len(source) else 1
        if given in (rest, [*source[:axis], picks, *source[axis + 1 :]]) and 0 < picks <= length:
            yield math.prod(source[:axis]), length, math.prod(source[axis + 1 :]), picks
    if math.prod(given) == 1 and count > 1:
        yield 1, count, 1, 1


def _ends(indices: TensorRef, io: str) -> tuple[int, int]:
    """Return the smallest and the largest index."""
    ends: list[int] = []
    with open_tensor(indices, io=io) as picked:
        for start in range(0, picked.numel, AT_ONCE):
            block = picked.read(start, min(start + AT_ONCE, picked.numel))
            ends += int(block.min()), int(block.max())
    return min(ends), max(ends)


def _gap(
    source: TensorRef, indices: TensorRef, due: TensorRef | None, split: tuple[int, int, int, int], way: str, io: str
) -> float | None:
    """Return by how much picked values are behind those that were due, at most.

    Due are the values of ``due``, or else the largest or smallest ones. None where the part that belongs to one
    decision is too large to be read at once, or holds NaN.
    """
    _, length, inner, _ = split
    if length * inner * 8 > SLAB_BYTES:
        return None
    worst: list[list[float]] = []
    for x, at, *values in _decisions(source, [indices] if due is None else [indices, due], split, io):
        if np.isnan(x).any():
            return None
        if values:
            with np.errstate(invalid="ignore"):
                worst.append([_largest(np.abs(np.take_along_axis(x, at, axis=1) - values[0]))])
        else:
            worst.append([_behind(sign * x, at) for sign in _SIGNS[way]])
    return float(np.max(worst, axis=0).min())


def _decisions(
    source: TensorRef, given: Sequence[TensorRef], split: tuple[int, int, int, int], io: str
) -> Iterator[list[NDArray[Any]]]:
    """Yield what decisions were taken of, float64 ``(some, length, inner)``, and the same of what they gave.

    Indices come first of that, as int64 ``(some, picks, inner)``, then values as float64.
    """
    outer, length, inner, picks = split
    at_once = max(1, SLAB_BYTES // max(length * inner * 8, 1))
    with ExitStack() as stack:
        opened = [stack.enter_context(open_tensor(each, io=io)) for each in (source, *given)]
        for first in range(0, outer, at_once):
            last = min(first + at_once, outer)
            yield [
                tensor.read(first * many * inner, last * many * inner).astype(kind).reshape(-1, many, inner)
                for tensor, many, kind in zip(
                    opened, (length, picks, picks), (np.float64, np.int64, np.float64), strict=False
                )
            ]


def _behind(x: NDArray[Any], at: NDArray[Any]) -> float:
    """Return the largest distance of the least value picked from the least that is among the largest.

    Args:
        x: float64, shape ``(outer, length, inner)``, without NaN.
        at: indices along the second axis, shape ``(outer, picks, inner)``.
    """
    rank = x.shape[1] - at.shape[1]
    due = np.partition(x, rank, axis=1)[:, rank]
    least = np.take_along_axis(x, at, axis=1).min(axis=1)
    with np.errstate(invalid="ignore"):
        return _largest(due - least)


def _largest(gaps: NDArray[Any]) -> float:
    """Return the largest distance; infinities on both sides have none."""
    return float(np.nan_to_num(gaps, nan=0.0, posinf=math.inf).max(initial=0.0))
