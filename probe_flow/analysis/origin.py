"""Find where the divergence begins: tensors whose error neither rounding nor the errors of their inputs explain.

Every compared tensor is judged locally, by three figures (rms, peak, gain) against its `Allowance`. One that exceeds
it is a suspect. Suspects that nothing suspected feeds are origins, the earliest in time first; a tensor that carries
error and descends from a suspect inherits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from probe_flow.analysis.deviation import Deviation, deviation_of
from probe_flow.analysis.families import Family, family_of
from probe_flow.analysis.growth import Allowance, allowance, widest
from probe_flow.analysis.links import link
from probe_flow.analysis.measured import MeasuredPair
from probe_flow.analysis.past_errors import PastErrors
from probe_flow.analysis.plain_values import plain_gap
from probe_flow.analysis.surroundings import Containers, peer_inputs, saved_rows
from probe_flow.records import Mode, NodeKey, Pairs

LIMITS = {"rms": 2.5, "peak": 1.5, "gain": 2.5}
"""How many times its allowance a figure must be to accuse. The largest healthy ratios measured are about 0.9, 0.5 and
0.9: see docs/explanation/diagnosis.md."""


SAME_VALUE = 2.0**-20
"""Relative difference of float arguments that says nothing: they may come from a computation."""

_LINEAR = frozenset({Family.MOVE, Family.SUM, Family.REDUCE, Family.TOTAL})
"""Families whose gradients do not depend on the values of the forward pass."""

STATISTICS_SLACK = 4.0
"""How much more error an input may hide when only its extremes, mean and norm are known."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A row whose error is not explained.

    Args:
        row: row number.
        score: largest excess over the limits; above 1.
        figure: which figure it was: ``rms``, ``peak``, ``gain``, ``nonfinite``, or ``value`` for scalar arguments,
            which have no deviation.
        deviation: the row's error.
        allowance: what it was allowed.
        inputs: rows that were weighed as explanation.
        inherits: whether an earlier suspect feeds it.
    """

    row: int
    score: float
    figure: str
    deviation: Deviation | None
    allowance: Allowance | None
    inputs: tuple[int, ...]
    inherits: bool

    @property
    def excess(self) -> float:
        """How many times its allowance the figure is."""
        return self.score * LIMITS.get(self.figure, 1.0)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the search found.

    Args:
        suspects: in order of time, origins and amplifiers alike.
        tainted: row -> the suspect's row that it descends from.
        deviations: per row, None where nothing was measured.
        order: row numbers in order of time.
        scales: row -> size of the terms that its rounding errors are relative to, where it was judged.
    """

    suspects: tuple[Suspect, ...]
    tainted: Mapping[int, int]
    deviations: Sequence[Deviation | None]
    order: Sequence[int]
    scales: Mapping[int, float]


def in_time(rows: Sequence[MeasuredPair]) -> list[int]:
    """Return row numbers by step, then by execution and node order: what happened first comes first."""

    def key(number: int) -> tuple[int, int, int]:
        run = rows[number].node.execution
        return (
            -1 if run.step is None else run.step,
            -1 if run.micro_step is None else run.micro_step,
            number,
        )

    return sorted((n for n, row in enumerate(rows) if row.pair.target is not None), key=key)


def diagnose(rows: Sequence[MeasuredPair], pairs: Pairs) -> Diagnosis:
    """Judge every measured row against what explains it; ``rows`` in execution order."""
    return _Search(rows, pairs).run()


