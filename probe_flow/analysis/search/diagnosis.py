"""What the search for the origin found: suspects, what descends from them, and what it could not judge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.analysis.flow.links import Given, Sources
from probe_flow.analysis.limits import Limits
from probe_flow.analysis.model.deviation import Deviation, ErrorFigure
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.growth import Allowance
from probe_flow.records import ErrorShape, NodeKey, Role, Status, Verdict
from probe_flow.records.row import Row

UNRELATED = 0.1
"""Relative error from which two tensors may be any two."""

WIDE = 0.1
"""Allowed error, relative to a tensor's size, from which what is wrong with it hides in what is explained."""

LEAP = 2.0
"""How many times further off than its inputs, or a rounding, a result is that these do not make by themselves."""


class Suspect(Struct, frozen=True):
    """A row whose error is not explained.

    Args:
        row: row number.
        score: largest excess over the limits; above 1.
        figure: which figure it was.
        deviation: the row's error.
        allowance: what it was allowed.
        inputs: rows that were weighed as explanation.
        inherits: whether an earlier suspect feeds it.
        limit: how many times its allowance the figure may be.
        is_proven: whether it is wrong whatever came in: its own inputs, computed with again, make another result.
        told: how what it read differs from what others gave, in words.
    """

    row: int
    score: float
    figure: ErrorFigure
    deviation: Deviation | None
    allowance: Allowance | None
    inputs: tuple[int, ...]
    inherits: bool
    limit: float = 1.0
    is_proven: bool = False
    told: str = ""

    @property
    def excess(self) -> float:
        """How many times its allowance the figure is."""
        return self.score * self.limit

    def by(self, figure: ErrorFigure, score: float, told: str) -> Suspect:
        """Return the row accused by another figure, in whose own units the score counts, and why in words."""
        return replace(self, figure=figure, score=score, limit=1.0, told=told)

    def proven(self, score: float) -> Suspect:
        """Return the row as wrong whatever came in, with at least a score in units of the proof."""
        return replace(self, score=max(self.score, score), inherits=False, limit=1.0, is_proven=True)

    @property
    def is_by_extremes(self) -> bool:
        """Whether minimum and maximum are all that is known of the row, and finite values all that is wrong."""
        return self.deviation is not None and self.deviation.is_bare and self.figure is not ErrorFigure.NONFINITE


class Diagnosis(Struct, frozen=True):
    """What the search found.

    Args:
        suspects: in order of time, ranks side by side, origins and amplifiers alike.
        tainted: row -> the suspect's row that it descends from.
        deviations: per row, None where nothing was measured.
        order: row numbers in order of time.
        scales: row -> size of the terms that its rounding errors are relative to, where it was judged; 0 where that is
            the size of its own tensor.
        scores: row -> its largest figure over what is explained, 1 being the limit, where it was judged.
        cleared: rows that would be suspects if the reference did not say that the target is no worse than the golden,
            or repeated runs that they differ by as much; in order of time, without those that inherit from a suspect.
        quantised_runs: identities of the executions in which the target computed with quantised values.
        passed: node of a suspect -> the nodes between it and the nearest compared tensors before it.
        hidden: row that extremes alone accuse -> outputs before it, the nearest first, whose extremes do not show
            whether it began there.
        is_flow_unknown: no edge between operators is known, so that each suspect stands for itself.
        near: rows that come near to being suspects, in order of time.
        asked: rows of results that stand out enough to be computed again, the most striking first -> error that is
            explained of those of which single elements stand out; 0 for others.
        fed_by: suspect, or row near to one -> outputs that it was computed from, the nearest first.
        unjudged: rows of results of which next to any error would be explained, first those that are the furthest
            beyond what they were made of.
        decided: rows of decisions that differ (comparisons, picks, masks, rounding to whole numbers), in order of time.
        random: rows of random results that differ, in order of time.
        undecided: rows that would be suspects if decisions that nearly tie could not have made them other data, where
            statistics are all that is known; in order of time.
        undumped: rows that would be suspects if they were not made of what a dump of a part of the calls does not hold;
            in order of time.
        shaken: rows that were computed from them, or from decisions that may have been taken otherwise.
        handed: row that may not be what others gave -> what these gave, where the elements are there to be asked.
        carried: rows that would be suspects if recomputing did not prove that they and what feeds them are right.
        derivatives: operators of a graph that compute gradients.
        unseen: rows of what lies between a suspect and the nearest compared tensors before it, and that the target
            alone shows.
        updated: rows of variables that optimizers of a graph wrote, the smallest first: they are judged in the size of
            the variable, of which a step is a small part.
        states: rows of states of optimizers that nothing judges -> what is said of them.
    """

    suspects: tuple[Suspect, ...]
    tainted: Mapping[int, int]
    deviations: Deviations
    order: Sequence[int]
    scales: Mapping[int, float]
    scores: Mapping[int, float]
    cleared: tuple[int, ...] = ()
    quantised_runs: frozenset[object] = frozenset()
    passed: Mapping[NodeKey, tuple[NodeKey, ...]] = field(default_factory=dict)
    hidden: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    is_flow_unknown: bool = False
    near: tuple[int, ...] = ()
    asked: Mapping[int, float] = field(default_factory=dict)
    fed_by: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    unjudged: tuple[int, ...] = ()
    carried: tuple[int, ...] = ()
    decided: tuple[int, ...] = ()
    random: tuple[int, ...] = ()
    shaken: AbstractSet[int] = frozenset()
    handed: Mapping[int, Given] = field(default_factory=dict)
    undecided: tuple[int, ...] = ()
    undumped: tuple[int, ...] = ()
    holds_part: bool = False
    derivatives: AbstractSet[NodeKey] = frozenset()
    unseen: Sequence[int] = ()
    updated: Sequence[int] = ()
    states: Mapping[int, str] = field(default_factory=dict)

    def is_other_choice(self, number: int) -> bool:
        """Whether a row that differs holds whole numbers: indices, or what was cut to them."""
        deviation = self.deviations[number]
        return deviation is not None and deviation.unit == 0.0


