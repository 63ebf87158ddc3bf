"""What to measure beyond the figures that every comparison needs, and with which backend."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Extra figures, each of which costs time, and the backend.

    Args:
        moments: mean and sum of squared deviations of each side (standard deviations).
        masked: errors over the elements whose golden value is not tiny.
        softmax: the softmax divergence, which reads both tensors a second time.
        backend: ``numpy`` or ``numba``: the name of the one that `backends.backend_named` chose for the whole run.
    """

    moments: bool = False
    masked: bool = False
    softmax: bool = False
    backend: str = field(default="numpy", repr=False)  # results are kept under the text of what was asked
