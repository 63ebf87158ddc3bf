"""A closer look at the rows that people will ask about: values around the largest error, how errors spread, and where.

Only origins and the worst failing rows are read a second time; everything else is answered by its record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, structs
from msgspec.json import Encoder
from msgspec.structs import replace

from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import FormatError, NotComparableError
from probe_flow.jobs import in_batches
from probe_flow.measure.batches import Task
from probe_flow.measure.result_keys import Sources, key_of, label_of, task_text
from probe_flow.measure.sides import aligned_sides
from probe_flow.metrics.kernel.error_maps import LAYOUT, ErrorMaps, indexed_shape
from probe_flow.metrics.kernel.kept_blocks import count_of_first
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.record.json_values import json_number
from probe_flow.record.json_values import number as number_of
from probe_flow.records import ErrorMap, Mode, Role, Row, Status, TensorDetail, TensorRef
from probe_flow.work import Context

SURE_ROWS = 24
"""Rows that get a closer look, with maps of their errors, however large they are; each is read a second time."""

MAX_ROWS = 500
LOOK_BYTES = 64 * 2**20
"""Further rows get one while those looked at are at most this large together."""

WINDOW = 16
"""Values shown before and after the largest error."""

CLASSES = 32
"""Classes of absolute error, each half the one above it, from the largest golden magnitude (or the largest error, if
that is larger) downwards; the lowest takes everything below."""

BATCH_BYTES, BATCH_ROWS = 8 * 2**20, 64

_JSON = Encoder()

_MANTISSA_BITS, _OF_ONE = 52, 1023
"""Of float64: bits below the exponent, and the exponent of 1 as it is stored."""


class Look(Struct, frozen=True):
    """One row to look at."""

    order: int
    target: TensorRef
    golden: TensorRef
    worst: int
    top: float
    max_elements: int = 0
    has_maps: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of both sides."""
        return self.target.nbytes + self.golden.nbytes


class LookBatch(Struct, frozen=True):
    """Rows that one worker looks at."""

    looks: tuple[Look, ...]
    io: str


def look_closer(rows: Sequence[Row], context: Context, *, max_elements: int = 0) -> Mapping[int, TensorDetail]:
    """Return details of the origins and the worst failing rows, by order; rows that cannot be read are left out.

    Args:
        rows: judged.
        context: scheduler, cache and settings.
        max_elements: how many elements of a pair were compared at most; 0 = all.
    """
    looks = [replace(look, max_elements=max_elements) for look in chosen(rows)]
    details: dict[int, TensorDetail] = {}
    keys, labels = _keys(looks, context)
    kept = context.cache.find(list(keys.values()))
    missing = []
    for look in looks:
        text = kept.get(keys.get(look.order, ""))
        if text is None:
            missing.append(look)
        else:
            details[look.order] = _detail_of(text)
    filled = in_batches(([look.nbytes] for look in missing), most_bytes=BATCH_BYTES, most_jobs=BATCH_ROWS)
    batches = [LookBatch(tuple(missing[piece]), context.settings.io) for piece in filled]
    sizes = [sum(look.nbytes for look in batch.looks) for batch in batches]
    for _, found in context.map(look_at, batches, sizes=sizes, lost=lambda _batch, _reason: {}):
        details.update(found)
        texts = {keys[order]: (_text(detail), labels[order]) for order, detail in found.items() if order in keys}
        context.cache.add(texts)
    return {order: details[order] for order in sorted(details)}


def chosen(rows: Sequence[Row]) -> Iterator[Look]:
    """Yield origins, then failing rows by relative distance: a few whatever they cost, more while they are small."""

    def rank(row: Row) -> tuple[bool, float, int]:
        assert row.measurement is not None
        distance = row.measurement.metrics.get("relative_euclidean_distance")
        known = distance is not None and not math.isnan(distance)
        return row.verdict.role is not Role.ORIGIN, -float(distance) if known and distance else 0.0, row.order

    candidates = [row for row in rows if _has_something_to_see(row)]
    total = 0
    for number, row in enumerate(sorted(candidates, key=rank)[:MAX_ROWS]):
        assert row.measurement is not None
        assert row.pair.target is not None
        assert row.pair.golden is not None
        total += row.pair.target.nbytes + row.pair.golden.nbytes
        if number >= SURE_ROWS and total > LOOK_BYTES:
            return
        yield replace(look_of(row), has_maps=number < SURE_ROWS)


def look_of(row: Row) -> Look:
    """Return what there is to look at in a row whose elements were measured."""
    assert row.measurement is not None
    return Look(row.order, *aligned_sides(row.pair), row.measurement.worst_index or 0, _top(row))


def _has_something_to_see(row: Row) -> bool:
    measurement = row.measurement
    if measurement is None or measurement.mode is not Mode.TENSOR or measurement.count == 0:
        return False
    if row.verdict.role is not Role.ORIGIN and row.verdict.status not in (Status.FAIL, Status.WARNING):
        return False
    target, golden = row.pair.target, row.pair.golden  # without extents: measured where values were, and not written
    return target is not None and golden is not None and bool(target.extents and golden.extents)


