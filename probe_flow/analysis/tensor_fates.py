"""The best that happened to each tensor of a catalog: compared, expected to be alone, outside of the question, missing.

Ids and ranks are in arrays, 9 bytes a tensor: in a dictionary it takes 80, as much as the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias

from probe_flow.records import TensorRef

if TYPE_CHECKING:
    import numpy as np

    Integers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

RANK: Mapping[str, int] = {"missing": 0, "unreadable": 1, "outside": 2, "expected": 3, "compared": 4}
"""What may become of a tensor, and which of several counts: the largest."""

_NO_ID = 2**63 - 1


class Fates:
    """What became of some tensors, told apart by identity; as long as nothing is said of one, it is ``missing``.

    Args:
        tensors: they, which must outlive this.
    """

    def __init__(self, tensors: Sequence[TensorRef]) -> None:
        import numpy as np

        self._ids = np.append(np.sort(_ids(tensors)), _NO_ID)
        self._ranks = np.zeros(len(self._ids), np.int8)

    def take(self, found: Sequence[tuple[TensorRef, int]]) -> list[tuple[TensorRef, int]]:
        """Take the ranks of what happened to tensors, and return those of other tensors."""
        import numpy as np

        ids, ranks = _ids([tensor for tensor, _ in found]), np.array([rank for _, rank in found], np.int8)
        places = np.searchsorted(self._ids, ids)
        is_known = self._ids[places] == ids
        np.maximum.at(self._ranks, places[is_known], ranks[is_known])
        return [*compress(found, (~is_known).tolist())]

    def counts(self, tensors: Sequence[TensorRef]) -> Mapping[str, int]:
        """Return to how many of these tensors what happened."""
        import numpy as np

        found = np.bincount(self._ranks[np.searchsorted(self._ids, _ids(tensors))], minlength=len(RANK))
        return dict(zip(RANK, found.tolist(), strict=True))


def _ids(tensors: Sequence[TensorRef]) -> Integers:
    import numpy as np

    return np.fromiter(map(id, tensors), np.int64, len(tensors))
