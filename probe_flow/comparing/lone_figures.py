"""Figures of tensors that only the target has, taken where NaN or infinity is on one side only: it may begin there."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.measure.run import examine_tensors
from probe_flow.records import Row, TensorKind
from probe_flow.work import Context


def with_lone_figures(rows: Sequence[Row], context: Context) -> list[Row]:
    """Return the rows; those of the target alone have `Aside.alone` if any row differs in NaN or infinities.

    Tensors of which the dump recorded statistics are not read: these say as much.
    """
    found = [*rows]
    if not any(row.measurement is not None and row.measurement.nonfinite_mismatch for row in rows):
        return found
    lone = [number for number, row in enumerate(rows) if _is_unknown(row)]
    for number, examined in zip(lone, examine_tensors([rows[n].pair for n in lone], context), strict=True):
        if examined.measurement is not None:
            found[number] = rows[number].with_aside(alone=examined.measurement)
    return found


def _is_unknown(row: Row) -> bool:
    target = row.pair.target
    if target is None or row.pair.golden is not None or row.measurement is not None:
        return False
    return target.kind is TensorKind.TENSOR and target.recorded is None
