"""Whether all parameters together changed as the golden's did: what an optimizer does wrong, it does to all of them.

Of one parameter an update may be off by much: an optimizer that divides gradients by their size makes whole steps of
noise. Over all parameters such noise averages out. A wrong learning rate, momentum or decay leaves one factor: the
target's updates are the golden's times a number, plus a share of the parameters themselves (decay). Mean and square of
a parameter change by weighted sums of its elements' updates, so statistics suffice, and both numbers are fitted by
least squares to two observations a parameter. How far they scatter says how sure the fit is.

Another kind of step (another moment of Adam) may leave one factor. Then weights whose gradients agree are still apart
by more than these explain: a share ``r`` of elements goes the other way where gradients are off by ``r``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.updates import Updates
from probe_flow.analysis.statistics.moments import Moments, moments_of
from probe_flow.records.row import Row

OFF = 0.25
"""Share of an update from which a factor or a decay is wrong: healthy fits that are sure are off by 0.05 at most."""

AGREEING = 0.1
"""Relative error of a gradient up to which what is made of it is the golden's, but for some elements. It turns about as
many of an optimizer's signs, which makes its steps smaller by up to twice that: less than `OFF`."""

SURE = 6.0
"""How many standard errors of the fit a number must be off."""

LEAST = 4
"""Parameters without which nothing is fitted."""

STORED = 4.0
"""Rounding steps that a parameter must change by: smaller updates get lost where parameters are stored in 16 bits."""


SCATTERED = 2.0
"""Difference of a weight's updates, in mean and norm together and in what its gradient and storing explain, from which
it is another optimizer's where as much is true of half of a step's weights. Both at what is explained make 1.4; healthy
ones reach 0.8."""

Observation: TypeAlias = "tuple[float, ...]"


class Fit(Struct, frozen=True):
    """How the target's parameters changed in a step.

    Args:
        factor: times the golden's updates.
        decay: share of themselves that they lost beyond that, negative where they grew.
        error: standard error of the factor.
        score: how far the worse of both is off, in what accuses.
        rows: of the parameters in that step, in order.
        scatter: how far the weights are apart, in what accuses; 0 where factor and decay tell why.
    """

    factor: float
    decay: float
    error: float
    score: float
    rows: tuple[int, ...]
    scatter: float = 0.0

    def told(self) -> str:
        """Return what was fitted, in words."""
        if self.scatter:
            return (
                f"is one of {len(self.rows)} parameters whose changes are apart from the golden's by "
                f"{SCATTERED * self.scatter:.2g} x what their gradients explain, which agree"
            )
        word = "shrank" if self.decay > 0.0 else "grew"
        shrunk = f" and {word} by {abs(self.decay):.2g} of themselves" if abs(self.decay) > 1e-3 else ""
        return (
            f"is one of {len(self.rows)} parameters that changed {self.factor:.2f} times (give or take "
            f"{self.error:.2f}) as much as the golden's{shrunk} although their gradients agree"
        )


