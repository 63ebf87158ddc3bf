"""Which pairs can be measured, and how a measurement is made of what the workers return."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity
from probe_flow.measure.sides import aligned_sides, figures_to_take, hashed_dtype, is_mixed
from probe_flow.metrics.catalogue.derive import WHOLE, Scope, derive, side_summary
from probe_flow.metrics.catalogue.statistics import COMPARED, compare_statistics
from probe_flow.metrics.kernel.kept_blocks import Blocks
from probe_flow.metrics.sums.record import BLOCK, Record, Side, SpanRecord, fold
from probe_flow.records import (
    Figures,
    Measurement,
    Mode,
    Pair,
    SideSummary,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
)
from probe_flow.records.row import Row


def crc32(values: Blocks, *, as_float32: bool = False) -> str:
    """Return the CRC-32 of a tensor's logical elements, little endian, in C order, as 8 lower-case hex digits.

    The bytes are those of the elements as they are read: in the tensor's own dtype, except for types that numpy lacks
    (8-bit floats and complex32 count as float32, int4 and uint1 as bytes). No elements give ``00000000``.

    Args:
        values: the tensor.
        as_float32: widen every element first, to compare a bfloat16 tensor with one that was saved as float32.
    """
    crc = 0
    for start in range(0, values.numel, BLOCK):
        block = values.read(start, min(values.numel, start + BLOCK))
        if as_float32:
            with np.errstate(all="ignore"):
                block = block.astype(np.float32)
        if block.dtype.byteorder == ">":
            block = block.astype(block.dtype.newbyteorder("<"))
        crc = zlib.crc32(block.tobytes(), crc)
    return f"{crc:08x}"


def checksum_equal(target: str | None, golden: str | None) -> bool | None:
    """Return whether two checksums are the same, ignoring case; None when a side has none."""
    if not target or not golden:
        return None
    return target.lower() == golden.lower()


ANALYSIS_IDS = ("cosine", "euclidean_distance", "relative_euclidean_distance", "max_abs_err")
"""What the search for the origin needs; measured whatever metrics the workflow asks for."""

_MEASURABLE = (TensorKind.TENSOR, TensorKind.STATISTICS, TensorKind.SCALAR, TensorKind.NULL)


def incomparable(pair: Pair) -> Diagnostic | None:
    """Return why a two-sided pair cannot be measured, or None."""
    target, golden = pair.target, pair.golden
    assert target is not None
    assert golden is not None
    if target.kind is golden.kind is TensorKind.STATISTICS and _has_same_extremes_and_shape(target, golden):
        return None  # nearly always, where there are statistics only
    for side, tensor in (("target", target), ("golden", golden)):
        if tensor.kind is TensorKind.UNREADABLE:
            return Diagnostic("PF3191", f"the {side} is unreadable: {tensor.reason}", path=tensor.source)
        if tensor.slot.role is SlotRole.CALL:
            return Diagnostic("PF5119", "both dumps record that the call ran, and no values", tensor=tensor.id)
        if tensor.kind not in _MEASURABLE:
            why = tensor.reason or f"a value of type `{tensor.stored_dtype or tensor.dtype}` is no numeric tensor"
            return Diagnostic("PF5103", f"the {side} cannot be measured: {why}", tensor=tensor.id)
    if TensorKind.NULL in (target.kind, golden.kind) or TensorKind.SCALAR in (target.kind, golden.kind):
        return None if target.kind is golden.kind else _different_kinds(target, golden)
    if pair.reason is not None and pair.reason.kind.is_mismatch:
        return Diagnostic("PF5102", pair.reason.text, tensor=target.id)
    counts = _count_of(target), _count_of(golden)
    if None not in counts and counts[0] != counts[1]:
        return Diagnostic(
            "PF5102",
            f"Shape mismatch: target {_shape(target)} has {counts[0]} elements, "
            f"golden {_shape(golden)} has {counts[1]}",
            tensor=target.id,
        )
    if counts[0] == 0 or target.kind is golden.kind is TensorKind.TENSOR:
        return None
    has_figures = bool(figures_to_take(pair)) if is_mixed(pair) else _has_common_figure(target, golden)
    return None if has_figures else _nothing_in_common(target, golden)


def _has_same_extremes_and_shape(target: TensorRef, golden: TensorRef) -> bool:
    """Whether both sides recorded a maximum, and have a shape, which is the same."""
    sides = target.recorded, golden.recorded
    if sides[0] is None or sides[1] is None or sides[0].max is None or sides[1].max is None:
        return False
    return target.logical_shape is not None and target.logical_shape == golden.logical_shape


def _nothing_in_common(target: TensorRef, golden: TensorRef) -> Diagnostic:
    if (target.checksum or golden.checksum) and TensorKind.TENSOR in (target.kind, golden.kind):
        recorded, elements = (target, golden) if target.checksum else (golden, target)
        what = f"a checksum of {hashed_dtype(recorded) or 'unknown'} values says nothing of {elements.dtype} values"
        return Diagnostic("PF5117", what, tensor=target.id)
    if target.checksum and golden.checksum:
        dtypes = " and ".join(hashed_dtype(tensor) or "an unknown dtype" for tensor in (target, golden))
        return Diagnostic("PF5117", f"checksums of {dtypes} values cannot be compared", tensor=target.id)
    return Diagnostic("PF5105", f"nothing that both sides recorded of `{target.id}` can be compared", tensor=target.id)


def _count_of(tensor: TensorRef) -> int | None:
    """Return the number of elements, from what was recorded where the shape is unknown."""
    numel = tensor.numel
    return tensor.facts.count if numel is None else numel


def _count(target: TensorRef, golden: TensorRef) -> int:
    """Return how many elements the figures stand for; at least one where neither side knows."""
    count = _count_of(target)
    if count is None:
        count = _count_of(golden)
    return 1 if count is None else count


def _has_checksums(target: TensorRef, golden: TensorRef) -> bool:
    """Whether both checksums are there and of the same bytes: those of different dtypes always differ."""
    return bool(target.checksum and golden.checksum) and hashed_dtype(target) == hashed_dtype(golden)


def _has_common_figure(target: TensorRef, golden: TensorRef) -> bool:
    sides = target.recorded or Statistics(), golden.recorded or Statistics()
    return _has_checksums(target, golden) or any(
        all(getattr(side, name) is not None for side in sides) for name in COMPARED
    )


def _different_kinds(target: TensorRef, golden: TensorRef) -> Diagnostic:
    return Diagnostic(
        "PF5104", f"the target is a {target.kind.value}, the golden a {golden.kind.value}", tensor=target.id
    )


def _shape(tensor: TensorRef) -> str:
    return str(list(tensor.logical_shape or tensor.shape or ()))


def measurement_without_data(pair: Pair, figures: Figures | None = None) -> Measurement:
    """Measure a pair of recorded checksums or statistics, scalars or nulls; checksums come before statistics.

    Args:
        pair: what is measured.
        figures: where the figures go.
    """
    target, golden = pair.target, pair.golden
    assert target is not None
    assert golden is not None
    if target.kind is TensorKind.STATISTICS:
        return _measurement_of_recorded(target, golden, figures)
    sides = _as_statistics(target.value), _as_statistics(golden.value)
    metrics = compare_statistics(*sides) if target.kind is TensorKind.SCALAR else {}
    return Measurement.of(
        Mode.VALUE,
        metrics,
        SideSummary(sides[0]),
        SideSummary(sides[1]),
        count=1,
        figures=figures,
    )


def _measurement_of_recorded(target: TensorRef, golden: TensorRef, figures: Figures | None) -> Measurement:
    own, other = target.recorded or Statistics(), golden.recorded or Statistics()
    count, notes = _count(target, golden), _notes(target, golden)
    if _has_checksums(target, golden):
        equal = {"checksum_equal": checksum_equal(target.checksum, golden.checksum)}
        return Measurement.of(Mode.CHECKSUM, equal, target, golden, count=count, notes=notes, figures=figures)
    return Measurement.of(
        Mode.STATISTICS,
        compare_statistics(own, other),
        target,
        golden,
        nonfinite_mismatch=int(_disagree_in_nonfinite(target, golden, count)),
        count=count,
        notes=notes,
        figures=figures,
    )


def _disagree_in_nonfinite(target: TensorRef, golden: TensorRef, count: int) -> bool:
    """Whether NaN or infinities are recorded of one side and not of the other.

    Counts tell where both sides have them: devices give the extremes of the finite values. Else the extremes do.
    Kernels of MindSpore pass over NaN when they look for extremes, so that sums alone tell of it. A mean or norm counts
    where no elements within these extremes can have made it; where elements are infinite, or no extremes known, if it
    is NaN.
    """
    own, other = target.recorded or Statistics(), golden.recorded or Statistics()
    if None not in (own.nan, own.inf, other.nan, other.inf):
        return _disagree_in_counts(own, other)
    if _disagree(own.max, other.max) or _disagree(own.min, other.min):
        return True
    if all(each is None or math.isfinite(each) for each in (own.mean, own.l2norm, other.mean, other.l2norm)):
        return False  # nearly always
    high, low = _larger(own.max, other.max), _larger(own.min, other.min)
    if high is None or low is None or not (math.isfinite(high) and math.isfinite(low)):
        return _is_nan(own) != _is_nan(other)
    from probe_flow.relations.levels import is_abnormal_sum

    sides = (own, target), (other, golden)
    is_odd = [is_abnormal_sum(replace(known, max=high, min=low), count, tensor.dtype) for known, tensor in sides]
    return is_odd[0] != is_odd[1]


def _larger(target: float | None, golden: float | None) -> float | None:
    """Return the larger in size of two figures, of which one may be unknown."""
    known = [each for each in (target, golden) if each is not None]
    return max(known, key=abs, default=None)


def _is_nan(known: Statistics) -> bool:
    """Whether a norm is NaN, or the mean where there is none."""
    total = known.mean if known.l2norm is None else known.l2norm
    return total is not None and math.isnan(total)


def _disagree_in_counts(target: Statistics, golden: Statistics) -> bool:
    """The same by counts: of as many infinities the extremes may show that they have other signs.

    A number that masks scores on one side may be infinite on the other.
    """
    if target.nan != golden.nan:
        return True
    if target.inf == golden.inf:
        ends = (target.max, golden.max), (target.min, golden.min)
        return any(_disagree(*each) for each in ends if all(end is not None and math.isinf(end) for end in each))
    finite = min(target, golden, key=lambda side: side.inf or 0)
    return all(end is None or _disagree(of, end) for of, end in ((-math.inf, finite.min), (math.inf, finite.max)))


def _disagree(left: float | None, right: float | None) -> bool:
    if left is None or right is None or (math.isfinite(left) and math.isfinite(right)):
        return False
    from probe_flow.masks import hold_alike

    return not bool(hold_alike(np.array([left], np.float64), np.array([right], np.float64))[0])


def _as_statistics(value: object) -> Statistics:
    """A scalar is its own extreme, mean and norm; text, None and integers beyond float64 have none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return Statistics()
    try:
        number = float(value)
    except OverflowError:
        return Statistics(min=value, max=value)
    return Statistics(min=value, max=value, mean=number, l2norm=abs(number))


