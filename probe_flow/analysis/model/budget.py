"""What each row of a run may be off by: rounding, the errors of what it came from, and what the dump does not show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import GRADIENTS, Call, Calls, begins_gradients
from probe_flow.analysis.flow.links import Links, is_flow_unknown, link
from probe_flow.analysis.model.arithmetic import (
    ADDED,
    COLLECTIVE,
    COPY,
    PRODUCTS,
    UNKNOWN,
    Arithmetic,
    Families,
    Forward,
    Gradient,
    by_parts,
)
from probe_flow.analysis.model.by_statistics import StatisticsAllowances, angle_noise
from probe_flow.analysis.model.decisions import turned_share
from probe_flow.analysis.model.deviation import Deviation
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.fused_parts import FusedParts
from probe_flow.analysis.model.gradients import with_added
from probe_flow.analysis.model.growth import Allowance, is_stack, of_copy, of_stack
from probe_flow.analysis.model.hidden_casts import HiddenCasts
from probe_flow.analysis.model.hidden_errors import CommonFactors, CrossedEdges, FadingNoise, LostSteps, SharedRows
from probe_flow.analysis.model.memory import Memory
from probe_flow.analysis.model.rounding import rounding_between
from probe_flow.analysis.model.unseen_inputs import HiddenInputs, MaskedScores, beside_masks, is_masked, with_noise
from probe_flow.analysis.model.unseen_paths import UnseenPaths
from probe_flow.analysis.model.updates import Unseen, Updates, of_source, with_unseen
from probe_flow.masks import LEAST
from probe_flow.records import FigureColumn, NodeKey, Pairs
from probe_flow.records.row import Row

if TYPE_CHECKING:
    from probe_flow.analysis.flow.across_ranks import AcrossRanks
    from probe_flow.analysis.model.families import Family
    from probe_flow.analysis.model.fewer_bits import FewerBits, LostBits
    from probe_flow.analysis.model.update_fits import Fit, UpdateFits
    from probe_flow.analysis.statistics.handed_on import HandedOn
    from probe_flow.analysis.statistics.own_inputs import Contradiction, OwnInputs

NOISE = 0.25
"""Rounding of the terms of a sum, in its size, from which on the sum tells nothing of how exact others are."""

UPDATED = 1.5
"""Change of scale of what is computed with a parameter, in relative errors that its update brought."""


class Allowances:
    """The allowance of every row, in order of time: it depends on the errors met before."""

    def __init__(self, rows: Sequence[Row], pairs: Pairs, calls: Calls) -> None:
        self.rows = rows
        self.pairs = pairs
        self.calls = calls
        self.deviations = Deviations(rows, rounding_between(pairs))
        self.scales = FigureColumn(len(rows))
        """Of judged rows the size of the terms that rounding errors are relative to; 0 where that is their own."""
        self._noise: set[int] = set()
        self.hidden = HiddenInputs(rows, pairs)
        self._families = Families(pairs, self.hidden, lambda: self.links)
        self.memory = Memory(rows, pairs, calls, self.deviations, self._families, lambda: self.links, self.sources)
        self._fused = FusedParts(pairs.target.graphs)
        self._common, self._masked = CommonFactors(), MaskedScores()
        self.updates = Updates(rows, self.deviations, calls)
        self._flips, self._steps = FadingNoise(), FadingNoise()
        self.alike = SharedRows(rows, self.deviations).alike
        self._crossed = CrossedEdges(rows, self.deviations)
        self._lost = LostSteps(rows, self.deviations, self.sources)
        self._casts = HiddenCasts(rows, calls)
        noise = self._flips, self._steps, self._crossed, self._lost
        self._by_statistics = StatisticsAllowances(*noise, self.sources, FigureColumn(len(rows)))
        self._forward = Forward(rows, self.deviations)
        self._gradient = Gradient(rows, self.deviations, self._by_statistics.saved)
        self.is_flow_unknown = is_flow_unknown(pairs)
        self._paths = UnseenPaths(rows, pairs, calls, self.updates, self._casts, self._lost, lambda: self.links)

    @cached_property
    def links(self) -> Links:
        """Where the rows came from: found when the first of them is off by more than storage explains."""
        return link(self.rows, self.pairs, self.calls) if self.handed is None else self.handed.whole

    @cached_property
    def handed(self) -> HandedOn | None:
        """The same of dumps without edges, where a golden tells what was handed on between calls of a program."""
        if self.pairs.target.edges:
            return None
        from probe_flow.analysis.statistics.handed_on import HandedOn

        return HandedOn(self.rows, self.calls, link(self.rows, self.pairs, self.calls))

    def sources(self, number: int) -> tuple[int, ...] | None:
        """Rows whose errors explain this one's; ``()`` = it is a source itself, None = unknown."""
        row = self.rows[number]
        if row.pair.rule.is_self and row.is_produced:
            return self.links.reaching.get(row.node, ())
        if number in self.links.producers:
            return self.links.producers[number]
        if not row.is_produced:
            return () if begins_gradients(row) else None
        call = self.calls.of[number]
        assert call is not None
        found = self.links.reaching.get(call.key)
        if call.incoming:
            return (*(found or ()), *call.incoming)
        inner = [n for inside in self.calls.inside(call) for n in inside.written]
        if found is None and not inner:
            return () if self.given(call) else None
        return (*(found or ()), *inner)

    def gathered(self, number: int) -> Sequence[int]:
        """Return the row of the gradient that a parameter's gradient was added to, that of the micro step before."""
        key = self.rows[number].node
        if not key.call or not key.name.endswith(GRADIENTS):
            return ()
        before, slot = self.calls.by_key.get(replace(key, call=key.call - 1)), self.rows[number].pair.shown.slot
        return [n for n in before.written if self.rows[n].pair.shown.slot == slot] if before is not None else ()

    @cached_property
    def across(self) -> AcrossRanks | None:
        """What calls of several ranks exchange; None where nothing communicates."""
        if not self.calls.communicating:
            return None
        from probe_flow.analysis.flow.across_ranks import AcrossRanks

        return AcrossRanks(self.calls, self.rows)

    @property
    def moment(self) -> Callable[[int], object] | None:
        """What gives when a row happened among those of all ranks; None where these do not communicate."""
        return self.across.moment if self.across is not None and self.across.has_layers else None

    def given(self, call: Call) -> tuple[int, ...]:
        """Return the measured rows that other ranks gave to a call."""
        return self.across.given(call) if self.across is not None else ()

    def crest(self, number: int) -> float:
        """Return how far single elements of a product stand out of its own error (`Deviation.crest`)."""
        call = self.calls.of[number]
        if call is None or self.rows[number].is_by_statistics or PRODUCTS.isdisjoint(self._families.of(call)):
            return 0.0
        return 0.0 if (own := self.deviations[number]) is None else own.crest

    def fit(self, number: int) -> Fit | None:
        """Return how all parameters of a step changed, for one of them; None for other rows."""
        is_changed = bool(self.rows[number].node.execution.step) and self.updates.is_trained(number)
        return self._fits.of(number) if is_changed else None

    @cached_property
    def _fits(self) -> UpdateFits:
        from probe_flow.analysis.model.update_fits import UpdateFits

        return UpdateFits(self.rows, self.deviations, self.updates, self.links.producers)

    def lost_bits(self, number: int) -> LostBits | None:
        """Return the bits that the extremes of a 16-bit result lack, where statistics are all that is known of it."""
        return self._fewer_bits.of(number) if self.rows[number].is_by_statistics else None

    @cached_property
    def _fewer_bits(self) -> FewerBits:
        from probe_flow.analysis.model.fewer_bits import FewerBits

        return FewerBits(self.rows, self.calls, self.links.producers, self._families.of)

    def contradiction(self, number: int, *, is_other: bool) -> Contradiction | None:
        """Return what a result of a program is not by its own inputs, where statistics are all that is known.

        Or what an input is not that nothing recorded wrote. ``is_other``: it may be of other data than the golden's.
        """
        row = self.rows[number]
        if not row.is_by_statistics or self.pairs.target.edges:
            return None
        if row.is_produced:
            call = self.calls.of[number]
            if call is not None and call.communicates and self.across is not None:
                from probe_flow.analysis.statistics.exchanged import contradiction_of_sum

                return contradiction_of_sum(number, call, self.rows, self.across)
            apart = partial(self._by_statistics.apart, number, call, self.deviations)
            return self._own_inputs.contradiction(number, *(() if is_other else (apart,)))
        if self.sources(number) is not None:
            return None
        joined = self.handed.joined.contradiction(number) if self.handed is not None else None
        return joined or self._own_inputs.no_one_hot(number)

    @cached_property
    def _own_inputs(self) -> OwnInputs:
        from probe_flow.analysis.statistics.own_inputs import OwnInputs

        return OwnInputs(self.rows, self.calls)

    def recent(self, number: int) -> float:
        """Return the largest relative error of the latest outputs of the row's execution."""
        return self._paths.recent(self.rows[number].node.execution)

    def turned(self, number: int, deviation: Deviation, call: Call) -> float:
        """Return the share of decisions that a row of a call shows to have been taken otherwise (`turned_share`)."""
        return turned_share(self.rows[number], deviation, call)

    def is_rounding(self, number: int, deviation: Deviation) -> bool:
        """Whether a row is off by no more than storage alone explains, so that nothing else need be asked."""
        self.scales[number] = 0.0
        call = self.calls.of[number]
        if call is None or self.updates.may_hide(number) or self.updates.noise(number, call, deviation):
            return False
        row = self.rows[number]
        outweighs = deviation.is_bare or (deviation.top >= LEAST and deviation.rms > 0.0 and not row.is_by_statistics)
        if outweighs and is_masked(row):
            return False
        is_crossed = self._crossed.meet(number, call, self.sources)
        if is_crossed or not deviation.is_of_storage or abs(deviation.gain) > deviation.systematic:
            return False
        if row.is_by_statistics and row.is_produced and angle_noise(call, self._known(call.read)):
            return False
        return not (call.is_gradient and self.maker(number, call).is_gated) and self._is_free_of_noise(number)

    def _known(self, numbers: Sequence[int]) -> Iterator[Deviation]:
        return (found for n in numbers if (found := self.deviations[n]) is not None)

    def beside_masks(
        self, number: int, deviation: Deviation, inputs: Sequence[tuple[int, Deviation]]
    ) -> tuple[Deviation, Sequence[tuple[int, Deviation]]]:
        """Return what a row is judged by, and the inputs that explain it: of masked tensors that of their scores."""
        call = self.calls.of[number]
        op_type = call.node.op_type if call is not None and call.node is not None else ""
        found, scores = beside_masks(self.rows[number], deviation, inputs, op_type)
        if found is not deviation:
            self.deviations.put(number, found)
        return found, scores

    def is_guess(self, call: Call) -> bool:
        """Whether what a row may be off by is guessed, as nobody knows what its call computes."""
        return self._families.of(call) == UNKNOWN

    def is_memory(self, number: int, call: Call) -> bool:
        """Whether a row shows memory, and not what its call computed with."""
        return self.memory.shows(number, call, self.across)

    def _is_free_of_noise(self, number: int) -> bool:
        """Whether nothing that a row comes from has noise that must be handed on."""
        kinds = [each for each in (self._flips, self._steps) if each]
        if not kinds:
            return True
        run, sources = self.rows[number].node.execution, self.sources(number)
        return all(each.is_free(run, sources) for each in kinds)

    def of(
        self,
        number: int,
        deviation: Deviation,
        inputs: Sequence[tuple[int, Deviation]],
        behind: Sequence[int],
        sources: tuple[int, ...] | None,
    ) -> Allowance:
        """Return the error that a row may have, given the rows behind it (``sources`` and other ranks' inputs).

        ``inputs`` are those of them that have a deviation.
        """
        row, own = self.rows[number], self.calls.of[number]
        assert own is not None
        is_linked = number in self.links.producers
        deviation = self._casts.behind(row, own, deviation, sources, is_linked=is_linked)
        inputs = self._masked.seen(inputs)
        is_produced, by_statistics = row.is_produced, row.is_by_statistics
        call = self.maker(number, own)
        known = [d for _, d in inputs]
        is_read = call == own and (not is_produced or row.pair.rule.is_self or is_linked)
        families, copies = self._computed(number, call, is_read=is_read)
        arithmetic: Arithmetic = self._gradient if call.is_gradient and not is_read else self._forward
        unseen = Unseen(0.0) if sources else self._paths.error(number, deviation, is_known=sources is not None)
        if copies and is_stack(deviation, known):
            allowed = of_stack(deviation, known)
        elif not by_statistics:
            allowed = arithmetic.allowance(call, deviation, known, families, 0.0)
            if is_produced:
                allowed = by_parts(call, deviation, allowed, self._fused, (self.rows, self.deviations))
        elif copies and known and self._is_same(number, behind):
            allowed = of_copy(deviation, known)
            self._by_statistics.hand_on(number, behind)
        else:
            allowed = self._by_statistics.of(number, call, deviation, inputs, families, arithmetic, is_linked=is_linked)
            if own.is_gradient and deviation.size and self._sums_rows(row):
                common = self._common.of(row.node.execution) * allowed.scale / deviation.size
                allowed = replace(allowed, gain=allowed.gain + common)
        allowed = with_added(allowed, deviation, self._added_to(number), is_hidden=by_statistics)
        if deviation.is_bare:
            self._masked.add(number, row, allowed, inputs)
        saved = call.forward if by_statistics and arithmetic is self._gradient else ()
        if gradients := self.updates.gradients:
            changed = [n for n in (*behind, *saved) if n in gradients]
            allowed = self._with_updates(number, call, deviation, allowed, changed)
            if copies and changed:
                self.updates.hand_on(number, changed[0])
        if self.hidden.are_any:
            is_computed = is_produced and not row.pair.rule.is_self
            through = self.links.through.get(call.key, ()) if is_computed else ()
            passed = (call.key, *through) if is_computed else self.links.before.get(number, ())
            noise = self.hidden.noise(passed, known, is_measured=row.quantised is not None)
            allowed = with_noise(allowed, noise, deviation, row.quantised)
        held = behind if copies else [n for n, _ in inputs if n in self._noise]
        scale = max([deviation.size, allowed.scale, *map(self._passed_on, held)])
        self.scales[number] = scale if scale > deviation.size else 0.0
        if self._is_noise(number, deviation, inputs):
            self._noise.add(number)
        if not unseen.rms:
            return of_source(allowed, deviation) if copies and sources == () and not behind else allowed
        is_update = number in self.updates.gradients and number not in self.links.wrote
        return with_unseen(allowed, unseen, deviation, is_update=is_update)

    def _added_to(self, number: int) -> list[Deviation]:
        """Return what the gradient that one was added to is likely to be off by."""
        return [self._by_statistics.saved(n, d) for n in self.gathered(number) if (d := self.deviations[n]) is not None]

    def _computed(self, number: int, call: Call, *, is_read: bool) -> tuple[frozenset[Family], bool]:
        """Return the arithmetic behind a row, and whether it is what another row holds; ``is_read``: by its call."""
        if self.rows[number].is_produced and self.given(call):
            copies = self.across is not None and self.across.handed_over(call) is not None
            return COPY if copies else COLLECTIVE, copies
        if not is_read:
            return self._families.of(call), False
        families = self._between(number, self.links.before.get(number, ()))
        return families, families is COPY

    def _with_updates(
        self, number: int, call: Call, deviation: Deviation, allowed: Allowance, changed: Sequence[int]
    ) -> Allowance:
        """Return an allowance with what parameters that an optimizer ``changed`` bring to a row."""
        if not changed:
            return allowed
        allowed = replace(allowed, gain=allowed.gain + UPDATED * sum(map(self.updates.error_of, changed)))
        noise = self.updates.noise(number, call, deviation)
        if not noise:
            return allowed
        self._steps.raise_to(number, noise)
        return with_unseen(allowed, Unseen(noise * deviation.size), deviation, is_update=True)

    def _sums_rows(self, row: Row) -> bool:
        """Whether a gradient is that of what all rows share: of weights and biases, and of no first argument."""
        return row.is_produced and row.pair.shown.slot.path[:1] != (0,)

    def _between(self, number: int, before: Sequence[NodeKey]) -> frozenset[Family]:
        """Return the arithmetic between a row that was read and what others gave; the object `COPY` where none is."""
        if before:
            found = self._families.between(before)
            return COPY if found == COPY else found
        return ADDED if self.handed is not None and number in self.handed.sums else COPY

    def _is_same(self, number: int, behind: Sequence[int]) -> bool:
        """Whether a row holds the very tensor of the row behind it: the golden's are equal, and so are the dtypes."""
        if len(behind) != 1 or number not in self.links.producers:
            return False
        mine, other = self.rows[number].pair, self.rows[behind[0]].pair
        sides = ((mine.target, other.target), (mine.golden, other.golden))
        return all(a is not None and b is not None and a.dtype == b.dtype and a.numel == b.numel for a, b in sides)

    def _passed_on(self, number: int) -> float:
        """Return the size of the terms that a tensor was summed up from: of a copied one, or of noise."""
        return max(own.size, self.scales[number]) if number in self.scales and (own := self.deviations[number]) else 0.0

    def _is_noise(self, number: int, deviation: Deviation, inputs: Sequence[tuple[int, Deviation]]) -> bool:
        """Whether a row holds the rounding of terms that cancelled, or is made of such.

        What is left of a gradient that is zero in mathematics is noise, and so is all that is made of it: summed over
        ranks, clipped, squared, kept by an optimizer. A sum with anything else is not.
        """
        if deviation.unit * max(deviation.size, self.scales[number]) >= NOISE * deviation.size:
            return True
        sized = [(n, known) for n, known in inputs if known.size]
        alike = [(n, known) for n, known in sized if known.count == deviation.count] or sized
        return bool(alike) and all(n in self._noise for n, _ in alike)

    def maker(self, number: int, call: Call) -> Call:
        """Return the call whose arithmetic a row shows: its own, or the gate in place that left its result to it."""
        gates = self.links.before.get(number) if call.is_gradient else None
        return self.calls.by_key[gates[0]] if gates else call

    def forget(self, number: int) -> None:
        """Take a row for one that was not compared."""
        self.deviations.forget(number)
        self._gradient.forget()

    def remember(self, number: int, deviation: Deviation, *, is_suspect: bool) -> None:
        """Take note of a judged row's error, for what comes later."""
        row, call, run = self.rows[number], self.calls.of[number], self.rows[number].node.execution
        assert call is not None
        if call.is_gradient and not is_suspect and deviation.size and row.is_by_statistics and self._sums_rows(row):
            self._common.add(run, deviation.gain * deviation.size / max(deviation.size, self.scales.get(number, 0.0)))
        self._lost.add(number, deviation)
        self._by_statistics.is_behind |= is_suspect
        is_noise, scale = number in self._noise and not is_suspect, max(deviation.size, self.scales[number])
        self._paths.remember(number, deviation, scale, is_suspect=is_suspect, is_noise=is_noise)
