"""How far a node of the target is off, in [0, 1]: the number of msprobe 1.2.1, where NaN is not the best of all.

Statistics: the largest relative error of maximum, minimum, mean and norm of all outputs, at most 1; a golden statistic
of 0 and what is no number do not count. Tensors: by how much the share of elements within 0.1 % is smaller in the
outputs than in the inputs. Checksums: 1 where any differs. Where a dump recorded nothing of any output there is no
score, for 0 would say that all is well. A collection of calls has the worst score of its calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import numpy as np
from msgspec import Struct

from probe_flow.records import Measurement, Row, SideSummary, TensorRef
from probe_flow.records.figure_columns import RecordedColumns
from probe_flow.records.model_graph import GraphKind, GraphMode, ModelGraph

Rows = Callable[[int], Sequence[Row | None]]

_BATCH = 1024
"""Nodes whose outputs are looked at together."""

_FOUR = 4
"""Minimum, maximum, mean and norm come first of what is recorded."""

_NOTHING = (None,) * _FOUR
_WITHIN = ("err_ratio_1e3_eps", "err_ratio_1e3")
NONFINITE = "NaN or infinities are on one side only"
UNKNOWN = "nothing is known of its outputs on both sides"


def scores(graph: ModelGraph, rows: Rows, mode: GraphMode) -> tuple[dict[int, float], dict[int, str]]:
    """Return the score of each node that has rows, and why where that is no number of the rows.

    Args:
        graph: of the target.
        rows: returns for each tensor of a node its row, None where nothing was compared.
        mode: what was compared.
    """
    found: dict[int, float] = {}
    reasons: dict[int, str] = {}
    if mode is GraphMode.STRUCTURE:
        return found, reasons
    recorded = RecordedColumns()
    for begin in range(0, len(graph.nodes), _BATCH):
        numbers = range(begin, min(begin + _BATCH, len(graph.nodes)))
        held = {number: [row for row in rows(number) if row is not None] for number in numbers}
        outputs = {number: _outputs(graph, some) for number, some in held.items() if some}
        judged = iter(_judged([row for some in outputs.values() for row in some], mode, recorded))
        for number, some in outputs.items():
            mine = [*islice(judged, len(some))]
            if mine and not any(output.is_known for output in mine):
                reasons[number] = UNKNOWN
            elif mode is not GraphMode.MD5 and any(output.has_nonfinite_mismatch for output in mine):
                found[number], reasons[number] = 1.0, NONFINITE
            elif mode is GraphMode.STATISTICS:
                found[number] = max((output.error for output in mine), default=0.0)
            elif mode is GraphMode.TENSOR:
                found[number] = _by_shares(graph, held[number])
            else:
                found[number] = _by_checksums(held[number])
    return found, reasons


def score_collections(
    graph: ModelGraph, found: dict[int, float], reasons: dict[int, str], begins: Callable[[int], bool]
) -> None:
    """Add the scores of collections of calls, which are those of their worst call, or why they have none.

    Where the run says that the error begins in a call without counterpart, nothing is worse. Where such a call, or one
    of which nothing is known, is among others that are right, there is no score.

    Args:
        graph: of the target.
        found: scores of calls, to which those of collections are added.
        reasons: why nodes have no score or partner, to which those of collections are added.
        begins: whether the run names a node as the origin of an error.
    """
    for number, node in enumerate(graph.nodes):
        if node.kind is not GraphKind.COLLECTION:
            continue
        unknown = [child for child in graph.children[number] if child not in found]
        worst = max((found[child] for child in graph.children[number] if child in found), default=None)
        begun = next((child for child in unknown if begins(child)), None)
        missing = next((child for child in unknown if child in reasons), None)
        if begun is not None:
            found[number], reasons[number] = 1.0, f"the error begins in `{graph.nodes[begun].name}`, which has no score"
        elif worst or (worst is not None and missing is None):
            found[number] = worst
        else:
            reasons[number] = UNKNOWN if missing is None else f"`{graph.nodes[missing].name}`: {reasons[missing]}"


def _outputs(graph: ModelGraph, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.pair.target is not None and graph.is_output(row.pair.target)]


class _Output(Struct, gc=False):
    """What is said of an output: whether both sides have something to compare, and how far it is off by statistics."""

    is_known: bool
    has_nonfinite_mismatch: bool
    error: float


def _judged(rows: Sequence[Row], mode: GraphMode, recorded: RecordedColumns) -> list[_Output]:
    """Return what is said of outputs; those of which both sides recorded four floats are looked at together."""
    targets, goldens = (
        recorded.of([side if side is not None and side.has_numbers else None for side in sides])
        for sides in ([row.pair.target for row in rows], [row.pair.golden for row in rows])
    )
    target, golden = targets.values[:, :_FOUR], goldens.values[:, :_FOUR]
    with np.errstate(all="ignore"):
        errors = np.abs((target - golden) / golden)
    errors[(golden == 0) | np.isnan(errors)] = 0.0
    worst: list[float] = np.minimum(errors.max(axis=1, initial=0.0), 1.0).tolist()
    mismatches: list[bool] = np.logical_or.reduce(np.isfinite(target) != np.isfinite(golden), axis=1).tolist()
    both = (targets.are_floats & goldens.are_floats)[:, :_FOUR]
    are_floats: list[bool] = np.logical_and.reduce(both, axis=1).tolist()
    found = []
    for row, has_floats, mismatch, error in zip(rows, are_floats, mismatches, worst, strict=True):
        is_known = has_floats and mode is GraphMode.STATISTICS
        if not is_known:
            figures = _sides_of(row)
            is_known = _is_known(row, *figures, mode)
            if not has_floats:
                error, mismatch = relative_error(*figures), _have_nonfinite_mismatch(*figures)
        measured = row.measurement
        mismatch = mismatch or bool(measured is not None and measured.nonfinite_mismatch)
        found.append(_Output(is_known, mismatch, error))
    return found


def _is_known(row: Row, target: Sequence[object], golden: Sequence[object], mode: GraphMode) -> bool:
    """Return True if both sides have something by which an output can be compared."""
    both = row.pair.target, row.pair.golden
    if any(side is None or not side.has_numbers for side in both):  # values of arguments are compared as they are
        return None not in both
    if mode is GraphMode.TENSOR:
        return row.measurement is not None
    if mode is GraphMode.MD5:
        return all(side is not None and side.checksum is not None for side in both)
    return any(one is not None and other is not None for one, other in zip(target, golden, strict=True))


def _by_shares(graph: ModelGraph, rows: Sequence[Row]) -> float:
    sides: tuple[list[Row], list[Row]] = [], []
    for row in rows:
        if row.pair.target is not None:
            sides[graph.is_output(row.pair.target)].append(row)
    before, after = map(_least_share, sides)
    return 0.0 if before is None or after is None else min(max(before - after, 0.0), 1.0)


def _by_checksums(rows: Sequence[Row]) -> float:
    return float(any(not is_same(row.pair.target, row.pair.golden) for row in rows))


def is_same(target: TensorRef | None, golden: TensorRef | None) -> bool:
    """Return True if the checksums of two tensors are equal, or the values of what is no tensor."""
    if target is None or golden is None:
        return False
    if target.checksum is not None or golden.checksum is not None:
        return target.checksum == golden.checksum
    return target.kind is golden.kind and target.value == golden.value


def _sides_of(row: Row) -> tuple[Sequence[object], Sequence[object]]:
    """Return maximum, minimum, mean and norm of both sides of a row, as recorded, else as measured."""
    measured, pair = row.measurement, row.pair
    target, golden = _recorded(pair.target), _recorded(pair.golden)
    if target is None:
        target = _four(measured.target if measured is not None else None)
    return target, _four(measured.golden if measured is not None else None) if golden is None else golden


def _recorded(tensor: TensorRef | None) -> Sequence[object] | None:
    """Return what is known of a tensor without a measurement; None where that would have to say it."""
    if tensor is None:
        return _NOTHING
    if not tensor.has_numbers:
        return (tensor.value,) * 4
    found = tensor.recorded
    return None if found is None else (found.max, found.min, found.mean, found.l2norm)


def _four(measured: SideSummary | None) -> Sequence[object]:
    if measured is None:
        return _NOTHING
    found = measured.statistics
    return found.max, found.min, found.mean, found.l2norm


def relative_error(target: Sequence[object], golden: Sequence[object]) -> float:
    """Return the largest relative error of pairs of numbers, as a fraction of at most 1.

    >>> relative_error([2.0, 1.0, None], [4.0, 0.0, 1.0])
    0.5
    """
    worst = 0.0
    for one, other in zip(target, golden, strict=True):
        if isinstance(one, bool) or isinstance(other, bool) or not other:
            continue
        if isinstance(one, int | float) and isinstance(other, int | float):
            try:
                error = abs((one - other) / other)
            except OverflowError:  # integers beyond float64
                error = 1.0
            if error > worst:
                worst = error
    return min(worst, 1.0)


def _least_share(rows: Iterable[Row]) -> float | None:
    """Return the least share of elements within 0.1 % of rows that have one; 1 at most."""
    found = []
    for row in rows:
        share = share_within(row.measurement, row.pair.target)
        if share is not None:
            found.append(share)
    return min((*found, 1.0)) if found else None


def share_within(measured: Measurement | None, tensor: TensorRef | None) -> float | None:
    """Return the share of elements within 0.1 % of the golden; None for single numbers and what was not measured."""
    if measured is None or tensor is None or not tensor.shape:
        return None
    share = measured.first_metric(_WITHIN)
    return None if share is None or math.isnan(share) else float(share)


def _have_nonfinite_mismatch(target: Sequence[object], golden: Sequence[object]) -> bool:
    """Return True if a figure is NaN or infinite on one side only."""
    return any(
        isinstance(one, float) and isinstance(other, float) and math.isfinite(one) != math.isfinite(other)
        for one, other in zip(target, golden, strict=True)
    )
