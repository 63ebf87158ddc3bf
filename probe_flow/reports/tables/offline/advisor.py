"""Advice on an offline result: three lines as the published advisor writes them, then where the divergence begins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from probe_flow.files.atomic import atomic_text
from probe_flow.records import Comparison, FindingKind, Mode, Row
from probe_flow.reports.tables.offline.flags import COSINE_LIMIT, YES, overflow
from probe_flow.reports.tables.offline.groups import (
    OfflineGroup,
    Operators,
    offline_groups,
    tensor_name,
    with_ground_truth,
)

NO_INDEX = "NA"

_NETWORK_INPUT = "Data"
_CAUSES = frozenset({FindingKind.ORIGIN, FindingKind.NONFINITE_ORIGIN, FindingKind.DRIFT})


class Advice(Struct, frozen=True):
    """What to look at first.

    Args:
        detection: what was found.
        index: number of the fused group in the result table; `NO_INDEX` for none.
        text: what to do about it.
    """

    detection: str
    index: str
    text: str


def write_advisor(comparison: Comparison, path: Path) -> None:
    """Write ``advisor_summary.txt``: the advice, then one line per origin that the analysis found.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    advice, causes = advise(comparison), root_causes(comparison)
    lines = [
        f"Detection Type: {advice.detection}",
        f"Operator Index: {advice.index}",
        f"Expert Advice: {advice.text}{' Begin with the root cause below.' if causes else ''}",
        *causes,
    ]
    with atomic_text(path) as file:
        file.writelines(" ".join(line.splitlines()) + "\n" for line in lines)


def advise(comparison: Comparison) -> Advice:
    """Return the first advice that applies: overflow, inputs that differ, then the cosines in execution order."""
    operators = Operators(comparison.pairs)
    rows = list(_rows(comparison, operators))
    for group, row in rows:
        if overflow(row) == YES:
            return Advice("FP16 Overflow", str(group.index), "A float16 tensor reached 65504 or infinity. Remove "
                          "the overflow, dump again and compare again.")  # fmt: skip
    judged = [(group, row, cosine) for group, row in rows if (cosine := _cosine(row)) is not None]
    for group, row, cosine in judged:
        if cosine < COSINE_LIMIT and operators.op_type(row.pair.shown.node) == _NETWORK_INPUT:
            return Advice("Input Inconsistent", str(group.index), "The inputs of the two models differ. Give both "
                          "the same input data and compare again.")  # fmt: skip
    return _consistency([(group, cosine) for group, _, cosine in judged])


def root_causes(comparison: Comparison) -> list[str]:
    """Return a line per finding that names where the divergence begins, the most important first."""
    operators = Operators(comparison.pairs)
    groups = {row.order: group for group, row in _rows(comparison, operators)}
    by_order = {row.order: row for row in comparison.rows}
    lines = []
    for finding in comparison.findings:
        row = by_order.get(finding.row) if finding.row is not None else None
        if finding.kind in _CAUSES and row is not None and row.order in groups:
            place = f"index {groups[row.order].index}, {tensor_name(row.pair, operators)}"
            lines.append(f"Root Cause: {place}: {finding.evidence}")
    return lines


def _consistency(judged: list[tuple[OfflineGroup, float]]) -> Advice:
    kind = "Global Consistency"
    if not judged:
        return Advice(kind, NO_INDEX, "No tensor was compared, so nothing is known. See the reasons in the result.")
    bad = next((group for group, cosine in judged if cosine < COSINE_LIMIT), None)
    if bad is None:
        return Advice(kind, NO_INDEX, "All compared tensors agree. If the results of the application are wrong, look "
                      "at its pre- and post-processing.")  # fmt: skip
    if judged[-1][1] < COSINE_LIMIT:
        return Advice(kind, str(bad.index), "The final output is unqualified. The first tensor that deviates is in the "
                      "group of this index.")  # fmt: skip
    return Advice(kind, str(bad.index), "Some tensors deviate, the first of them in the group of this index, but the "
                  "final output is qualified.")  # fmt: skip


def _rows(comparison: Comparison, operators: Operators) -> Iterator[tuple[OfflineGroup, Row]]:
    for group in offline_groups(comparison.pairs, with_ground_truth(comparison.rows), operators):
        for row in group.rows:
            if row.pair.target is not None:
                yield group, row


def _cosine(row: Row) -> float | None:
    """Return the cosine as the result table shows it: 1 for single elements."""
    measured = row.measurement
    if measured is None or measured.mode is not Mode.TENSOR:
        return None
    cosine = measured.metrics.get("cosine")
    if cosine is None:
        return 1.0 if measured.count == 1 else None
    return None if math.isnan(cosine) else float(cosine)
