"""Turn the search for the origin into findings with evidence in words, and into the role of every row."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import is_gradient
from probe_flow.analysis.flow.ordering import side_by_side
from probe_flow.analysis.limits import LATER, STRONG
from probe_flow.analysis.model.deviation import Deviation, ErrorFigure
from probe_flow.analysis.search.checksums import checksum_finding, search_checksums
from probe_flow.analysis.search.diagnosis import Diagnosis, Suspect, shape_of, with_roles
from probe_flow.analysis.search.near_misses import behind_extremes, near_misses, only_carried, other_data
from probe_flow.analysis.search.not_compared import NotCompared, Writers
from probe_flow.analysis.search.origin import diagnose
from probe_flow.analysis.search.proof import Proof, figures, proof_of, sentence
from probe_flow.analysis.search.reference_check import golden_errors, not_deterministic, witness_of
from probe_flow.records import Finding, FindingKind, Pairs, Phase, Verdict
from probe_flow.records.row import Row, number_or_first

INHERITED = 4.0
"""Error of an input, in rounding steps, from which it is no mere rounding."""

TOLD = {
    ErrorFigure.HANDED: "not what the call before gave",
    ErrorFigure.UPDATE: "changed otherwise than the golden's",
    ErrorFigure.OWN: "not what its inputs make",
    ErrorFigure.BITS: "rounded to fewer bits",
}
"""What is told in words of its own, and in short."""

NEAREST = 3
"""Operators before an origin that its evidence names where extremes do not clear them; findings name the others too."""


def conclude(
    rows: Sequence[Row], pairs: Pairs, verdicts: Sequence[Verdict], diagnosis: Diagnosis | None = None
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Return the findings, the most important first, and the verdicts with their roles.

    Args:
        rows: measured, in execution order.
        pairs: of the comparison.
        verdicts: of the policy.
        diagnosis: of these rows, where it was made.
    """
    if diagnosis is None:
        diagnosis = diagnose(rows, pairs)
    writers = Writers(rows)
    apart = NotCompared(rows, diagnosis)
    nonfinite = [suspect for suspect in diagnosis.suspects if suspect.figure is ErrorFigure.NONFINITE]
    alone = _begun_alone(nonfinite, rows, pairs)
    origins, shown = _forward_once(_origins(diagnosis, rows), writers, alone, rows)
    origins, echoes = _shown_once(origins, shown, apart)
    heirs = _heirs(diagnosis, origins)
    findings = [
        _origin_finding(suspect, rows, diagnosis, heirs, shown[suspect.row], apart, is_first=number == 0)
        for number, suspect in enumerate(origins)
    ]
    findings = [_with_skipped(finding, rows, writers) for finding in findings]
    findings.extend(_nonfinite_findings(nonfinite, rows, alone))
    checksums = search_checksums(rows, pairs, diagnosis.order)
    wrote = {number: writers.of(number) for number in side_by_side(checksums.origins, diagnosis.order, rows)}
    findings.extend(checksum_finding(number, rows, writer) for number, writer in wrote.items())
    shown.update(wrote)
    if not findings:
        from probe_flow.analysis.search.drift import find_drift

        findings.extend(find_drift(rows, diagnosis))
    findings.extend(near_misses(rows, diagnosis, findings))
    findings.extend(behind_extremes(rows, diagnosis, findings))
    findings.extend(only_carried(rows, diagnosis))
    findings.extend(other_data(rows, diagnosis))
    findings.extend(golden_errors(rows, diagnosis.cleared))
    findings.extend(not_deterministic(rows, diagnosis.order))
    origin_rows = {row if writer is None else writer for row, writer in shown.items()}
    inherited = diagnosis.tainted.keys() | checksums.inherited | echoes | (shown.keys() - origin_rows)
    roles = with_roles(verdicts, diagnosis, origin_rows, inherited)
    return tuple(_with_parts(finding, pairs) for finding in _first_nonfinite_only(findings)), roles


def _begun_alone(nonfinite: Sequence[Suspect], rows: Sequence[Row], pairs: Pairs) -> Mapping[int, int]:
    """Return for suspects that are not finite the row of a lone call where that begins, where there is one."""
    if not nonfinite:
        return {}
    from probe_flow.analysis.search.lone_nonfinite import begins_alone

    return begins_alone((suspect.row for suspect in nonfinite), rows, pairs)


def _with_skipped(finding: Finding, rows: Sequence[Row], writers: Writers) -> Finding:
    """Name the call that the golden alone makes, where a finding is of what that wrote."""
    skipped = writers.skipped(rows[finding.row]) if finding.row is not None else None
    if skipped is None:
        return finding
    told = f"{finding.evidence}; in the golden it is `{skipped.id}`, of a call that the target does not make"
    return replace(finding, evidence=told)


