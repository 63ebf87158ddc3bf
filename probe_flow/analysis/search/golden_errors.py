"""What the reference takes from the target's account: rows that differ because the golden is off."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.analysis.model.noise import is_noisy
from probe_flow.analysis.search.origin import Diagnosis
from probe_flow.analysis.search.reference_check import witness_of
from probe_flow.records import Finding, FindingKind
from probe_flow.records.measured import MeasuredPair


def golden_errors(rows: Sequence[MeasuredPair], diagnosis: Diagnosis) -> list[Finding]:
    """Return one finding, which fails nothing, for the first row that the reference clears; nothing without one."""
    cleared = [number for number in diagnosis.cleared if rows[number].third is not None and not is_noisy(rows[number])]
    if not cleared:
        return []
    number, *others = cleared
    row = rows[number]
    witness = witness_of(row)
    assert witness is not None
    more = f"; {len(others)} more tensor{'s' if len(others) > 1 else ''} alike" if others else ""
    return [
        Finding(
            kind=FindingKind.GOLDEN_ERROR,
            node=row.node,
            slot=row.pair.shown.slot,
            evidence=(
                f"`{row.pair.shown.id}` differs from the golden beyond rounding, but is not to blame: {witness}{more}"
            ),
            severity=witness.golden.relative,
            fails=False,
            row=number,
            metrics=row.measurement.metrics if row.measurement else {},
        )
    ]