class _Search:
    """One pass in order of time; holds what is known so far."""

    def __init__(self, rows: Sequence[MeasuredPair], pairs: Pairs) -> None:
        self.rows = rows
        self.pairs = pairs
        self.links = link(rows, pairs)
        self.types = {op.name: op.op_type for graph in pairs.target.graphs for op in graph.ops}
        self.deviations = [deviation_of(row) for row in rows]
        self.order = in_time(rows)
        self.suspects: dict[int, Suspect] = {}
        self.tainted: dict[int, int] = {}
        self.scales: dict[int, float] = {}
        self.wild: set[int] = set()
        self.first_nonfinite: int | None = None
        self.worst_so_far: dict[object, float] = {}
        self.past = PastErrors()
        self.containers = Containers(pairs)
        self.damaged: dict[object, int] = {}
        self.peers = peer_inputs(rows, pairs)
        self.saved = saved_rows(rows)

    def run(self) -> Diagnosis:
        for number in self.order:
            deviation = self.deviations[number]
            if deviation is not None:
                self._judge(number, deviation, self._sources(number))
                self._remember(number, deviation)
            elif not self.rows[number].is_produced:
                self._judge_argument(number)
        suspects = tuple(self.suspects[number] for number in self.order if number in self.suspects)
        return Diagnosis(suspects, self._resolved(), self.deviations, self.order, self.scales)

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
        usual = 2.0 * self.worst_so_far.get(self.rows[number].node.execution.identity, 0.0)
        if gap is None or gap <= max(SAME_VALUE, usual):
            return
        ancestor = self._root(next(iter(self.suspects))) if self.suspects else None
        score = 1.0 + SAME_VALUE if ancestor is not None else math.inf
        self.suspects[number] = Suspect(number, score, "value", None, None, (), ancestor is not None)
        self.wild.add(number)
        if ancestor is not None:
            self.tainted[number] = ancestor

    def _sources(self, number: int) -> tuple[int, ...] | None:
        """Rows whose errors explain this one's; ``()`` = it is a source itself, None = unknown."""
        row = self.rows[number]
        if row.pair.rule == "self":
            return ()
        if number in self.links.producers:
            return self.links.producers[number]
        return self.links.reaching.get(row.node) if row.is_produced else None

    def _judge(self, number: int, deviation: Deviation, sources: tuple[int, ...] | None) -> None:
        row = self.rows[number]
        peers = self.peers.get(row.node, ()) if row.is_produced and sources is not None else ()
        behind = (*(sources or ()), *peers)
        known = [(n, d) for n in behind if (d := self.deviations[n]) is not None]
        allowed = self._allowance(number, deviation, [d for _, d in known], sources)
        self.scales[number] = max(deviation.size, allowed.scale)
        figure, score = _worst_figure(deviation, allowed)
        around = (*behind, *(self.saved.get(row.node, ()) if row.is_produced else ()))
        ancestor = self._ancestor(row, around, peers)
        # Wrong indices, masks, arguments and NaN may do anything to what is computed from them, and what is wrong
        # inside a module to what the module returns.
        is_damaged = row.is_produced and Containers.place(row.node) in self.damaged
        is_wild = is_damaged or (row.is_produced and any(n in self.wild for n in around))
        if is_wild:
            score = 0.0
        if deviation.nonfinite and not is_wild and not any(d.nonfinite for _, d in known):
            if sources is None and self.first_nonfinite is not None:
                ancestor = self._root(self.first_nonfinite)
            else:
                figure, score = "nonfinite", math.inf
        if score > 1.0:
            self.suspects[number] = Suspect(
                number, score, figure, deviation, allowed, tuple(n for n, _ in known), ancestor is not None
            )
            for place in self.containers.around(row.node):
                self.damaged.setdefault(place, number)
        if ancestor is not None and (score > 1.0 or deviation.rms > 2.0 * allowed.floor or deviation.nonfinite):
            self.tainted[number] = ancestor
        elif sources is None and score <= 1.0 and self.suspects and deviation.rms > 6.0 * allowed.floor:
            self.tainted[number] = self._root(next(iter(self.suspects)))

    def _ancestor(self, row: MeasuredPair, behind: Sequence[int], peers: Sequence[int]) -> int | None:
        """Return the suspect that a row descends from, or the input of another rank that may turn out to be one."""
        known = next((self._root(n) for n in behind if n in self.suspects or n in self.tainted), None)
        if known is None and row.is_produced:
            known = self.damaged.get(Containers.place(row.node))
        if known is not None:
            return known
        wrong = [(d.relative, -n) for n in peers if (d := self.deviations[n]) is not None and (d.rms or d.nonfinite)]
        return -max(wrong)[1] if wrong else None

    def _root(self, number: int) -> int:
        return self.tainted.get(number, number)

    def _allowance(
        self, number: int, deviation: Deviation, known: Sequence[Deviation], sources: tuple[int, ...] | None
    ) -> Allowance:
        row = self.rows[number]
        copies = not row.is_produced or row.pair.rule == "self" or number in self.links.producers
        families = {Family.MOVE} if copies else self._families(row.node)
        if row.is_produced and self.peers.get(row.node):
            families = {Family.TOTAL, Family.UNKNOWN}
        allowed = widest([allowance(family, deviation, known) for family in families])
        saved = 0.0 if families <= _LINEAR else self._saved_error(row)
        extra = max(self._unseen(row, sources), saved) * deviation.size
        assert row.measurement is not None
        if row.measurement.mode is Mode.STATISTICS:
            # Recorded statistics bound the inputs' errors from below only.
            extra += (STATISTICS_SLACK - 1.0) * allowed.explained
        if not extra:
            return allowed
        return Allowance(
            allowed.floor,
            allowed.explained + extra,
            allowed.peak + extra * math.sqrt(deviation.count),
            allowed.gain + extra / max(deviation.size, 1e-300),
            allowed.scale,
        )

    def _unseen(self, row: MeasuredPair, sources: tuple[int, ...] | None) -> float:
        """Relative error that may have come along paths the dump does not show."""
        if sources is None:
            return 2.0 * self.worst_so_far.get(row.node.execution.identity, 0.0)
        step = row.node.execution.step
        if not sources and step and row.pair.rule != "self":
            # State of earlier steps (caches, updated parameters) enters as an input without producer.
            return 2.0 * self.past.usual_before(step)
        return 0.0

    def _saved_error(self, row: MeasuredPair) -> float:
        """Relative error that a gradient may have from the activations that its forward call saved."""
        saved = self.saved.get(row.node, ()) if row.is_produced else ()
        return 2.0 * max((min(d.relative, 1.0) for n in saved if (d := self.deviations[n]) is not None), default=0.0)

    def _remember(self, number: int, deviation: Deviation) -> None:
        run = self.rows[number].node.execution
        relative = min(deviation.relative, 1.0)
        if self.rows[number].is_produced:
            self.worst_so_far[run.identity] = max(self.worst_so_far.get(run.identity, 0.0), relative)
            if run.step is not None:
                self.past.add(run.step, relative)
        is_exact = deviation.unit == 0.0 and deviation.rms > 0.0
        if deviation.nonfinite or (is_exact and (number in self.suspects or number in self.tainted)):
            self.wild.add(number)
        if deviation.nonfinite and self.first_nonfinite is None:
            self.first_nonfinite = number

    def _families(self, key: NodeKey) -> set[Family]:
        """Return the arithmetic between a node's compared inputs and its outputs, parts and passed nodes included."""
        found: set[Family] = set()
        for passed in (key, *self.links.through.get(key, ())):
            node = self.pairs.target.nodes.get(passed)
            parts = [self.types[part] for part in node.originals if part in self.types] if node else []
            found.update(family_of(op_type) for op_type in parts or ([node.op_type] if node else []))
        return found or {Family.UNKNOWN}


def _worst_figure(deviation: Deviation, allowed: Allowance) -> tuple[str, float]:
    """Return the figure that exceeds its allowance most, and how many times over its limit it is."""
    ratios = {
        "rms": _ratio(deviation.rms, allowed.rms),
        "peak": _ratio(deviation.peak, allowed.peak),
        "gain": _ratio(abs(deviation.gain), allowed.gain),
    }
    scores = {figure: ratio / LIMITS[figure] for figure, ratio in ratios.items()}
    figure = max(scores, key=lambda name: scores[name])
    return figure, scores[figure]


def _ratio(value: float, allowed: float) -> float:
    if value <= 0.0:
        return 0.0
    return value / allowed if allowed > 0.0 else math.inf
