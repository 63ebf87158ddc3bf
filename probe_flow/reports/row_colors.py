"""The seed's colour marks: red needs attention, yellow a second look, green is normal.

The rules relate the outputs of an operator to its inputs, as the published result rules of 26.x do; where no norm was
recorded, the older rules about the largest value decide. Two differences,
so that colours lead to the cause: what the analysis calls the origin is always red, and a row that only inherits an
error is yellow at most (not all inputs of an operator are in every dump, so its own rules can accuse it wrongly).

``Accuracy Reached or Not`` has an older rule: a row can fail its verdict and still be accurate by it, when only
elements near zero differ.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from probe_flow.records import (
    Mode,
    NodeKey,
    Role,
    Row,
    SideSummary,
    SlotRole,
    Status,
)

COSINE_LIMIT = 0.99
MAX_ABS_LIMIT = 0.001
COSINE_FLOOR = 0.9
MAX_ABS_CEILING = 1.0


class Accuracy(enum.Enum):
    """``UNMATCHED``: the element counts differ. ``UNKNOWN``: nothing was compared."""

    YES = "Yes"
    NO = "No"
    UNMATCHED = "Unmatched"
    UNKNOWN = "N/A"


def accuracy_of(row: Row) -> Accuracy:
    """Return whether the row reaches the accuracy that the older rule asks for.

    No if (cosine < 0.99 and maximum absolute error > 0.001), or cosine < 0.9, or maximum absolute error > 1, or NaN
    and infinities stand in other places; a cosine that cannot be computed decides nothing. Statistics and checksums
    follow the verdict.
    """
    pair = row.pair
    if pair.target is None or pair.golden is None:
        return Accuracy.UNKNOWN
    measured = row.measurement
    if measured is None:
        counts = (pair.target.numel, pair.golden.numel)
        is_mismatch = None not in counts and counts[0] != counts[1]
        return Accuracy.UNMATCHED if is_mismatch else Accuracy.UNKNOWN
    if measured.mode in (Mode.STATISTICS, Mode.CHECKSUM):
        return _from_verdict(row.verdict.status)
    if measured.nonfinite_mismatch:
        return Accuracy.NO
    cosine, worst = metric_of(row, "cosine"), metric_of(row, "max_abs_err")
    if cosine is None and worst is None:
        return _from_verdict(row.verdict.status)
    cosine = 1.0 if cosine is None else cosine
    worst = 0.0 if worst is None else worst
    is_off = cosine < COSINE_LIMIT and worst > MAX_ABS_LIMIT
    return Accuracy.NO if is_off or cosine < COSINE_FLOOR or worst > MAX_ABS_CEILING else Accuracy.YES


def metric_of(row: Row, *names: str) -> float | None:
    """Return the first of these metrics that was asked for; None when it could not be computed or is NaN."""
    value = None if row.measurement is None else row.measurement.first_metric(names)
    return None if value is None or math.isnan(value) else value


def _from_verdict(status: Status) -> Accuracy:
    if status in (Status.PASS, Status.WARNING):
        return Accuracy.YES
    return Accuracy.NO if status is Status.FAIL else Accuracy.UNKNOWN


RATIO = ("err_ratio_1e3_eps", "err_ratio_1e3")
RATIO_GOOD_INPUT = 0.9
RATIO_BAD_OUTPUT = 0.1
NORM_GOOD_INPUT = 0.1
NORM_BAD_OUTPUT = 0.5
NORM_GROWTH = 10.0
NORM_WITHOUT_INPUT = 0.1
EXTREME_BAD_OUTPUT = 0.5
EXTREME_GOOD_INPUT = 0.01
EXTREME_WORSE_OUTPUT = 0.1
COSINE_GOOD_INPUT = 0.9
COSINE_DROP = 0.1

_PRODUCED = frozenset({SlotRole.OUTPUT, SlotRole.PARAMETER_GRAD})


class Color(enum.Enum):
    """``NONE``: nothing was compared and nothing had to be."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    NONE = "N/A"


class _Inputs(Struct, frozen=True):
    """The worst of an operator's inputs; None where none has that figure."""

    ratio: float | None
    cosine: float | None
    norm: float | None
    extreme: float | None


_NO_INPUTS = _Inputs(None, None, None, None)


