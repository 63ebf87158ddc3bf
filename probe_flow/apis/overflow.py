"""How a call is judged whose recorded results overflowed: is it the device, or what the call was given?

Where the exact result, rounded to the type, is not finite either, the overflow is normal. Source: `run_overflow_check`
of msprobe, which asks the processor in the recorded type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from probe_flow.apis.acc_check import Figures, Judgement
from probe_flow.apis.calls import NUMBERS, TENSOR_TYPES, UnusableError
from probe_flow.apis.run import Direction
from probe_flow.apis.side import Held, Result

NORMAL = "normal: it overflows on the benchmark too"
ABNORMAL = "abnormal: it overflows, and the benchmark does not"
ABNORMAL_BENCHMARK = "abnormal: it does not overflow, and the benchmark does"
NOT_REPEATED = "the overflow that the dump records does not come again: alone, the call overflows on neither side"

_STATISTICS = ("Max", "Min", "Mean", "Norm")


def overflowed(entry: object) -> bool | None:
    """Return whether an entry of a dump records results that are not finite; None where it does not say.

    Args:
        entry: forward or backward, as it is in the dump: statistics of tensors and plain numbers in its ``output``.
    """
    results = list(_numbers(entry.get("output"))) if isinstance(entry, dict) else []
    if any(isinstance(number, float) and not math.isfinite(number) for number in results):
        return True
    return None if None in results else False


def _numbers(element: object) -> Iterator[float | None]:
    """Yield what is known of the values of an element: statistics and plain numbers; None of a tensor without any."""
    if isinstance(element, list):
        for each in element:
            yield from _numbers(each)
    elif isinstance(element, dict) and element.get("type") in TENSOR_TYPES:
        known = [element[name] for name in _STATISTICS if isinstance(element.get(name), int | float)]
        shape = element.get("shape")
        is_empty = isinstance(shape, list) and 0 in shape
        yield from known or (() if is_empty else (None,))
    elif isinstance(element, dict) and element.get("type") in NUMBERS:
        value = element.get("value")
        yield value if isinstance(value, int | float) else None
    elif isinstance(element, dict) and "type" not in element:
        for each in element.values():
            yield from _numbers(each)


def judge_overflow(tested: Result, benchmark: Result) -> Judgement:
    """Judge one result by whether its benchmark overflows: right where both do, and where neither does.

    Args:
        tested: result of the device.
        benchmark: the exact one, rounded to its type.
    """
    sides = _is_finite(tested.value), _is_finite(benchmark.value)
    words = {(False, False): NORMAL, (False, True): ABNORMAL, (True, False): ABNORMAL_BENCHMARK, (True, True): ""}
    return Judgement(sides[0] == sides[1], Figures(), words[sides])


def _is_finite(value: object) -> bool:
    if isinstance(value, Held):
        return bool(np.isfinite(value.values).all())
    return not isinstance(value, float) or math.isfinite(value)


def repeated(direction: Direction, entry: object) -> Direction:
    """Return what became of a direction; not checked, where its recorded overflow did not come again."""
    if direction.skipped is not None or not overflowed(entry):
        return direction
    if any(each.judgement.message for each in direction.checked):
        return direction
    return replace(direction, checked=(), skipped=UnusableError(NOT_REPEATED))