class UpdateFits:
    """The fits of each step of a rank, made when its first parameter is met.

    Args:
        rows: all rows.
        deviations: of them.
        updates: knows the gradients of parameters.
        producers: row -> rows that it came from.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        deviations: Deviations,
        updates: Updates,
        producers: Mapping[int, tuple[int, ...]],
    ) -> None:
        self._rows = rows
        self._deviations = deviations
        self._updates = updates
        self._producers = producers
        self._fits: dict[object, Fit | None] = {}
        self._latest: dict[object, dict[object, int]] | None = None

    def _changed(self, row: Row) -> Iterator[tuple[int, int]]:
        """Yield the rows of each parameter before the step of a row and in it."""
        run, steps = row.node.execution, self._of_steps()
        now, before = (steps.get((run.rank, run.graph, step), {}) for step in (run.step, (run.step or 0) - 1))
        yield from ((before[identity], number) for identity, number in now.items() if identity in before)

    def of(self, number: int) -> Fit | None:
        """Return the fit of the step of a parameter; None for others and where nothing can be fitted."""
        row = self._rows[number]
        run = row.node.execution.identity
        if run not in self._fits:
            self._fits[run] = self._fit(row)
        found = self._fits[run]
        return found if found is not None and number in found.rows else None

    def _fit(self, row: Row) -> Fit | None:
        seen: dict[int, Sequence[Observation]] = {}
        for earlier, number in self._changed(row):
            if (observed := self._observed(earlier, number)) is not None:
                seen[number] = observed
        if len(seen) < LEAST:
            return None
        found = fitted([each for observed in seen.values() for each in observed], tuple(seen))
        if found is None or found.score > 1.0:
            return found
        scatter = self._scatter(row)
        return replace(found, score=max(found.score, scatter), scatter=scatter if scatter > 1.0 else 0.0)

    def _scatter(self, row: Row) -> float:
        """Return how far the updates of a step's weights are apart (`SCATTERED`): of half of them no further."""
        weights = [each for each in self._changed(row) if self._updates.is_weight(each[1])]
        turned: dict[object, float] = {}  # what several calls read is one weight, and changed by all of its gradients
        for earlier, _ in weights:
            key = _identity(moments_of(self._rows[earlier], "golden"))
            turned[key] = max(turned.get(key, 0.0), *self._wrong(earlier), 0.0)
        found = []
        for earlier, number in weights:
            old = moments_of(self._rows[earlier], "golden")
            observed = self._observed(earlier, number)
            if observed is not None and old is not None:
                share = turned[_identity(old)]
                others = 2.0 * math.sqrt(share) + share * math.sqrt(old.count)
                found.append(math.hypot(*((v - u) / math.hypot(others * s, left) for u, _, v, s, left in observed)))
        return sorted(found)[len(found) // 2] / SCATTERED if len(found) >= LEAST else 0.0

    def _of_steps(self) -> Mapping[object, Mapping[object, int]]:
        """Return the parameters of each step by what they are, each where it is read first."""
        if self._latest is None:
            self._latest = {}
            for number, row in enumerate(self._rows):
                if row.pair.target is not None and self._updates.is_trained(number) and not self._producers.get(number):
                    run = row.node.execution
                    of_run = self._latest.setdefault((run.rank, run.graph, run.step), {})
                    of_run.setdefault(self._updates.identity(number), number)
        return self._latest

    def _wrong(self, number: int) -> Iterator[float]:
        """Yield the relative errors of a parameter's gradients."""
        for n in self._updates.gradients_of(number):
            if (each := self._deviations[n]) is not None:
                yield min(1.0, max(each.likely / each.size, each.unit)) if each.size else 0.0

    def _observed(self, before: int, number: int) -> Sequence[Observation] | None:
        """Return the golden's update, the parameter and the target's update, by mean and by norm, in units of noise.

        Then both parts of that noise: that each element's update may be another one, and what storing and recording
        them in 16 bits leaves, where that has one sign: of updates below half a step nothing is left. Besides, storing
        does not average out over elements of about one value, as the weights of a norm are: all are rounded alike.
        """
        rows = self._rows[before], self._rows[number]
        old, new = (moments_of(row, "golden") for row in rows)
        own_old, own_new = (moments_of(row, "target") for row in rows)
        gradients = [d for n in self._updates.gradients_of(before) if (d := self._deviations[n]) is not None]
        if not gradients or any(d.nonfinite or d.likely > AGREEING * d.size for d in gradients):
            return None
        if old is None or new is None or own_old is None or own_new is None or not old.size:
            return None
        change, unit = _change(old, new), max(new.unit, own_new.unit)
        if change <= STORED * unit * new.size:
            return None
        rounding = replace(new, unit=unit).share * unit * new.size
        recorded = (
            max(each.mean_recorded for each in (own_old, own_new)),
            max(each.norm_recorded for each in (own_old, own_new)) * new.size,
        )
        seen = (
            (new.mean - old.mean, old.mean, own_new.mean - own_old.mean),
            (
                _of_squares(old, new, new.size),
                old.size * old.size / new.size,
                _of_squares(own_old, own_new, new.size),
            ),
        )
        others, lost = change / math.sqrt(new.count), unit * new.size
        noise = [math.hypot(others, rounding, each) for each in recorded]
        return [
            (u / n, z / n, v / n, others / n, math.hypot(lost, each) / n)
            for (u, z, v), n, each in zip(seen, noise, recorded, strict=True)
        ]


def _identity(tensor: Moments | None) -> object:
    """Return what tells a tensor from others."""
    return tensor and (tensor.count, tensor.low, tensor.high, tensor.mean, tensor.norm)


def _of_squares(old: Moments, new: Moments, scale: float) -> float:
    """Return the mean of the elements' updates, each weighted by its element over their size."""
    return (new.size * new.size - old.size * old.size) / (2.0 * scale)


def _change(old: Moments, new: Moments) -> float:
    """Return about how much an element changed."""
    return max(abs(new.low - old.low), abs(new.high - old.high), abs(new.mean - old.mean), abs(new.size - old.size))


def fitted(observed: Sequence[Observation], rows: tuple[int, ...]) -> Fit | None:
    """Fit factor and decay to observations: the golden's update, the parameter itself, the target's update.

    What is left over is the noise of each; the parameters are as many as the observations that are independent.
    """
    uu, uz, zz = (math.fsum(o[i] * o[j] for o in observed) for i, j in ((0, 0), (0, 1), (1, 1)))
    determinant = uu * zz - uz * uz
    if not uu or determinant <= 1e-6 * uu * zz:
        return None
    uv, zv = (math.fsum(o[i] * o[2] for o in observed) for i in (0, 1))
    factor, grown = (uv * zz - zv * uz) / determinant, (zv * uu - uv * uz) / determinant
    left = math.fsum((v - factor * u - grown * z) ** 2 for u, z, v, *_ in observed)
    noise = left / max(1, len(rows) - 2)
    errors = math.sqrt(noise * zz / determinant), math.sqrt(noise * uu / determinant)
    off = abs(factor - 1.0), abs(grown)
    sizes = 1.0, math.sqrt(uu / zz)  # a decay as large as the updates
    score = max(min(o / (OFF * size), o / max(SURE * e, 1e-12)) for o, size, e in zip(off, sizes, errors, strict=True))
    return Fit(factor, -grown, errors[0], score, rows)