def _nonfinite_findings(
    nonfinite: Sequence[Suspect], rows: Sequence[Row], alone: Mapping[int, int]
) -> Iterator[Finding]:
    if nonfinite:
        from probe_flow.analysis.search.lone_nonfinite import nonfinite_finding

        yield from (nonfinite_finding(suspect, rows, alone.get(suspect.row)) for suspect in nonfinite)


def _with_parts(finding: Finding, pairs: Pairs) -> Finding:
    """Name the operators that a fused one was made of: which of them is wrong shows only on a side without fusion."""
    node = pairs.target.nodes.get(finding.node) if finding.node is not None else None
    if node is None or len(node.originals) < 2:
        return finding
    return replace(finding, evidence=f"{finding.evidence}; fused of {' + '.join(f'`{op}`' for op in node.originals)}")


def _origins(diagnosis: Diagnosis, rows: Sequence[Row]) -> list[Suspect]:
    """Return the suspects to blame, in order of time: the strong ones, then weak ones that nothing feeds.

    Weak ones that the first strong one depends on stand before it: what it inherits, and where it is a gradient all
    that the forward pass computed. Where NaN begins behind another suspect is not an origin of divergence but a
    finding of its own.
    """
    strong = [
        suspect
        for suspect in diagnosis.suspects
        if (suspect.is_proven or suspect.score >= _least_score(suspect, diagnosis, rows))
        and not (suspect.figure is ErrorFigure.NONFINITE and suspect.inherits)
    ]
    if strong and rows[strong[0].row].is_by_statistics:
        from probe_flow.analysis.search.standing_out import beside

        chosen = beside(strong, diagnosis, rows)
        strong = [suspect for suspect in diagnosis.suspects if suspect.row in chosen]
    # Behind a strong one, what is a little more than explained is its echo.
    before_it = itertools.takewhile(lambda suspect: not strong or suspect is not strong[0], diagnosis.suspects)
    weak = [suspect for suspect in before_it if suspect.score < STRONG and not suspect.inherits]
    before = [suspect for suspect in weak if strong and _bears_on(suspect, strong[0], diagnosis, rows)]
    named = {suspect.row for suspect in before}
    return before + strong + [suspect for suspect in weak if suspect.row not in named]


def _least_score(suspect: Suspect, diagnosis: Diagnosis, rows: Sequence[Row]) -> float:
    """Return the score from which a suspect is an origin whatever it depends on."""
    root = diagnosis.tainted.get(suspect.row)
    if root is None:
        return STRONG
    own, before = (number_or_first(rows[n].node.execution.step) for n in (suspect.row, root))
    return LATER if before < own else STRONG


def _bears_on(earlier: Suspect, later: Suspect, diagnosis: Diagnosis, rows: Sequence[Row]) -> bool:
    """Whether a suspect feeds a later one, or is of the forward pass where that is a gradient.

    Where extremes are all that is known, what lies between may agree, and how far they differ says little.
    """
    is_bare = later.deviation is not None and later.deviation.is_bare
    if is_bare or diagnosis.tainted.get(later.row) == earlier.row:
        return True
    return is_gradient(rows[later.row].node) and not is_gradient(rows[earlier.row].node)


def _forward_once(
    origins: Sequence[Suspect], writers: Writers, alone: Mapping[int, int], rows: Sequence[Row]
) -> tuple[list[Suspect], dict[int, int | None]]:
    """Leave out gradients of a call that is blamed itself; return the others with the rows that wrote them."""
    shown = {each.row: alone[each.row] if each.row in alone else writers.of(each.row) for each in origins}
    nodes = {suspect.row: rows[suspect.row if (row := shown[suspect.row]) is None else row].node for suspect in origins}
    if all(key.phase is not Phase.BACKWARD for key in nodes.values()):
        return [*origins], shown
    blamed = {(key.execution, key.name, key.call) for key in nodes.values() if key.phase is Phase.FORWARD}
    kept = [
        suspect
        for suspect in origins
        if not (
            suspect.figure is not ErrorFigure.NONFINITE
            and (key := nodes[suspect.row]).phase is Phase.BACKWARD
            and (key.execution, key.name, key.call) in blamed
        )
    ]
    return kept, {suspect.row: shown[suspect.row] for suspect in kept}


def _shown_once(
    origins: Sequence[Suspect], shown: dict[int, int | None], apart: NotCompared
) -> tuple[list[Suspect], set[int]]:
    """Show outputs of another size than the golden's in place of what they feed; return what is not named again, too.

    What stands for several suspects, a call that only the target makes or such an output, is named once.
    """
    kept: list[Suspect] = []
    echoes: set[int] = set()
    named: set[int] = set()
    for suspect in origins:
        before = apart.before(suspect)
        if shown[suspect.row] is None and before is not None and apart.differs(before):
            shown[suspect.row] = before
        row = shown[suspect.row]
        if row in named:
            echoes.add(suspect.row)
            continue
        if row is not None:
            named.add(row)
        kept.append(suspect)
    return kept, echoes


