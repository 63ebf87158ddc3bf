"""Drift: the outputs of the network are off beyond what the dtype allows, and no single tensor is to blame."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from probe_flow.analysis.communication import PREFIXES
from probe_flow.analysis.limits import DRIFT
from probe_flow.analysis.model.deviation import ErrorFigure
from probe_flow.analysis.search.diagnosis import LEAP, Diagnosis
from probe_flow.analysis.search.reference_check import clears
from probe_flow.records import Execution, Finding, FindingKind, NodeKey, Phase
from probe_flow.records.row import Row

_QUANTISED = DRIFT[-1][0]

TOLD = 0.5
"""Share of its limit from which the row that comes nearest to being accused is named."""

TAIL = 3
"""Outputs at the end of each execution that are taken for the network's outputs."""


def find_drift(rows: Sequence[Row], diagnosis: Diagnosis) -> list[Finding]:
    """Return one finding for the worst output beyond its limit, with the growth rate; nothing when all are within."""
    beyond = [
        (error, -number, limit, series)
        for series, numbers in _outputs(rows, diagnosis)
        for number, error, limit in numbers
        if error > limit and not clears(rows[number], ErrorFigure.RMS)
    ]
    if not beyond:
        return []
    error, number, limit, series = max(beyond, key=lambda each: each[:2])
    return [_finding(-number, error, limit, rows, diagnosis, series)]


def outputs_off(rows: Sequence[Row], diagnosis: Diagnosis) -> Iterator[tuple[int, float, float]]:
    """Yield the rows that are taken for a network's outputs: number, relative error, and its limit."""
    for _, numbers in _outputs(rows, diagnosis):
        yield from numbers


class _Series(Struct):
    """Rows of the results of an execution, until its backward pass begins."""

    results: list[int] = field(default_factory=list)
    is_over: bool = False


def _outputs(
    rows: Sequence[Row], diagnosis: Diagnosis
) -> Iterator[tuple[Sequence[int], Sequence[tuple[int, float, float]]]]:
    """Yield for each execution all results of it, and of the last ones the error with its limit.

    What a program calls, or a graph runs, once its backward pass has begun carries gradients, or is the work of an
    optimizer.
    """
    runs: dict[Execution, _Series] = {}
    known: dict[int, _Series] = {}  # by the object, since hashing a run is slow
    derivatives = diagnosis.derivatives  # of programs there are none
    for number in diagnosis.order:
        row = rows[number]
        node = row.node
        run = node.execution
        series = known.get(id(run))
        if series is None:
            series = known[id(run)] = runs.setdefault(run, _Series())
        if node.phase is Phase.BACKWARD or (derivatives and node in derivatives):
            series.is_over = True
        elif series.is_over or number in diagnosis.shaken or not _is_result(row):
            continue
        elif _relative(diagnosis, number) is not None:
            series.results.append(number)
    last: dict[object, list[int]] = {}
    for run, series in runs.items():
        if series.results:
            last.setdefault(run.identity, []).extend(series.results)
    for identity, numbers in last.items():
        # What was coarse on the way is not finer for having been cast at the end.
        coarsest = max(map(diagnosis.deviations.unit, numbers))
        limit = _limit(max(coarsest, _QUANTISED) if identity in diagnosis.quantised_runs else coarsest)
        ends = ((n, _relative(diagnosis, n)) for n in numbers[-TAIL:])
        yield numbers, [(n, error, limit) for n, error in ends if error is not None]


def _is_result(row: Row) -> bool:
    """Whether a row is computed in the forward pass. Gradients are noisier by nature: few of their digits are sure.

    What ranks exchange was computed by others, and may be a gradient.
    """
    if not row.is_produced or row.pair.rule.is_self:
        return False
    return row.node.phase is Phase.FORWARD and not row.node.name.startswith(PREFIXES)


