"""The best that happened to each tensor of a catalog: compared, expected to be alone, outside of the question, missing.

Marks and ranks are in arrays, 9 bytes a tensor: in a dictionary it takes 80, as much as the tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias

from probe_flow.records import Pair, Pairs, Status, TensorKind, TensorRef, Verdict
from probe_flow.records.row import PRODUCED, Row
from probe_flow.records.tensor import marks

if TYPE_CHECKING:
    import numpy as np

    Integers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

COMPARED = frozenset({Status.PASS, Status.WARNING, Status.FAIL})

RANK: Mapping[str, int] = {"missing": 0, "unreadable": 1, "outside": 2, "expected": 3, "compared": 4}
"""What may become of a tensor, and which of several counts: the largest."""

_NO_MARK = 2**63 - 1

_PART = 8192
"""Rows that are taken together."""


class Fates:
    """What became of the tensors of a catalog; as long as nothing is said of one, it is ``missing``.

    Args:
        tensors: they, which must outlive this.
    """

    def __init__(self, tensors: Sequence[TensorRef]) -> None:
        import numpy as np

        self._tensors = tensors
        self._marks = np.concatenate([np.sort(self.marks(tensors)), [_NO_MARK]])
        self._ranks = np.zeros(len(self._marks), np.int8)

    def marks(self, tensors: Sequence[TensorRef]) -> Integers:
        """Return what tells tensors apart."""
        import numpy as np

        return np.fromiter(marks(tensors, self._tensors), np.int64, len(tensors))

    def all_and_produced(self) -> tuple[Integers, Integers]:
        """Return what tells the tensors of the catalog apart, and those that a node writes."""
        import numpy as np

        own = self.marks(self._tensors)
        return own, own[np.fromiter((tensor.slot.role in PRODUCED for tensor in self._tensors), bool, len(own))]

    def number_in(self, pairs: Sequence[Pair], own: Integers) -> int:
        """Return how many of some tensors are in one of some pairs, by what tells them apart."""
        import numpy as np

        both = (tensor for pair in pairs for tensor in (pair.target, pair.golden))
        found = self.marks([tensor for tensor in both if tensor is not None])
        return int(np.isin(own, found).sum()) if len(found) else 0

    def take(self, found: Sequence[tuple[TensorRef, int]]) -> list[tuple[TensorRef, int]]:
        """Take the ranks of what happened to tensors, and return those of other tensors."""
        import numpy as np

        own, ranks = self.marks([tensor for tensor, _ in found]), np.array([rank for _, rank in found], np.int8)
        places = np.searchsorted(self._marks, own)
        is_known = self._marks[places] == own
        np.maximum.at(self._ranks, places[is_known], ranks[is_known])
        return [*compress(found, (~is_known).tolist())]

    def counts(self, own: Integers) -> Mapping[str, int]:
        """Return to how many tensors what happened, by what tells them apart."""
        import numpy as np

        found = np.bincount(self._ranks[np.searchsorted(self._marks, own)], minlength=len(RANK))
        return dict(zip(RANK, found.tolist(), strict=True))


def fates_of_sides(pairs: Pairs, rows: Sequence[Row], verdicts: Sequence[Verdict]) -> Iterator[tuple[str, Fates]]:
    """Yield what became of the tensors of the golden, then of the target, one side at a time to save memory."""
    strangers: list[tuple[TensorRef, int]] = []  # golden tensors of pairs within the target
    for side, catalog in (("golden", pairs.golden), ("target", pairs.target)):
        fates = Fates(catalog.tensors)
        fates.take(strangers)
        for begin in range(0, len(rows), _PART):
            part = zip(rows[begin : begin + _PART], verdicts[begin : begin + _PART], strict=True)
            found = ((getattr(row.pair, side), row, verdict) for row, verdict in part)
            strangers += fates.take(
                [(ref, RANK[fate_of(ref, row, said)]) for ref, row, said in found if ref is not None]
            )
        yield side, fates


def fate_of(tensor: TensorRef, row: Row, verdict: Verdict) -> str:
    """Return what a row says became of one of its tensors, a word of `RANK`."""
    if verdict.status in COMPARED:
        return "compared"
    if tensor.kind is TensorKind.UNREADABLE or verdict.status is Status.ERROR:
        return "unreadable"
    if row.pair.target is None or row.pair.golden is None:
        reason = row.pair.reason
        return reason.expectation.value if reason is not None else "missing"
    if row.measurement is None and verdict.status is Status.SKIPPED:
        return "outside"  # `only` leaves it to the comparison before
    # A pair without a verdict on its values (quantised side, no rule of the policy) was paired and looked at; what is
    # no tensor on either side has no values.
    return "expected" if row.measurement is not None or row.pair.is_opaque else "missing"
