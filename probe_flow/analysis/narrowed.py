"""Values that were in a narrower type before the one that holds them: told by extremes, whose last bits are zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from probe_flow.analysis.number_types import HALF_RANGE, SIGNIFICANT_BITS, significand_bits

PLAIN_BITS = 4
"""Numbers with so few bits say nothing: 0, 1, 0.5, 6 and such are meant as they are."""

PLAIN_INTEGER = 512.0
"""Nor do integers below this: pixels, counts, classes."""

BOTH_SIDES = 2
"""Extremes that must be known, one of each side."""


def rounded_before(extremes: Sequence[float | None], units: Mapping[str, float]) -> float:
    """Return the relative error that an earlier rounding of a wide tensor explains; 0.0 where it shows none.

    Args:
        extremes: smallest and largest value of both sides; None where not known (masked scores have no smallest one).
            One of each side is enough.
        units: what rounding explains by dtype (`UNIT`).
    """
    known = [value for value in extremes if value is not None]
    if len(known) < BOTH_SIDES:
        return 0.0
    bits, tells = 0, False
    for value in known:
        used = significand_bits(value)
        if used > SIGNIFICANT_BITS["float16"]:
            return 0.0
        bits = max(bits, used)
        tells = tells or (used > PLAIN_BITS and not (abs(value) < PLAIN_INTEGER and float(value).is_integer()))
    if not tells:
        return 0.0
    if bits <= SIGNIFICANT_BITS["bfloat16"]:
        return units["bfloat16"]
    least, most = HALF_RANGE  # what is outside was not in float16
    return units["float16"] if all(not each or least <= abs(each) <= most for each in known) else 0.0
