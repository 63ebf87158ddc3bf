"""What it proves that a result was computed again from the inputs that it had (`Row.recomputed`).

A result that its own inputs explain only carries on what they brought, however much that became. One that they do not
explain is wrong by itself, whatever came in; that is believed where the golden's result is what the golden's inputs
make, which shows that the operator is understood. Where the target's is right and the golden's is not, the difference
begins there all the same, in the golden: nothing is proven of the operator, and it is judged as without proof.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.flow.links import Given
from probe_flow.analysis.flow.undumped import Undumped
from probe_flow.analysis.limits import ASKED, BEYOND, FEWER_BITS, NEAR
from probe_flow.analysis.model.budget import Allowances
from probe_flow.analysis.model.decisions import is_by_flips, is_whole
from probe_flow.analysis.model.deviation import Deviation, ErrorFigure
from probe_flow.analysis.number_types import SIGNIFICANT_BITS
from probe_flow.analysis.search.diagnosis import Suspect, outputs_before
from probe_flow.analysis.search.shaken import Shaken
from probe_flow.records import Value
from probe_flow.records.row import CHANNEL, Row

SAME_VALUE = 2.0**-20
"""Relative difference of float arguments that says nothing: they may come from a computation."""

FEEDERS = 6
"""Outputs before a suspect that are computed again with it."""


class Proof(enum.Enum):
    """What is proven of a result."""

    RIGHT = "right"
    WRONG = "wrong"


def proof_of(row: Row) -> Proof | None:
    """Return what recomputing a result proves; None where it was not done, or is between both."""
    own = row.recomputed
    if own is None or own.reason:
        return None
    if own.figure == CHANNEL:
        return Proof.WRONG
    if own.score <= 1.0 and not own.nonfinite:
        return None if is_golden_off(row) else Proof.RIGHT
    is_understood = own.golden is not None and own.golden <= 1.0 and not _is_sum_in_16_bits(row)
    if is_understood and own.score > BEYOND and not own.nonfinite and row.third is None and not row.noise:
        return Proof.WRONG
    return None


def _is_sum_in_16_bits(row: Row) -> bool:
    """Whether a framework computed one number in 16 bits: by how much a kernel's sum is off depends on its order.

    The gradient of a slope (PReLU) is 13 % off by torch's own kernel in bfloat16, where what it sums cancels.
    """
    own, shown = row.recomputed, row.pair.shown
    return own is not None and bool(own.by) and shown.numel == 1 and shown.dtype in SIGNIFICANT_BITS


def is_golden_off(row: Row) -> bool:
    """Return whether the target's result is what its inputs make, and the golden's is not what the golden's make."""
    own = row.recomputed
    if own is None or own.reason or own.golden is None:
        return False
    return own.score <= 1.0 and not own.nonfinite and own.golden > BEYOND


def score_of(row: Row) -> float:
    """Return by how much a result that is wrong by itself exceeds what no right one reaches."""
    own = row.recomputed
    assert own is not None
    return own.score


def figures(row: Row) -> dict[str, Value]:
    """Return the figures of a finding: what was measured, and the own error of a result that was recomputed."""
    found = row.measurement.metrics.copy() if row.measurement is not None else {}
    own = row.recomputed
    if own is not None and not own.reason:
        found |= {"own_error": own.found, "own_error_explained": own.explained}
    return found


def sentence(row: Row) -> str:
    """Return what recomputing a result showed, in words, or why it was not done; empty where nothing is known.

    An example: ``given its own inputs, the output is off by 1.2e-02 where float16 explains 5.0e-04``.
    """
    own = row.recomputed
    if own is None:
        return ""
    if own.reason:
        return f"not recomputed: {own.reason}"
    if is_golden_off(row):
        return "given its own inputs, the output is right, and the golden's is not: the golden is what is off here"
    if proof_of(row) is None:
        return ""
    if own.figure == CHANNEL:
        return f"one channel is off by {own.found:.1e} where rounding and the inputs explain {own.explained:.1e}"
    dtype = row.pair.target.dtype if row.pair.target is not None else ""
    if own.is_of_beginning:
        explains = f"where {dtype} explains {own.explained:.1e}"
        size = "its size, where the golden's is zero" if math.isinf(own.score) else f"{own.found:.1e} {explains}"
        return f"before its step it was another state than the golden's, off by {size}"
    about = "given its own inputs, the output is" if row.is_produced else "element by element it is"
    if own.score == 0.0:
        return f"{about} exact"
    what = {
        "rms": f"off by {own.found:.1e}",
        "gain": f"off by a factor of {own.found:.1e}",
        "slice": f"off by {own.found:.1e} in one slice (a channel, a row)",
        "peak": f"off by up to {own.found:.1e} in single elements",
    }[own.figure]
    explains = (
        "and exact values are due"
        if own.explained == 0.0 or math.isinf(own.score)
        else (f"where {dtype} explains {own.explained:.1e}")
    )
    by = f" (computed by {own.by})" if own.by else ""
    return f"{about} {what} {explains}{by}"


