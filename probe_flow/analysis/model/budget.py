"""What each row of a run may be off by: rounding, the errors of what it came from, and what the dump does not show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call, Calls, is_gradient
from probe_flow.analysis.flow.links import Links, is_flow_unknown, link
from probe_flow.analysis.model.deviation import Deviation, Deviations, rounding_between
from probe_flow.analysis.model.families import Family, families_of
from probe_flow.analysis.model.fused_parts import FusedParts, tightest, types_of_parts
from probe_flow.analysis.model.gradients import (
    Saved,
    coherent_gradient_error,
    gradient_allowance,
    scales_by_number,
    with_flips,
)
from probe_flow.analysis.model.growth import (
    TINY,
    Allowance,
    allowance,
    coherent_error,
    common_share,
    explained_error,
    flipped_share,
    of_copy,
    turned_share,
    widest,
)
from probe_flow.analysis.model.past_errors import HIDDEN_UNITS, CrossedEdges, PastErrors
from probe_flow.analysis.model.unseen_inputs import HiddenInputs, with_noise
from probe_flow.analysis.model.updates import Updates, of_source, with_unseen
from probe_flow.records import Execution, FigureColumn, Mode, NodeKey, NodeKind, Pairs
from probe_flow.records.row import Row

if TYPE_CHECKING:
    from probe_flow.analysis.model.handed_on import HandedOn

STATISTICS_SLACK = 2.0
"""How much more error than is likely an input may hide when only its extremes, mean and norm are known."""

AVERAGED = 0.65
"""Share of common errors in norm and mean, compared with tensors whose every element is known."""

FLIPPED = 0.3
"""Error that gates are expected to leave, of the most that they may."""

FADING = 0.8
"""Share of it that is still there behind the next operation."""

UNSHOWN = 2.0
"""How much larger than the errors of late outputs one may be that came along a path that the dump does not show."""

AT_EXTREMES = 2.3
"""Largest error at the two extremes of a computed tensor of which nothing else is known, in what is explained of values
of their size: two elements are off by less than the worst of all may be. The largest healthy ratio measured is 1."""

COHERENT = 1.5
"""Margin of what differences of means add up to: lengths of sums are estimated from counts."""

UPDATED = 1.5
"""Change of scale of what is computed with a parameter, in relative errors that its update brought."""


_COPY, _ADDED = frozenset((Family.MOVE,)), frozenset((Family.SUM,))
_AROUND_PRODUCTS = frozenset((Family.MOVE, Family.SUM, Family.CONTRACT))  # what they do is of the size of the product
_COLLECTIVE = frozenset((Family.TOTAL, Family.UNKNOWN))
_Rule = Callable[[Call, Deviation, Sequence[Deviation], frozenset[Family], float], Allowance]


class Allowances:
    """The allowance of every row, in order of time: it depends on the errors met before."""

    def __init__(self, rows: Sequence[Row], pairs: Pairs, calls: Calls) -> None:
        self.rows = rows
        self.pairs = pairs
        self.calls = calls
        rounding = rounding_between(pairs)
        self.deviations = Deviations(rows, rounding)
        self.scales = FigureColumn(len(rows))
        self.hidden = HiddenInputs(rows, pairs)
        self._nodes = pairs.target.nodes
        self._types = types_of_parts(pairs)
        self._fused = FusedParts(pairs.target.graphs)
        self._families: dict[Call, frozenset[Family]] = {}
        self._past = PastErrors()
        self._read: list[int] = []
        self.updates = Updates(rows, self.deviations, calls)
        self._flips: dict[int, float] = {}
        self._latest_flips: dict[Execution, float] = {}
        self._crossed = CrossedEdges(rows, self.deviations)
        self._saved_of: tuple[Call | None, Sequence[Saved]] = None, ()
        self.is_flow_unknown = is_flow_unknown(pairs)
        self._shows_modules_only = all(node.kind not in (None, NodeKind.API) for node in self._nodes.values())

    @cached_property
    def links(self) -> Links:
        """Where the rows came from: found when the first of them is off by more than storage explains."""
        return link(self.rows, self.pairs) if self.handed is None else self.handed.whole

    @cached_property
    def handed(self) -> HandedOn | None:
        """The same of dumps without edges, where a golden tells what was handed on between calls of a program."""
        if self.pairs.target.edges:
            return None
        from probe_flow.analysis.model.handed_on import HandedOn

        return HandedOn(self.rows, self.calls, link(self.rows, self.pairs))

    def sources(self, number: int) -> tuple[int, ...] | None:
        """Rows whose errors explain this one's; ``()`` = it is a source itself, None = unknown."""
        row = self.rows[number]
        if row.pair.rule.is_self:
            return ()
        if number in self.links.producers:
            return self.links.producers[number]
        if not row.is_produced:
            return None
        call = self.calls.of[number]
        assert call is not None
        found = self.links.reaching.get(call.key)
        if call.incoming:
            return (*(found or ()), *call.incoming)
        inner = [n for inside in self.calls.inside(call) for n in inside.written]
        return (*(found or ()), *inner) if found is not None or inner else None

    def recent(self, number: int) -> float:
        """Return the largest relative error of the latest outputs of the row's execution."""
        return self._past.recent(self.rows[number].node.execution)

    def turned(self, number: int, deviation: Deviation, call: Call) -> float:
        """Return the share of decisions that a row of a call shows to have been taken otherwise (`turned_share`)."""
        return turned_share(self.rows[number], deviation, call)

    def is_rounding(self, number: int, deviation: Deviation) -> bool:
        """Whether a row is off by no more than storage alone explains, so that nothing else need be asked."""
        self.scales[number] = deviation.size
        call = self.calls.of[number]
        if call is None or self.updates.may_hide(number) or self.updates.noise(number, call, deviation):
            return False
        if self._crossed.meet(number, call, self.sources):
            return False
        if call.is_gradient and (self._maker(number, call).is_gated or not self._is_free_of_flips(number)):
            return False
        return (
            deviation.rms <= deviation.unit * deviation.size
            and deviation.peak <= 2.0 * deviation.unit * deviation.top
            and abs(deviation.gain) <= deviation.systematic
            and not deviation.nonfinite
        )

    def _is_free_of_flips(self, number: int) -> bool:
        """Whether nothing that a row comes from has the noise of gates, which must be handed on."""
        if not self._flips and not self._latest_flips:
            return True
        sources = self.sources(number)
        if sources is None:
            return self.rows[number].node.execution not in self._latest_flips
        return not any(n in self._flips for n in sources)

    def of(
        self, number: int, deviation: Deviation, behind: Sequence[int], sources: tuple[int, ...] | None
    ) -> Allowance:
        """Return the error that a row may have, given the rows behind it (``sources`` and other ranks' inputs)."""
        row, own = self.rows[number], self.calls.of[number]
        assert own is not None
        assert row.measurement is not None
        is_bare = row.measurement.mode is Mode.STATISTICS
        call = self._maker(number, own)
        known = [d for n in behind if (d := self.deviations[n]) is not None]
        before = self.links.before.get(number, ())
        between = self._between(before) if before else _ADDED if self._is_sum(number) else _COPY
        is_read = call is own and (not row.is_produced or row.pair.rule.is_self or number in self.links.producers)
        copies = is_read and between == _COPY
        families = _COPY if copies else between if is_read else self.families(call)
        if row.is_produced and call.peers:
            families = _COLLECTIVE
        rule = self._gradient if call.is_gradient and not is_read else self._forward
        unseen = self._unseen(number, sources, deviation)
        if not is_bare:
            allowed = rule(call, deviation, known, families, 0.0)
            if row.is_produced:
                allowed = self._by_parts(call, deviation, allowed)
        elif copies and known and self._is_same(number, behind):
            allowed = of_copy(deviation, known)
            self._hand_on(number, behind)
        else:
            allowed = self._of_statistics(number, call, deviation, behind, families, rule)
        passed = before
        if row.is_produced and not row.pair.rule.is_self:
            passed = (call.key, *self.links.through.get(call.key, ()))
        saved = call.forward if is_bare and call.is_gradient and not is_read else ()
        changed = [n for n in (*behind, *saved) if n in self.updates.gradients]
        if changed:
            allowed = replace(allowed, gain=allowed.gain + UPDATED * sum(map(self.updates.error_of, changed)))
            if noise := self.updates.noise(number, call, deviation):
                self._flips[number] = max(self._flips.get(number, 0.0), noise)
                allowed = with_unseen(allowed, noise * deviation.size, deviation, is_update=True)
            if copies:
                self.updates.hand_on(number, changed[0])
        if passed:
            allowed = with_noise(allowed, self.hidden.noise(passed, known), deviation)
        self.scales[number] = max([deviation.size, allowed.scale, *[self._passed_on(n) for n in behind if copies]])
        if not unseen:
            return of_source(allowed, deviation) if copies and sources == () and not behind else allowed
        return with_unseen(allowed, unseen, deviation, is_update=number in self.updates.gradients)

    def _by_parts(self, call: Call, deviation: Deviation, allowed: Allowance) -> Allowance:
        """Return an allowance, narrowed where the graph says how the parts of a fused operator are joined."""
        if call.node is None or len(call.node.originals) < 2 or len(call.written) > 1:
            return allowed
        inputs: dict[int, Deviation] = {}
        for n in call.read:
            tensor, found = self.rows[n].pair.target, self.deviations[n]
            if tensor is not None and found is not None and isinstance(tensor.slot.path[0], int):
                inputs[tensor.slot.path[0]] = found
        by_parts = self._fused.allowance(call.node, deviation, inputs)
        return allowed if by_parts is None else tightest(allowed, by_parts)

    def _is_sum(self, number: int) -> bool:
        """Whether a row is what several others add up to."""
        return self.handed is not None and number in self.handed.sums

    def _is_same(self, number: int, behind: Sequence[int]) -> bool:
        """Whether a row holds the very tensor of the row behind it: the golden's are equal, and so are the dtypes."""
        if len(behind) != 1 or number not in self.links.producers:
            return False
        mine, other = self.rows[number].pair, self.rows[behind[0]].pair
        sides = ((mine.target, other.target), (mine.golden, other.golden))
        return all(a is not None and b is not None and a.dtype == b.dtype and a.numel == b.numel for a, b in sides)

    def _hand_on(self, number: int, behind: Sequence[int]) -> None:
        noise = max((self._flips.get(n, 0.0) for n in behind), default=0.0)
        if noise:
            self._flips[number] = noise

    def _passed_on(self, number: int) -> float:
        """Return the size of the terms that a copied tensor was summed up from."""
        deviation = self.deviations[number]
        return self.scales.get(number, 0.0) if deviation is not None else 0.0

    def _forward(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family], _hidden: float
    ) -> Allowance:
        allowed = widest([allowance(family, output, known) for family in families])
        return with_flips(allowed, output, known) if call.is_gate_gradient else allowed

    def _gradient(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family], hidden: float
    ) -> Allowance:
        saved = () if scales_by_number(call, self.rows) else self._saved(call)
        return widest(
            [gradient_allowance(f, output, known, saved, is_gated=call.is_gated, hidden=hidden) for f in families]
        )

    def _of_statistics(
        self,
        number: int,
        call: Call,
        output: Deviation,
        behind: Sequence[int],
        families: frozenset[Family],
        rule: _Rule,
    ) -> Allowance:
        """Allow for what recorded statistics do not show of the inputs' errors, and for their own rounding."""
        known = [(n, d) for n in behind if (d := self.deviations[n]) is not None]
        proven = self._proven(call, output, [d for _, d in known], families, rule)
        hidden = [max(self._flips.get(n, 0.0) * d.size, self._crossed.error(n)) for n, d in known]
        likely = [d.with_rms(max(d.likely, more)) if d.unit else d for (_, d), more in zip(known, hidden, strict=True)]
        allowed = rule(call, output, likely, families, HIDDEN_UNITS * output.unit)
        size = max(output.size, TINY)
        noise = max([self._flips.get(n, 0.0) for n, _ in known], default=0.0)
        if rule == self._gradient and call.is_gated:
            noise = max(noise, FLIPPED * allowed.explained / size)
        if number not in self.links.producers and not known:
            noise = self._latest_flips.get(call.key.execution, 0.0)  # along a path that the dump does not show
        if noise:
            self._flips[number] = self._latest_flips[call.key.execution] = min(1.0, FADING * noise)
        coherent = COHERENT * self._coherent(call, output, [d for _, d in known], families, rule)
        extra = (STATISTICS_SLACK - 1.0) * allowed.explained + coherent
        share = AVERAGED * common_share(output.count)
        peak = None
        if output.is_bare and families is not _COPY:
            at_top = math.sqrt(max(1.0, output.top / size))
            peak = AT_EXTREMES * (allowed.rms * at_top + 2.0 * output.unit * output.top)
        return Allowance(
            allowed.floor,
            allowed.explained + extra,
            allowed.peak + extra * math.sqrt(output.count) if peak is None else peak,
            AVERAGED * allowed.gain + output.unit + (share * extra + coherent) / size + noise,
            allowed.scale,
            share * (allowed.floor + allowed.explained + extra)
            + UNSHOWN * proven
            + coherent
            + noise * output.size
            + output.unit * math.sqrt(max(0.0, output.size * output.size - output.spread * output.spread)),
        )

    def _proven(
        self, call: Call, output: Deviation, known: Sequence[Deviation], families: frozenset[Family], rule: _Rule
    ) -> float:
        """Error that what statistics prove of the inputs' errors explains."""
        if rule == self._gradient:
            return rule(call, output, known, families, 0.0).explained
        return max([explained_error(family, output, known) for family in families])

    def _coherent(
        self,
        call: Call,
        output: Deviation,
        known: Sequence[Deviation],
        families: frozenset[Family],
        rule: _Rule,
    ) -> float:
        """Error that the proven differences of the inputs' means add up to."""
        if rule == self._gradient:
            return max(coherent_gradient_error(family, output, known, self._saved(call)) for family in families)
        return max(coherent_error(family, output, known) for family in families)

    def _maker(self, number: int, call: Call) -> Call:
        """Return the call whose arithmetic a row shows: its own, or the gate in place that left its result to it."""
        gates = self.links.before.get(number) if call.is_gradient else None
        return self.calls.by_key[gates[0]] if gates else call

    def _unseen(self, number: int, sources: tuple[int, ...] | None, deviation: Deviation) -> float:
        """Error that may have come along paths the dump does not show."""
        row = self.rows[number]
        if sources or row.pair.rule.is_self:
            return 0.0
        step = row.node.execution.step
        updated = self._of_update(number, step, is_known=sources is not None) if step else None
        if sources is None:
            recent = self.recent(number)
            if self._shows_modules_only and is_gradient(row.node):
                recent += flipped_share(recent, deviation.count)  # between modules there may be gates
            return max(UNSHOWN * recent * deviation.size, updated or 0.0)
        # State of earlier steps (caches, updated parameters) enters as an input without producer.
        if updated is not None:
            return updated
        usual = self._past.usual_before(step) * deviation.size if step else 0.0
        return UNSHOWN * max(usual, self.updates.kept(number))

    def _of_update(self, number: int, step: int, *, is_known: bool) -> float | None:
        """Error of a parameter that was compared in a step before."""
        golden = self.rows[number].pair.golden
        if golden is None or golden.requires_grad is not True:
            return None
        for read in self._read:
            if not self.links.producers.get(read):
                self.updates.add(read)
        self._read.clear()
        return self.updates.error(number, min(1.0, UNSHOWN * self._past.usual_before(step)), is_known=is_known)

    def _saved(self, call: Call) -> Sequence[Saved]:
        """Return what the forward call of a gradient left: the same for each of its rows, which come together."""
        if self._saved_of[0] is not call:
            found = [Saved(d, self.rows[n].is_produced) for n in call.forward if (d := self.deviations[n]) is not None]
            self._saved_of = call, found
        return self._saved_of[1]

    def forget(self, number: int) -> None:
        """Take a row for one that was not compared."""
        self.deviations.forget(number)
        self._saved_of = None, ()

    def remember(self, number: int, deviation: Deviation) -> None:
        """Take note of a judged row's error, for what comes later."""
        row = self.rows[number]
        run = row.node.execution
        if row.is_produced:
            relative = min(deviation.rms / (self.scales.get(number) or deviation.size or 1.0), 1.0)
            self._past.add(run, relative)
        elif run.step is not None:
            self._read.append(number)

    def families(self, call: Call) -> frozenset[Family]:
        """Return the arithmetic between a call's compared inputs and its outputs, parts and passed nodes included."""
        found = self._families.get(call)
        if found is None:
            found = self._families[call] = self._between((call.key, *self.links.through.get(call.key, ())))
        return found

    def _between(self, nodes: Sequence[NodeKey]) -> frozenset[Family]:
        """Return the arithmetic of some nodes."""
        kinds: set[Family] = set()
        for passed in nodes:
            node = self._nodes.get(passed)
            parts = [self._types[part] for part in node.originals if part in self._types] if node else []
            kinds.update(*map(families_of, parts or ([node.op_type] if node else [])))
        if Family.PRODUCT in kinds and self.hidden.has_weights(nodes):
            kinds = (kinds - {Family.PRODUCT} - _AROUND_PRODUCTS) | {Family.WEIGHTED}
        return frozenset(kinds or {Family.UNKNOWN})