def _top(row: Row) -> float:
    """Return the upper bound of the largest class of errors."""
    assert row.measurement is not None
    values = [row.measurement.metrics.get("max_abs_err")]
    if row.measurement.golden is not None:
        values += [row.measurement.golden.statistics.min, row.measurement.golden.statistics.max]
    numbers = [abs(float(value)) for value in values if value is not None and math.isfinite(value)]
    return max([*numbers, 1e-30])


def _keys(looks: Sequence[Look], context: Context) -> tuple[dict[int, str], dict[int, str]]:
    keys, labels = {}, {}
    sources = Sources(context.cache.key)
    for look in looks:
        task = Task(look.order, look.target, look.golden, 0, 0)
        asked = str(("detail", look.worst, look.top, WINDOW, look.max_elements, look.has_maps and LAYOUT))
        text = task_text(task, asked, identify=sources.identify)
        if text is not None:
            keys[look.order], labels[look.order] = key_of(text), label_of(task, text)
    return keys, labels


def look_at(batch: LookBatch) -> dict[int, TensorDetail]:
    """Look at every row of a batch; one that cannot be read any more is left out."""
    found = {}
    for look in batch.looks:
        detail = _look_at_one(look, batch.io)
        if detail is not None:
            found[look.order] = detail
    return found


def _look_at_one(look: Look, io: str) -> TensorDetail | None:
    counts = np.zeros(CLASSES, np.int64)
    equal = 0
    try:
        with open_tensor(look.target, io=io) as target, open_tensor(look.golden, io=io) as golden:
            numel = count_of_first(target.numel, look.max_elements)
            maps = ErrorMaps(indexed_shape(look.target, target.numel)) if look.has_maps else None
            for start in range(0, numel, BLOCK):
                stop = min(numel, start + BLOCK)
                x, y = target.read(start, stop), golden.read(start, stop)
                errors = _errors(x, y)
                if maps is not None:
                    maps.add(start, x, y, errors)
                equal += int(np.count_nonzero(errors == 0))
                counts += _classes(errors[(errors > 0) & np.isfinite(errors)] / look.top)
            first = max(0, look.worst - WINDOW)
            last = min(numel, look.worst + WINDOW + 1)
            sides = [_numbers(blocks.read(first, last)) for blocks in (target, golden)]
    except (FormatError, NotComparableError):  # it was readable a moment ago: the dump is changing
        return None
    edges = (0.0, *(look.top * 2.0**-power for power in range(CLASSES - 1, -1, -1)))
    return TensorDetail(
        first, sides[0], sides[1], edges, tuple(counts[::-1].tolist()), equal, maps.maps() if maps else ()
    )


def _classes(relative: np.ndarray) -> np.ndarray:
    """Count errors relative to the top by their power of two: class 0 holds (1/2, 1], the last one all smaller ones.

    Args:
        relative: float64 above 0, infinity included, shape ``(n,)``.

    Returns:
        Counts, shape ``(CLASSES,)``.
    """
    # Of the number before, so that a power of two belongs to the class it closes.
    exponents = (relative.view(np.int64) - 1) >> _MANTISSA_BITS
    counts = np.bincount(exponents, minlength=2 * _OF_ONE + 1)
    lowest = _OF_ONE - CLASSES
    classes: np.ndarray = counts[lowest:_OF_ONE][::-1].copy()
    classes[0] += counts[_OF_ONE:].sum()
    classes[-1] += counts[:lowest].sum()
    return classes


def _errors(target: np.ndarray, golden: np.ndarray) -> np.ndarray:
    kind = np.complex128 if np.iscomplexobj(target) or np.iscomplexobj(golden) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(target.astype(kind) - golden.astype(kind))


def _numbers(values: np.ndarray) -> tuple[float, ...]:
    shown = np.abs(values) if np.iscomplexobj(values) else values
    return tuple(float(value) for value in shown.astype(np.float64))


def _text(detail: TensorDetail) -> str:
    sides = [list(map(json_number, each)) for each in (detail.target, detail.golden, detail.edges)]
    maps = [structs.astuple(replace(each, errors=tuple(map(json_number, each.errors)))) for each in detail.maps]
    return _JSON.encode([detail.start, *sides, detail.counts, detail.equal, maps]).decode()


def _detail_of(text: str) -> TensorDetail:
    start, target, golden, edges, counts, equal, maps = json.loads(text)
    found = [ErrorMap(*map(tuple, fields)) for fields in maps]
    target, golden, edges = (tuple(map(float, each)) for each in (target, golden, edges))
    maps = tuple(replace(each, errors=tuple(map(number_of, each.errors))) for each in found)
    return TensorDetail(start, target, golden, edges, tuple(counts), equal, maps)
