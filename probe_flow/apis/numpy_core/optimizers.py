"""Steps of optimizers as dumps show them: with what they read, or with what they left of it.

Devices write a dump when an operator is over, of both ends. Of what an optimizer wrote in place it then shows what it
became. The variable before is what others read; the states before follow from the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import Call, Path, TensorSpec, UnusableError, leaves
from probe_flow.apis.numpy_core.compute import arrays_of, as_taken, coarsest, perturbed
from probe_flow.apis.numpy_core.forms.device_updates import Optimizer
from probe_flow.apis.numpy_core.own_error import OwnError, own_error

Array = NDArray[Any]
Read = Callable[[Path, TensorSpec], Array]


@dataclass(frozen=True)
class Shown:
    """An optimizer's step of one side.

    Args:
        function: what it computes.
        call: as the dump records it.
        read, read_result: return the elements of an argument, of a result.
        before: returns those of the variable as others read it; None: nothing shows it.
    """

    function: Optimizer
    call: Call
    read: Read
    read_result: Read
    before: Callable[[TensorSpec], Array] | None

    @property
    def is_left(self) -> bool:
        """Whether the dump shows at both ends what the optimizer wrote."""
        results = dict(leaves(self.call.results))
        ends = [((number,), self.call.args[number], results.get((number,))) for number in range(self.function.written)]
        return all(
            isinstance(spec, TensorSpec) and np.array_equal(self.read(place, spec), self.read_result(place, after))
            for place, spec, after in ends
            if isinstance(after, TensorSpec)
        )

    def step(self) -> tuple[Callable[..., Any], Read]:
        """Return what computes the step, and what reads its arguments.

        Raises:
            UnusableError: nothing shows the variable before it.
        """
        if not self.is_left:
            return self.function, self.read
        before = self.before
        if before is None:
            raise UnusableError("the dump has of its variable what it became, or it changed nothing")
        return self.function.left, lambda place, spec: before(spec) if place == (0,) else self.read(place, spec)

    def states(self, units: Mapping[str, float]) -> Sequence[tuple[Array, Array]]:
        """Return the states before the step, and the same where the dump is off by a rounding each; none if unknown."""
        arrays = arrays_of(self.call, self.read)
        given = arrays, perturbed(self.call, arrays, units)
        taken = [as_taken(self.function, self.call, each) for each in given]
        if not self.is_left:
            made = [each.args[1 : self.function.written] for each in taken]
        else:
            with np.errstate(all="ignore"):
                made = [self.function.began(*each.args, **each.kwargs) for each in taken]
        return [*zip(*made, strict=True)]


def state_errors(target: Shown, golden: Shown, units: Mapping[str, float]) -> list[OwnError]:
    """Return how far the states before a step are from those of the other side, and what rounding explains of it."""
    unit, found = coarsest(target.call, units), []
    for number, (own, other) in enumerate(zip(target.states(units), golden.states(units), strict=False), start=1):
        (mine, moved), (theirs, also) = own, other
        if mine.shape != theirs.shape:
            return []
        # Both are off by what follows from a rounding of what they were computed of.
        gap = theirs + (moved - mine) + (also - theirs)
        found.append(own_error((number,), mine, theirs, gap, unit=unit, step=0.0))
    return found
