"""Bits that a result lacks: extremes that all are numbers of a narrower type than the one that holds them.

Coarse rounding hardly moves mean and norm, but extremes are elements, and so are those of its parts. Results in float32
may be cast to 16 bits inside of an operator, which no dump shows, and lack so many bits at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.model.arithmetic import COPY
from probe_flow.analysis.model.families import Family
from probe_flow.analysis.narrowed import BOTH_SIDES, PLAIN_BITS, rounded_before
from probe_flow.analysis.number_types import SIGNIFICANT_BITS, UNIT, WIDE, significand_bits
from probe_flow.records.row import Row

Extremes: TypeAlias = "tuple[float | None, float | None]"

WIDE_BITS = 24
"""Bits of a significand of float32, the leading one included."""

SUBNORMAL = 24
"""Exponent of float16 whose numbers have no bits left: those below 2**-14 are 2**-24 apart."""

TELLING = 16.0
"""How many times the distance to its golden a step may be to which a value was rounded: it is a sixteenth by chance
once in eight times."""

CARRIED = 0.5
"""Bits that what was read lacks, in those of the result, from which this carries them on."""

ONE_CAST = 11.0
"""Bits that a hidden cast of one result is worth where the target has no others: one in 2,000 such results at most."""


class FewerBits:
    """Finds results whose extremes lack bits, where statistics are all that is known.

    Args:
        rows: all rows.
        calls: of them.
        producers: row that was read -> rows that it came from.
        families: gives the arithmetic of a call.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        calls: Calls,
        producers: Mapping[int, tuple[int, ...]],
        families: Callable[[Call], frozenset[Family]],
    ) -> None:
        self._rows = rows
        self._calls = calls
        self._producers = producers
        self._families = families

    def of(self, number: int) -> LostBits | None:
        """Return the bits that the extremes of a result and of its parts lack.

        None of gradients, and of what shows again what came in: that was judged where it was made.
        """
        row, call = self._rows[number], self._calls.of[number]
        if call is None or call.is_gradient or not (row.is_produced and row.is_by_statistics):
            return None
        if self._families(call) == COPY or (own := lost_bits(row, casts=ONE_CAST)) is None:
            return None
        came_in = (lost_bits(self._rows[n], casts=ONE_CAST) for n in call.read)
        if any(lost is not None and lost.each >= CARRIED * own.each for lost in came_in):
            return None
        return lost_bits(row, [self._rows[n] for n in self._parts(number)], casts=self._casts)

    @cached_property
    def _casts(self) -> float:
        """What a hidden cast of a wide result is worth: nothing where the target has others, or 16-bit tensors."""
        targets = (each for row in self._rows if (each := row.pair.target) is not None)
        is_narrow = any(each.dtype in SIGNIFICANT_BITS for each in targets)
        return 0.0 if is_narrow or any(map(_was_narrow, self._rows)) else ONE_CAST

    def _parts(self, number: int) -> Iterator[int]:
        """Yield what calls that only move elements of a result made of them, and others of that."""
        dtype = self._rows[number].pair.shown.dtype
        for read in self._readers.get(number, ()):
            call = self._calls.of[read]
            if call is None or call.is_gradient or self._families(call) != COPY or call.is_random(self._rows):
                continue
            if sum(self._rows[n].pair.shown.dtype in UNIT for n in call.read) > 1:
                continue  # others are put together with it
            for written in call.written:
                if self._rows[written].pair.shown.dtype == dtype:
                    yield written
                    yield from self._parts(written)

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[int]]:
        """Result -> rows that show it again."""
        found: dict[int, list[int]] = {}
        for read, made in self._producers.items():
            if len(made) == 1:
                found.setdefault(made[0], []).append(read)
        return found


class LostBits(Struct, frozen=True):
    """What extremes say of a result.

    Args:
        bits: how many bits all of them lack together.
        each: how many each of them lacks.
        explains: share of how far they are from the golden's that so coarse a rounding makes at most.
        told: that in words.
    """

    bits: float
    each: float
    explains: float
    told: str


