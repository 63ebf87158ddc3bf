"""Where to look when what is named turns out to be innocent: what comes near to being an origin, what extremes hide.

An error that stays just below its limit accuses nobody, but what it spoils later may. So the largest of those before
the first origin are suspects too, which fail nothing. Where nothing fails they must stand out more. And an error inside
of the range leaves minimum and maximum as they are: where these are all that is known, the first tensor that shows it
may lie behind the one where it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from probe_flow.analysis.flow.links import Sources
from probe_flow.analysis.limits import ALONE, NEAR
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.search.diagnosis import Diagnosis, Suspect, outputs_before
from probe_flow.analysis.search.proof import Proof, proof_of, sentence
from probe_flow.records import Finding, FindingKind, NodeKey
from probe_flow.records.row import Row

MOST = 2
"""Suspects of this kind that are named: with an origin that is wrong, three places to look at."""

FARTHEST = 5
"""Operators before a tensor that are told: of random faults that extremes show further on, four in five are there."""

EXTREMES = 2
"""Elements of which minimum and maximum show all."""


def hidden_before(number: int, rows: Sequence[Row], deviations: Deviations, sources: Sources) -> tuple[int, ...]:
    """Return rows of outputs before a row, one per operator and the nearest first, that may hide what is wrong there.

    Args:
        number: row of an output whose extremes differ.
        rows: all rows.
        deviations: of them.
        sources: where they came from.

    Returns:
        At most `FARTHEST` rows: nothing but the extremes is known of them, and they have more elements than these.
        Empty where no such output is known.
    """
    found: dict[NodeKey, int] = {}
    for row in outputs_before(number, rows, sources):
        deviation, node = deviations[row], rows[row].node
        if deviation is not None and deviation.is_bare and deviation.count > EXTREMES and node != rows[number].node:
            found.setdefault(node, row)
            if len(found) == FARTHEST:
                break
    return tuple(found.values())


def hidden_of(
    suspects: Sequence[Suspect], rows: Sequence[Row], deviations: Deviations, sources: Sources
) -> dict[int, tuple[int, ...]]:
    """Return the suspects that extremes alone accuse, with what may hide their error before them."""
    return {
        each.row: hidden_before(each.row, rows, deviations, sources)
        for each in suspects
        if each.is_by_extremes and not _shows_again(each.row, rows, sources)
    }


def _shows_again(number: int, rows: Sequence[Row], sources: Sources) -> bool:
    """Whether an input holds the very tensor of a row before it, so that nothing was computed in between."""
    row = rows[number]
    if row.is_produced or row.measurement is None:
        return False
    before = [rows[n].measurement for n in sources(number) or ()]
    return any(each is not None and each.golden == row.measurement.golden for each in before)


def near_misses(rows: Sequence[Row], diagnosis: Diagnosis, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings, which fail nothing, for the tensors nearest to being accused, the nearest first.

    Args:
        rows: all rows.
        diagnosis: what the search found.
        findings: what was concluded from it; only tensors before the first row that they name are looked at.
    """
    least = NEAR if findings else ALONE
    named = {finding.row for finding in findings if finding.kind is FindingKind.ORIGIN}
    near: dict[NodeKey, tuple[float, int]] = {}
    for number in diagnosis.order:
        if number in named:
            break
        score = diagnosis.scores.get(number, 0.0)
        if least <= score <= 1.0 and number not in diagnosis.tainted:
            node = rows[number].node
            near[node] = max(near.get(node, (0.0, 0)), (score, number), key=lambda each: each[0])
    found = []
    for score, number in sorted(near.values(), key=lambda each: -each[0])[:MOST]:
        deviation, shown = diagnosis.deviations[number], rows[number].pair.shown.id
        error = f"relative error {deviation.relative:.1e}, " if deviation is not None and deviation.size else ""
        told = f"`{shown}` comes near to being an origin: {error}{score:.0%} of what it takes"
        found.append(_suspect(number, rows[number], told, score))
    return found


