"""What the error of a finding looks like once its elements were read again: zeros, order, a limit, a channel, a tail.

`shape_of` (`analysis/model/deviation.py`) sees the figures of a row. Here the statistics of both sides, the values
around the largest error and the maps of errors are seen too, which tell causes apart that have the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from probe_flow.records import ErrorMap, ErrorShape, Finding, FindingKind, Mode, Row, Statistics, TensorDetail

LARGEST: Mapping[str, float] = {
    "float16": 65504.0,
    "bfloat16": (2 - 2**-7) * 2.0**127,
    "int8": 127.0,
    "uint8": 255.0,
}
"""Largest finite value of types that people compute in (IEEE 754 binary16, bfloat16, two's complement)."""

MOVED = 0.05
"""Relative error from which equal statistics are no accident of small errors."""

ALIKE = 1e-3
"""What statistics of the same values in another order may differ by, relative to their size: rounding of 16 bits."""

BAD = 0.1
"""Share of the largest error from which a cell of a map counts as wrong; below it is what rounding leaves."""

_LEAST_VALUES = 4
_AT_LIMIT = 2
"""Values that must have stopped at one number: a single one is the largest, as any tensor has."""

_READ = frozenset({FindingKind.ORIGIN, FindingKind.FAILURE, FindingKind.SUSPECT})
_VAGUE = frozenset({None, ErrorShape.PART, ErrorShape.NOISE})


def with_looks(
    findings: Sequence[Finding], rows: Sequence[Row], details: Mapping[int, TensorDetail]
) -> tuple[Finding, ...]:
    """Return findings with the shape of their error, where values or maps say more of it than figures did.

    Args:
        findings: of the comparison.
        rows: all rows, by number equal to `Row.order` or not.
        details: `Row.order` -> closer look, of the rows that have one.
    """
    wanted = {each.row for each in findings if each.kind in _READ and each.row is not None}
    by_order = {row.order: row for row in rows if row.order in wanted} if wanted else {}
    return tuple(_looked(each, by_order, details) if each.kind in _READ else each for each in findings)


def _looked(finding: Finding, rows: Mapping[int, Row], details: Mapping[int, TensorDetail]) -> Finding:
    row = rows.get(finding.row) if finding.row is not None else None
    if row is None or finding.shape is ErrorShape.CHOICE:
        return finding
    detail = details.get(row.order)
    shape, at = _of_values(row, detail)
    if shape is None and finding.shape in _VAGUE and detail is not None:
        shape, at = _of_maps(detail.maps)
    return finding if shape is None else replace(finding, shape=shape, shape_at=at)


def _of_values(row: Row, detail: TensorDetail | None) -> tuple[ErrorShape | None, str]:
    """Return what the statistics of both sides, or the values around the largest error, say."""
    measured = row.measurement
    target = None if measured is None else measured.target_statistics
    golden = None if measured is None else measured.golden_statistics
    if measured is None or target is None or golden is None or row.pair.target is None:
        return None, ""
    peaks = _peak(target), _peak(golden)
    if peaks[0] is None or peaks[1] is None or target.nan or target.inf or golden.nan:
        return None, ""
    if peaks[0] == 0.0 and peaks[1] > 0.0:
        return ErrorShape.ZEROS, ""
    stop = _stop(target, golden, peaks[1], row.pair.target.dtype or "", detail)
    if stop:
        return ErrorShape.SATURATED, stop
    moved = measured.metric("relative_euclidean_distance")
    is_moved = measured.mode is Mode.TENSOR and isinstance(moved, float) and moved >= MOVED
    if is_moved and measured.count >= _LEAST_VALUES and _are_alike(target, golden, measured.count):
        return ErrorShape.ORDER, ""
    return None, ""


def _peak(statistics: Statistics) -> float | None:
    """Return the largest size of a value; None where that is not known or not finite."""
    low, high = statistics.min, statistics.max
    if low is None or high is None or isinstance(low, bool) or isinstance(high, bool):
        return None
    return max(abs(float(low)), abs(float(high))) if math.isfinite(low) and math.isfinite(high) else None


def _stop(target: Statistics, golden: Statistics, peak: float, dtype: str, detail: TensorDetail | None) -> str:
    """Return the value at which the target stops while the golden (``peak``) goes on; empty where it does not.

    That is the end of its type, or a value that several of those around the largest error have.
    """
    margin = ALIKE * peak
    for name, sign in (("max", 1.0), ("min", -1.0)):
        end, goes_to = float(getattr(target, name)), float(getattr(golden, name))
        if not (golden.inf or sign * (goes_to - end) > margin):
            continue
        if abs(end) == LARGEST.get(dtype):
            return f"{end:g}, the {'largest' if sign > 0 else 'lowest'} of {dtype}"
        pairs = zip(detail.target, detail.golden, strict=True) if detail is not None else ()
        there = [sign * (y - x) for x, y in pairs if x == end]
        if len(there) >= _AT_LIMIT and min(there) > 0.0 and max(there) > margin:
            return f"{end:.6g}"
    return ""


def _are_alike(target: Statistics, golden: Statistics, count: int) -> bool:
    """Return True where extremes, mean and norm of both sides agree, as those of the same values in any order do."""
    size = golden.l2norm or 0.0
    scales = (("min", _peak(golden)), ("max", _peak(golden)), ("mean", size / math.sqrt(count)), ("l2norm", size))
    for name, scale in scales:
        one, other = getattr(target, name), getattr(golden, name)
        if one is None or other is None or scale is None or not abs(one - other) <= ALIKE * scale:
            return False
    return size > 0.0


def _of_maps(maps: Sequence[ErrorMap]) -> tuple[ErrorShape | None, str]:
    """Return whether the errors lie in the last indices of one axis, or in few neighbouring ones.

    Of several maps the one that tells indices apart best decides.
    """
    found = []
    for each in maps:
        for axis, indices in _wrong_indices(each):
            if indices[-1] - indices[0] + 1 == len(indices) and 2 * len(indices) <= each.shape[axis]:
                found.append((len(indices), axis, indices, each.shape[axis]))
    if not found:
        return None, ""
    _, axis, indices, length = min(found)
    first, last = indices[0], indices[-1]
    where = f"index {first}" if first == last else f"indices {first} to {last}"
    is_tail = last == length - 1 and length > _AT_LIMIT
    return ErrorShape.TAIL if is_tail else ErrorShape.CHANNEL, f"{where} of axis {axis}"


def _wrong_indices(found: ErrorMap) -> Iterator[tuple[int, list[int]]]:
    """Yield an axis and the indices along it that hold the errors, where all other indices are as good as right."""
    height, width = (-(-size // cell) for size, cell in zip(found.size, found.cell, strict=True))
    cells = [[found.errors[row * width + column] or 0.0 for column in range(width)] for row in range(height)]
    largest = max((max(line) for line in cells), default=0.0)
    if largest <= 0.0 or not math.isfinite(largest):
        return
    columns = [[line[place] for line in cells] for place in range(width)]
    for lines, axes, length in ((cells, found.down, found.cell[0]), (columns, found.across, found.cell[1])):
        if len(lines) < _AT_LIMIT:
            continue
        wrong = [place for place, line in enumerate(lines) if 2 * sum(e > BAD * largest for e in line) >= len(line)]
        is_clean = all(max(line) <= BAD * largest for place, line in enumerate(lines) if place not in set(wrong))
        if wrong and is_clean and len(wrong) < len(lines):
            yield from _along_one_axis(wrong, length, [axis for axis in axes if found.shape[axis] > 1], found.shape)


def _along_one_axis(
    wrong: Sequence[int], length: int, axes: Sequence[int], shape: Sequence[int]
) -> Iterator[tuple[int, list[int]]]:
    """Yield the axis that alone decides which lines of a map are wrong, where there is one.

    Args:
        wrong: numbers of the lines.
        length: how many places a line holds.
        axes: that are folded into the lines, in C order.
        shape: of the tensor.
    """
    total = math.prod(shape[axis] for axis in axes)
    places = [place for line in wrong for place in range(line * length, min((line + 1) * length, total))]
    seen: dict[int, set[int]] = {axis: set() for axis in axes}
    for place in places:
        rest = place
        for axis in reversed(axes):
            rest, index = divmod(rest, shape[axis])
            seen[axis].add(index)
    restricted = [axis for axis in axes if len(seen[axis]) < shape[axis]]
    is_one_element = (
        math.prod(shape) // shape[restricted[0]] * len(seen[restricted[0]]) < _AT_LIMIT if restricted else True
    )
    if len(restricted) == 1 and len(places) == math.prod(map(len, seen.values())) and not is_one_element:
        yield restricted[0], sorted(seen[restricted[0]])