def _heirs(diagnosis: Diagnosis, origins: Sequence[Suspect]) -> Mapping[int, int]:
    """Return origin row -> number of rows that descend from it."""
    chosen = {suspect.row for suspect in origins}
    return Counter(root for row, root in diagnosis.tainted.items() if row not in chosen)


def _origin_finding(
    suspect: Suspect,
    rows: Sequence[Row],
    diagnosis: Diagnosis,
    heirs: Mapping[int, int],
    writer: int | None,
    apart: NotCompared,
    *,
    is_first: bool,
) -> Finding:
    """Return the finding of a suspect, at the row that wrote what it read (``writer``) where that is to blame."""
    row = rows[suspect.row]
    count = heirs.get(suspect.row, 0)
    tail = f"; {count} later tensor{'s inherit' if count != 1 else ' inherits'} it" if count else ""
    at = suspect.row if writer is None else writer
    between = apart.before(suspect)
    evidence = _evidence(suspect, rows, diagnosis, None if between is None else rows[between])
    if writer is None and (resized := apart.read_by(suspect)) is not None:
        shown = f"`{rows[resized].pair.shown.slot}` has another shape than the golden's ({apart.told(resized)})"
        evidence = f"{shown}; {evidence}"
    proof = _proof(suspect, row, is_first=is_first)
    return Finding.at(
        at,
        rows[at],
        FindingKind.ORIGIN,
        _head(row, writer, rows, apart) + evidence + proof + _by_reference(row) + tail,
        severity=suspect.score,
        metrics=figures(row),
        size=_size(suspect, row),
        shape=shape_of(suspect.deviation, suspect.figure, row),
    )


_SHORT = {
    ErrorFigure.RMS: "",
    ErrorFigure.PEAK: ", single elements off by {0.peak:.2g}",
    ErrorFigure.GAIN: ", scale {0.gain:+.2%}",
    ErrorFigure.OFFSET: ", mean {0.offset:+.2g}",
}
_DETAILS = {
    ErrorFigure.RMS: "",
    ErrorFigure.PEAK: ", single elements off by up to {0.peak:.2g} among values up to {0.top:.2g}",
    ErrorFigure.GAIN: ", scale off by {0.gain:+.2%}",
    ErrorFigure.OFFSET: ", mean off by {0.offset:+.2g}",
}
"""What is told of a `Deviation` by the figure that it was found by."""


def _size(suspect: Suspect, row: Row) -> str:
    """Return how large the error is that nothing explains, for a line that has room for a few words."""
    deviation, target, golden = suspect.deviation, row.pair.target, row.pair.golden
    if deviation is None or suspect.allowance is None:
        return f"{target.value!r}, golden {golden.value!r}" if target and golden else "another value"
    if suspect.figure is ErrorFigure.NONFINITE:
        return _nonfinite_places(row, deviation.nonfinite)
    if suspect.figure is ErrorFigure.PICK:
        return _picked(row)
    if suspect.figure in TOLD:
        return TOLD[suspect.figure]
    shape = _SHORT[suspect.figure].format(deviation)
    return ("not exact" if math.isinf(suspect.excess) else f"{suspect.excess:.3g} x rounding") + shape


def _picked(row: Row) -> str:
    assert row.pick is not None
    if math.isinf(row.pick.gap):
        return "picks an index out of range"
    return f"picks a value {row.pick.gap:.2g} away from the one due"


def _nonfinite_places(row: Row, count: int) -> str:
    places = f"at {count} position{'' if count == 1 else 's'}"
    return f"nan or inf {'in its statistics' if row.is_by_statistics else places}"


def _head(row: Row, writer: int | None, rows: Sequence[Row], apart: NotCompared) -> str:
    """Say why another row is shown in place of the one that is off."""
    if writer is None:
        return ""
    if rows[writer].pair.golden is None and row.is_produced:
        return f"has no counterpart in the golden, and `{row.pair.shown.id}` is made of it: "
    if rows[writer].pair.golden is None:
        return f"has no counterpart in the golden and wrote `{row.pair.shown.id}`: "
    return f"has another shape than the golden ({apart.told(writer)}); behind it, at `{row.pair.shown.id}`: "


def _proof(suspect: Suspect, row: Row, *, is_first: bool) -> str:
    """Return what recomputing showed of a suspect that is wrong by itself; of further ones why they are independent."""
    told = sentence(row)
    if proof_of(row) is Proof.RIGHT:
        told += ", so it carries on what began before it"
    shown = "".join(f"; {each}" for each in (told, row.bad_scale) if each)
    if is_first:
        return shown
    why = "proof" if suspect.is_proven else "size" if suspect.inherits else "structure"
    return f"{shown}; independent by {why}"


