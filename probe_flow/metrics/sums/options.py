"""What to measure beyond the figures that every comparison needs, and with which backend."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Extra figures, each of which costs time, and the backend.

    Args:
        moments: mean and sum of squared deviations of each side (standard deviations).
        masked: errors over the elements whose golden value is not tiny.
        significant: relative errors over the elements whose golden value is beyond float64's epsilon.
        softmax: the softmax divergence, which reads both tensors a second time.
        minmax: the divergence of the tensors as fractions of their range, which reads both a second time as well.
        max_elements: only this many elements of a pair, from the first on; 0 = all.
        backend: ``numpy`` or ``numba``: the name of the one that `backends.backend_named` chose for the whole run.
    """

    moments: bool = False
    masked: bool = False
    significant: bool = False
    softmax: bool = False
    minmax: bool = False
    max_elements: int = 0
    backend: str = "numpy"

    @property
    def key_text(self) -> str:
        """What results of other runs are kept under: fixed words, whatever the class and its fields are called."""
        return (
            f"MeasureOptions(moments={self.moments}, masked={self.masked}, significant={self.significant}, "
            f"softmax={self.softmax}, minmax={self.minmax}, max_elements={self.max_elements})"
        )

    @property
    def needs_whole_pair(self) -> bool:
        """Whether a figure needs what is known only when the whole pair was read, so that one worker takes it all."""
        return self.softmax or self.minmax
