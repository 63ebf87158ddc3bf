"""Whether each entry of a dump.json comparison differs, how, and whether what it read already did.

An entry is one call of an API or module with all its rows. Without thresholds of the user's own, a value differs where
the analysis of the run says that it diverges, so that both tell one story; rows that the analysis cannot judge, and all
rows when there are own thresholds, are judged by their relative statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from probe_flow.dumps.unjudged_apis import is_undefined
from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.records import (
    Comparison,
    Execution,
    Mode,
    NodeKey,
    Role,
    Row,
    Statistics,
    Status,
    TensorKind,
    TensorRef,
)
from probe_flow.records.differences import DifferenceKind, EntryDifference
from probe_flow.records.row import PRODUCED

METRICS = ("max_diff_rel", "min_diff_rel", "mean_diff_rel", "l2norm_diff_rel")

DEFAULT_THRESHOLD = 0.5
"""Ratio beyond which a relative difference counts; that of the published analysis."""

INPUT_SHARE = 0.1
"""Inputs differ from this share of a threshold on: an error of the inputs must be well below that of the output."""

ROUNDING = 1e-6
"""Differences below this share of the tensor's largest value are rounding, however small a mean is beside them."""

NO_VALUE = frozenset((DifferenceKind.UNMATCHED, DifferenceKind.UNREADABLE))
"""Differences that are none of values."""

_DIVERGING = frozenset((Role.ORIGIN, Role.INHERITED))
_DATA = frozenset((TensorKind.TENSOR, TensorKind.STATISTICS))


class Thresholds(Struct, frozen=True):
    """Bounds of relative differences by metric id; ``is_own`` when the user gave them."""

    limits: Mapping[str, float]
    is_own: bool = False

    @classmethod
    def of(cls, given: Mapping[str, float] | None) -> Thresholds:
        """Return the default thresholds, replaced where others are given."""
        return cls(dict.fromkeys(METRICS, DEFAULT_THRESHOLD) | dict(given or {}), is_own=bool(given))


def entries_by_execution(
    comparison: Comparison, thresholds: Thresholds
) -> Mapping[Execution, tuple[EntryDifference, ...]]:
    """Return the entries of every execution of the target, in their order; those of the golden alone come last."""
    partners = {
        row.pair.golden.node.execution: row.pair.target.node.execution
        for row in comparison.rows
        if row.pair.target is not None and row.pair.golden is not None
    }
    rows: dict[Execution, dict[tuple[bool, NodeKey], list[int]]] = {}
    for position, row in enumerate(comparison.rows):
        node = row.pair.shown.node
        is_golden_only = row.pair.target is None
        execution = partners.get(node.execution, node.execution) if is_golden_only else node.execution
        rows.setdefault(execution, {}).setdefault((is_golden_only, node), []).append(position)
    return {
        execution: tuple(
            _entry(node, comparison, positions, thresholds, is_golden_only=is_golden_only)
            for (is_golden_only, node), positions in sorted(entries.items(), key=lambda item: item[0][0])
        )
        for execution, entries in rows.items()
    }


def _entry(
    node: NodeKey, comparison: Comparison, positions: Sequence[int], thresholds: Thresholds, *, is_golden_only: bool
) -> EntryDifference:
    rows = [comparison.rows[position] for position in positions]
    produced = [row for row in rows if row.pair.shown.slot.role in PRODUCED and not is_undefined(row.pair.shown)]
    kinds = [kind for row in produced if (kind := _kind(row, thresholds)) is not None]
    found = next((kind for kind in DifferenceKind if kind in kinds), None)
    return EntryDifference(node, is_golden_only, tuple(positions), found, any(_differ(rows, thresholds)))


def _differ(rows: Sequence[Row], thresholds: Thresholds) -> Iterator[bool]:
    """Yield of each input that holds data whether it differs."""
    tenth = Thresholds({name: limit * INPUT_SHARE for name, limit in thresholds.limits.items()}, thresholds.is_own)
    for row in rows:
        tensor = row.pair.shown
        if tensor.slot.role not in PRODUCED and tensor.kind in _DATA:
            kind = _kind(row, tenth)
            yield kind is not None and kind not in NO_VALUE


def _kind(row: Row, thresholds: Thresholds) -> DifferenceKind | None:
    """Return how a row differs, None where it does not, or where nobody can tell."""
    pair, measured = row.pair, row.measurement
    if pair.target is None or pair.golden is None:
        is_gap = pair.reason is not None and pair.reason.is_gap
        return DifferenceKind.UNMATCHED if is_gap else None
    if row.verdict.status is Status.ERROR:
        return DifferenceKind.UNREADABLE
    if _shapes_differ(pair.target, pair.golden):
        return DifferenceKind.SHAPE
    if measured is None or "unjudged_api" in row.verdict.rule_ids:
        return None
    if measured.nonfinite_mismatch:
        return DifferenceKind.NONFINITE
    if measured.mode is Mode.CHECKSUM:
        return None if measured.metrics.get("checksum_equal") is not False else DifferenceKind.CHECKSUM
    if thresholds.is_own or row.verdict.role is Role.UNKNOWN:
        return DifferenceKind.VALUE if _exceeds(row, thresholds) else None
    return DifferenceKind.VALUE if row.verdict.role in _DIVERGING else None


def _shapes_differ(target: TensorRef, golden: TensorRef) -> bool:
    shapes = [ref.logical_shape if ref.logical_shape is not None else ref.shape for ref in (target, golden)]
    return None not in shapes and shapes[0] != shapes[1] and target.kind in _DATA and golden.kind in _DATA


def _exceeds(row: Row, thresholds: Thresholds) -> bool:
    """Say whether a relative difference of the statistics is beyond its threshold, and more than rounding."""
    target, golden = statistics_of(row)
    if target is None or golden is None:
        return False
    found = compare_statistics(target, golden)
    scale = max((abs(float(value)) for value in (golden.max, golden.min) if value is not None), default=0.0)
    for metric, limit in thresholds.limits.items():
        difference, ratio = found[metric.removesuffix("_rel")], found[metric]
        if difference is None or ratio is None or abs(difference) <= ROUNDING * scale:
            continue
        if ratio == float("inf"):  # a golden value of 0: relative to the largest one there is
            ratio = abs(difference) / scale if scale else ratio
        if ratio > limit:
            return True
    return False


def statistics_of(row: Row) -> tuple[Statistics | None, Statistics | None]:
    """Return the statistics of both sides of a pair: those recorded in the dump, else those measured."""
    measured = row.measurement
    sides = (
        (row.pair.target, measured.target if measured else None),
        (row.pair.golden, measured.golden if measured else None),
    )
    target, golden = (
        tensor.recorded if tensor and tensor.recorded else summary.statistics if summary else None
        for tensor, summary in sides
    )
    return target, golden
