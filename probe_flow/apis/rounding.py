"""Whether a result is off by no more than the last digits of its inputs make.

A gradient that is zero in mathematics, as that of a bias in front of a normalisation or of the keys of an attention, is
nothing but rounding on both sides: whatever cosine and relative error it has is chance. The benchmark tells: computed
again from inputs that are each moved by a rounding of their type, it changes as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from probe_flow.apis.acc_check import Judgement
from probe_flow.apis.calls import Path
from probe_flow.apis.figures import FORMATS
from probe_flow.apis.own_error import moved_by, own_error
from probe_flow.apis.side import Held, Result

WORDS = "one rounding of its inputs moves it as far"
"""What is said of such a result."""


class Rounding:
    """Judges by the rounding of inputs (`acc_check.ByRounding`)."""

    def moved(self, tensors: Sequence[Held | None], wrong: Sequence[Result]) -> list[Held | None]:
        """Return tensors whose floats are each moved up or down by a rounding of their type; others as they are.

        A device may have rounded them to the type of a result first, so that they move by its rounding at least.
        """
        least = max(_unit_of(each.dtype) for each in wrong)
        return [
            Held(moved_by(max(_unit_of(each.dtype), least), each.values, number), each.dtype)
            if each is not None and each.dtype in FORMATS
            else each
            for number, each in enumerate(tensors)
        ]

    def judged(
        self, judgement: Judgement, tested: Result, benchmark: Result, moved: Mapping[Path, Result]
    ) -> Judgement:
        """Return the judgement of a result; one that is wrong is doubtful where rounding the inputs explains its error.

        Args:
            judgement: by its figures.
            tested, benchmark: the result on both sides.
            moved: results of the benchmark of moved inputs, by their places.
        """
        if judgement.is_right or judgement.is_doubtful:
            return judgement
        one, other, third = tested.value, benchmark.value, getattr(moved.get(benchmark.place), "value", None)
        if not (isinstance(one, Held) and isinstance(other, Held) and isinstance(third, Held)):
            return judgement
        if one.dtype not in FORMATS or not one.values.shape == other.values.shape == third.values.shape:
            return judgement
        exponent, bits = FORMATS[one.dtype]
        unit, step = _unit_of(one.dtype), 2.0 ** (exponent - bits)
        own = own_error(benchmark.place, one.values, other.values, third.values, unit=unit, step=step)
        if own.nonfinite or own.worst[3] > 1.0:
            return judgement
        return replace(judgement, is_doubtful=True, message=f"{judgement.message}; {WORDS}")


def _unit_of(dtype: str) -> float:
    """Return the relative rounding of an element type; 0 of one whose rounding nobody counts."""
    return 2.0 ** -(FORMATS[dtype][1] + 1) if dtype in FORMATS else 0.0
