"""The difference columns of the dump.json layouts in statistics mode.

The texts are functions of the eight statistics shown beside them: ``0`` for equal ones, percent for relative
differences (``50.0%`` is a `max_diff_rel` of 0.5), words where there is no number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress

from probe_flow.reports.csv_dump_json_sides import ABSENT, Value
from probe_flow.reports.float_texts import number_texts
from probe_flow.reports.table import Cell

_DEVICE_WORDS = ("npu", "cpu", "cuda")


def difference_columns(targets: Sequence[Sequence[Value]], goldens: Sequence[Sequence[Value]]) -> list[Sequence[Cell]]:
    """Return target minus golden for maximum, minimum, mean and L2 norm, then the same relative to golden.

    Args:
        targets: a column of values for each of the four statistics.
        goldens: the same of the other side.
    """
    columns = [_column(*both) for both in zip(targets, goldens, strict=True)]
    return [*(absolute for absolute, _ in columns), *(relative for _, relative in columns)]


def _column(targets: Sequence[Value], goldens: Sequence[Value]) -> tuple[list[Cell], list[Cell]]:
    """Return the differences of one statistic, those of floats all at a time."""
    import numpy as np

    both = list(zip(targets, goldens, strict=True))
    absolute: list[Cell] = [0] * len(both)
    relative: list[Cell] = [0] * len(both)
    places = [place for place, (target, golden) in enumerate(both) if type(target) is float is type(golden)]
    target, golden = np.array([both[place] for place in places], dtype=np.float64).reshape(-1, 2).T
    with np.errstate(all="ignore"):
        difference = target - golden
        percent = np.abs(difference / golden * 100)
    is_plain = np.isfinite(percent) & (difference != 0)
    is_open = np.ones(len(both), dtype=bool)
    is_open[places] = ~(is_plain | (target == golden))
    texts = number_texts(percent[is_plain].tolist())
    for place, cell, text in zip(compress(places, is_plain), difference[is_plain].tolist(), texts, strict=True):
        absolute[place], relative[place] = cell, text + "%"
    for place in np.flatnonzero(is_open).tolist():
        absolute[place], relative[place] = _difference(*both[place])
    return absolute, relative


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