def _by_reference(row: Row) -> str:
    witness = witness_of(row)
    return "" if witness is None else f"; {witness}"


def _evidence(suspect: Suspect, rows: Sequence[Row], diagnosis: Diagnosis, between: Row | None) -> str:
    """Return what speaks against a suspect; ``between`` could not be compared and lies before it."""
    row, deviation, allowed = rows[suspect.row], suspect.deviation, suspect.allowance
    if deviation is None or allowed is None:
        target, golden = row.pair.target, row.pair.golden
        values = f"{target.value!r}, golden {golden.value!r}" if target and golden else "different"
        return f"argument `{row.pair.shown.slot}` is {values}"
    if suspect.figure is ErrorFigure.NONFINITE:
        where = _nonfinite_places(row, deviation.nonfinite)
        return f"{where} unlike the golden, and nothing that explains it before"
    if suspect.figure is ErrorFigure.PICK:
        assert row.pick is not None
        return (
            f"{_picked(row)}, judged by its own input `{row.pick.slot}`, whose error explains a near tie only, "
            f"{suspect.excess:.3g} times as near"
        )
    if suspect.figure in TOLD:
        return suspect.told
    floor, is_produced = allowed.floor / deviation.size if deviation.size else 0.0, row.is_produced
    what = "output" if is_produced else row.pair.shown.slot.role.value
    size = (
        f"relative error {deviation.relative:.1e}" if deviation.size else f"error {deviation.rms:.1e}, golden is zero"
    )
    detail = _DETAILS[suspect.figure].format(deviation)
    found = f"{what} differs ({size}{detail}"
    explains = "rounding and the inputs explain" if is_produced else "rounding explains"
    ratio = "where exact values are due" if math.isinf(suspect.excess) else f"{suspect.excess:.3g} x what {explains}"
    if not is_produced:
        nearest = _nearest(suspect, rows, diagnosis)
        doubt = nearest and f"; minimum and maximum before it agree, which does not clear {nearest}"
        return f"{found}, {ratio}, floor {floor:.1e}) before the node has done anything{doubt}"
    inputs = [d for n in suspect.inputs if (d := diagnosis.deviations[n]) is not None]
    if inputs:
        if suspect.is_proven and any(each.relative > INHERITED * each.unit for each in inputs):
            return f"inputs are off themselves ({_largest(inputs)}), {found})"
        is_fed = all(rows[n].pair.rule.is_self for n in suspect.inputs)
        agree = "inputs agree" + " with what the device was fed, which the golden lacks" * is_fed
        agree = agree if between is None else f"what was compared before `{between.pair.shown.id}` agrees"
        if suspect.is_by_extremes:
            agree += f" in minimum and maximum, which does not clear {_nearest(suspect, rows, diagnosis) or 'them'}"
        return f"{agree} ({_largest(inputs)}, floor {floor:.1e}), {found}, {ratio})"
    compared = "not all inputs were compared" if _has_compared_input(suspect.row, rows) else "no input was compared"
    if diagnosis.is_flow_unknown:
        compared += " and no edge is known, so whether it inherits the error is open"
    return f"{compared} (floor {floor:.1e}), {found}, {ratio})"


def _largest(inputs: Sequence[Deviation]) -> str:
    """Return the largest error of some inputs; where a golden is zero none is relative to it."""
    relative = [each.relative for each in inputs if math.isfinite(each.relative)]
    absolute = [each.rms for each in inputs if not math.isfinite(each.relative)]
    texts = [f"{max(relative):.1e}"] if relative else []
    texts += [f"error {max(absolute):.1e} where the golden is zero"] if absolute else []
    return ", ".join(texts)


def _nearest(suspect: Suspect, rows: Sequence[Row], diagnosis: Diagnosis) -> str:
    """Return the operators before a suspect that its extremes do not clear, in words; empty where there are none."""
    return ", ".join(f"`{rows[n].node.name}`" for n in diagnosis.hidden.get(suspect.row, ())[:NEAREST])


def _has_compared_input(number: int, rows: Sequence[Row]) -> bool:
    """Whether an input of the row's node was measured; the rows of a node stand together."""
    node = rows[number].node
    before = itertools.takewhile(lambda n: rows[n].node == node, range(number - 1, -1, -1))
    return any(rows[n].measurement is not None and not rows[n].is_produced for n in before)


def _first_nonfinite_only(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Keep one finding about non-finite values: where they begin. What follows only inherits."""
    seen = False
    kept = []
    for finding in findings:
        if finding.kind is FindingKind.NONFINITE_ORIGIN:
            if seen:
                continue
            seen = True
        kept.append(finding)
    return tuple(kept)
