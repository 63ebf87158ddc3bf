"""Who wrote a tensor that only the target has, found again by what was recorded of it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from probe_flow.records import TensorRef
from probe_flow.records.row import Row


class Writers:
    """Finds the target-only row that wrote what an input row reads, by equal recorded statistics.

    An operator that only the target executes is never compared, so the fault shows at whatever reads its output.

    Args:
        rows: all rows, in execution order.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._written: dict[object, list[int]] = defaultdict(list)
        for number, row in enumerate(rows):
            if row.pair.golden is None and row.is_produced:
                self._written[_recorded(row.pair.target)].append(number)

    def of(self, number: int) -> int | None:
        """Return the last such row before this one, or None."""
        row = self._rows[number]
        key = None if row.is_produced else _recorded(row.pair.target)
        if key is None:
            return None
        earlier = self._written.get(key, [])
        place = bisect_left(earlier, number)
        return earlier[place - 1] if place else None


def _recorded(tensor: TensorRef | None) -> object:
    """Return what identifies a tensor of one execution by what was recorded, None when that says too little."""
    if tensor is not None and tensor.checksum is not None:
        return tensor.node.execution, tensor.shape, tensor.checksum.lower()
    if tensor is None or tensor.recorded is None or tensor.recorded.l2norm is None:
        return None
    return tensor.node.execution, tensor.shape, tensor.recorded
