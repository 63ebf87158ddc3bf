"""Outputs between a suspect and the nearest compared tensors before it that could not be compared.

What the suspect is blamed for may have happened there: nothing measured lies between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from probe_flow.analysis.search.diagnosis import Diagnosis, Suspect
from probe_flow.records import NodeKey, TensorKind
from probe_flow.records.row import Row

_WITH_ELEMENTS = frozenset({TensorKind.TENSOR, TensorKind.STATISTICS})


class NotCompared:
    """Finds such outputs.

    Args:
        rows: all rows, in execution order.
        diagnosis: of them.
    """

    def __init__(self, rows: Sequence[Row], diagnosis: Diagnosis) -> None:
        self._rows = rows
        self._passed = diagnosis.passed
        self._outputs = _outputs(rows) if any(diagnosis.passed.values()) else {}

    def before(self, suspect: Suspect) -> int | None:
        """Return the earliest output that both sides have, that was not compared, and that may explain a suspect."""
        row = self._rows[suspect.row]
        if not row.is_produced:
            return None
        passed = self._passed.get(row.node, ())
        return min((number for node in passed for number in self._outputs.get(node, ())), default=None)

    def differs(self, number: int) -> bool:
        """Say whether such an output has another number of elements than the golden's: there the two sides part."""
        pair = self._rows[number].pair
        assert pair.target is not None
        assert pair.golden is not None
        return pair.target.numel != pair.golden.numel

    def told(self, number: int) -> str:
        """Return both shapes in words."""
        pair = self._rows[number].pair
        target, golden = (None if ref is None else ref.logical_shape or ref.shape for ref in (pair.target, pair.golden))
        return f"{list(target or ())}, golden {list(golden or ())}"


def _outputs(rows: Sequence[Row]) -> Mapping[NodeKey, Sequence[int]]:
    found: defaultdict[NodeKey, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        sides = (row.pair.target, row.pair.golden)
        are_tensors = all(side is not None and side.kind in _WITH_ELEMENTS for side in sides)
        if row.measurement is None and row.is_produced and are_tensors:
            found[row.node].append(number)
    return found
