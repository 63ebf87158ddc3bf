"""What a result may be off by where minimum, maximum, mean and norm are all that is known of it and of its inputs.

They prove a part of the inputs' errors only. What they may hide is allowed for as well, and so is what their own
rounding leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.model.arithmetic import COPY, Arithmetic
from probe_flow.analysis.model.deviation import Deviation, Deviations
from probe_flow.analysis.model.families import Family
from probe_flow.analysis.model.growth import TINY, Allowance, common_share
from probe_flow.analysis.model.lost_steps import LostSteps
from probe_flow.analysis.model.past_errors import FLIPPED, CrossedEdges, GateNoise

STATISTICS_SLACK = 2.0
"""How much more error than is likely an input may hide when only its extremes, mean and norm are known."""

AVERAGED = 0.65
"""Share of common errors in norm and mean, compared with tensors whose every element is known."""

UNSHOWN = 2.0
"""How much larger than what statistics prove the difference of means may be that comes of it."""

AT_EXTREMES = 2.3
"""Largest error at the two extremes of a computed tensor of which nothing else is known, in what is explained of values
of their size: two elements are off by less than the worst of all may be. The largest healthy ratio measured is 1."""

COHERENT = 1.5
"""Margin of what differences of means add up to: lengths of sums are estimated from counts."""


class StatisticsAllowances:
    """The allowances of computed rows of which statistics are all that is known.

    Args:
        deviations: of all rows.
        flips: the noise of gates.
        crossed: whole numbers of which some may be a step apart.
        lost: what rounding to 16 bits left.
    """

    def __init__(self, deviations: Deviations, flips: GateNoise, crossed: CrossedEdges, lost: LostSteps) -> None:
        self._deviations = deviations
        self._flips = flips
        self._crossed = crossed
        self._lost = lost

    def of(
        self,
        number: int,
        call: Call,
        output: Deviation,
        behind: Sequence[int],
        families: frozenset[Family],
        arithmetic: Arithmetic,
        *,
        is_linked: bool,
    ) -> Allowance:
        """Allow for what recorded statistics do not show of the inputs' errors, and for their own rounding.

        Args:
            number: of the row.
            call: that it was made by.
            output: its deviation.
            behind: rows that it was made of.
            families: of the call.
            arithmetic: forward, or of gradients.
            is_linked: whether the row shows again what others gave.
        """
        known = [(n, d) for n in behind if (d := self._deviations[n]) is not None]
        shown = [d for _, d in known]
        execution = call.key.execution
        proven = arithmetic.explained(call, output, shown, families)
        likely = [d.with_rms(max(d.likely, self._concealed(n, d, output))) if d.unit else d for n, d in known]
        allowed = arithmetic.allowance(call, output, likely, families, self._lost.around(execution, output))
        size = max(output.size, TINY)
        noise = self._flips.largest(n for n, _ in known)
        if arithmetic.is_gated(call):
            noise = max(noise, FLIPPED * allowed.explained / size)
        if not is_linked and not known:
            noise = self._flips.latest(execution)  # along a path that the dump does not show
        self._flips.fade(number, execution, noise)
        coherent = COHERENT * arithmetic.coherent(call, output, shown, families)
        extra = (STATISTICS_SLACK - 1.0) * allowed.explained + coherent
        share = AVERAGED * common_share(output.count)
        peak = None
        if output.is_bare and families is not COPY:
            at_top = math.sqrt(max(1.0, output.top / size))
            peak = AT_EXTREMES * (allowed.rms * at_top + 2.0 * output.unit * output.top)
        return Allowance(
            allowed.floor,
            allowed.explained + extra,
            allowed.peak + extra * math.sqrt(output.count) if peak is None else peak,
            AVERAGED * allowed.gain + output.unit + (share * extra + coherent) / size + noise,
            allowed.scale,
            share * (allowed.floor + allowed.explained + extra)
            + UNSHOWN * proven
            + coherent
            + noise * output.size
            + output.unit * math.sqrt(max(0.0, output.size * output.size - output.spread * output.spread)),
        )

    def _concealed(self, number: int, tensor: Deviation, output: Deviation) -> float:
        """Return the error that statistics of an input may not show: flips, edges that were crossed, lost steps."""
        relative = max(self._flips.of(number), self._lost.hidden_in(number, tensor, output))
        return max(relative * tensor.size, self._crossed.error(number))
