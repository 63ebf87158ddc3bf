"""Which values that are not finite a tensor of a dump holds, how that is said, and which operators are asked for them.

Those write what they are told to, or leave memory as it is: told by their names and types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple

from probe_flow.records import Mode, Pairs, Statistics
from probe_flow.records.row import Row
from probe_flow.relations.levels import is_abnormal_sum


class State(NamedTuple):
    """Which values that are not finite a tensor holds."""

    nan: bool
    positive: bool
    negative: bool


def state_of(row: Row) -> State | None:
    """Return what a tensor holds that is not finite; None for a finite one, and where nothing was measured.

    Of recorded statistics the extremes count, and means and norms that no finite elements can have made.
    """
    measured = row.measurement
    if measured is None:
        return None
    if measured.mode is Mode.TENSOR:
        counts = (bool(measured.metric(name)) for name in ("nan_count", "positive_inf_count", "negative_inf_count"))
        return _some(State(*counts))
    side = measured.target
    assert side is not None
    return state_of_statistics(side.statistics, measured.count, row.pair.shown.dtype)


def state_of_statistics(known: Statistics, count: int, dtype: str) -> State | None:
    """Return the same of statistics, whether they are of all elements or of the finite ones with the others counted.

    Args:
        known: the statistics.
        count: number of elements.
        dtype: of these.
    """
    low, high, sums = known.min, known.max, (known.mean, known.l2norm)
    is_finite = low is not None and high is not None and -math.inf < low <= high < math.inf
    if is_finite and not (known.nan or known.inf) and all(each is None or -math.inf < each < math.inf for each in sums):
        return None  # nearly always
    ends = [each for each in (low, high) if each is not None]
    figures = ends or [each for each in sums if each is not None]
    if is_finite and is_abnormal_sum(known, count, dtype):
        figures = [each for each in sums if each is not None]
    positive, negative = math.inf in figures, -math.inf in figures
    infinite = bool(known.inf) and not (positive or negative)
    total = known.mean if known.l2norm is None else known.l2norm
    is_nan = bool(known.nan) or total != total or any(each != each for each in figures)
    return _some(State(is_nan, positive or infinite, negative))


def state_with_sums(row: Row) -> State | None:
    """Return the same where mean and norm that the dump recorded count as well, beside elements too."""
    found, tensor = state_of(row), row.pair.shown
    recorded = tensor.recorded
    if found is not None or recorded is None or row.measurement is None:
        return found
    if not is_abnormal_sum(recorded, row.measurement.count, tensor.dtype):
        return None
    is_nan = any(each is not None and each != each for each in (recorded.mean, recorded.l2norm))
    return State(nan=is_nan, positive=not is_nan, negative=False)


def _some(found: State) -> State | None:
    return found if any(found) else None


StateOf = Callable[[Row], "State | None"]
"""What a row holds that is not finite."""


def described(row: Row, state: State) -> str:
    """Return what is not finite in a tensor: ``3 NaN, 1 inf of 64 elements``, of statistics ``maximum inf``."""
    measured = row.measurement
    assert measured is not None
    if _is_of_sums_alone(row):
        return f"norm or mean {'NaN' if state.nan else 'infinite'}, minimum and maximum finite"
    if measured.mode is Mode.TENSOR:
        counts = (*map(measured.metrics.get, ("nan_count", "positive_inf_count", "negative_inf_count")),)
        found = [f"{count} {word}" for count, word in zip(counts, ("NaN", "inf", "-inf"), strict=True) if count]
        return f"{', '.join(found)} of {measured.count} element{'' if measured.count == 1 else 's'}"
    words = _VALUE if measured.mode is Mode.VALUE else _RECORDED
    return ", ".join(word for word, is_there in zip(words, state, strict=True) if is_there)


def _is_of_sums_alone(row: Row) -> bool:
    """Whether only sums show what is not finite: no elements, and finite extremes."""
    measured = row.measurement
    if state_of(row) is None:
        return True
    known = measured.target_statistics if measured is not None and measured.mode is Mode.STATISTICS else None
    ends = (known.min, known.max) if known is not None and not (known.nan or known.inf) else (None,)
    return all(each is not None and math.isfinite(each) for each in ends)


_VALUE = ("its value is NaN", "its value is inf", "its value is -inf")
_RECORDED = ("NaN recorded", "maximum inf", "minimum -inf")


EMPTY = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "empty_with_format", "new_empty", "new_empty_strided")
)
"""Operators that return memory as it is."""

FILLS = EMPTY.union(
    ("full", "full_like", "new_full", "fill", "masked_fill", "maskedfill", "where", "select", "selectv2"),
    ("scalar_tensor", "lift_fresh_copy", "const", "constant", "constantofshape"),
)
"""Operators that write what they are told to, or nothing; the words of their names, without underscores at the ends."""

_NUMBER = re.compile(r"_?\d+$")


@lru_cache(maxsize=4096)
def _words(name: str) -> frozenset[str]:
    """Return the parts of a name of an operator: ``masked_fill`` of ``Tensor.masked_fill_``, ``fill`` of ``Fill_3``."""
    return frozenset(_NUMBER.sub("", part).strip("_") for part in name.lower().split("."))


def is_fill(row: Row, pairs: Pairs, kinds: Collection[str] = FILLS) -> bool:
    """Whether a row belongs to an operator of these, by its name or type."""
    node = pairs.target.nodes.get(row.node)
    words = _words(row.node.name) | _words(node.op_type if node is not None else "")
    return not words.isdisjoint(kinds)
