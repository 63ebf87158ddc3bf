"""What statistics of a result prove by those of its own inputs, whatever error these have.

The mean of a sum is the sum of the means, and putting elements elsewhere changes no statistic. Where that holds for the
golden it must hold for the target, so its own contradiction is a proof without any allowance: behind another fault,
random operators and decisions as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.model.growth import common_share
from probe_flow.analysis.model.handed_on import NARROW, Moments, apart, differing, moments_of
from probe_flow.records import Phase
from probe_flow.records.row import Row

SIGNS: Mapping[str, tuple[int, int]] = {
    "add": (1, 1), "radd": (1, 1), "iadd": (1, 1), "sub": (1, -1), "isub": (1, -1), "rsub": (-1, 1),
}  # fmt: skip
"""Sums by their types, with the signs of their terms."""

MOVED = frozenset(
    {"reshape", "view", "permute", "transpose", "flatten", "contiguous", "squeeze", "unsqueeze", "clone", "t"}
)
"""Types that put the same elements elsewhere."""


class Contradiction(Struct, frozen=True):
    """What a target's result is not, by its own inputs.

    Args:
        gap: how far it is off, in what rounding explains.
        told: in words.
    """

    gap: float
    told: str


class OwnInputs:
    """Finds results whose statistics contradict those of their own inputs.

    Args:
        rows: all rows.
        calls: of them.
    """

    def __init__(self, rows: Sequence[Row], calls: Calls) -> None:
        self._rows = rows
        self._calls = calls

    def contradiction(self, number: int) -> Contradiction | None:
        """Return what a result is not; None where nothing contradicts, or the golden has no such rule."""
        row, call = self._rows[number], self._calls.of[number]
        if call is None or call.node is None or len(call.written) != 1 or call.key.phase is not Phase.FORWARD:
            return None
        read = [n for n in call.read if self._rows[n].is_by_statistics]
        if any(self._rows[n].pair.is_guess or self._rows[n].pair.rule.is_self for n in (number, *read)):
            return None
        kind = call.node.op_type.strip("_").lower()
        signs = SIGNS.get(kind, ()) if len(read) == len(SIGNS.get(kind, ())) else ()
        if not signs and not (kind in MOVED and len(read) == 1):
            return None
        found = [_sides(self._rows, number, read, side) for side in ("target", "golden")]
        target, golden = (None if each is None else _gap(*each, signs) for each in found)
        if target is None or golden is None or golden > 1.0 or target <= 1.0 or self._is_in_place(call, row, read):
            return None
        assert found[0] is not None
        return Contradiction(target, _told(*found[0], signs))

    def _is_in_place(self, call: Call, row: Row, read: Sequence[int]) -> bool:
        """Whether the target's collector may have recorded an input as what the call made of it."""
        assert call.node is not None
        kind = call.node.op_type
        if not (kind.startswith("__i") or (kind.endswith("_") and not kind.endswith("__"))):
            return False
        whole = moments_of(row, "target")
        return whole is not None and any(_is_same(whole, moments_of(self._rows[n], "target")) for n in read)


def _sides(
    rows: Sequence[Row], number: int, read: Sequence[int], side: str
) -> tuple[Moments, Sequence[Moments]] | None:
    whole, *parts = (moments_of(rows[n], side) for n in (number, *read))
    known = [each for each in parts if each is not None]
    return None if whole is None or len(known) < len(parts) else (whole, known)


def _gap(whole: Moments, parts: Sequence[Moments], signs: Sequence[int]) -> float | None:
    if not signs:
        (same,) = parts
        return apart(whole, same) if same.count == whole.count and same.unit == whole.unit else None
    if any(whole.count % each.count for each in parts):
        return None
    # What its elements are rounded by averages out, unless they are so alike that all are rounded alike.
    share = common_share(whole.count) if whole.spread > NARROW * whole.unit * whole.size else 1.0
    terms = (whole, *parts)
    explained = sum(share * whole.unit * each.size + each.recorded * each.size for each in terms)
    return abs(whole.mean - _sum(parts, signs)) / explained if explained else 0.0


def _sum(parts: Sequence[Moments], signs: Sequence[int]) -> float:
    return math.fsum(sign * each.mean for sign, each in zip(signs, parts, strict=True))


def _is_same(whole: Moments, part: Moments | None) -> bool:
    return part is not None and part.count == whole.count and apart(whole, part) <= 1.0


def _told(whole: Moments, parts: Sequence[Moments], signs: Sequence[int]) -> str:
    if signs:
        what = "sum" if -1 not in signs else "difference"
        return (
            f"is not the {what} of its own inputs, as the golden's is: its mean is {whole.mean:.4g}, theirs make "
            f"{_sum(parts, signs):.4g}"
        )
    (same,) = parts
    name, here, there = differing(whole, same)
    return f"holds other elements than its own input, unlike the golden's: its {name} is {here:.4g}, there {there:.4g}"