def behind_extremes(rows: Sequence[Row], diagnosis: Diagnosis, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings, which fail nothing, for the outputs before the first origin whose extremes do not clear them.

    Args:
        rows: all rows.
        diagnosis: what the search found.
        findings: what was concluded from it; what they name already is left out.

    Returns:
        Empty unless the first origin was found by extremes alone; the nearest first.
    """
    first = next((each.row for each in findings if each.kind is FindingKind.ORIGIN and each.row is not None), None)
    named = {finding.row for finding in findings}
    if first is None:
        return []
    told = (
        f"`{rows[first].pair.shown.id}` was computed from it, and its minimum and maximum, which agree, do not clear it"
    )
    return [_suspect(n, rows[n], told, 0.0) for n in diagnosis.hidden.get(first, ()) if n not in named]


def only_carried(rows: Sequence[Row], diagnosis: Diagnosis) -> list[Finding]:
    """Return findings, which fail nothing, for what is off by too much though it and all that feeds it is right.

    Args:
        rows: all rows.
        diagnosis: what the search found.
    """
    found = []
    for number in diagnosis.carried[:MOST]:
        row, deviation = rows[number], diagnosis.deviations[number]
        assert deviation is not None
        why = f"{sentence(row)}, and so is what feeds it"
        off = f"(relative error {deviation.relative:.1e})"
        told = (
            f"`{row.pair.shown.id}` holds other whole numbers {off}: {why}, so values at an edge fell the other way, "
            "and what reads them reads other data; round before it, or raise the precision of what feeds it"
            if diagnosis.is_other_choice(number)
            else f"`{row.pair.shown.id}` differs {off} and only carries on what reached it: {why}"
        )
        found.append(_suspect(number, row, told, 1.0))
    return found


def _suspect(number: int, row: Row, told: str, severity: float, **more: Any) -> Finding:
    """Return a finding that fails nothing."""
    return Finding.at(number, row, FindingKind.SUSPECT, told, severity=severity, fails=False, **more)


def other_data(rows: Sequence[Row], diagnosis: Diagnosis) -> list[Finding]:
    """Return findings that fail nothing: one for other draws or decisions, one for what calls outside of the dump made.

    Args:
        rows: all rows.
        diagnosis: what the search found.
    """
    found = _random_state(rows, diagnosis) or _undecided(diagnosis.undecided, rows, diagnosis, "near tie")
    return [*found, *_undecided(diagnosis.undumped, rows, diagnosis, "part")]


_WHY = {
    "near tie": (
        "behind decisions whose scores nearly tie; what fell otherwise there and what is wrong look alike in "
        "statistics, and tensors would tell"
    ),
    "part": (
        "and the dump holds a part of the calls only, not those that it was made by: they may be wrong, or have "
        "drawn or decided otherwise; a dump without `list` and `scope`, compared without `select`, would tell"
    ),
}


def _undecided(
    numbers: Sequence[int], rows: Sequence[Row], diagnosis: Diagnosis, why: Literal["part", "near tie"]
) -> list[Finding]:
    """Return one finding for the first of the rows that are off and may be other data; none where there are none."""
    if not numbers:
        return []
    first, *others = numbers
    row, deviation = rows[first], diagnosis.deviations[first]
    error = f" (relative error {deviation.relative:.1e})" if deviation is not None and deviation.size else ""
    more = f", and {len(others)} more" if others else ""
    told = f"undecided: `{row.pair.shown.id}` differs by more than rounding explains{error}{more}, {_WHY[why]}"
    size = "made by calls that are not in the dump" if why == "part" else ""
    return [_suspect(first, row, told, 1.0, size=size, undecided=why, others=tuple(others))]


def left_open(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return why a run is incomplete in which nothing fails, but calls that are not in the dump made what is off."""
    if any(each.fails for each in findings):
        return ()
    return tuple(
        f"`{each.node.name}` {each.slot}, call {each.node.call}, is off, and the dump does not hold the calls that "
        "made it"
        for each in findings
        if each.undecided == "part" and each.node is not None and each.excuse is None
    )


def near_ties(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return what a verdict has to say where nothing fails, but near ties may hide what is wrong."""
    if any(each.fails for each in findings):
        return ()
    return tuple(
        f"undecided from `{each.node.name}` {each.slot} on, behind near ties"
        for each in findings
        if each.undecided == "near tie" and each.node is not None
    )


def _random_state(rows: Sequence[Row], diagnosis: Diagnosis) -> list[Finding]:
    """Return one finding for the first random result that differs; none where all agree."""
    if not diagnosis.random:
        return []
    first, *others = diagnosis.random
    row, deviation = rows[first], diagnosis.deviations[first]
    assert deviation is not None
    more = f", and {len(others)} more random result{'s' if len(others) > 1 else ''}" if others else ""
    right = [number for number in diagnosis.random if proof_of(rows[number]) is Proof.RIGHT]
    proven = ""
    after = (
        "of what follows statistics show gross errors only"
        if row.is_by_statistics
        else "what follows was judged by its own inputs"
    )
    if right:
        which = "each" if len(right) == len(diagnosis.random) else f"{len(right)} of them"
        proven = (
            f"; by its own input {which} keeps or drops as it should"
            if others
            else ("; each of its elements is dropped, or its own input scaled, as it should be")
        )
    return [
        Finding.at(
            first,
            row,
            FindingKind.RANDOM_STATE,
            f"random state differs: `{row.pair.shown.id}` was drawn otherwise than the golden's (relative error "
            f"{deviation.relative:.1e}){more}{proven}; {after}",
            severity=deviation.relative,
            fails=False,
        )
    ]
