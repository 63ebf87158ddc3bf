"""When rows happened: the order in which they are judged, and the one in which what is found is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from probe_flow.analysis.flow.calls import Calls
from probe_flow.records import Execution, shared_numbers
from probe_flow.records.row import Row, mixed, number_or_first


def in_time(calls: Calls, moment: Callable[[int], Any] | None = None) -> Sequence[int]:
    """Return row numbers by step, then by execution and node order: what happened first comes first.

    Gradients of parameters come behind the gradients that they were made of, wherever the collector wrote them down.

    Args:
        calls: of all rows.
        moment: where ranks communicate, when a row happened among those of all ranks (`AcrossRanks.moment`); None = one
            rank after the other.
    """

    def key(number: int) -> tuple[object, ...]:
        call = calls.of[number]
        assert call is not None
        run = call.key.execution
        last = max(number, call.incoming[-1]) if call.incoming else number
        return (
            number_or_first(run.step),
            number_or_first(run.micro_step),
            moment(last) if moment is not None else 0,
            last,
            bool(call.incoming),
            number,
        )

    steps = {(call.key.execution.step, call.key.execution.micro_step) for call in calls}
    is_in_order = len(steps) < 2 and moment is None and not any(call.incoming for call in calls)
    if is_in_order and None not in calls.of:
        return range(len(calls.of))  # a list would take 8 bytes a row
    numbers = [n for n, call in zip(shared_numbers(len(calls.of)), calls.of, strict=False) if call is not None]
    return numbers if is_in_order else sorted(numbers, key=key)


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
