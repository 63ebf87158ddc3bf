"""What a reference and repeated runs of one side say of a row, and whether the target is to blame at all.

A target is accused only where it is worse than the golden's own error. By how much it may be, and which error counts as
none, is that of the vendor's benchmark standard for operators (level L0): the root mean square error may be 2 times the
benchmark device's, the largest one 10 times, the mean one 2 times, and errors below the minimum error of the dtype
count as that. It takes the largest relative error where we take the largest absolute one, which elements near zero do
not decide.

Two runs of a deterministic model are equal bit by bit. Where they are not, a difference of that size between target and
golden says nothing about the target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis.limits import REPEATED_LIMITS
from probe_flow.analysis.model.deviation import Deviation, ErrorFigure, deviation_of
from probe_flow.analysis.number_types import UNIT
from probe_flow.records import Finding, FindingKind, NodeKey, Pair
from probe_flow.records.row import Row

MINIMUM_ERROR: Mapping[str, float] = MappingProxyType(
    {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-14, "complex32": 2.0**-11, "complex64": 2.0**-14}
)
"""Relative error that counts as none, by the target's dtype; for other dtypes that of storage."""

NO_WITNESS = 0.5
"""A target that is off from the reference by half its size is not cleared by it: they may have nothing in common."""


class Witness(Struct, frozen=True):
    """Both sides of a row against the reference.

    Args:
        target, golden: how far each is from it.
        least: relative error that counts as none.
    """

    target: Deviation
    golden: Deviation
    least: float

    def excess(self, figure: ErrorFigure) -> float:
        """Return the target's error over the golden's."""
        floors = {
            ErrorFigure.RMS: self.least * self.target.size,
            ErrorFigure.PEAK: self.least * self.target.top,
            ErrorFigure.GAIN: self.least,
            ErrorFigure.OFFSET: self.least * self.target.size,
        }
        error = figure.of(self.target)
        allowed = max(figure.of(self.golden), floors[figure])
        if allowed > 0.0:
            return float(error / allowed)
        return math.inf if error else 0.0

    def clears(self, figure: ErrorFigure) -> bool:
        """Say whether the target is not worse than the golden in a figure, ``NONFINITE`` included."""
        if figure is ErrorFigure.NONFINITE:
            return self.target.nonfinite == 0
        return self.target.relative <= NO_WITNESS and self.excess(figure) <= REPEATED_LIMITS.of(figure.value)

    def __str__(self) -> str:
        return (
            f"against the reference the target is off by {self.target.relative:.1e}, the golden by "
            f"{self.golden.relative:.1e}: {self.excess(ErrorFigure.RMS):.3g} x (limit {REPEATED_LIMITS.rms:g})"
        )


def witness_of(row: Row) -> Witness | None:
    """Return what the reference says of a row, None where none was measured or nothing numeric was."""
    pair, third = row.pair, row.third
    if third is None or pair.target is None or pair.golden is None or pair.reference is None:
        return None
    sides = (
        deviation_of(Row(Pair(side, pair.reference, pair.group, pair.rule), measurement))
        for side, measurement in ((pair.target, third.target), (pair.golden, third.golden))
    )
    target, golden = sides
    if target is None or golden is None:
        return None
    least = MINIMUM_ERROR.get(pair.target.dtype, UNIT.get(pair.target.dtype, 0.0))
    return Witness(target, golden, least)


def clears(row: Row, figure: ErrorFigure) -> bool:
    """Say whether the target of a row is not to blame in a figure, by the reference or by the noise of repeats."""
    witness = witness_of(row)
    if witness is not None and witness.clears(figure):
        return True
    return bool(row.noise) and is_within_noise(row, figure)


def with_figures(row: Row) -> Row:
    """Return a row whose measurement has the metrics of a reference (``excess_error`` and kin) and of repeated runs.

    The latter is ``noise_error``, the largest relative difference between runs.
    """
    if row.measurement is None:
        return row
    witness, noise, figures = witness_of(row), noise_of(row), dict[str, float]()
    if witness is not None:
        figures["excess_error"] = witness.excess(ErrorFigure.RMS)
        figures["excess_peak"] = witness.excess(ErrorFigure.PEAK)
        figures["golden_error"] = witness.golden.relative
    if noise:
        figures["noise_error"] = max(found.relative for found in noise)
    return replace(row, measurement=row.measurement.with_metrics(figures)) if figures else row


def golden_errors(rows: Sequence[Row], numbers: Sequence[int]) -> list[Finding]:
    """Return one finding, which fails nothing, for the first of some cleared rows that the reference clears."""
    cleared = [number for number in numbers if rows[number].third is not None and not is_noisy(rows[number])]
    if not cleared:
        return []
    number, *others = cleared
    row = rows[number]
    witness = witness_of(row)
    assert witness is not None
    more = f"; {len(others)} more tensor{'s' if len(others) > 1 else ''} alike" if others else ""
    return [
        Finding.at(
            number,
            row,
            FindingKind.GOLDEN_ERROR,
            f"`{row.pair.shown.id}` differs from the golden beyond rounding, but is not to blame: {witness}{more}",
            severity=witness.golden.relative,
            fails=False,
        )
    ]


def noise_of(row: Row) -> tuple[Deviation, ...]:
    """Return how far each repeated run is from the first, for the sides of a row that were repeated."""
    return tuple(found for repeat in row.noise if (found := deviation_of(repeat)) is not None)


def is_noisy(row: Row) -> bool:
    """Say whether the runs of a side differ in a row."""
    return any(found.rms > 0.0 or found.peak > 0.0 or found.nonfinite for found in noise_of(row))


def is_within_noise(row: Row, figure: ErrorFigure) -> bool:
    """Say whether a figure of a row is no larger than what runs of one side differ by."""
    noise, deviation = noise_of(row), deviation_of(row)
    if not noise or deviation is None:
        return False
    if figure is ErrorFigure.NONFINITE:
        return deviation.nonfinite <= max(found.nonfinite for found in noise)
    largest = max(figure.of(found) for found in noise)
    return bool(0.0 < figure.of(deviation) <= REPEATED_LIMITS.of(figure.value) * largest)


def not_deterministic(rows: Sequence[Row], order: Sequence[int]) -> list[Finding]:
    """Return one finding, which fails nothing, for the first tensor that its node made otherwise in another run."""
    noisy = [number for number in order if rows[number].noise and is_noisy(rows[number])]
    if not noisy:
        return []
    reading = {rows[number].node for number in noisy if not rows[number].is_produced}
    making = [number for number in noisy if rows[number].is_produced and rows[number].node not in reading]
    first, *others = making or noisy
    row = rows[first]
    error = max(found.relative for found in noise_of(row))
    nodes: dict[NodeKey, None] = dict.fromkeys(rows[number].node for number in others if rows[number].node != row.node)
    read = "the same" if making else "other inputs"
    more = f"; {len(nodes)} more node{'s' if len(nodes) > 1 else ''} alike" if nodes and making else ""
    return [
        Finding.at(
            first,
            row,
            FindingKind.NOT_DETERMINISTIC,
            f"`{row.pair.shown.id}` differs by {error:.1e} between runs of one side that read {read}{more}; "
            f"{len(noisy)} tensor{'s differ' if len(noisy) > 1 else ' differs'} in all, and none is accused of that",
            severity=error,
            fails=False,
        )
    ]