def _finding(
    number: int,
    error: float,
    limit: float,
    rows: Sequence[Row],
    diagnosis: Diagnosis,
    series: Sequence[int],
) -> Finding:
    return Finding.at(
        number,
        rows[number],
        FindingKind.DRIFT,
        f"{_course(error, rows, diagnosis, series)}, beyond {limit:.1e}, {_jump(rows, diagnosis)}"
        f"{_steepest(limit, rows, diagnosis, series)}{_nearest(rows, diagnosis)}",
        severity=error / limit,
        fails=not diagnosis.holds_part,
        size=f"relative error {error:.1e}, limit {limit:.1e}",
    )


def _jump(rows: Sequence[Row], diagnosis: Diagnosis) -> str:
    """Name the first operator that is right and made other whole numbers of an error; an error jumps nowhere else."""
    turned = next(filter(diagnosis.is_other_choice, diagnosis.carried), None)
    if turned is None:
        return "without a jump at any single operator"
    return f"with a jump at `{rows[turned].pair.shown.id}`, where values at an edge fell the other way"


def _course(error: float, rows: Sequence[Row], diagnosis: Diagnosis, series: Sequence[int]) -> str:
    """Say how the error came to be what it is: it grows only where no output on the way is off by more."""
    errors = {n: found for n in series if (found := _relative(diagnosis, n))}
    start = next(iter(errors.values()), error)
    worst = max(errors, key=errors.__getitem__, default=None)
    if worst is None or errors[worst] <= error:
        rate = (error / start) ** (1.0 / max(1, len(series) - 1)) if start else math.inf
        return f"relative error grows from {start:.1e} to {error:.1e} over {len(series)} outputs (x {rate:.3f} each)"
    return (
        f"relative error {error:.1e} at the end of {len(series)} outputs, after {start:.1e} at the first that is off "
        f"and {errors[worst]:.1e} at most, at `{rows[worst].pair.shown.id}`"
    )


def _steepest(limit: float, rows: Sequence[Row], diagnosis: Diagnosis, series: Sequence[int]) -> str:
    """Name the result that the error grows most at, of those beyond the limit whose inputs are all within it.

    That its rounding, or the errors of its inputs, explain it makes it no fault, but this is where digits are lost: at
    the cosine of an angle of a thousand turns in 16 bits, say.
    """
    read: dict[NodeKey, float] = {}
    for number in diagnosis.order:
        if not rows[number].is_produced and (error := _relative(diagnosis, number)) is not None:
            node = rows[number].node
            read[node] = max(read.get(node, 0.0), error)
    steps = [
        (error / came, -number)
        for number in series
        if (error := _relative(diagnosis, number) or 0.0) > limit
        and 0.0 < (came := read.get(rows[number].node, 0.0)) <= limit
        and error > LEAP * came
    ]
    if not steps:
        return ""
    number = -max(steps)[1]
    came, error = read[rows[number].node], _relative(diagnosis, number)
    return f"; it grows most at `{rows[number].pair.shown.id}`, from {came:.1e} in what it reads to {error:.1e}"


def _nearest(rows: Sequence[Row], diagnosis: Diagnosis) -> str:
    """Name the row that comes nearest to being accused: where to look first."""
    score, number = max(((score, -n) for n, score in diagnosis.scores.items()), default=(0.0, 0))
    if score < TOLD:
        return ""
    row = rows[-number]
    return f"; `{row.pair.shown.id}` comes nearest to being accused, with {score:.0%} of what it takes"


def _relative(diagnosis: Diagnosis, number: int) -> float | None:
    """Return the error relative to what was summed up, None for zeros and for whole numbers, which do not drift.

    A gradient that is mathematically zero is all rounding noise: huge relative to itself, nothing to its terms.
    """
    deviation = diagnosis.deviations[number]
    if deviation is None or deviation.size == 0 or deviation.unit == 0:
        return None
    return deviation.rms / max(deviation.size, diagnosis.scales.get(number, 0.0))


def _limit(unit: float) -> float:
    for step, limit in DRIFT:
        if unit <= step:
            return limit
    return 1.0
