"""What statistics of a result prove by those of its own inputs, whatever error these have.

Putting elements elsewhere changes no statistic, and many operators have a law that theirs obey (`laws`). Where that
holds for the golden it must hold for the target, so its own contradiction is a proof without any allowance: behind
another fault, random operators and decisions as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.number_types import UNIT
from probe_flow.analysis.statistics.beside_golden import LEAVING, as_uneven, left_out
from probe_flow.analysis.statistics.dues import Due, Law, Made, Operands
from probe_flow.analysis.statistics.gradient_laws import law_of_gradient
from probe_flow.analysis.statistics.laws import CENTRED, OF_ROWS, bare, law_of
from probe_flow.analysis.statistics.moments import RECORDED, Moments, apart, differing, moments_of
from probe_flow.records import Mode, NodeKind, Phase
from probe_flow.records.row import Row

MOVED = frozenset(
    (
        "reshape", "view", "permute", "transpose", "flatten", "contiguous", "squeeze", "unsqueeze", "clone", "t",
        "roll", "flip", "unflatten", "movedim", "swapaxes", "sort", "pixelshuffle", "pixelunshuffle", "channelshuffle",
        "rot90", "moveaxis", "swapdims", "ravel", "viewas", "reshapeas",
    )
)  # fmt: skip
"""Types that put the same elements elsewhere."""

PARTS = frozenset(("chunk", "split", "unbind", "topk", "sort", "max", "min"))
"""Types that have several results, each of which is a part of what was read, or says where that was."""

MAKERS = frozenset(("sum", "rsqrt", "softmax"))
"""Types whose results make more of a law of what reads them."""

CHOOSING = frozenset(("topk", "sort"))
"""Types that return what they picked, and where from."""

PICKING = frozenset(("gather", "takealongdim", "indexselect"))
"""Types that pick by such indices."""


class Contradiction(Struct, frozen=True):
    """What a target's result is not, by its own inputs.

    Args:
        gap: how far it is off, in what rounding explains.
        told: in words.
    """

    gap: float
    told: str


NOTHING = Contradiction(0.0, "")
"""What is within rounding."""


class OwnInputs:
    """Finds results whose statistics contradict those of their own inputs.

    Args:
        rows: all rows.
        calls: of them.
    """

    def __init__(self, rows: Sequence[Row], calls: Calls) -> None:
        self._rows = rows
        self._calls = calls

    def contradiction(self, number: int, apart: Callable[[], float] = lambda: 1.0) -> Contradiction | None:
        """Return what a result is not; None where nothing contradicts, or the golden has no such rule.

        ``apart`` gives how far what it read is off, as a share of its spread: 1 of other data.
        """
        row, call = self._rows[number], self._calls.of[number]
        if call is None or call.node is None:
            return None
        kind, is_forward = _kind(call), call.key.phase is Phase.FORWARD
        is_moved = kind in MOVED
        law = None if is_moved else law_of(call.node.op_type) if is_forward else law_of_gradient(row, call)
        if (law is None and not is_moved) or (is_forward and len(call.written) != 1 and kind not in PARTS):
            return None
        read = [n for n in call.read if _is_of_fractions(self._rows[n])]
        if any(self._rows[n].pair.is_guess or self._rows[n].pair.rule.is_self for n in (number, *read)):
            return None
        found = self._against(row, call, read, law, "target")
        if found is None or found.gap <= 1.0:
            return self._beside_golden(row, call, read, law, apart) if is_forward else None
        golden = self._against(row, call, read, law, "golden")
        return None if golden is None or golden.gap > 1.0 or self._is_in_place(call, row, read) else found

    def no_one_hot(self, number: int) -> Contradiction | None:
        """Return what the mean of one-hot rows is that were made floats, which no dump shows, if they are none."""
        row, shape = self._rows[number], self._rows[number].pair.shown.shape or ()
        made = self._one_hot.get(row.node.execution.identity, {}).get(shape)
        mine, golden = (moments_of(row, side) for side in ("target", "golden"))
        if made is None or made > number or mine is None or golden is None or row.pair.is_guess:
            return None
        share = 1.0 / shape[-1]
        if (golden.low, golden.high) != (0.0, 1.0) or not golden.is_two_valued:
            return None
        gaps = [abs(each.mean - share) / (RECORDED + each.mean_recorded) for each in (mine, golden)]
        if gaps[0] <= 1.0 or gaps[1] > 1.0:
            return None
        name = self._rows[made].pair.shown.id
        return Contradiction(
            gaps[0], f"is not one-hot, as `{name}` is: its mean is {mine.mean:.4g} in place of {share:.4g}"
        )

    @cached_property
    def _one_hot(self) -> Mapping[object, Mapping[tuple[int, ...], int]]:
        """Execution -> shape -> the first result of ``one_hot``."""
        found: dict[object, dict[tuple[int, ...], int]] = {}
        for call in self._calls:
            if call.node is not None and _kind(call) == "onehot" and call.key.phase is Phase.FORWARD:
                for number in call.written:
                    shapes = found.setdefault(call.key.execution.identity, {})
                    shapes.setdefault(self._rows[number].pair.shown.shape or (), number)
        return found

    def _against(self, row: Row, call: Call, read: Sequence[int], law: Law | None, side: str) -> Contradiction | None:
        """Return how far one side's result is from what its inputs make; None where its statistics do not tell."""
        whole, known = self._known(row, call, read, side)
        if whole is None:
            return None
        if law is None:
            return _of_same(whole, known)
        dues = law(whole, known, self._operands(row, call, read, side))
        worst = max(dues, key=lambda due: due.gap(whole), default=None)
        if worst is None:
            return None
        gap = worst.gap(whole)
        return Contradiction(gap, _told(worst, whole)) if gap > 1.0 else NOTHING

    def _known(self, row: Row, call: Call, read: Sequence[int], side: str) -> tuple[Moments | None, Sequence[Moments]]:
        """Return the statistics of a result and of all that was read: none of these where one is not known.

        Some laws are of the result alone: masked scores are infinite. What a module reads in 16 bits may meet weights
        that were cast to them, whatever it gives: in mixed precision its parameters are recorded as they are stored.
        """
        known = [own for n in read if (own := moments_of(self._rows[n], side)) is not None]
        whole = moments_of(row, side) or _truth_of(row, side)
        if whole is not None and call.node is not None and call.node.kind is NodeKind.MODULE:
            whole = replace(whole, unit=max((whole.unit, *(each.unit for each in known))))
        return whole, known if len(known) == len(read) else ()

    def _operands(self, row: Row, call: Call, read: Sequence[int], side: str) -> Operands:
        """Return what a call reads beside tensors of fractions (``read``), on one side."""
        given = [tensor for n in call.read if (tensor := getattr(self._rows[n].pair, side)) is not None]
        numbers = [
            (each.slot.path[0], float(value))
            for each in given
            if isinstance(value := each.value, (int, float)) and not isinstance(value, bool)
        ]
        return Operands(
            row.pair.shown.shape or (),
            tuple(value for place, value in numbers if isinstance(place, int)),
            lambda place: self._made(read[place], side),
            next((value for place, value in numbers if place in ("alpha", "value")), 1.0),
        )

    def _made(self, number: int, side: str) -> Made | None:
        """Return what made a tensor, told by the golden's statistics; None where it is not known or not the same."""
        maker = self._results.get(_identity(self._rows[number]))
        if maker is None or maker.node is None or not maker.read:
            return None
        tensor, made = (moments_of(self._rows[n], side) for n in (number, maker.written[0]))
        if tensor is None or made is None or apart(tensor, made) > 1.0:
            return None
        return Made(_kind(maker), moments_of(self._rows[maker.read[0]], side))

    @cached_property
    def _results(self) -> Mapping[object, Call]:
        """First results of `MAKERS` and `CHOOSING` by the golden's statistics, the latest of equal ones."""
        made = (each for each in self._calls if each.node is not None and each.key.phase is Phase.FORWARD)
        told = (each for each in made if each.written and _kind(each) in MAKERS | CHOOSING)
        found = {_identity(self._rows[each.written[0]]): each for each in told}
        found.pop(None, None)
        return found

    def _beside_golden(
        self, row: Row, call: Call, read: Sequence[int], law: Law | None, apart: Callable[[], float]
    ) -> Contradiction | None:
        """Return what a result is not by its own inputs and by what the golden's is of the golden's inputs."""
        kind = _kind(call)
        if kind in PICKING:
            return self._of_picked(row, call, read)
        if kind not in OF_ROWS | LEAVING or self._is_in_place(call, row, read):
            return None
        (whole, parts), (other, others) = (self._known(row, call, read, side) for side in ("target", "golden"))
        golden = self._against(row, call, read, law, "golden")
        if whole is None or other is None or golden is None or golden.gap > 1.0:
            return None
        if kind in LEAVING:
            dues, where = left_out(whole, parts, other, others), "where what is left out is spread as the golden's"
        else:
            dues = as_uneven(whole, parts, other, others, is_centred=kind in CENTRED, apart=apart())
            where = "where they are as uneven as the golden's"
        worst = max(dues, key=lambda due: due.gap(whole), default=None)
        if worst is None or worst.gap(whole) <= 1.0:
            return None
        return Contradiction(worst.gap(whole), f"{_told(worst, whole)} {where}")

    def _of_picked(self, row: Row, call: Call, read: Sequence[int]) -> Contradiction | None:
        """Return what a result is not that in the golden is what a choice had picked, by the same indices.

        The choice shows what it picked, so that a wrong index differs from it, and a near tie does not.
        """
        choice = self._results.get(_identity(row))
        if choice is None or len(choice.written) != 2 or _kind(choice) not in CHOOSING or not (choice.read and read):
            return None
        places = [n for n in call.read if _is_index(self._rows[n])]
        values, at = choice.written
        given = [(read[0], choice.read[0], "target"), (read[0], choice.read[0], "golden")]
        pairs = [[moments_of(self._rows[n], side) for n in two] for *two, side in given]
        if any(one is None or other is None or apart(one, other) > 1.0 for one, other in pairs):
            return None
        if len(places) != 1 or not _has_extremes_of(self._rows[places[0]], self._rows[at]):
            return None
        whole, picked = moments_of(row, "target"), moments_of(self._rows[values], "target")
        if whole is None or picked is None or apart(whole, picked) <= 1.0:
            return None
        than = f"`{self._rows[values].pair.shown.id}`, which the same indices picked"
        return Contradiction(apart(whole, picked), _of_others(than, whole, picked))

    def _is_in_place(self, call: Call, row: Row, read: Sequence[int]) -> bool:
        """Whether the target's collector may have recorded an input as what the call made of it.

        Sums in place have a name of their own; activations have an argument for it.
        """
        if _kind(call) in _NEVER_IN_PLACE and not call.is_in_place:
            return False
        whole = moments_of(row, "target")
        return whole is not None and any(_is_same(whole, moments_of(self._rows[n], "target")) for n in read)