ROUNDED, CANCELS = 8.0, 16.0
"""Roundings that what a call read may be off by, and how much larger the error of its result may be, where it is proven
to be right and nothing before it comes near to being wrong: a sum that cancels makes that of them."""


def is_cancellation(result: Deviation | None, read: Sequence[Deviation | None]) -> bool:
    """Whether a result is off by what a sum that cancels makes of the few roundings that its call read."""
    rounded = [d for d in read if d is not None and d.relative <= ROUNDED * d.unit and not d.nonfinite]
    if result is None or len(rounded) < len(read):
        return False
    return result.relative <= CANCELS * sum(d.relative for d in rounded)


class Proofs:
    """What speaks for or against rows beside their allowances, and what is left to be computed again.

    Args:
        rows: all rows.
        allowances: of them.
        suspects: row -> how it is accused; grows as the search goes on, and here by what carriers carry.
        shaken: rows that may be of other data.
        undumped: what the dump does not hold.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        allowances: Allowances,
        suspects: dict[int, Suspect],
        shaken: Shaken,
        undumped: Undumped,
    ) -> None:
        self._rows = rows
        self._allowances = allowances
        self._deviations = allowances.deviations
        self._suspects = suspects
        self._shaken = shaken
        self._undumped = undumped
        self.near: dict[int, Suspect] = {}
        self.unjudged: list[tuple[float, int]] = []
        """How many times as far off as all that it read a row is, and the row."""
        self.carried: list[int] = []
        self.decided: list[int] = []
        self.asked: list[tuple[float, int, float]] = []
        """How striking a row is, the row, and what of its error is explained where single elements stand out."""
        self.handed: dict[int, Given] = {}

    def feeders(self, number: int) -> tuple[int, ...]:
        """Return the outputs that a row was computed from, the nearest first."""
        return tuple(islice(outputs_before(number, self._rows, self._allowances.sources), FEEDERS))

    def of_optimizer(self, found: Suspect, ancestor: int | None) -> tuple[Suspect, int | None]:
        """Return a parameter, and what it descends from, by how all parameters of its step changed.

        Where something was wrong before, or drawn and decided otherwise, gradients are others and updates with them.
        """
        fit = None if self._shaken.noise else self._allowances.fit(found.row)
        if fit is None or fit.score <= 1.0:
            return found, ancestor
        first = next(iter(self._suspects), found.row)
        if first != found.row:
            is_heir = self._suspects[first].figure is ErrorFigure.UPDATE and first in fit.rows
            return (replace(found, score=min(found.score, 1.0)), first) if is_heir else (found, ancestor)
        return found.by(ErrorFigure.UPDATE, fit.score, fit.told()), None

    def of(
        self, found: Suspect, call: Call, ancestor: int | None, *, is_wide: bool, is_damaged: bool = False
    ) -> tuple[Suspect, int | None]:
        """Return a row and what it descends from, by what recomputing it proves; remember what that leaves open.

        Args:
            found: the row as it was judged, a suspect or not.
            call: of the row.
            ancestor: the suspect that it descends from.
            is_wide: whether next to any error would be explained, or nobody knows whether this one is.
            is_damaged: whether a call within this one is accused already, whose result this one returns.
        """
        row = self._rows[found.row]
        proof, is_produced = proof_of(row), row.is_produced
        if not is_produced and (found := self._handed_on(found, proof)).is_proven:
            return found, None
        against = None
        if not is_damaged:
            against = self._allowances.contradiction(found.row, is_other=found.row in self._shaken.noise)
        if against is not None:
            return found.by(ErrorFigure.OWN, found.score, against.told).proven(against.gap), None
        found = found if is_damaged else self._with_lost_bits(found)
        if found.is_proven:
            return found, None
        if proof is Proof.WRONG:
            return found.proven(score_of(row)), None
        if proof is Proof.RIGHT and found.score > 1.0 and found.figure is not ErrorFigure.NONFINITE:
            score, ancestor = self._of_carrier(found, call, ancestor)
            return replace(found, score=score), ancestor
        if proof is None and is_produced and (is_wide or found.row in self._shaken.noise):
            self.unjudged.append((self._leap(found), found.row))
        if proof is None and is_produced and found.deviation is not None and is_whole(found.deviation, call):
            self.decided.append(found.row)
        crest = self._allowances.crest(found.row)
        if proof is None and is_produced and (strikes := max(found.score, ASKED * crest)) >= ASKED:
            explained = found.allowance.rms if found.allowance is not None and crest >= 1.0 else 0.0
            self.asked.append((strikes, found.row, explained))
        if NEAR <= found.score <= 1.0:
            self.near[found.row] = found
        return found, ancestor

    def _leap(self, found: Suspect) -> float:
        """Return how many times as far off as a rounding, and as all that it was made of, a row is."""
        own = found.deviation
        if own is None:
            return 0.0
        read = [each.relative for n in found.inputs if (each := self._deviations[n]) is not None]
        most = max([own.unit, *read])
        return own.relative / most if 0.0 < most < math.inf else 0.0

    def _with_lost_bits(self, found: Suspect) -> Suspect:
        """Return a row that is accused where its extremes lack more bits than accident and its error explain.

        Bits that accuse alone do so whatever came in. Of its error counts what such a rounding makes.
        """
        lost = self._allowances.lost_bits(found.row) if found.score <= 1.0 or found.inherits else None
        if lost is None:
            return found
        if (alone := lost.bits / FEWER_BITS.accuse) > 1.0:
            return found.by(ErrorFigure.BITS, alone, lost.told).proven(alone)
        beside = 0.0 if found.row in self._shaken.noise else FEWER_BITS.limit * found.score * lost.explains
        score = (lost.bits + beside) / FEWER_BITS.accuse
        return found if max(1.0, found.score) >= score else found.by(ErrorFigure.BITS, score, lost.told)

    def _handed_on(self, found: Suspect, proof: Proof | None) -> Suspect:
        """Return a row that a call read, proven to be wrong where it is not what others gave.

        Statistics prove it, for the target contradicts itself; where the elements are there, these are asked.
        """
        handed, row, own = self._allowances.handed, self._rows[found.row], found.deviation
        if handed is None or (row.recomputed is not None and row.recomputed.is_of_beginning):
            return found
        if found.inherits and row.is_by_statistics and own is not None and own.is_of_storage:
            return found  # it agrees with the golden: what it is not like is wrong
        gap, parts = handed.gap(found.row), handed.parts(found.row)
        if proof is Proof.WRONG or (row.is_by_statistics and gap > 1.0):
            found = found.by(ErrorFigure.HANDED, found.score, handed.told(found.row))
            found = found.proven(gap if row.is_by_statistics else score_of(row))
            return replace(found, inputs=parts or found.inputs)
        if row.recomputed is None and not row.is_by_statistics:
            is_sum = len(parts) > 1 and found.score >= ASKED
            given = handed.given(parts) if gap > 1.0 or is_sum else handed.through_gate(found.row)
            if given and given.gate is not None and not is_by_flips(found.deviation, self._deviations[given.rows[0]]):
                given = None
            if given is None and found.score >= ASKED:
                given = handed.joined.part(found.row)
            if given is not None:
                self.handed[found.row] = given
        return found

    def _of_carrier(self, found: Suspect, call: Call, ancestor: int | None) -> tuple[float, int | None]:
        """Return score and ancestor of a row that is off by too much although its own inputs make just that.

        What it carries on is blamed: what comes near to being a suspect, or an input that nothing is known to have
        written. Where there is neither, and not all that feeds it is proven right, it stays a suspect itself, unless
        a sum that cancels makes that of a few roundings, or a logarithm that of an element near zero, or the device
        rounds what it multiplies. It stands for what is between the two and the golden does not show, too.
        """
        row = self._rows[found.row]
        own = score_of(row)
        if ancestor is not None or (row.recomputed is not None and row.recomputed.is_in_hf32):
            return own, ancestor
        before = self.feeders(found.row)
        around = [n for n in (*call.read, *before) if n in self.near and proof_of(self._rows[n]) is not Proof.RIGHT]
        if around:
            blamed = max(around, key=lambda n: self.near[n].score)
            self._suspects[blamed] = replace(self.near.pop(blamed), score=1.0 + SAME_VALUE)
            return own, blamed
        unknown = [
            (d.relative, n)
            for n in call.read
            if (d := self._deviations[n]) is not None and d.relative > d.unit and self._allowances.sources(n) is None
        ]
        if unknown:
            blamed = max(unknown)[1]
            self._suspects[blamed] = replace(found, row=blamed, deviation=self._deviations[blamed], inputs=())
            return own, blamed
        inner = self._undumped.unseen(self._allowances.links.through.get(self._rows[found.row].node, ()))
        if any(proof_of(self._rows[n]) is not Proof.RIGHT for n in inner):
            return found.score, None
        is_known = bool(before) and all(proof_of(self._rows[n]) is Proof.RIGHT for n in before)
        read = [self._deviations[n] for n in call.read]
        if not (is_known or call.is_singular or is_cancellation(found.deviation, read)):
            return found.score, None
        self.carried.append(found.row)
        return own, None
