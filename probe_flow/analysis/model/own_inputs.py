"""What statistics of a result prove by those of its own inputs, whatever error these have.

Putting elements elsewhere changes no statistic, and many operators have a law that theirs obey (`laws`). Where that
holds for the golden it must hold for the target, so its own contradiction is a proof without any allowance: behind
another fault, random operators and decisions as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.model.handed_on import Moments, apart, differing, moments_of
from probe_flow.analysis.model.laws import Due, Law, Operands, law_of
from probe_flow.analysis.model.rounding import UNIT
from probe_flow.records import Phase
from probe_flow.records.row import Row

MOVED = frozenset(
    (
        "reshape", "view", "permute", "transpose", "flatten", "contiguous", "squeeze", "unsqueeze", "clone", "t",
        "roll", "flip", "unflatten", "movedim", "swapaxes",
    )
)  # fmt: skip
"""Types that put the same elements elsewhere."""

PARTS = frozenset(("chunk", "split", "unbind"))
"""Types that have several results, each of which is a part of what was read."""


class Contradiction(Struct, frozen=True):
    """What a target's result is not, by its own inputs.

    Args:
        gap: how far it is off, in what rounding explains.
        told: in words.
    """

    gap: float
    told: str


class OwnInputs:
    """Finds results whose statistics contradict those of their own inputs.

    Args:
        rows: all rows.
        calls: of them.
    """

    def __init__(self, rows: Sequence[Row], calls: Calls) -> None:
        self._rows = rows
        self._calls = calls

    def contradiction(self, number: int) -> Contradiction | None:
        """Return what a result is not; None where nothing contradicts, or the golden has no such rule."""
        row, call = self._rows[number], self._calls.of[number]
        if call is None or call.node is None or call.key.phase is not Phase.FORWARD:
            return None
        kind = call.node.op_type.strip("_").lower()
        law = None if kind in MOVED else law_of(call.node.op_type)
        if (law is None and kind not in MOVED) or (len(call.written) != 1 and kind not in PARTS):
            return None
        read = [n for n in call.read if _is_of_fractions(self._rows[n])]
        if any(self._rows[n].pair.is_guess or self._rows[n].pair.rule.is_self for n in (number, *read)):
            return None
        found = self._against(row, call, read, law, "target")
        if found is None or found.gap <= 1.0:
            return None
        golden = self._against(row, call, read, law, "golden")
        return None if golden is None or golden.gap > 1.0 or self._is_in_place(call, row, read) else found

    def _against(self, row: Row, call: Call, read: Sequence[int], law: Law | None, side: str) -> Contradiction | None:
        """Return how far one side's result is from what its inputs make; None where its statistics do not tell."""
        whole, *parts = (moments_of(each, side) for each in (row, *(self._rows[n] for n in read)))
        known = [each for each in parts if each is not None]
        if whole is None or len(known) < len(parts) or not known:
            return None
        if law is None:
            return _of_same(whole, known)
        dues = law(whole, known, self._operands(row, call, side))
        worst = max(dues, key=lambda due: due.gap(whole), default=None)
        return None if worst is None else Contradiction(worst.gap(whole), _told(worst, whole))

    def _operands(self, row: Row, call: Call, side: str) -> Operands:
        """Return what a call reads beside tensors, on one side."""
        given = (self._rows[n].pair for n in call.read)
        values = [
            tensor.value
            for pair in given
            if (tensor := getattr(pair, side)) is not None and isinstance(tensor.slot.path[0], int)
        ]
        numbers = [float(each) for each in values if isinstance(each, (int, float)) and not isinstance(each, bool)]
        return Operands(row.pair.shown.shape or (), tuple(numbers))

    def _is_in_place(self, call: Call, row: Row, read: Sequence[int]) -> bool:
        """Whether the target's collector may have recorded an input as what the call made of it.

        Sums in place have a name of their own; activations have an argument for it.
        """
        assert call.node is not None
        kind = call.node.op_type
        is_named = kind.startswith("__i") or (kind.endswith("_") and not kind.endswith("__"))
        if kind.strip("_").lower() in _NEVER_IN_PLACE and not is_named:
            return False
        whole = moments_of(row, "target")
        return whole is not None and any(_is_same(whole, moments_of(self._rows[n], "target")) for n in read)


_NEVER_IN_PLACE = frozenset(("add", "radd", "sub", "rsub")) | MOVED


def _is_of_fractions(row: Row) -> bool:
    target = row.pair.target
    return row.is_by_statistics and target is not None and target.dtype in UNIT


def _of_same(whole: Moments, parts: Sequence[Moments]) -> Contradiction | None:
    if len(parts) != 1 or parts[0].count != whole.count or parts[0].unit != whole.unit:
        return None
    name, here, there = differing(whole, parts[0])
    told = f"holds other elements than its own input, unlike the golden's: its {name} is {here:.4g}, there {there:.4g}"
    return Contradiction(apart(whole, parts[0]), told)


def _is_same(whole: Moments, part: Moments | None) -> bool:
    return part is not None and part.count == whole.count and apart(whole, part) <= 1.0


def _told(due: Due, whole: Moments) -> str:
    return f"is not what its own inputs make, as the golden's is: {due.told(whole)}"