_NEVER_IN_PLACE = frozenset(("add", "radd", "sub", "rsub")) | MOVED


def _kind(call: Call) -> str:
    return bare(call.node.op_type) if call.node is not None else ""


def _identity(row: Row) -> object:
    """Return what tells the golden's tensor from others of its execution; None where its statistics do not."""
    own = moments_of(row, "golden")
    return None if own is None else (row.node.execution.identity, own.count, own.low, own.high, own.mean, own.norm)


def _truth_of(row: Row, side: str) -> Moments | None:
    """Return the extremes of what a comparison gave (0 and 1), all that is recorded of truth; None of others."""
    tensor, measured = getattr(row.pair, side), row.measurement
    if tensor is None or tensor.dtype != "bool" or measured is None or measured.mode is not Mode.STATISTICS:
        return None
    known = measured.target_statistics if side == "target" else measured.golden_statistics
    if known is None or known.min is None or known.max is None:
        return None
    return Moments(float(known.min), float(known.max), math.nan, math.nan, measured.count, 0.0, 0.0, 0)


def _is_index(row: Row) -> bool:
    target = row.pair.target
    return target is not None and target.dtype.startswith(("int", "uint")) and (target.numel or 0) > 1


def _has_extremes_of(row: Row, other: Row) -> bool:
    """Whether two tensors of indices may be one, on either side: of such collectors record the extremes only."""
    mine, theirs = row.measurement, other.measurement
    if mine is None or theirs is None or mine.count != theirs.count:
        return False
    sides = [(each.target_statistics, each.golden_statistics) for each in (mine, theirs)]
    return all(one and two and one.min == two.min and one.max == two.max for one, two in zip(*sides, strict=True))


def _is_of_fractions(row: Row) -> bool:
    target = row.pair.target
    return row.is_by_statistics and target is not None and target.dtype in UNIT


def _of_same(whole: Moments, parts: Sequence[Moments]) -> Contradiction | None:
    if len(parts) != 1 or parts[0].count != whole.count or parts[0].unit != whole.unit:
        return None
    gap = apart(whole, parts[0])
    if gap <= 1.0:
        return NOTHING
    return Contradiction(gap, _of_others("its own input, unlike the golden's", whole, parts[0]))


def _of_others(than: str, whole: Moments, there: Moments) -> str:
    name, own, other = differing(whole, there)
    return f"holds other elements than {than}: its {name} is {own:.4g}, there {other:.4g}"


def _is_same(whole: Moments, part: Moments | None) -> bool:
    if part is None or part.count != whole.count or (whole.top and not part.top):
        return False  # nothing is apart from zeros, which an optimizer begins with
    return apart(whole, part) <= 1.0


def _told(due: Due, whole: Moments) -> str:
    return f"is not what its own inputs make, as the golden's is: {due.told(whole)}"
