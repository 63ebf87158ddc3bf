"""Split the name of a fused device operator, a concatenation of graph operator names, back into its parts.

``Mul_1Add_2`` is ``Mul_1`` and ``Add_2``. A name must be consumed completely: a prefix that happens to be an operator
proves nothing (``Relu_12`` is not ``Relu_1``). Of several ways the one with the fewest neighbours that are not
connected in the graph wins, then the one with the fewest parts; what then remains equal is reported as ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

MAX_NAME_LENGTH = 4096
MAX_STATES = 200_000
"""Bound on the search over one name; real names need some hundred states."""


@dataclass(frozen=True, slots=True)
class FusedSplit:
    """The parts in order of execution, and another split of equal rank if there is one."""

    parts: tuple[str, ...]
    alternative: tuple[str, ...] | None = None


@dataclass(slots=True)
class _State:
    """Best way to reach one position with one last part."""

    cost: tuple[int, int]
    before: tuple[int, str] | None
    other: tuple[int, str] | None = None


def split_fused_name(
    name: str,
    names: Mapping[str, Sequence[str]],
    is_connected: Callable[[str, str], bool],
    *,
    lengths: Sequence[int] | None = None,
) -> FusedSplit | None:
    """Return the parts of `name`, or None when it is no concatenation of operator names.

    Args:
        name: the fused name as the dump has it.
        names: spelling in names -> the operators that have it (exact names and file-safe forms).
        is_connected: whether data flows directly between two operators, in either direction.
        lengths: the distinct lengths of `names`, ascending; worth keeping when many names are split.
    """
    if len(name) > MAX_NAME_LENGTH:
        return None
    lengths = name_lengths(names) if lengths is None else lengths
    states: list[dict[str, _State]] = [{} for _ in range(len(name) + 1)]
    states[0][""] = _State((0, 0), None)
    count = 0
    for at in range(len(name)):
        if not states[at]:
            continue
        for length in lengths:
            if at + length > len(name):
                break
            for part in names.get(name[at : at + length], ()):
                count += len(states[at])
                if count > MAX_STATES:
                    return None
                _extend(states, at, at + length, part, is_connected)
    return _best(states)


def name_lengths(names: Iterable[str]) -> list[int]:
    """Return the distinct lengths of some names, ascending, the empty name left out."""
    return sorted({len(text) for text in names if text})


def _extend(
    states: list[dict[str, _State]], at: int, end: int, part: str, is_connected: Callable[[str, str], bool]
) -> None:
    for last, state in states[at].items():
        gaps = state.cost[0] + (1 if last and not is_connected(last, part) else 0)
        cost = (gaps, state.cost[1] + 1)
        known = states[end].get(part)
        if known is None or cost < known.cost:
            states[end][part] = _State(cost, (at, last))
        elif cost == known.cost and known.other is None:
            known.other = (at, last)


def _best(states: list[dict[str, _State]]) -> FusedSplit | None:
    ends = states[-1]
    if not ends:
        return None
    lowest = min(state.cost for state in ends.values())
    winners = [(len(states) - 1, part) for part, state in ends.items() if state.cost == lowest]
    parts, detour = _trace(states, winners[0])
    if len(winners) > 1:
        return FusedSplit(parts, _trace(states, winners[1])[0])
    return FusedSplit(parts, detour)


def _trace(states: list[dict[str, _State]], end: tuple[int, str]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Walk back from the end; the second result leaves the best way where an equal one joins it."""
    parts: list[str] = []
    detour: tuple[str, ...] | None = None
    step: tuple[int, str] | None = end
    while step is not None and step[0]:
        state = states[step[0]][step[1]]
        parts.append(step[1])
        if state.other is not None and detour is None:
            detour = _trace(states, state.other)[0] + tuple(reversed(parts))
        step = state.before
    return tuple(reversed(parts)), detour
