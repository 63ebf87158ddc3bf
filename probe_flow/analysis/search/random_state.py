"""Random operators whose results differ: nobody is to blame, and both sides are to draw alike."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.analysis.search.diagnosis import Diagnosis
from probe_flow.analysis.search.proof import Proof, proof_of
from probe_flow.records import Finding, FindingKind
from probe_flow.records.row import Row


def random_state(rows: Sequence[Row], diagnosis: Diagnosis) -> list[Finding]:
    """Return one finding, which fails nothing, for the first random result that differs; none where all agree.

    Args:
        rows: all rows.
        diagnosis: what the search found.
    """
    if not diagnosis.random:
        return []
    first, *others = diagnosis.random
    row, deviation = rows[first], diagnosis.deviations[first]
    assert deviation is not None
    more = f", and {len(others)} more random result{'s' if len(others) > 1 else ''}" if others else ""
    right = [number for number in diagnosis.random if proof_of(rows[number]) is Proof.RIGHT]
    proven = ""
    if right:
        which = "each" if len(right) == len(diagnosis.random) else f"{len(right)} of them"
        proven = (
            f"; by its own input {which} keeps or drops as it should"
            if others
            else ("; each of its elements is dropped, or its own input scaled, as it should be")
        )
    return [
        Finding(
            kind=FindingKind.RANDOM_STATE,
            node=row.node,
            slot=row.pair.shown.slot,
            evidence=f"random state differs: `{row.pair.shown.id}` was drawn otherwise than the golden's (relative "
            f"error {deviation.relative:.1e}){more}{proven}; what follows was judged by its own inputs",
            severity=deviation.relative,
            fails=False,
            row=first,
            metrics=row.measurement.metrics if row.measurement else {},
        )
    ]
