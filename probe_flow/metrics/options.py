"""What to measure beyond the figures that every comparison needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Extra figures, each of which costs time.

    Args:
        moments: mean and sum of squared deviations of each side (standard deviations).
        masked: errors over the elements whose golden value is not tiny.
        softmax: the softmax divergence, which reads both tensors a second time.
    """

    moments: bool = False
    masked: bool = False
    softmax: bool = False