def derived_ids(ids: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics asked for and those that the analysis needs."""
    return tuple(dict.fromkeys((*ids, *ANALYSIS_IDS)))


def measurement_of_record(
    pair: Pair,
    parts: Sequence[SpanRecord | Record],
    ids: tuple[str, ...],
    *,
    backend: str,
    scope: Scope = WHOLE,
    figures: Figures | None = None,
) -> Measurement:
    """Fold the parts of a pair, in order, and derive metrics.

    Args:
        pair: what was measured.
        parts: of it.
        ids: metrics to derive.
        backend: label of what measured the parts.
        scope: holds the formulas of metrics that were given arguments.
        figures: where the figures go.
    """
    assert pair.target is not None
    assert pair.golden is not None
    spans = [part for part in parts if isinstance(part, SpanRecord)]
    record = fold(spans) if spans else next(part for part in parts if isinstance(part, Record))
    errors = record.errors
    assert record.golden is not None
    assert errors is not None
    return Measurement.of(
        mode=Mode.TENSOR,
        metrics=derive(record, ids, is_scalar=pair.target.logical_shape == (), computes=scope.computes),
        target=side_summary(record.target),
        golden=side_summary(record.golden),
        nonfinite_mismatch=errors.mismatched,
        worst_index=record.worst_index if errors.max_abs else None,
        count=record.numel,
        backend=backend,
        notes=(
            *_notes(*aligned_sides(pair)),
            *_of_masks(record.target, record.golden, errors.mismatched),
            *_of_the_first(record.numel, pair.target.numel),
        ),
        figures=figures,
    )


def left_out(rows: Iterable[Row], max_elements: int) -> tuple[Diagnostic, ...]:
    """Say so where a limit left elements out: a row that passes may hide errors behind it."""
    count = sum(
        row.measurement is not None
        and row.measurement.mode is Mode.TENSOR
        and row.measurement.count < (row.pair.shown.numel or 0)
        for row in rows
    )
    if not count:
        return ()
    tensors = f"{count} tensor" + ("s" if count > 1 else "")
    return (
        Diagnostic(
            "PF6405",
            f"only the first {max_elements} elements of {tensors} were compared",
            severity=Severity.WARNING,
            help="remove `max_elements` to compare all",
        ),
    )


def _of_masks(target: Side, golden: Side, mismatched: int) -> tuple[str, ...]:
    """Say where infinity on one side agrees with a number on the other (`masks`)."""
    mine, theirs = (side.positive_inf + side.negative_inf for side in (target, golden))
    if mismatched or mine == theirs:
        return ()
    infinite, finite = ("target", "golden") if mine > theirs else ("golden", "target")
    places = "1 place" if abs(mine - theirs) == 1 else f"{abs(mine - theirs)} places"
    return (f"{places} masked: the {infinite} holds infinity, the {finite} a number that stands for it",)


def _of_the_first(compared: int, numel: int | None) -> tuple[str, ...]:
    if numel is None or compared >= numel:
        return ()
    return (f"only the first {compared} of {numel} elements were compared",)


def _notes(target: TensorRef, golden: TensorRef) -> tuple[str, ...]:
    notes = []
    shapes = target.logical_shape or target.shape, golden.logical_shape or golden.shape
    if shapes[0] != shapes[1] and None not in shapes:
        notes.append(f"shape differs: {list(shapes[0] or ())} against {list(shapes[1] or ())}")
    if (
        target.dtype != golden.dtype
        and target.dtype
        and golden.dtype
        and _dtype_class(target.dtype) != _dtype_class(golden.dtype)
    ):
        notes.append(f"dtype differs: {target.dtype} against {golden.dtype}")
    return tuple(notes)


def _dtype_class(dtype: str) -> str:
    for name in ("float", "complex", "bool", "int"):
        if name in dtype:
            return name
    return dtype
