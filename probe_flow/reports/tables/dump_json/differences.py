"""The difference columns of the dump.json layouts in statistics mode.

The texts are functions of the eight statistics shown beside them: ``0`` for equal ones, percent for relative
differences (``50.0%`` is a `max_diff_rel` of 0.5), words where there is no number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from probe_flow.record.float_texts import number_texts
from probe_flow.reports.table import Cell
from probe_flow.reports.tables.dump_json.sides import ABSENT, NOT_A_NUMBER, Value

_DEVICE_WORDS = ("npu", "cpu", "cuda")


def difference_columns(targets: Sequence[Sequence[Value]], goldens: Sequence[Sequence[Value]]) -> list[Sequence[Cell]]:
    """Return target minus golden for maximum, minimum, mean and L2 norm, then the same relative to golden.

    Args:
        targets: a column of values for each of the four statistics.
        goldens: the same of the other side.
    """
    return _columns(targets, goldens, _difference)


def published_difference_columns(
    targets: Sequence[Sequence[Value]], goldens: Sequence[Sequence[Value]]
) -> list[Sequence[Cell]]:
    """Return the same as msprobe has it, which compares texts first and then floats.

    Integers lose what float64 cannot hold, text that looks like a number is one, and -0.0 differs from 0.0.
    """
    return _columns(targets, goldens, _published_difference)


_Difference: TypeAlias = Callable[[Value, Value], tuple[Cell, Cell]]


def _columns(
    targets: Sequence[Sequence[Value]], goldens: Sequence[Sequence[Value]], difference: _Difference
) -> list[Sequence[Cell]]:
    columns = [_column(*both, difference) for both in zip(targets, goldens, strict=True)]
    return [*(absolute for absolute, _ in columns), *(relative for _, relative in columns)]


def _column(
    targets: Sequence[Value], goldens: Sequence[Value], difference_of: _Difference
) -> tuple[list[Cell], list[Cell]]:
    """Return the differences of one statistic, those of floats all at a time."""
    import numpy as np

    target, golden = np.array(_floats(targets)), np.array(_floats(goldens))
    with np.errstate(all="ignore"):
        difference = target - golden
        percent = np.abs(difference / golden * 100)
    absolute: list[Cell] = difference.tolist()
    relative: list[Cell] = [text + "%" for text in number_texts(percent.tolist())]
    is_equal = (target == golden) & ((target != 0) | (np.signbit(target) == np.signbit(golden)))
    for place in np.flatnonzero(is_equal).tolist():
        absolute[place] = relative[place] = 0
    for place in np.flatnonzero(~(is_equal | np.isfinite(percent) & (difference != 0))).tolist():
        absolute[place], relative[place] = difference_of(targets[place], goldens[place])
    return absolute, relative


def _floats(values: Sequence[Value]) -> Sequence[float]:
    """Return the values with NaN for all that are no floats."""
    if set(map(type, values)) == {float}:
        return cast("Sequence[float]", values)
    return [value if isinstance(value, float) else math.nan for value in values]


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
        return (0, 0) if both else (NOT_A_NUMBER, NOT_A_NUMBER)
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


def _published_difference(target: Value, golden: Value) -> tuple[Cell, Cell]:
    texts = str(target), str(golden)
    if texts[0] == texts[1]:
        return 0, 0
    if ABSENT in texts:
        return ABSENT, ABSENT
    one, other = _as_number(target), _as_number(golden)
    if one is None or other is None:
        are_devices = all(any(word in text.lower() for word in _DEVICE_WORDS) for text in texts)
        return (ABSENT, ABSENT) if are_devices else ("Diff", "Diff")
    if not math.isfinite(one) or not math.isfinite(other):
        return _number_difference(one, other)
    difference = one - other
    return difference, f"{abs(difference / other * 100)}%" if other else "inf"


def _as_number(value: Value) -> float | None:
    """Return a number, or what a text says as one; None for truth values and other text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
