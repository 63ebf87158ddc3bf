"""Findings at one tensor of several executions, told once: a wrong kernel is wrong on every rank and in every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct

from probe_flow.record.places import printable
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.records import FindingKind

_TENSOR = ("node", "graph", "call", "phase", "direction", "index", "comparison")
_place_of = attrgetter(*_TENSOR, "rank", "step")
_same = attrgetter("kind", "fails", *_TENSOR)
"""What findings have in common that are told as one: everything but rank, step, figures and evidence."""

_SUSPECTED = frozenset((FindingKind.ORIGIN, FindingKind.CHECKSUM_ORIGIN, FindingKind.FAILURE, FindingKind.SUSPECT))

MAX_NAMED = 4
"""So many further executions are named one by one where they are not all of some ranks and steps."""


class SamePlace(Struct, frozen=True):
    """What was found at one tensor.

    Args:
        first: the most important finding there, as in run.json.
        others: the same in other executions, ranked.
    """

    first: FindingRecord
    others: Sequence[FindingRecord]

    def is_at(self, place: FindingRecord) -> bool:
        """Whether the most important finding names this place of run.json, rank and step included."""
        return is_same_place(self.first, place)

    @property
    def elsewhere(self) -> str:
        """``11 more executions: all of ranks 0 to 3, steps 0 to 2``; empty where there is one only."""
        count = len(self.others)
        if not count:
            return ""
        return f"{count} more execution{'' if count == 1 else 's'}: {_executions([self.first, *self.others])}"


def is_same_place(one: FindingRecord, other: FindingRecord) -> bool:
    """Whether two findings are at one tensor of one execution."""
    return bool(_place_of(one) == _place_of(other))


def same_places(findings: Iterable[FindingRecord]) -> list[SamePlace]:
    """Return findings of run.json by the tensor that they name, in the order of the first of each.

    A finding that names no operator stands alone.
    """
    groups: dict[object, list[FindingRecord]] = {}
    for number, finding in enumerate(findings):
        key = _same(finding) if finding.node is not None else number
        groups.setdefault(key, []).append(finding)
    return [SamePlace(found[0], found[1:]) for found in groups.values()]


def suspected(run: RunRecord) -> list[SamePlace]:
    """Return the origins of a run record and what comes near to being one, each tensor once for all executions."""
    return same_places(found for found in run.findings if found.kind in _SUSPECTED)


def elsewhere(places: Iterable[SamePlace], first: FindingRecord) -> str:
    """Return where else the same was found as at ``first``."""
    return next((found.elsewhere for found in places if found.is_at(first)), "")


def _executions(places: Sequence[FindingRecord]) -> str:
    parts = {
        "rank": list(dict.fromkeys(place.rank for place in places)),
        "step": list(dict.fromkeys(place.step for place in places)),
    }
    several = {name: values for name, values in parts.items() if values != [None]}
    if len(places) == len(parts["rank"]) * len(parts["step"]):
        return "all of " + ", ".join(_values(name, values) for name, values in several.items())
    named = [_place(place) for place in places[1 : 1 + MAX_NAMED]]
    rest = len(places) - 1 - len(named)
    return "; ".join(named) + (f" and {rest} more" if rest else "")


def _place(place: FindingRecord) -> str:
    numbers = {"rank": place.rank, "step": place.step}
    return ", ".join(f"{name} {number}" for name, number in numbers.items() if number is not None)


def _values(name: str, values: Sequence[Any]) -> str:
    """Return ``rank 1``, ``ranks 0 to 3`` or ``steps 0, 2, 5``."""
    if len(values) == 1:
        return f"{name} {printable(values[0])}"
    numbers = sorted(value for value in values if isinstance(value, int))
    if len(numbers) == len(values) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{name}s {numbers[0]} to {numbers[-1]}"
    shown = numbers if len(numbers) == len(values) else values
    return f"{name}s " + ", ".join(printable(value) for value in shown)
