"""Find where the divergence begins: tensors whose error neither rounding nor the errors of their inputs explain.

Every compared tensor is judged locally, by three figures (rms, peak, gain) against its `Allowance`. One that exceeds
it is a suspect. Suspects that nothing suspected feeds are origins, the earliest in time first; a tensor that carries
error and descends from a suspect inherits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.flow.links import calls_of
from probe_flow.analysis.flow.ordering import in_time, side_by_side
from probe_flow.analysis.flow.undumped import Undumped
from probe_flow.analysis.limits import GRADIENT_LIMITS, LIMITS, STATISTICS_LIMITS, Limits
from probe_flow.analysis.model.budget import Allowances
from probe_flow.analysis.model.deviation import Deviation, ErrorFigure
from probe_flow.analysis.model.growth import Allowance
from probe_flow.analysis.model.memory import is_optimizer
from probe_flow.analysis.plain_values import plain_gap
from probe_flow.analysis.search.diagnosis import LIMITED, Diagnosis, Suspect, is_doubtful, is_open, ratio, scores_of
from probe_flow.analysis.search.near_misses import hidden_of
from probe_flow.analysis.search.proof import SAME_VALUE, Proofs
from probe_flow.analysis.search.reference_check import clears
from probe_flow.analysis.search.shaken import Shaken
from probe_flow.records import FigureColumn, Pairs
from probe_flow.records.row import Pick, Row

PICKED = 2.0
"""Distance of a picked value from the one due that is a near tie, in the largest error of what was picked from: two
values change places where each is off."""

TRACED = 16
"""Suspects, and rows near to being ones, whose feeders are looked for."""


def diagnose(rows: Sequence[Row], pairs: Pairs) -> Diagnosis:
    """Judge every measured row against what explains it; ``rows`` in execution order."""
    search = Search(rows, pairs)
    found = search.run()
    vars(search.allowances).clear()  # parts lead back to the whole: it would stay until garbage is looked for
    return found


class Case(NamedTuple):
    """What a row is judged by.

    Args:
        deviation: of the row; of a masked tensor that of its scores.
        sources: the rows that it was made of; None where nobody knows.
        peers: rows of other ranks that it was made of.
        behind: all of these, what memory handed on among them.
        known: those that were measured, with their deviations.
        allowed: what the row may be off by.
        limits: how many times that each figure may be.
        figure, score: the worst figure by that alone.
    """

    deviation: Deviation
    sources: Sequence[int] | None
    peers: Sequence[int]
    behind: Sequence[int]
    known: Sequence[tuple[int, Deviation]]
    allowed: Allowance
    limits: Limits
    figure: ErrorFigure
    score: float


class Search:
    """One pass in order of time; holds what is known so far."""

    def __init__(self, rows: Sequence[Row], pairs: Pairs) -> None:
        self.rows = rows
        self.calls = calls_of(rows, pairs)
        self.allowances = Allowances(rows, pairs, self.calls)
        self.deviations = self.allowances.deviations
        self.order = in_time(self.calls, self.allowances.moment)
        self.suspects: dict[int, Suspect] = {}
        self.tainted: dict[int, int] = {}
        self.behind: dict[int, int] = {}
        """Row that is made of what a suspect gave, though its statistics may agree -> the suspect."""
        self.wild: set[int] = set()
        self.first_nonfinite: int | None = None
        self.is_any_off = False
        self.damaged: dict[Call, int] = {}
        self.scores = FigureColumn(len(rows))
        self.cleared: set[int] = set()
        self.undumped = Undumped(rows, pairs, self.calls, self.allowances.sources)
        self.shaken = Shaken(rows, self.undumped, self.allowances.alike)
        self.proofs = Proofs(rows, self.allowances, self.suspects, self.shaken, self.undumped)

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
        tainted, left = self._resolved(), self.proofs
        through = self.allowances.links.through if suspects else {}
        passed = {key: through.get(key, ()) for key in {self.rows[each.row].node for each in suspects if through}}
        traced = [*(each.row for each in suspects), *left.near][:TRACED]
        return Diagnosis(
            suspects,
            tainted,
            self.deviations,
            self.order,
            self.allowances.scales,
            self.scores,
            cleared=tuple(n for n in self.order if n in self.cleared and n not in self.suspects and n not in tainted),
            quantised_runs=self.allowances.hidden.quantised_runs,
            passed=passed,
            hidden=hidden_of(suspects, self.rows, self.deviations, self.allowances.sources),
            is_flow_unknown=self.allowances.is_flow_unknown,
            near=tuple(left.near),
            asked={row: explained for _, row, explained in sorted(left.asked, reverse=True)},
            fed_by={number: left.feeders(number) for number in traced},
            unjudged=tuple(row for _, row in sorted(left.unjudged, key=lambda each: -each[0])),
            carried=tuple(left.carried),
            decided=tuple(left.decided),
            random=tuple(self.shaken.random),
            shaken=self.shaken.noise.keys(),
            handed=left.handed,
            undecided=tuple(self.shaken.undecided),
            undumped=tuple(self.shaken.undumped),
            holds_part=self.is_any_off and self.undumped.is_any,
            derivatives=self.calls.derivatives,
            unseen=self.undumped.unseen(key for keys in passed.values() for key in keys) if passed else (),
            updated=self._updated(),
            states=self.allowances.memory.states,
        )

    def _updated(self) -> list[int]:
        """Return the rows of variables that optimizers of a graph wrote, the smallest first."""
        if not self.allowances.pairs.target.edges:
            return []
        calls = (call for call in self.calls if call.node is not None and is_optimizer(call.node.op_type))
        numbers = (call.written[0] for call in calls if call.written)
        return sorted(numbers, key=lambda n: (self.rows[n].pair.shown.numel or 0, n))

    def _meet(self, number: int, deviation: Deviation) -> None:
        call = self.calls.of[number]
        if call is not None:
            self.shaken.meet(self.rows[number], self.allowances.turned(number, deviation, call))

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
        if gap is None or gap <= SAME_VALUE:
            return
        if self.shaken.counts(number):
            self.wild.add(number)  # what is computed with it is of other rows
            return
        ancestor = self._root(next(iter(self.suspects))) if self.suspects else None
        if gap <= 2.0 * self.allowances.recent(number):
            if ancestor is not None:  # it may have been computed from that, and what it is used for with it
                self.wild.add(number)
                self.tainted[number] = ancestor
            return
        score = 1.0 + SAME_VALUE if ancestor is not None else math.inf
        self.suspects[number] = Suspect(number, score, ErrorFigure.VALUE, None, None, (), ancestor is not None)
        self.wild.add(number)
        if ancestor is not None:
            self.tainted[number] = ancestor

    def _judge(self, number: int, deviation: Deviation) -> bool:
        """Judge a row; return whether its error may explain others."""
        row, call = self.rows[number], self.calls.of[number]
        assert call is not None
        if not self._may_hide(number) and self.allowances.is_rounding(number, deviation):
            self.scores[number] = 0.0
            return True
        case = self._case(number, deviation, call)
        if case is None:
            self.allowances.forget(number)
            return False
        deviation, sources, peers, behind, known, allowed, limits, figure, score = case
        self.is_any_off, produced = True, row.is_produced
        if row.pick is not None:
            figure, score = ErrorFigure.PICK, self._pick_score(row.pick, call)
        # Without a path to the errors before it, an output is judged by what outputs are usually off by.
        is_alone = produced and sources is None and self.allowances.is_flow_unknown
        updated = self.allowances.updates.gradients.get(number, ())
        wild = self.wild.intersection(call.read) if produced else ()  # though it shows again what it was given
        around = (*behind, *wild, *(call.forward if produced else updated), *self.allowances.gathered(number))
        ancestor = self._ancestor(call, around, peers, produced=produced)
        # Wrong indices, masks, arguments and NaN may do anything to what is computed from them, and what is wrong
        # inside a module to what the module returns.
        is_damaged = produced and call in self.damaged
        is_wild = not self.wild.isdisjoint(around if produced else updated) or is_damaged
        if is_wild:
            score = 0.0
        score = self.shaken.score(
            number, call, around, score, deviation, is_known=sources is not None,
            is_undumped=score > 1.0 and self.undumped.made(number, self.allowances.maker(number, call)),
        )  # fmt: skip
        figure, score, allowed = self._as_a_whole(number, call, deviation, (figure, score, allowed))
        if not is_wild and self._begins_nonfinite(number, case):
            left = self._left_nonfinite(number, sources)
            figure, score, ancestor = (
                (ErrorFigure.NONFINITE, math.inf, ancestor) if left is None else (figure, score, left)
            )
        if score > 1.0 and is_doubtful(row, deviation):
            self.allowances.forget(number)
            return False
        found = Suspect(
            number, score, figure, deviation, allowed, tuple(n for n, _ in known), ancestor is not None,
            limits.of(figure.value),
        )  # fmt: skip
        found, ancestor = self.proofs.of_optimizer(found, ancestor)
        is_wide = is_wild or is_open(found, [d for _, d in known], is_guess=self.allowances.is_guess(call))
        found, ancestor = self.proofs.of(found, call, ancestor, is_wide=is_wide, is_damaged=is_damaged)
        score = found.score
        self.scores[number] = score
        if score > 1.0:
            self._accuse(found, call)
        if ancestor is not None:
            self._inherit(number, ancestor, score, deviation, allowed)
        elif sources is None and not is_alone and score <= 1.0:
            self._may_inherit(number, deviation, allowed)
        return not is_alone or score <= 1.0 or figure is ErrorFigure.NONFINITE

    def _case(self, number: int, deviation: Deviation, call: Call) -> Case | None:
        """Return what a row is judged by; None where it shows memory, and not what its call computed."""
        if self.allowances.is_memory(number, call):
            return None
        sources = self.allowances.sources(number)
        peers = self.allowances.given(call) if self.rows[number].is_produced and sources is not None else ()
        behind = (*self.allowances.memory.through(sources or ()), *peers)
        known: Sequence[tuple[int, Deviation]] = [(n, d) for n in behind if (d := self.deviations[n]) is not None]
        deviation, known = self.allowances.beside_masks(number, deviation, known)
        allowed = self.allowances.of(number, deviation, known, behind, sources)
        limits = self._limits(number, call)
        figure, score = self.worst_figure(number, deviation, allowed, limits)
        if (score > 1.0 or deviation.nonfinite) and self.allowances.memory.is_written_in_part(number, call):
            return None
        return Case(deviation, sources, peers, behind, known, allowed, limits, figure, score)

    def _begins_nonfinite(self, number: int, case: Case) -> bool:
        """Whether NaN or infinities that one side alone has begin at a row."""
        begins = case.deviation.nonfinite and not any(d.nonfinite for _, d in case.known)
        return bool(begins) and not self._clears(number, ErrorFigure.NONFINITE)

    def _left_nonfinite(self, number: int, sources: Sequence[int] | None) -> int | None:
        """Return the suspect behind NaN that nobody knows the writer of, or that an earlier step left; else None."""
        first = self.first_nonfinite
        if first is not None and (sources is None or (not sources and self._is_later_step(number, first))):
            return self._root(first)
        return None

    def _accuse(self, found: Suspect, call: Call) -> None:
        """Suspect a row, and take what the modules around its call give for damaged."""
        self.suspects[found.row] = found
        for module in call.around():
            self.damaged.setdefault(module, found.row)

    def _as_a_whole(
        self, number: int, call: Call, deviation: Deviation, judged: tuple[ErrorFigure, float, Allowance]
    ) -> tuple[ErrorFigure, float, Allowance]:
        """Judge what a module gave by what it was given, where calls inside are not dumped; else leave it ``judged``.

        What those made was made of what the module was given: primitives that a recurrent layer of MindSpore calls
        leave no entry, and so far whatever they gave explained what the layer gives.
        """
        given = call.read
        if judged[1] > 1.0 or not given or not self.rows[number].is_produced or number not in self.shaken.noise:
            return judged
        if self.shaken.random or any(n in self.shaken.noise or n in self.suspects for n in given):
            return judged
        unknown = (self.calls.of[n] for n in self.shaken.undumped)
        if not any(each is not None and call in [*each.around()] for each in unknown):
            return judged
        known = [(n, d) for n in given if (d := self.deviations[n]) is not None]
        allowed = self.allowances.of(number, deviation, known, given, given)
        return *self.worst_figure(number, deviation, allowed, self._limits(number, call)), allowed

    def _inherit(self, number: int, ancestor: int, score: float, deviation: Deviation, allowed: Allowance) -> None:
        """Take note of what a row descends from; statistics that agree may hide what it carries on."""
        row = self.rows[number]
        if row.is_by_statistics:
            self.behind[number] = ancestor
        if score > 1.0 or deviation.nonfinite > 0 or _error_of(row, deviation) > 2.0 * allowed.floor:
            self.tainted[number] = ancestor

    def _may_inherit(self, number: int, deviation: Deviation, allowed: Allowance) -> None:
        """Let a row of which nobody knows what it was made of descend from the first suspect, if it is far off."""
        if self.suspects and _error_of(self.rows[number], deviation) > 6.0 * allowed.floor:
            self.tainted[number] = self._root(next(iter(self.suspects)))

    def _may_hide(self, number: int) -> bool:
        """Whether statistics of a row that agree say little: other data, and what descends from a suspect, go on."""
        if not self.rows[number].is_by_statistics:
            return False
        if self.shaken.noise or not self.suspects:
            return bool(self.shaken.noise)
        return any(n in self.suspects or n in self.behind for n in self.allowances.sources(number) or ())

    def _is_later_step(self, number: int, first: int) -> bool:
        run, before = (self.rows[n].node.execution for n in (number, first))
        return run.step is not None and before.step is not None and run.step > before.step

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
        if known is None and self.behind:
            known = next((self.behind[n] for n in behind if n in self.behind), None)
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


def _error_of(row: Row, deviation: Deviation) -> float:
    """Return what a row is likely to be off by; of scores that both sides mask with other numbers nothing tells."""
    if deviation.is_bare:
        return deviation.likely if row.is_by_statistics else math.inf
    return deviation.rms