SHAPED = 0.8
"""Share of an error, as root mean square, that a common factor or offset must be to be its shape."""

CREST = 2.0
"""Largest error over root mean square from which few elements hold the error, in what it is for normal noise."""


def shape_of(deviation: Deviation | None, figure: ErrorFigure, row: Row) -> ErrorShape | None:
    """Return what an error looks like; None where nothing numeric or extremes alone are known of it.

    Args:
        deviation: the error.
        figure: by which figure it was found (`Suspect.figure`).
        row: where it was measured.
    """
    if figure is ErrorFigure.PICK:
        return ErrorShape.CHOICE
    if figure in (ErrorFigure.NONFINITE, ErrorFigure.UPDATE):
        return None
    if deviation is None or deviation.is_bare or not deviation.rms:
        return None
    noise = CREST * math.sqrt(2.0 * math.log(max(3, deviation.count)))
    if deviation.peak > noise * (deviation.likely if row.is_by_statistics else deviation.rms):
        return ErrorShape.PART
    rounded = 2.0 * deviation.unit * deviation.top
    gain, offset = abs(deviation.gain), abs(deviation.offset)
    for shape, rms, peak in (
        (ErrorShape.FACTOR, gain * deviation.size, 2.0 * gain * deviation.top),
        (ErrorShape.OFFSET, offset, 2.0 * offset),
    ):
        # Statistics prove no more than the norm shows, so there extremes must move along.
        if rms >= SHAPED * deviation.rms and (not row.is_by_statistics or deviation.peak <= peak + rounded):
            return shape
    return ErrorShape.NOISE


LIMITED = ErrorFigure.RMS, ErrorFigure.PEAK, ErrorFigure.GAIN, ErrorFigure.OFFSET
"""The figures that have limits, in the order of `scores_of`."""


def scores_of(deviation: Deviation, allowed: Allowance, limits: Limits) -> Sequence[float]:
    """Return how many times over its limit each of the figures of `LIMITED` is.

    What may be off by more than it is, as a gradient that is zero in mathematics, has the size of its errors.
    """
    error = allowed.floor + allowed.explained
    gain = max(allowed.gain, error / deviation.size) if error > deviation.size > 0.0 else allowed.gain
    return (
        ratio(deviation.rms, error) / limits.rms,
        ratio(deviation.peak, allowed.peak) / limits.peak,
        ratio(abs(deviation.gain), gain) / limits.gain,
        ratio(abs(deviation.offset), allowed.offset) / limits.offset,
    )


