"""The difference columns of the dump.json layouts in statistics mode.

The texts are functions of the eight statistics shown beside them: ``0`` for equal ones, percent for relative
differences (``50.0%`` is a `max_diff_rel` of 0.5), words where there is no number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from probe_flow.reports.csv_dump_json_sides import ABSENT, Value
from probe_flow.reports.table import Cell

_DEVICE_WORDS = ("npu", "cpu", "cuda")


def difference_cells(targets: Iterable[Value], goldens: Iterable[Value]) -> list[Cell]:
    """Return target minus golden for maximum, minimum, mean and L2 norm, then the same relative to golden."""
    absolute: list[Cell] = []
    relative: list[Cell] = []
    for target, golden in zip(targets, goldens, strict=True):
        if isinstance(target, float) and isinstance(golden, float) and golden:
            difference = target - golden
            ratio = difference / golden
            if ratio * 0 == 0 and difference:  # finite, and not zero
                absolute.append(difference)
                relative.append(f"{abs(ratio * 100)!r}%")
                continue
        shown, percent = _difference(target, golden)
        absolute.append(shown)
        relative.append(percent)
    return absolute + relative


def _difference(target: Value, golden: Value) -> tuple[Cell, Cell]:
    if str(target) == str(golden):
        return 0, 0
    if target == ABSENT or golden == ABSENT:
        return ABSENT, ABSENT
    if isinstance(target, (int, float)) and isinstance(golden, (int, float)):
        if isinstance(target, bool) or isinstance(golden, bool):
            return "Diff", "Diff"
        return _number_difference(target, golden)
    are_devices = all(any(word in str(value) for word in _DEVICE_WORDS) for value in (target, golden))
    return (ABSENT, ABSENT) if are_devices else ("Diff", "Diff")


def _number_difference(target: float, golden: float) -> tuple[Cell, Cell]:
    if target == golden:  # 0.0 and -0.0, 1 and 1.0
        return 0, 0
    if math.isnan(target) or math.isnan(golden):
        both = math.isnan(target) and math.isnan(golden)
        return (0, 0) if both else ("Nan", "Nan")
    if math.isinf(target) or math.isinf(golden):
        word = "inf" if target == math.inf or golden == -math.inf else "-inf"
        return word, word
    try:
        difference = target - golden
        if golden == 0:
            return difference, "inf"
        percent = abs(difference / golden * 100)
    except OverflowError:  # integers beyond float64
        return target - golden if isinstance(target, int) and isinstance(golden, int) else "Diff", "inf%"
    if math.isinf(difference):
        return (" inf" if difference > 0 else " -inf"), f"{percent}%"
    return difference, f"{percent}%"
