"""Optimizers, and their steps as dumps show them: with what they read, or with what they left of it.

Devices write a dump when an operator is over, of both ends. Of what an optimizer wrote in place it then shows what it
became. A step can still be computed, for it is made of the new states; the variable before is what others read, and the
states before follow from the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import Call, Path, Plain, TensorSpec, UnusableError, leaves
from probe_flow.apis.own_error import OwnError, computed_in, own_error

Array = NDArray[Any]
Read = Callable[[Path, TensorSpec], Array]
States = Callable[[SimpleNamespace], tuple[Array, ...]]


class Optimizer:
    """What an optimizer computes: its new variable, then its new states.

    Args:
        inputs: names of its inputs in order, the states behind the variable.
        step: gives the new variable, of the one before and the new states.
        new: gives the new states, of those before; None: it keeps none.
        began: gives the states before, of the new ones; None: they do not say it.
        count: how many states there are, as inputs and as results.
        attributes: by name, with their defaults; without one they have to be given.
    """

    def __init__(
        self,
        inputs: str,
        step: Callable[[SimpleNamespace], Array],
        new: States | None = None,
        began: States | None = None,
        *,
        count: int = 0,
        **attributes: Any,
    ) -> None:
        self._inputs = inputs.split()
        self._step = step
        self._new = new
        self._began = began
        self._defaults = {name: value for name, value in attributes.items() if value is not Parameter.empty}
        self.written = 1 + count
        """Inputs that it writes, the first ones; its results are what it made of them."""
        places = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in self._inputs]
        named = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in attributes.items()]
        self.__signature__ = Signature([*places, *named])

    def __call__(self, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        """Return the new variable and states, of those before."""
        given = self._given(inputs, attributes)
        return self.left(inputs[0], *self._new(given) if self._new else (), *inputs[self.written :], **attributes)

    def left(self, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        """Return the same of the variable before and of states that are new."""
        return np.asarray(self._step(self._given(inputs, attributes))), *inputs[1 : self.written]

    def began(self, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        """Return the states before, of those that are new; none where these do not say it."""
        return self._began(self._given(inputs, attributes)) if self._began else ()

    def as_shown(
        self, call: Call, read: Read, read_result: Read, before: Callable[[TensorSpec], Array] | None
    ) -> ShownStep:
        """Return a step as a dump shows it (`ShownStep`)."""
        return ShownStep(self, call, read, read_result, before)

    def _given(self, inputs: tuple[Array, ...], attributes: Mapping[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(**dict(zip(self._inputs, inputs, strict=True)), **{**self._defaults, **attributes})


@dataclass(frozen=True)
class ShownStep:
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

    def state_errors(self, golden: ShownStep, units: Mapping[str, float]) -> list[OwnError]:
        """Return how far the states before the step are from the golden's, and what rounding explains of it."""
        found = []
        for number, (own, other) in enumerate(zip(self._states(units), golden._states(units), strict=False), start=1):
            (mine, moved), (theirs, also) = own, other
            if mine.shape != theirs.shape:
                return []
            # Both are off by what follows from a rounding of what they were computed of.
            gap, unit = theirs + (moved - mine) + (also - theirs), max(units.get(each, 0.0) for each in self._dtypes)
            found.append(own_error((number,), mine, theirs, gap, unit=unit, step=0.0))
        return found

    @property
    def _dtypes(self) -> list[str]:
        return [leaf.dtype for leaf in self.call.args if isinstance(leaf, TensorSpec)]

    def _states(self, units: Mapping[str, float]) -> Sequence[tuple[Array, Array]]:
        """Return the states before the step, and the same where the dump is off by a rounding each; none if unknown."""
        inputs, moved = [], []
        for number, leaf in enumerate(self.call.args):
            assert isinstance(leaf, TensorSpec), "operators of devices have tensors alone"
            values = leaf.in_order(self.read((number,), leaf))
            inputs.append(values.astype(np.float64) if values.dtype.kind == "f" else values)
            unit = computed_in(leaf.dtype, units) if values.dtype.kind == "f" else 0.0
            ups = np.random.default_rng(number).integers(0, 2, values.shape)
            moved.append(inputs[-1] * (1.0 + unit * (2 * ups - 1)) if unit else inputs[-1])
        attributes = {name: leaf.value for name, leaf in self.call.kwargs.items() if isinstance(leaf, Plain)}
        if not self.is_left:
            made: list[Sequence[Array]] = [each[1 : self.function.written] for each in (inputs, moved)]
        else:
            with np.errstate(all="ignore"):
                made = [self.function.began(*each, **attributes) for each in (inputs, moved)]
        return [*zip(*made, strict=True)]
