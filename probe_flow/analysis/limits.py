"""The limits of the search: from where on a figure accuses, a row is told, and a result is computed again.

What a row may be off by is its allowance, and the constants of that (rounding, amplification) stand with their rules.
How many times its allowance it may be is no theory: limits lie above what healthy runs reach, with a margin for kernels
that are less exact. ``python -m benchmarks.calibrate`` measures it, ``benchmarks/calibration.json``
keeps it, and a test holds the limits against it, so that none changes unmeasured.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Limits(NamedTuple):
    """How many times its allowance each figure may be; ``peak`` that of one element, ``offset`` that of the mean."""

    rms: float
    peak: float
    gain: float
    offset: float

    def of(self, figure: str) -> float:
        """Return that of a figure by its name; 1 for what has no limit of its own, as a picked index."""
        return float(getattr(self, figure, 1.0))


class OtherData(NamedTuple):
    """From where on what is made of other random values accuses, where only statistics are known.

    Args:
        times: of its limit.
        share: of its size.
        apart: change of norm or mean of what a dropout drew otherwise, relative and times the root of the rows.
    """

    times: float
    share: float
    apart: float


class FewerBits(NamedTuple):
    """What bits are worth that both extremes of a 16-bit result lack: ``k`` are an accident once in ``2 ** k`` times.

    Args:
        accuse: from so many on.
        limit: how many a figure at its limit is worth beside them, and a share of it as much less.
    """

    accuse: float
    limit: float


LIMITS = Limits(rms=2.5, peak=1.5, gain=2.5, offset=2.5)
"""Of whatever every element is known of, and of what a call reads."""

STATISTICS_LIMITS = Limits(rms=1.25, peak=1.1, gain=1.7, offset=1.2)
"""Of what the forward pass computed where only statistics are known. These prove a part of the error, the rest averages
out in them, and what inputs may hide is allowed in full. Where kernels round faithfully, to either neighbour, peaks
reach 0.95: in 16 bits two roundings are most of what is explained."""

GRADIENT_LIMITS = Limits(rms=1.6, peak=1.1, gain=2.0, offset=1.6)
"""The same of gradients, behind gates whose noise is estimated only."""

REPEATED_LIMITS = Limits(rms=2.0, peak=10.0, gain=2.0, offset=2.0)
"""How many times the golden's own error (against a reference), or what runs of one side differ by, a figure may be: the
vendor's benchmark standard for operators, level L0."""

ASKED = 0.3
"""Share of its limit from which a result stands out enough to be computed again. In bfloat16 a factor of 3 % and a
ripple of 2 % reach 0.3 to 0.55. So do 0 to 23 of the 59 to 346 results of 13 healthy networks in bfloat16, and none of
those in float32."""

NEAR = 0.6
"""Share of its limit from which a row comes near to being a suspect, and is named behind origins."""

ALONE = 0.8
"""The same where there are none: of 594 healthy pairs none reaches it."""

STRONG = 2.0
"""A suspect of this score is an origin even downstream of another one: its inputs' errors do not explain it."""

LATER = 5.0
"""The same where it depends on a suspect of an earlier step, whose error went into a parameter: what is made with that
is off in one direction, which does not average out as noise does."""

BEYOND = 2.0
"""From how many times what no right result reaches a recomputed one is wrong; between 1 and this nothing is proven."""

FEWER_BITS = FewerBits(accuse=18.0, limit=20.8)
"""Eighteen bits are one accident in 260,000. One healthy result in 1,000 (10 bits) reaches 0.48 of its limit."""

DRIFT = ((2.0**-40, 1e-6), (2.0**-17, 5e-3), (2.0**-11, 5e-2), (2.0**-8, 2e-1), (2.0**-6, 3e-1))
"""(relative error of storage up to which it holds, relative error of a network's output that still counts as rounding):
about 100 rounding steps for 16-bit types. The last is that of int8: half a step of what is an eighth of the largest."""

OTHER_DATA = OtherData(times=20.0, share=0.2, apart=0.8)
"""Statistics of other random values agree to a few per cent although no element does. Where a dropout was drawn
otherwise, elements drop one by one, so rows change independently. The noise of an element that is dropped one time in
ten is 0.47 of its size, and 0.8 is 1.7 standard errors if all elements of a row were off alike. Rows that average the
same values count as one."""

UNFED = 1 / 3
"""Share of what calls of the forward pass work on that nothing recorded wrote, from which calls must be missing. In 600
whole comparisons of `generate.evidence` it is 0.11 at most, and above a fifth in written-out recurrences; where two
names of calls are dumped mostly 1."""

LIMITS_OF: Mapping[str, Limits] = MappingProxyType(
    {"LIMITS": LIMITS, "STATISTICS_LIMITS": STATISTICS_LIMITS, "GRADIENT_LIMITS": GRADIENT_LIMITS}
)
"""Those that figures are held against, by name."""
