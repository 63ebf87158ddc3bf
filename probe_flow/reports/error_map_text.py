"""Maps of errors as lines of text: a character a cell, for terminals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from probe_flow.record.json_values import number
from probe_flow.record.places import figure
from probe_flow.record.types.rows import DetailRecord, MapRecord
from probe_flow.records import ErrorMap

MAX_LINES = 16
"""Lines of a map; more rows of cells share one, as the worst of them."""

_SIGNS = ((1 / 3, "#"), (1 / 10, "+"), (1 / 100, "-"), (0.0, "."))
"""Signs by the part of the largest error that a cell is above."""

_EQUAL, _UNKNOWN, _ALIKE, _MISMATCH = "_", "?", "n", "!"
_FROM_BEST = _UNKNOWN + _EQUAL + _ALIKE + "".join(sign for _, sign in reversed(_SIGNS)) + _MISMATCH


def map_lines(maps: Sequence[ErrorMap]) -> Iterator[str]:
    """Yield the maps of one tensor that has errors, each below what its axes are, and what the signs mean."""
    shown = [found for found in maps if math.prod(found.cells) > 1 and (any(found.errors) or found.mismatch)]
    if not shown:
        return
    top = max((error for error in shown[0].errors if error is not None and math.isfinite(error)), default=0.0)
    used: set[str] = set()
    for found in shown:
        yield f"  where the errors are: {_axes_text(found)}"
        rows = _rows_of_signs(found, top)
        step = -(-len(rows) // MAX_LINES)
        lengths = [found.shape[axis] for axis in found.down]
        labels = [_index(row * found.cell[0], lengths) for row in range(0, len(rows), step)]
        width = max(map(len, labels))
        for label, start in zip(labels, range(0, len(rows), step), strict=True):
            line = "".join(_worst(column) for column in zip(*rows[start : start + step], strict=True))
            used.update(line)
            yield f"    {label:>{width}}  {line}"
    yield "    " + ", ".join(f"{sign} {text}" for sign, text in _meanings(top) if sign in used)


def stored_maps(detail: DetailRecord | None) -> tuple[ErrorMap, ...]:
    """Return the maps of a closer look; one that contradicts itself is left out."""
    found = map(_stored_map, detail.maps) if detail is not None else ()
    return tuple(each for each in found if each is not None)


def _stored_map(record: MapRecord) -> ErrorMap | None:
    shape, cell = record.shape, record.cell
    if 0 in cell or not all(axis < len(shape) and shape[axis] for axis in (*record.down, *record.across)):
        return None
    errors = tuple(map(number, record.errors))
    found = ErrorMap(shape, record.down, record.across, (cell[0], cell[1]), errors, record.alike, record.mismatch)
    fits = len(errors) == math.prod(found.cells)
    return found if fits and all(place < len(errors) for place in (*found.alike, *found.mismatch)) else None


def _axes_text(found: ErrorMap) -> str:
    down, across = (_axes(axes, found.shape) for axes in (found.down, found.across))
    return f"{down} down, {across} across" if down else f"{across} across"


def _axes(axes: Sequence[int], shape: Sequence[int]) -> str:
    if not axes:
        return ""
    word = "axis" if len(axes) == 1 else "axes"
    return f"{word} {', '.join(map(str, axes))} ({' x '.join(str(shape[axis]) for axis in axes)})"


def _rows_of_signs(found: ErrorMap, top: float) -> list[str]:
    signs = [_sign(error, top) for error in found.errors]
    for cell in found.alike:
        signs[cell] = _worst((signs[cell], _ALIKE))
    for cell in found.mismatch:
        signs[cell] = _MISMATCH
    rows, columns = found.cells
    return ["".join(signs[row * columns : (row + 1) * columns]) for row in range(rows)]


def _worst(signs: Iterable[str]) -> str:
    return max(signs, key=_FROM_BEST.index)


def _sign(error: float | None, top: float) -> str:
    if error is None:
        return _UNKNOWN
    return next((sign for part, sign in _SIGNS if error > part * top), _EQUAL)


def _index(flat: int, lengths: Sequence[int]) -> str:
    index: list[int] = []
    for length in reversed(lengths):
        index.insert(0, flat % length)
        flat //= length
    return ",".join(map(str, index))


def _meanings(top: float) -> Iterator[tuple[str, str]]:
    yield "#", f"above a third of the largest error {figure(top)}"
    yield "+", "above a tenth"
    yield "-", "above a hundredth"
    yield ".", "less"
    yield _EQUAL, "no error"
    yield _ALIKE, "NaN or infinities on both sides alike"
    yield _MISMATCH, "NaN or infinities disagree"
    yield _UNKNOWN, "not compared"
