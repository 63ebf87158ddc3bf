"""What statistics prove of a sum over ranks: its mean is the sum of the means that all of them gave.

An error of what a rank gave reaches every rank through the sum, whatever its size. Only this law tells a sum that lacks
a rank, or is the largest of all in its place, from one that carries on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.flow.across_ranks import AcrossRanks
from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.statistics.dues import Due, averaged, inside
from probe_flow.analysis.statistics.moments import Moments, apart, moments_of
from probe_flow.analysis.statistics.own_inputs import Contradiction
from probe_flow.records import TensorKind
from probe_flow.records.row import Row

ADDED = "all_reduce"
"""Ends the names of what gives every rank the sum of what all gave; of another operation the golden breaks the law."""


def summed(whole: Moments, parts: Sequence[Moments]) -> Sequence[Due]:
    """The mean of a sum of several is that of their means, and none of its elements is beyond those of the extremes."""
    mean, top = math.fsum(each.mean for each in parts), sum(each.top for each in parts)
    explained = averaged(whole, whole) + math.fsum(averaged(each, whole) for each in parts)
    low, high = (math.fsum(getattr(each, end) for each in parts) for end in ("low", "high"))
    # Each addition rounds once, in an order that is up to the network.
    return Due("mean", mean, mean, explained), *inside(whole, low, high, len(parts) * top)


def contradiction_of_sum(number: int, call: Call, rows: Sequence[Row], across: AcrossRanks) -> Contradiction | None:
    """Return what a sum over ranks is not by what all of them gave; None where nothing contradicts, or it is none."""
    partners = across.partners(call) if call.key.name.endswith(ADDED) else None
    if partners is None or partners.absent or not partners.calls:
        return None
    members = call, *partners.calls
    given = [[n for n in each.read if rows[n].pair.shown.kind is not TensorKind.SCALAR] for each in members]
    if any(len(each) != 1 for each in given) or any(each.key.name != call.key.name for each in members):
        return None
    parts = [numbers[0] for numbers in given]
    if any(rows[n].pair.is_guess for n in (number, *parts)) or _is_recorded_late(members, parts, rows):
        return None
    worst = {side: _worst(number, parts, rows, side) for side in ("target", "golden")}
    mine, other = worst["target"], worst["golden"]
    if mine is None or other is None or other[0].gap(other[1]) > 1.0 or (gap := mine[0].gap(mine[1])) <= 1.0:
        return None
    told = f"is not the sum of what {len(parts)} ranks gave, as the golden's is: {mine[0].told(mine[1])}"
    return Contradiction(gap, told)


def _worst(number: int, parts: Sequence[int], rows: Sequence[Row], side: str) -> tuple[Due, Moments] | None:
    """Return what one side's sum is furthest from, with its statistics; None where these do not tell."""
    whole, known = moments_of(rows[number], side), [moments_of(rows[n], side) for n in parts]
    same = [each for each in known if each is not None and whole is not None and each.count == whole.count]
    if whole is None or len(same) < len(parts):
        return None
    return max(summed(whole, same), key=lambda due: due.gap(whole)), whole


def _is_recorded_late(members: Sequence[Call], parts: Sequence[int], rows: Sequence[Row]) -> bool:
    """Whether the target's collector may have recorded what ranks gave as what the call made of it, in place."""
    for call, part in zip(members, parts, strict=True):
        before = moments_of(rows[part], "target")
        after = next((each for n in call.written if (each := moments_of(rows[n], "target")) is not None), None)
        if before is None or after is None or before.count != after.count or apart(after, before) > 1.0:
            return False
    return True
