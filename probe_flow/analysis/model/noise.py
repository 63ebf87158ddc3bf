"""What repeated runs of one side say: by how much a tensor differs from run to run, and where that begins.

Two runs of a deterministic model are equal bit by bit. Where they are not, a difference of that size between target and
golden says nothing about the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from probe_flow.analysis.limits import REPEATED_LIMITS
from probe_flow.analysis.model.deviation import Deviation, ErrorFigure, deviation_of
from probe_flow.records import Finding, FindingKind, NodeKey
from probe_flow.records.row import Row


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


def with_noise(row: Row) -> Row:
    """Return a row whose measurement has ``noise_error``, the largest relative difference between runs."""
    noise = noise_of(row)
    if not noise or row.measurement is None:
        return row
    measured = row.measurement.with_metrics({"noise_error": max(found.relative for found in noise)})
    return replace(row, measurement=measured)


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
        Finding(
            kind=FindingKind.NOT_DETERMINISTIC,
            node=row.node,
            slot=row.pair.shown.slot,
            evidence=(
                f"`{row.pair.shown.id}` differs by {error:.1e} between runs of one side that read {read}{more}; "
                f"{len(noisy)} tensor{'s differ' if len(noisy) > 1 else ' differs'} in all, and none is accused of that"
            ),
            severity=error,
            fails=False,
            row=first,
            metrics=row.measurement.metrics if row.measurement else {},
        )
    ]
