"""The best that happened to each tensor of a catalog: compared, expected to be alone, outside of the question, missing.

Marks and ranks are in arrays, 9 bytes a tensor: in a dictionary it takes 80, as much as the tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias

from probe_flow.records import Pair, Pairs, Status, TensorKind, TensorRef, Verdict
from probe_flow.records.row import PRODUCED, Row
from probe_flow.records.tensor import ManyTensors

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
        self._marks = self._sorted_marks()
        self._ranks = np.zeros(len(tensors) + 1, np.int8)  # behind the last: of others

    def _sorted_marks(self) -> Integers:
        import numpy as np

        return np.concatenate([np.sort(np.fromiter(map(id, self._tensors), np.int64, len(self._tensors))), [_NO_MARK]])

    def _places(self, tensors: Sequence[TensorRef]) -> Integers:
        """Return where marks of tensors are; of others behind the last one."""
        import numpy as np

        own = np.fromiter(map(id, tensors), np.int64, len(tensors))
        places = np.searchsorted(self._marks, own)
        return np.where(self._marks[places] == own, places, len(self._tensors))

    def produced(self) -> Integers:
        """Return the places of the tensors that a node writes."""
        return self._places([tensor for tensor in self._tensors if tensor.slot.role in PRODUCED])

    def number_in(self, pairs: Sequence[Pair], own: Integers) -> int:
        """Return how many of some tensors are in one of some pairs, by their places."""
        import numpy as np

        both = (tensor for pair in pairs for tensor in (pair.target, pair.golden))
        found = self._places([tensor for tensor in both if tensor is not None])
        return int(np.isin(own, found).sum()) if len(found) else 0

    def take(self, found: Sequence[tuple[TensorRef, int]]) -> list[tuple[TensorRef, int]]:
        """Take the ranks of what happened to tensors, and return those of other tensors."""
        import numpy as np

        places, ranks = self._places([tensor for tensor, _ in found]), np.array([rank for _, rank in found], np.int8)
        np.maximum.at(self._ranks, places, ranks)
        return [*compress(found, (places == len(self._tensors)).tolist())]

    def counts(self, own: Integers | None = None) -> Mapping[str, int]:
        """Return to how many tensors what happened: to all, or those at some places."""
        import numpy as np

        ranks = self._ranks[:-1] if own is None else self._ranks[own]
        return dict(zip(RANK, np.bincount(ranks, minlength=len(RANK)).tolist(), strict=True))


class _ManyFates(Fates):
    """The same of tensors that are made when they are asked for, whose places are known."""

    _tensors: ManyTensors

    def _sorted_marks(self) -> Integers:
        import numpy as np

        return np.zeros(0, np.int64)

    def _places(self, tensors: Sequence[TensorRef]) -> Integers:
        import numpy as np

        nowhere = len(self._tensors)
        found = (nowhere if place is None else place for place in self._tensors.places(tensors))
        return np.fromiter(found, np.int64, len(tensors))

    def produced(self) -> Integers:
        import numpy as np

        roles = (tensor.slot.role in PRODUCED for tensor in self._tensors)
        return np.flatnonzero(np.fromiter(roles, bool, len(self._tensors))).astype(np.int32)


def fates_of_sides(pairs: Pairs, rows: Sequence[Row], verdicts: Sequence[Verdict]) -> Iterator[tuple[str, Fates]]:
    """Yield what became of the tensors of the golden, then of the target, one side at a time to save memory."""
    strangers: list[tuple[TensorRef, int]] = []  # golden tensors of pairs within the target
    for side, catalog in (("golden", pairs.golden), ("target", pairs.target)):
        many = isinstance(catalog.tensors, ManyTensors)
        fates = _ManyFates(catalog.tensors) if many else Fates(catalog.tensors)
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


def is_empty(row: Row) -> bool:
    """Return True for a row whose tensors were measured and have no elements, so that they cannot but agree."""
    return row.measurement is not None and row.measurement.count == 0


def why_nothing(rows: Sequence[Row]) -> str:
    """Return why nothing of any row was compared: none is a pair, none holds an element, or most cannot be measured."""
    pairs = [row for row in rows if row.pair.target is not None and row.pair.golden is not None]
    if not pairs:
        return "no target tensor has a golden partner"
    if all(map(is_empty, pairs)):
        return "no tensor that both sides have holds an element"
    said = Counter(row.failure.message for row in pairs if row.failure is not None)
    most = "".join(f" ({'' if count == len(pairs) else 'e.g. '}{message})" for message, count in said.most_common(1))
    return f"no pair could be measured and judged{most}"
