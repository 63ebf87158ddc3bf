"""Gradients of what was put together: the parts that calls get have to be the whole that came back.

A dump does not hold the gradients of a list, so nothing shows what ``cat`` and ``stack`` give to each of their parts.
But each part is the gradient that reaches the call which made it, and all of them together are the whole: the extremes
of all, and the means of means and squares. Where the target's are not, one of them is wrong, whatever else differs from
the golden. It is the one without which all others are near to the golden's, and so is what the whole leaves for it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.flow.links import Given
from probe_flow.analysis.statistics.dues import Operands, joined
from probe_flow.analysis.statistics.laws import bare
from probe_flow.analysis.statistics.moments import Moments, differing, moments_of
from probe_flow.analysis.statistics.own_inputs import Contradiction
from probe_flow.records import Phase
from probe_flow.records.row import Row

JOINING = frozenset(("cat", "concat", "concatenate", "stack"))
"""Types that put a list of tensors together."""

CLEARLY = 2.0
"""How many times further from the golden's the others must leave some part if any other one was the wrong one."""

_NO_ROW = -1

_NO_OPERANDS = Operands((), (), lambda _place: None)


class _Joining(NamedTuple):
    """How tensors were put together.

    Args:
        result: row of what they became.
        parts: rows of them, as the call read them.
        place: which of these was asked about.
        gradient: row of the gradient that came back of the result.
    """

    result: int
    parts: tuple[int, ...]
    place: int
    gradient: int


class JoinedGradients:
    """Finds gradients that are not the part of a whole that they are in the golden.

    Args:
        rows: all rows.
        calls: of them.
        readers: row of a forward result -> rows of the arguments that are that very tensor.
    """

    def __init__(self, rows: Sequence[Row], calls: Calls, readers: Mapping[int, Sequence[int]]) -> None:
        self._rows = rows
        self._calls = calls
        self._readers = readers
        self._owner = array("i", [_NO_ROW]) * len(rows)
        for owner, found in readers.items():
            for read in found:
                self._owner[read] = owner

    def contradiction(self, number: int) -> Contradiction | None:
        """Return what a gradient that reaches a call is not; None where nothing is known of it, or another part is."""
        joining = self._joining(number)
        if joining is None:
            return None
        whole, reaching = joining.gradient, [self._reaching(n) for n in joining.parts]
        parts = tuple(n for n in reaching if n is not None)
        if len(parts) < len(reaching) or len({*parts}) < len(parts):
            return None
        if number not in parts or any(self._rows[n].pair.is_guess for n in (whole, *parts)):
            return None
        gap, golden_gap = (self._gap(whole, parts, side) for side in ("target", "golden"))
        if gap is None or gap <= 1.0 or golden_gap is None or golden_gap > 1.0:
            return None
        wrong = self._wrong(whole, parts)
        if wrong is None or wrong[0] != number:
            return None
        (figure, own, due), name = differing(*wrong[1]), self._rows[whole].pair.shown.id
        return Contradiction(
            gap,
            f"is not the part of `{name}` that it is in the golden: its {figure} is {own:.4g}, the other parts leave "
            f"{due:.4g} for it",
        )

    def part(self, number: int) -> Given | None:
        """Return the part of a whole that a gradient is, by the shapes of what was put together; None of others."""
        joining = self._joining(number)
        if joining is None:
            return None
        whole, *shapes = [self._rows[n].pair.shown.shape or () for n in (joining.result, *joining.parts)]
        return Given.part_of((joining.gradient,), joining.place, whole, shapes)

    def _joining(self, number: int) -> _Joining | None:
        """Return how what a row is the gradient of was put together, where nothing else read it."""
        key, path = self._rows[number].node, self._rows[number].pair.shown.slot.path
        forward = self._calls.by_key.get(replace(key, phase=Phase.FORWARD)) if key.phase is Phase.BACKWARD else None
        made = [n for n in forward.written if self._rows[n].pair.shown.slot.path == path] if forward else []
        reads = self._readers.get(made[0], ()) if len(made) == 1 else ()
        call = self._calls.of[reads[0]] if len(reads) == 1 else None
        if call is None or call.node is None or bare(call.node.op_type) not in JOINING or len(call.written) != 1:
            return None
        backward = self._backward(call)
        parts = tuple(n for n in call.read if self._rows[n].pair.shown.slot.path[:1] == (0,))
        if backward is None or len(backward.read) != 1 or reads[0] not in parts:
            return None
        return _Joining(call.written[0], parts, parts.index(reads[0]), backward.read[0])

    def _reaching(self, part: int) -> int | None:
        """Return the row of the gradient that reaches what made a part, if nothing else read it."""
        made = None if self._owner[part] == _NO_ROW else self._owner[part]
        owner = self._calls.of[made] if made is not None and len(self._readers[made]) == 1 else None
        backward = self._backward(owner) if owner is not None else None
        if made is None or backward is None:
            return None
        path = self._rows[made].pair.shown.slot.path
        return next((n for n in backward.read if self._rows[n].pair.shown.slot.path == path), None)

    def _backward(self, call: Call) -> Call | None:
        return self._calls.by_key.get(replace(call.key, phase=Phase.BACKWARD))

    def _known(self, whole: int, parts: Sequence[int], side: str) -> tuple[Moments, list[Moments]] | None:
        first, *others = (moments_of(self._rows[n], side) for n in (whole, *parts))
        known = [each for each in others if each is not None]
        if first is None or len(known) < len(others) or any(each.unit != first.unit for each in known):
            return None
        return first, known

    def _gap(self, whole: int, parts: Sequence[int], side: str) -> float | None:
        known = self._known(whole, parts, side)
        dues = joined(*known, _NO_OPERANDS) if known is not None else ()
        return max((due.gap(known[0]) for due in dues), default=None) if known is not None else None

    def _wrong(self, whole: int, parts: Sequence[int]) -> tuple[int, tuple[Moments, Moments]] | None:
        """Return the one part that, put right, leaves all near to the golden's, with what it is and is due to be.

        None where that may be several.
        """
        target, golden = (self._known(whole, parts, side) for side in ("target", "golden"))
        if target is None or golden is None or len(parts) < 2:
            return None
        away = [_away(*two) for two in zip(target[1], golden[1], strict=True)]
        dues = [_left(target[0], target[1], place) for place in range(len(parts))]
        costs = [
            max(_away(due, golden[1][place]) if due is not None else math.inf, *away[:place], *away[place + 1 :])
            for place, due in enumerate(dues)
        ]
        least, second = sorted(costs)[:2]
        place = costs.index(least)
        due = dues[place]
        return (parts[place], (target[1][place], due)) if due is not None and second > CLEARLY * least else None


def _left(whole: Moments, parts: Sequence[Moments], place: int) -> Moments | None:
    """Return the statistics that a whole leaves for one of its parts; None where the others are more than it."""
    own, others = parts[place], [each for at, each in enumerate(parts) if at != place]
    square = whole.norm**2 - math.fsum(each.norm**2 for each in others)
    if square < 0.0:
        return None
    mean = (whole.mean * whole.count - math.fsum(each.mean * each.count for each in others)) / own.count
    return replace(own, mean=mean, norm=math.sqrt(square))


def _away(part: Moments, golden: Moments) -> float:
    """Return how far norm and mean of a part are from the golden's, in its size."""
    if not golden.size:
        return math.inf if part.size else 0.0
    return max(abs(part.size - golden.size), abs(part.mean - golden.mean)) / golden.size
