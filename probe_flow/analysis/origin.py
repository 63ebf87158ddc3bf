"""Find where the divergence begins: tensors whose error neither rounding nor the errors of their inputs explain.

Every compared tensor is judged locally, by three figures (rms, peak, gain) against its `Allowance`. One that exceeds
it is a suspect. Suspects that nothing suspected feeds are origins, the earliest in time first; a tensor that carries
error and descends from a suspect inherits.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from probe_flow.analysis.deviation import Deviation, deviation_of
from probe_flow.analysis.families import Family, family_of
from probe_flow.analysis.growth import Allowance, allowance, widest
from probe_flow.analysis.links import link
from probe_flow.analysis.measured import MeasuredPair
from probe_flow.analysis.plain_values import plain_gap
from probe_flow.records import Mode, NodeKey, Pairs

LIMITS = {"rms": 2.5, "peak": 1.5, "gain": 2.5}
"""How many times its allowance a figure must be to accuse. The largest healthy ratios measured are about 0.9, 0.5 and
0.9: see docs/explanation/diagnosis.md."""


SAME_VALUE = 2.0**-20
"""Relative difference of float arguments that says nothing: they may come from a computation."""

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
        self.past = _PastErrors()

    def run(self) -> Diagnosis:
        for number in self.order:
            deviation = self.deviations[number]
            if deviation is not None:
                self._judge(number, deviation, self._sources(number))
                self._remember(number, deviation)
            elif not self.rows[number].is_produced:
                self._judge_argument(number)
        suspects = tuple(self.suspects[number] for number in self.order if number in self.suspects)
        return Diagnosis(suspects, self.tainted, self.deviations, self.order, self.scales)

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
        behind = sources or ()
        known = [(n, d) for n in behind if (d := self.deviations[n]) is not None]
        allowed = self._allowance(number, deviation, [d for _, d in known], sources)
        self.scales[number] = max(deviation.size, allowed.scale)
        figure, score = _worst_figure(deviation, allowed)
        # Wrong indices, masks, arguments and NaN may do anything to what is computed from them.
        is_wild = self.rows[number].is_produced and any(n in self.wild for n in behind)
        if is_wild:
            score = 0.0
        ancestor = next((self._root(n) for n in behind if n in self.suspects or n in self.tainted), None)
        if deviation.nonfinite and not is_wild and not any(d.nonfinite for _, d in known):
            if sources is None and self.first_nonfinite is not None:
                ancestor = self._root(self.first_nonfinite)
            else:
                figure, score = "nonfinite", math.inf
        if score > 1.0:
            self.suspects[number] = Suspect(
                number, score, figure, deviation, allowed, tuple(n for n, _ in known), ancestor is not None
            )
        if ancestor is not None and (score > 1.0 or deviation.rms > 2.0 * allowed.floor or deviation.nonfinite):
            self.tainted[number] = ancestor
        elif sources is None and score <= 1.0 and self.suspects and deviation.rms > 6.0 * allowed.floor:
            self.tainted[number] = self._root(next(iter(self.suspects)))

    def _root(self, number: int) -> int:
        return self.tainted.get(number, number)

    def _allowance(
        self, number: int, deviation: Deviation, known: Sequence[Deviation], sources: tuple[int, ...] | None
    ) -> Allowance:
        row = self.rows[number]
        copies = not row.is_produced or row.pair.rule == "self" or number in self.links.producers
        families = (Family.MOVE,) if copies else self._families(row.node)
        allowed = widest([allowance(family, deviation, known) for family in families])
        extra = self._unseen(row, sources) * deviation.size
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


class _PastErrors:
    """Relative errors of the outputs of steps that are over; they come step by step."""

    def __init__(self) -> None:
        self._sorted: list[float] = []
        self._step = -1
        self._current: list[float] = []

    def add(self, step: int, error: float) -> None:
        """Take note of an output's error; ``step`` never decreases."""
        self._begin(step)
        self._current.append(error)

    def usual_before(self, step: int) -> float:
        """Return the error that nine in ten outputs of steps before this one stay below: noise tensors left out."""
        self._begin(step)
        return self._sorted[int(0.9 * (len(self._sorted) - 1))] if self._sorted else 0.0

    def _begin(self, step: int) -> None:
        if step > self._step:
            for error in self._current:
                insort(self._sorted, error)
            self._step, self._current = step, []


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