def ratio(value: float, allowed: float) -> float:
    """Return how many times what is allowed a value is."""
    if value <= 0.0:
        return 0.0
    return value / allowed if allowed > 0.0 else math.inf


def is_open(found: Suspect, inputs: Sequence[Deviation], *, is_guess: bool) -> bool:
    """Return whether the allowance of a row says little of it, so that recomputing has to.

    It explains next to any error, or is a guess and the row is further off than all that it was made of: of a
    recurrence, of which nobody knows what it makes of its many weights, a guess adds up what all of them are off by. So
    is what a loss may be off by, a single number, by the largest error of its scores.

    Args:
        found: the row as it was judged.
        inputs: what it was made of.
        is_guess: whether it is not known what its call computes.
    """
    own, allowed = found.deviation, found.allowance
    if own is None or allowed is None:
        return False
    if allowed.rms > WIDE * own.size:
        return True
    return (is_guess or own.count == 1) and own.relative > LEAP * max([own.unit, *(each.relative for each in inputs)])


def is_doubtful(row: Row, deviation: Deviation) -> bool:
    """Return whether a pair whose error nothing explains is rather a wrong guess.

    Matchers without rules pair what has the same shape in the same place. Where such a pair holds values that have
    nothing to do with each other, or an input that differs from what its operator's producer gave, the guess is the
    likelier mistake: nobody is accused on its account, and nothing is explained by it.
    """
    if not row.pair.is_guess:
        return False
    return not row.is_produced or deviation.relative > UNRELATED or deviation.nonfinite > 0


def doubtful_rows(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> int:
    """Return the number of guessed pairs that fail and that the search for the origin left out."""
    open_rows = (
        rows[number]
        for number, verdict in enumerate(verdicts)
        if verdict.status is Status.FAIL and verdict.role is Role.UNKNOWN
    )
    return sum(row.measurement is not None and row.pair.is_guess for row in open_rows)


def with_roles(
    verdicts: Sequence[Verdict], diagnosis: Diagnosis, origins: AbstractSet[int], inherited: AbstractSet[int]
) -> list[Verdict]:
    """Return verdicts with roles and scores; those of rows off by nothing are one object where they are equal.

    Args:
        verdicts: of the policy.
        diagnosis: of their rows.
        origins: rows that findings name.
        inherited: rows that descend from them.
    """
    known: dict[Verdict, Verdict] = {}
    plain: dict[tuple[int, Role, bool], Verdict] = {}  # by the object of the policy: hashing one takes longer
    found = []
    for number, verdict in enumerate(verdicts):
        role = _role(number, verdict, diagnosis, origins, inherited)
        excess = diagnosis.scores.get(number)
        if role is verdict.role and excess == verdict.excess:
            found.append(verdict)
            continue
        key = id(verdict), role, excess is None
        full = None if excess else plain.get(key)
        if full is None:
            full = Verdict(verdict.status, verdict.rule_ids, verdict.reasons, role, excess)
            if not excess:
                full = plain[key] = known.setdefault(full, full)
        found.append(full)
    for number, told in diagnosis.states.items():
        found[number] = replace(found[number], reasons=(*found[number].reasons, told))
    return found


def _role(
    number: int, verdict: Verdict, diagnosis: Diagnosis, origins: AbstractSet[int], inherited: AbstractSet[int]
) -> Role:
    if number in origins:
        return Role.ORIGIN
    if number in inherited:
        return Role.INHERITED
    if diagnosis.deviations.is_known(number) or verdict.status is Status.PASS:
        return Role.CLEAN
    return Role.UNKNOWN


def outputs_before(number: int, rows: Sequence[Row], sources: Sources) -> Iterator[int]:
    """Yield the outputs that a row was computed from, one operator further back at a time, the latest first."""
    seen, level = {number}, [number]
    while level:
        read = {n for row in level for n in sources(row) or ()}
        written = {n for row in read for n in ((row,) if rows[row].is_produced else sources(row) or ())}
        level = sorted(written - seen, reverse=True)
        seen.update(level)
        yield from level
