"""A policy: no element may be off by more than a thousandth of the largest golden value."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.records import Row, Status, Verdict

SHARE = 1e-3


class AcmePolicy:
    """Judges by the largest error alone."""

    name = "acme"
    needs = ("max_abs_err",)

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return a verdict per row of one node."""
        return [_verdict(row) for row in rows]


def _verdict(row: Row) -> Verdict:
    measured = row.measurement
    error = measured.metrics.get("max_abs_err") if measured is not None else None
    if measured is None or measured.golden is None or error is None:
        return Verdict(Status.NOT_COMPARABLE, ("acme_unknown",), ("nothing says how far it is off",))
    known = measured.golden.statistics
    largest = max(abs(float(each)) for each in (known.min or 0, known.max or 0))
    if error <= SHARE * largest:
        return Verdict(Status.PASS)
    return Verdict(Status.FAIL, ("acme_max",), (f"off by {error:.3g}, a thousandth is {SHARE * largest:.3g}",))
