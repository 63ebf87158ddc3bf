"""Join tensors of two stretches by shape alone: where only one fits, or as many on both sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from probe_flow.matching.offline.align import align
from probe_flow.records import TensorRef

AMBIGUOUS = 3
"""Candidates that a reason names."""

MAX_COMPARED = 250_000
"""Pairs of tensors that one stretch may compare by shape, a few seconds; longer ones are left without partners."""


@dataclass(slots=True)
class Joined:
    """Pairs with whether nothing else fits, and for the others what they could be, by identity."""

    pairs: list[tuple[TensorRef, TensorRef, bool]] = field(default_factory=list)
    candidates: dict[int, Sequence[TensorRef]] = field(default_factory=dict)


def join_alike(target: Sequence[TensorRef], golden: Sequence[TensorRef]) -> Joined:
    """Join tensors that can hold the same values, in order; whatever several could be is left with its candidates."""
    joined = Joined()
    if len(target) * len(golden) > MAX_COMPARED:
        return joined
    fitting = [[number for number, other in enumerate(golden) if align(ref, other).problem is None] for ref in target]
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    wanted: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for place, numbers in enumerate(fitting):
        key = tuple(numbers)
        if key:
            alike[key].append(place)
            for number in key:
                wanted[number].add(key)
    for key, places in alike.items():
        is_own = all(wanted[number] == {key} for number in key)
        if is_own and len(places) == len(key):
            joined.pairs.extend(
                (target[place], golden[number], len(key) == 1) for place, number in zip(places, key, strict=True)
            )
        else:
            joined.candidates.update((id(target[place]), [golden[number] for number in key]) for place in places)
            for number in key:
                others = [target[each] for each in places]
                known = joined.candidates.get(id(golden[number]), ())
                joined.candidates[id(golden[number])] = [*known, *others]
    return joined