def lost_bits(row: Row, parts: Sequence[Row] = (), *, casts: float = 0.0) -> LostBits | None:
    """Return the bits of a significand that all extremes of a target lack; None where one lacks none, or few elements.

    A value is rounded to ``k`` bits fewer by accident once in ``2 ** k`` times, both extremes once in ``2 ** (2 k)``.
    ``parts`` hold elements of the result, as slices do: what their extremes are is rounded as well. A wide result that
    is cast to 16 bits by itself (``casts`` bits) lacks what these lack.
    """
    dtype, measured = row.pair.shown.dtype, row.measurement
    held = SIGNIFICANT_BITS.get(dtype, WIDE_BITS if dtype in WIDE else 0)
    if not held or measured is None or measured.count <= BOTH_SIDES:
        return None
    target, golden = _ends(row)
    own = list(zip(target, golden, strict=True))
    others = dict.fromkeys(pair for part in parts for pair in zip(*_ends(part), strict=True) if pair not in own)
    pairs = [*own, *others]
    bits, explains = bits_fewer(pairs, held)
    if not bits:
        return None
    each = bits / len(pairs)
    if held == WIDE_BITS:
        cast, _ = bits_fewer(pairs, SIGNIFICANT_BITS["bfloat16"])
        bits = min(bits, cast + casts)
        if not cast:
            return None
    and_parts = f", and those of {len(parts)} parts of it" if others else ""
    told = (
        f"minimum and maximum have {each:.2g} bits fewer than {dtype} holds ({target[0]:.6g} and "
        f"{target[1]:.6g}, golden {golden[0]:.6g} and {golden[1]:.6g}){and_parts}, by accident once in {2.0**bits:.0f} "
        f"times"
    )
    return LostBits(bits, each, explains, told)


def _was_narrow(row: Row) -> bool:
    """Whether a wide result of the target alone has the extremes of a 16-bit type, as a hidden cast leaves them."""
    if row.pair.shown.dtype not in WIDE or not (row.is_produced and row.is_by_statistics):
        return False
    target, golden = _ends(row)
    return bool(rounded_before(target, UNIT)) and not rounded_before(golden, UNIT)


def _ends(row: Row) -> tuple[Extremes, Extremes]:
    """Return smallest and largest value of the target, and of the golden."""
    measured = row.measurement
    sides = (measured.target_statistics, measured.golden_statistics) if measured is not None else (None, None)
    target, golden = ((each.min, each.max) if each is not None else (None, None) for each in sides)
    return target, golden


def bits_fewer(pairs: Sequence[tuple[float | None, float | None]], held: int) -> tuple[float, float]:
    """Return how many bits extremes of a target lack together, each as many, and what such a rounding `explains`.

    Bits that are worth more than 16 times the distance to the golden tell nothing. An extreme that is a plain number or
    zero in the golden, or differs by no more than a rounding step, tells nothing: it must lack as many, and does not
    count. Nor do the two ends of one range (-1 and 1), and what the golden's lack as well in a wide type.

    Args:
        pairs: extremes of target and golden: smallest and largest value of a tensor, then those of its parts.
        held: bits of the target's type.
    """
    least, steps, away = float(held), [0.0], []
    for value, other in pairs:
        if value == other == 0.0:
            continue
        if not value or not other or not math.isfinite(value) or not math.isfinite(other):
            return 0.0, 0.0
        exponent = math.frexp(max(abs(value), abs(other)))[1]
        kept = min(held, exponent + SUBNORMAL) if held == SIGNIFICANT_BITS["float16"] else held
        steps.append(math.ldexp(1.0, exponent - kept))
        apart = abs(value - other) / steps[-1]
        due = min(kept, significand_bits(other)) if held == WIDE_BITS else kept
        least = min(least, due - significand_bits(value))
        if apart > 1.0 and significand_bits(other) > PLAIN_BITS:
            least = min(least, math.log2(TELLING * apart))
            away.append(apart)
    (low, other_low), (high, other_high) = pairs[:2]
    is_range = all(abs(a + b) <= max(steps[:3]) for a, b in ((low, high), (other_low, other_high)))  # type: ignore[operator]
    if is_range or not away or least <= 0.0:
        return 0.0, 0.0
    return len(away) * least, min(1.0, 0.5 * 2.0**least / max(away))
