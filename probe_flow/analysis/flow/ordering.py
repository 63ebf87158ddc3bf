"""When rows happened: the order in which they are judged, and the one in which what is found is told."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from probe_flow.analysis.flow.calls import Calls
from probe_flow.records import Execution
from probe_flow.records.figures import Integers
from probe_flow.records.row import Row, mixed, number_or_first


def in_time(calls: Calls, moment: Callable[[int], Any] | None = None) -> Sequence[int]:
    """Return row numbers by step, then by execution and node order: what happened first comes first.

    Gradients of parameters come behind the gradients that they were made of, wherever the collector wrote them down.

    Args:
        calls: of all rows.
        moment: where ranks communicate, when a row happened among those of all ranks (`AcrossRanks.moment`); None = one
            rank after the other.
    """
    steps = {(run.step, run.micro_step) for run in calls.executions}
    is_in_order = len(steps) < 2 and moment is None and not any(call.incoming for call in calls)
    if is_in_order and all(call is not None for call in calls.of):
        return range(len(calls.of))
    numbers = array("I", (number for number, call in enumerate(calls.of) if call is not None))
    return numbers if is_in_order else _sorted(numbers, calls, moment)


def _sorted(numbers: Integers, calls: Calls, moment: Callable[[int], Any] | None) -> Integers:
    """Return row numbers as `in_time`. A key that is a tuple would take 200 bytes a row while they are sorted."""
    import numpy as np

    whens: dict[tuple[Any, ...], int] = {}
    when, lasts, waits = array("i"), array("i"), array("b")
    for number in numbers:
        call = calls.of[number]
        assert call is not None
        run = call.key.execution
        last = max(number, call.incoming[-1]) if call.incoming else number
        step = number_or_first(run.step), number_or_first(run.micro_step)
        when.append(whens.setdefault((*step, moment(last) if moment is not None else 0), len(whens)))
        lasts.append(last)
        waits.append(bool(call.incoming))
    places = {number: place for place, (_, number) in enumerate(sorted(whens.items()))}
    first = np.array([places[number] for number in range(len(places))], dtype=np.intc)[np.frombuffer(when, np.intc)]
    order = np.lexsort((np.frombuffer(waits, np.int8), np.frombuffer(lasts, np.intc), first))
    return array("I", np.frombuffer(numbers, np.uintc)[order].tobytes())


def side_by_side(
    found: Iterable[int], order: Sequence[int], rows: Sequence[Row], layer: Callable[[int], Any] | None = None
) -> list[int]:
    """Sort rows by step, graph and place in their execution: ranks run at the same time, not one after the other.

    Args:
        found: row numbers.
        order: all row numbers in the order of `in_time`, rank by rank within a step.
        rows: all rows.
        layer: what comes before the place, of one row number; compared with those of other ranks. None = nothing.
    """
    wanted = set(found)
    if len({rows[number].node.execution.rank for number in wanted}) < 2:
        return [number for number in order if number in wanted]
    seen: Counter[Execution] = Counter()
    keys: dict[int, tuple[object, ...]] = {}
    for number in order:
        run = rows[number].node.execution
        seen[run] += 1
        if number in wanted:
            step = number_or_first(run.step), number_or_first(run.micro_step)
            keys[number] = (
                *step,
                mixed(run.graph),
                layer(number) if layer is not None else 0,
                seen[run],
                number_or_first(run.rank),
                number,
            )
    return sorted(keys, key=keys.__getitem__)