def colored(rows: Iterable[Row]) -> Iterator[tuple[Row, Color]]:
    """Yield every row with its colour; rows of one node stand together, as they do in a comparison."""
    for _, group in groupby(rows, key=_owner):
        node_rows = list(group)
        inputs = _worst_inputs(node_rows)
        for row in node_rows:
            yield row, _color(row, inputs)


def _owner(row: Row) -> tuple[bool, NodeKey]:
    return row.pair.target is None, row.pair.shown.node


def _worst_inputs(rows: Sequence[Row]) -> _Inputs:
    read = [row for row in rows if row.measurement is not None and row.pair.shown.slot.role not in _PRODUCED]
    if not read:
        return _NO_INPUTS
    ratios, cosines, norms, extremes = (
        [value for row in read if (value := metric_of(row, *names)) is not None]
        for names in (RATIO, ("cosine",), ("l2norm_diff_rel",), ("max_diff_rel",))
    )
    return _Inputs(
        min(ratios, default=None), min(cosines, default=None), max(norms, default=None), max(extremes, default=None)
    )


def _color(row: Row, inputs: _Inputs) -> Color:
    status, role = row.verdict.status, row.verdict.role
    if role is Role.ORIGIN or status is Status.ERROR:
        return Color.RED
    if role is not Role.INHERITED and (_is_nonfinite_on_target_only(row) or _breaks(row, inputs)):
        return Color.RED
    if status in (Status.UNMATCHED_TARGET, Status.UNMATCHED_GOLDEN, Status.SKIPPED):
        reason = row.pair.reason
        is_gap = status is not Status.SKIPPED and reason is not None and reason.is_gap
        return Color.YELLOW if is_gap else Color.NONE
    if status is Status.FAIL and role is not Role.INHERITED and accuracy_of(row) is Accuracy.NO:
        return Color.RED
    is_plain = status is Status.PASS and role is not Role.INHERITED
    if not is_plain or _worsens(row, inputs) or _requires_grad_differs(row):
        return Color.YELLOW
    return Color.GREEN


def _breaks(row: Row, inputs: _Inputs) -> bool:
    """Say whether good inputs led to a bad output."""
    if row.measurement is None or row.pair.shown.slot.role not in _PRODUCED:
        return False
    ratio, norm = metric_of(row, *RATIO), metric_of(row, "l2norm_diff_rel")
    if ratio is not None and inputs.ratio is not None:
        return inputs.ratio > RATIO_GOOD_INPUT and ratio < RATIO_BAD_OUTPUT
    if norm is not None and inputs.norm is not None:
        return inputs.norm < NORM_GOOD_INPUT and norm > NORM_BAD_OUTPUT
    extreme = metric_of(row, "max_diff_rel")
    return norm is None and extreme is not None and extreme > EXTREME_BAD_OUTPUT


def _worsens(row: Row, inputs: _Inputs) -> bool:
    """Say whether the output is clearly worse than the inputs."""
    if row.measurement is None or row.pair.shown.slot.role not in _PRODUCED:
        return False
    cosine, norm = metric_of(row, "cosine"), metric_of(row, "l2norm_diff_rel")
    if cosine is not None and inputs.cosine is not None:
        return inputs.cosine > COSINE_GOOD_INPUT and inputs.cosine - cosine > COSINE_DROP
    if norm is not None and inputs.norm is not None:
        return norm > (NORM_GROWTH * inputs.norm if inputs.norm > 0 else NORM_WITHOUT_INPUT)
    extreme = metric_of(row, "max_diff_rel")
    if norm is None and extreme is not None and inputs.extreme is not None:
        return inputs.extreme < EXTREME_GOOD_INPUT and extreme > EXTREME_WORSE_OUTPUT
    return False


def _is_nonfinite_on_target_only(row: Row) -> bool:
    measured = row.measurement
    if measured is None or measured.mode is Mode.CHECKSUM:
        return False
    return _has_nonfinite(measured.target) and not _has_nonfinite(measured.golden)


def _has_nonfinite(side: SideSummary | None) -> bool:
    if side is None:
        return False
    found = side.statistics
    return bool(found.nan or found.inf) or _is_nonfinite(found.min) or _is_nonfinite(found.max)


def _is_nonfinite(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)


def _requires_grad_differs(row: Row) -> bool:
    target, golden = row.pair.target, row.pair.golden
    if target is None or golden is None:
        return False
    flags = target.requires_grad, golden.requires_grad
    return None not in flags and str(flags[0]) != str(flags[1])
