"""Find where the divergence begins: tensors whose error neither rounding nor the errors of their inputs explain.

Every compared tensor is judged locally, by three figures (rms, peak, gain) against its `Allowance`. One that exceeds
it is a suspect. Suspects that nothing suspected feeds are origins, the earliest in time first; a tensor that carries
error and descends from a suspect inherits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.flow.links import Given
from probe_flow.analysis.flow.ordering import in_time, side_by_side
from probe_flow.analysis.flow.undumped import Undumped
from probe_flow.analysis.limits import (
    ASKED,
    FEWER_BITS,
    GRADIENT_LIMITS,
    LIMITS,
    NEAR,
    STATISTICS_LIMITS,
    Limits,
)
from probe_flow.analysis.model.budget import Allowances
from probe_flow.analysis.model.decisions import is_whole
from probe_flow.analysis.model.deviation import Deviation, ErrorFigure
from probe_flow.analysis.model.growth import Allowance
from probe_flow.analysis.plain_values import plain_gap
from probe_flow.analysis.search.diagnosis import LIMITED, Diagnosis, Suspect, is_doubtful, is_open, ratio, scores_of
from probe_flow.analysis.search.near_misses import hidden_of, outputs_before
from probe_flow.analysis.search.proof import Proof, is_by_flips, is_cancellation, proof_of, score_of
from probe_flow.analysis.search.reference_check import clears
from probe_flow.analysis.search.shaken import Shaken
from probe_flow.records import FigureColumn, Pairs
from probe_flow.records.row import Pick, Row

PICKED = 2.0
"""Distance of a picked value from the one due that is a near tie, in the largest error of what was picked from: two
values change places where each is off."""

SAME_VALUE = 2.0**-20
"""Relative difference of float arguments that says nothing: they may come from a computation."""

FEEDERS = 6
"""Outputs before a suspect that are computed again with it."""

TRACED = 16
"""Suspects, and rows near to being ones, whose feeders are looked for."""


def diagnose(rows: Sequence[Row], pairs: Pairs) -> Diagnosis:
    """Judge every measured row against what explains it; ``rows`` in execution order."""
    search = Search(rows, pairs)
    found = search.run()
    vars(search.allowances).clear()  # parts lead back to the whole: it would stay until garbage is looked for
    return found


class Search:
    """One pass in order of time; holds what is known so far."""

    def __init__(self, rows: Sequence[Row], pairs: Pairs) -> None:
        self.rows = rows
        self.calls = Calls(rows, pairs)
        self.allowances = Allowances(rows, pairs, self.calls)
        self.deviations = self.allowances.deviations
        self.order = in_time(self.calls, self.allowances.moment)
        self.suspects: dict[int, Suspect] = {}
        self.tainted: dict[int, int] = {}
        self.wild: set[int] = set()
        self.first_nonfinite: int | None = None
        self.is_any_off = False
        self.damaged: dict[Call, int] = {}
        self.scores = FigureColumn(len(rows))
        self.cleared: set[int] = set()
        self.near: dict[int, Suspect] = {}
        self.unjudged: list[int] = []
        self.carried: list[int] = []
        self.decided: list[int] = []
        self.undumped = Undumped(rows, pairs, self.calls, self.allowances.sources)
        self.shaken = Shaken(rows, self.undumped, self.allowances.alike)
        self.asked: list[tuple[float, int, float]] = []
        self.handed: dict[int, Given] = {}

    def run(self) -> Diagnosis:
        for number in self.order:
            deviation = self.deviations[number]
            if deviation is not None:
                self._meet(number, deviation)
                if self._judge(number, deviation):
                    self._remember(number, deviation)
            elif not self.rows[number].is_produced:
                self._judge_argument(number)
        found = side_by_side(self.suspects, self.order, self.rows, self.allowances.moment)
        suspects = tuple(self.suspects[number] for number in found)
        tainted = self._resolved()
        cleared = tuple(n for n in self.order if n in self.cleared and n not in self.suspects and n not in tainted)
        scales, quantised = self.allowances.scales, self.allowances.hidden.quantised_runs
        through = self.allowances.links.through if suspects else {}
        passed = {key: through.get(key, ()) for key in {self.rows[each.row].node for each in suspects if through}}
        return Diagnosis(
            suspects, tainted, self.deviations, self.order, scales, self.scores, cleared, quantised, passed,
            hidden_of(suspects, self.rows, self.deviations, self.allowances.sources),
            self.allowances.is_flow_unknown, tuple(self.near),
            {row: explained for _, row, explained in sorted(self.asked, reverse=True)},
            self._fed_by([*(each.row for each in suspects), *self.near][:TRACED]), tuple(self.unjudged),
            tuple(self.carried), tuple(self.decided), tuple(self.shaken.random), self.shaken.noise.keys(),
            self.handed, tuple(self.shaken.undecided), tuple(self.shaken.undumped),
            self.is_any_off and self.undumped.is_any, self.calls.derivatives,
            self.undumped.unseen(key for keys in passed.values() for key in keys) if passed else (),
        )  # fmt: skip

    def _meet(self, number: int, deviation: Deviation) -> None:
        call = self.calls.of[number]
        if call is not None:
            self.shaken.meet(self.rows[number], self.allowances.turned(number, deviation, call))

    def _fed_by(self, numbers: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """Return the outputs that some rows were computed from, the nearest first."""
        return {n: tuple(islice(outputs_before(n, self.rows, self.allowances.sources), FEEDERS)) for n in numbers}

    def _resolved(self) -> dict[int, int]:
        """Return the heirs with their suspects: a collective may come before what another rank did to it."""
        found = {}
        for number in self.tainted:
            root, seen = number, {number}
            while root in self.tainted and self.tainted[root] not in seen:
                root = self.tainted[root]
                seen.add(root)
            if root in self.suspects:
                found[number] = root
        return found

    def _judge_argument(self, number: int) -> None:
        """Accuse a scalar argument that differs; behind an earlier suspect it may have been computed from it."""
        gap = plain_gap(self.rows[number])
        if gap is None or gap <= SAME_VALUE or gap <= 2.0 * self.allowances.recent(number):
            return
        ancestor = self._root(next(iter(self.suspects))) if self.suspects else None
        score = 1.0 + SAME_VALUE if ancestor is not None else math.inf
        self.suspects[number] = Suspect(number, score, ErrorFigure.VALUE, None, None, (), ancestor is not None)
        self.wild.add(number)
        if ancestor is not None:
            self.tainted[number] = ancestor

    def _judge(self, number: int, deviation: Deviation) -> bool:
        """Judge a row; return whether its error may explain others."""
        row, call = self.rows[number], self.calls.of[number]
        assert call is not None
        # What is other data goes on through statistics that agree by chance.
        if not (row.is_by_statistics and self.shaken.noise) and self.allowances.is_rounding(number, deviation):
            self.scores[number] = 0.0
            return True
        if self.allowances.is_memory(number, call):
            self.allowances.forget(number)
            return False
        self.is_any_off = True
        sources = self.allowances.sources(number)
        produced = row.is_produced
        peers = self.allowances.given(call) if produced and sources is not None else ()
        behind = (*(sources or ()), *peers)
        known = [(n, d) for n in behind if (d := self.deviations[n]) is not None]
        allowed = self.allowances.of(number, deviation, known, behind, sources)
        limits = self._limits(number, call)
        figure, score = self.worst_figure(number, deviation, allowed, limits)
        if row.pick is not None:
            figure, score = ErrorFigure.PICK, self._pick_score(row.pick, call)
        # Without a path to the errors before it, an output is judged by what outputs are usually off by.
        is_alone = produced and sources is None and self.allowances.is_flow_unknown
        updated = self.allowances.updates.gradients.get(number, ())
        wild = self.wild.intersection(call.read) if produced else ()  # though it shows again what it was given
        around = (*behind, *wild, *(call.forward if produced else updated))
        ancestor = self._ancestor(call, around, peers, produced=produced)
        # Wrong indices, masks, arguments and NaN may do anything to what is computed from them, and what is wrong
        # inside a module to what the module returns.
        is_wild = not self.wild.isdisjoint(around if produced else updated) or (produced and call in self.damaged)
        if is_wild:
            score = 0.0
        score = self.shaken.score(
            number, call, around, score, deviation, is_known=sources is not None,
            is_undumped=score > 1.0 and self.undumped.made(number, self.allowances.maker(number, call)),
        )  # fmt: skip
        begins = deviation.nonfinite and not is_wild and not any(d.nonfinite for _, d in known)
        if begins and not self._clears(number, ErrorFigure.NONFINITE):
            if sources is None and self.first_nonfinite is not None:
                ancestor = self._root(self.first_nonfinite)
            else:
                figure, score = ErrorFigure.NONFINITE, math.inf
        if score > 1.0 and is_doubtful(row, deviation):
            self.allowances.forget(number)
            return False
        found = Suspect(
            number, score, figure, deviation, allowed, tuple(n for n, _ in known), ancestor is not None,
            limits.of(figure.value),
        )  # fmt: skip
        found, ancestor = self._of_optimizer(found, ancestor)
        is_wide = is_wild or is_open(found, [d for _, d in known], is_guess=self.allowances.is_guess(call))
        found, ancestor = self._with_proof(found, call, ancestor, is_wide=is_wide)
        score = found.score
        self.scores[number] = score
        if score > 1.0:
            self.suspects[number] = found
            for module in call.around():
                self.damaged.setdefault(module, number)
        error = deviation.likely if deviation.is_bare else deviation.rms
        if ancestor is not None and (score > 1.0 or error > 2.0 * allowed.floor or deviation.nonfinite):
            self.tainted[number] = ancestor
        elif sources is None and not is_alone and score <= 1.0 and self.suspects and error > 6.0 * allowed.floor:
            self.tainted[number] = self._root(next(iter(self.suspects)))
        return not is_alone or score <= 1.0 or figure is ErrorFigure.NONFINITE

    def _of_optimizer(self, found: Suspect, ancestor: int | None) -> tuple[Suspect, int | None]:
        """Return a parameter, and what it descends from, by how all parameters of its step changed.

        Where something was wrong before, or drawn and decided otherwise, gradients are others and updates with them.
        """
        fit = None if self.shaken.noise else self.allowances.fit(found.row)
        if fit is None or fit.score <= 1.0:
            return found, ancestor
        first = next(iter(self.suspects), found.row)
        if first != found.row:
            is_heir = self.suspects[first].figure is ErrorFigure.UPDATE and first in fit.rows
            return (replace(found, score=min(found.score, 1.0)), first) if is_heir else (found, ancestor)
        return found.by(ErrorFigure.UPDATE, fit.score, fit.told()), None

    def _with_proof(
        self, found: Suspect, call: Call, ancestor: int | None, *, is_wide: bool
    ) -> tuple[Suspect, int | None]:
        """Return a row and what it descends from, by what recomputing it proves; remember what that leaves open.

        Args:
            found: the row as it was judged, a suspect or not.
            call: of the row.
            ancestor: the suspect that it descends from.
            is_wide: whether next to any error would be explained, or nobody knows whether this one is.
        """
        row = self.rows[found.row]
        proof, is_produced = proof_of(row), row.is_produced
        if not is_produced and (found := self._handed_on(found, proof)).is_proven:
            return found, None
        if (against := self.allowances.contradiction(found.row, is_other=found.row in self.shaken.noise)) is not None:
            return found.by(ErrorFigure.OWN, found.score, against.told).proven(against.gap), None
        found = self._with_lost_bits(found)
        if proof is Proof.WRONG:
            return found.proven(score_of(row)), None
        if proof is Proof.RIGHT and found.score > 1.0 and found.figure is not ErrorFigure.NONFINITE:
            score, ancestor = self._of_carrier(found, call, ancestor)
            return replace(found, score=score), ancestor
        if proof is None and is_produced and (is_wide or found.row in self.shaken.noise):
            self.unjudged.append(found.row)
        if proof is None and is_produced and found.deviation is not None and is_whole(found.deviation, call):
            self.decided.append(found.row)
        crest = self.allowances.crest(found.row)
        if proof is None and is_produced and (strikes := max(found.score, ASKED * crest)) >= ASKED:
            explained = found.allowance.rms if found.allowance is not None and crest >= 1.0 else 0.0
            self.asked.append((strikes, found.row, explained))
        if NEAR <= found.score <= 1.0:
            self.near[found.row] = found
        return found, ancestor

    def _with_lost_bits(self, found: Suspect) -> Suspect:
        """Return a row that is accused where its extremes lack more bits than accident and its error explain."""
        lost = self.allowances.lost_bits(found.row) if found.score <= 1.0 else None
        beside = 0.0 if found.row in self.shaken.noise else FEWER_BITS.limit * found.score
        score = (lost.bits + beside) / FEWER_BITS.accuse if lost else 0.0
        if lost is None or score <= 1.0:
            return found
        return found.by(ErrorFigure.BITS, score, lost.told)

    def _handed_on(self, found: Suspect, proof: Proof | None) -> Suspect:
        """Return a row that a call read, proven to be wrong where it is not what others gave.

        Statistics prove it, for the target contradicts itself; where the elements are there, these are asked.
        """
        handed, row = self.allowances.handed, self.rows[found.row]
        if handed is None:
            return found
        gap, parts = handed.gap(found.row), handed.parts(found.row)
        if proof is Proof.WRONG or (row.is_by_statistics and gap > 1.0):
            found = found.by(ErrorFigure.HANDED, found.score, handed.told(found.row))
            found = found.proven(gap if row.is_by_statistics else score_of(row))
            return replace(found, inputs=parts or found.inputs)
        if row.recomputed is None and not row.is_by_statistics:
            is_sum = len(parts) > 1 and found.score >= ASKED
            given = handed.given(parts) if gap > 1.0 or is_sum else handed.through_gate(found.row)
            if given and given.gate is not None and not is_by_flips(found.deviation, self.deviations[given.rows[0]]):
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
        a sum that cancels makes that of a few roundings, or a logarithm that of an element near zero. It stands for
        what is between the two and the golden does not show, too.
        """
        own = score_of(self.rows[found.row])
        if ancestor is not None:
            return own, ancestor
        before = self._fed_by((found.row,))[found.row]
        around = [n for n in (*call.read, *before) if n in self.near and proof_of(self.rows[n]) is not Proof.RIGHT]
        if around:
            blamed = max(around, key=lambda n: self.near[n].score)
            self.suspects[blamed] = replace(self.near.pop(blamed), score=1.0 + SAME_VALUE)
            return own, blamed
        unknown = [
            (d.relative, n)
            for n in call.read
            if (d := self.deviations[n]) is not None and d.relative > d.unit and self.allowances.sources(n) is None
        ]
        if unknown:
            blamed = max(unknown)[1]
            self.suspects[blamed] = replace(found, row=blamed, deviation=self.deviations[blamed], inputs=())
            return own, blamed
        inner = self.undumped.unseen(self.allowances.links.through.get(self.rows[found.row].node, ()))
        if any(proof_of(self.rows[n]) is not Proof.RIGHT for n in inner):
            return found.score, None
        is_known = bool(before) and all(proof_of(self.rows[n]) is Proof.RIGHT for n in before)
        read = [self.deviations[n] for n in call.read]
        if not (is_known or call.is_singular or is_cancellation(found.deviation, read)):
            return found.score, None
        self.carried.append(found.row)
        return own, None

    def _limits(self, number: int, call: Call) -> Limits:
        """Return how many times its allowance each figure of a row may be."""
        row, links = self.rows[number], self.allowances.links
        is_computed = number in links.before or (row.is_produced and number not in links.producers)
        if not (is_computed and row.is_by_statistics):
            return LIMITS
        return GRADIENT_LIMITS if call.is_gradient else STATISTICS_LIMITS

    def worst_figure(
        self, number: int, deviation: Deviation, allowed: Allowance, limits: Limits
    ) -> tuple[ErrorFigure, float]:
        """Return the worst figure and its score, of those that neither reference nor noise clears."""
        scores = scores_of(deviation, allowed, limits)
        worst = max(scores)
        if worst > 1.0 and (self.rows[number].third is not None or self.rows[number].noise):
            scores = [
                0.0 if score > 1.0 and self._clears(number, figure) else score
                for figure, score in zip(LIMITED, scores, strict=True)
            ]
            worst = max(scores)
        return LIMITED[scores.index(worst)], worst

    def _pick_score(self, pick: Pick, call: Call) -> float:
        """Return how far picked values are from those due, in what the error of the input they come from explains."""
        read = [d for n in call.read if self.rows[n].pair.shown.slot == pick.slot and (d := self.deviations[n])]
        return ratio(pick.gap, max((PICKED * (d.peak + d.unit * d.top) for d in read), default=0.0))

    def _clears(self, number: int, figure: ErrorFigure) -> bool:
        is_cleared = clears(self.rows[number], figure)
        if is_cleared:
            self.cleared.add(number)
        return is_cleared

    def _ancestor(self, call: Call, behind: Sequence[int], peers: Sequence[int], *, produced: bool) -> int | None:
        """Return the suspect that a row descends from, or the input of another rank that may turn out to be one."""
        known = next((self._root(n) for n in behind if n in self.suspects or n in self.tainted), None)
        if known is None and produced:
            known = self.damaged.get(call)
        if known is not None or self.allowances.moment is not None:  # else peers of later ranks are not judged yet
            return known
        wrong = [(d.relative, -n) for n in peers if (d := self.deviations[n]) is not None and (d.rms or d.nonfinite)]
        return -max(wrong)[1] if wrong else None

    def _root(self, number: int) -> int:
        return self.tainted.get(number, number)

    def _remember(self, number: int, deviation: Deviation) -> None:
        self.allowances.remember(number, deviation, is_suspect=number in self.suspects)
        is_exact = deviation.unit == 0.0 and deviation.rms > 0.0
        others = (self.suspects, self.tainted, self.shaken.undumped)
        if deviation.nonfinite or (is_exact and any(number in each for each in others)):
            self.wild.add(number)
        if deviation.nonfinite and self.first_nonfinite is None:
            self.first_nonfinite = number
