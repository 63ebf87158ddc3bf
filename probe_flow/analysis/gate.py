"""The gate: which conclusions make a run fail. Warnings alone never do."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.records import Finding, Status, Verdict


def gate_passes(gate: str, findings: Sequence[Finding], verdicts: Sequence[Verdict]) -> bool:
    """Say whether the run passes.

    ``findings`` fails on an origin of divergence, of NaN or infinities, of differing checksums, or on drift;
    ``all_pass`` fails on any failing row. What is waived or accepted in the baseline does not count.
    """
    if gate == "all_pass":
        return not any(verdict.status is Status.FAIL and verdict.excuse is None for verdict in verdicts)
    return not any(finding.fails for finding in findings)
