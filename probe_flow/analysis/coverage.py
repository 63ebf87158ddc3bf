"""Coverage: what became of every tensor of each side, whether that makes the run incomplete, and what to say of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from probe_flow.analysis.search.diagnosis import doubtful_rows
from probe_flow.analysis.silent_operators import SilentOperator
from probe_flow.analysis.tensor_fates import COMPARED, Fates, fate_of, fates_of_sides, is_empty, why_nothing
from probe_flow.dumps.selection import is_part
from probe_flow.errors import Diagnostic
from probe_flow.records import (
    Coverage,
    Execution,
    Mode,
    Pair,
    Pairs,
    Role,
    SlotRole,
    Statistics,
    Status,
    TensorRef,
    Verdict,
)
from probe_flow.records.figures import AT_ONCE, FEW
from probe_flow.records.row import Row

_OTHER_HASHES = "PF5117"
_NAMELESS = "PF3208"

MAX_NONFINITE = 0.1
"""Share of compared outputs that may be NaN or infinite everywhere on both sides. They agree and say nothing, so that
more of them are like outputs that were not compared."""

MAX_ZERO = 0.5
"""Share of compared outputs that may be zero everywhere on both sides: caches and masks are, a whole network is not."""

MAX_NAMED = 3
"""Unused entries that one reason names."""


class Required(Struct, frozen=True):
    """What a complete run needs.

    Args:
        coverage: least share of outputs compared on either side.
        executions: whether each execution must be on both sides.
        entries: whether each entry of a mapping must match something.
        two_dumps: whether the sides must be two dumps.
    """

    coverage: float = 0.9
    executions: bool = True
    entries: bool = True
    two_dumps: bool = True


def cover(
    pairs: Pairs,
    rows: Sequence[Row],
    verdicts: Sequence[Verdict],
    silent: Mapping[str, Sequence[SilentOperator]] | None = None,
) -> Mapping[str, Coverage]:
    """Count the tensors of both sides by the best that happened to each: compared, expected, outside, missing.

    ``silent``: per side what ran and left no output in the dump.
    """
    silent_outputs = {side: sum(each.outputs for each in operators) for side, operators in (silent or {}).items()}
    nonfinite: list[Pair] = []
    zero: list[Pair] = []
    for number in _that_may_say_nothing(rows):
        row, verdict = rows[number], verdicts[number]
        target, golden = row.pair.target, row.pair.golden
        may_say_nothing = verdict.status in COMPARED and not row.pair.rule.is_of_overflow
        if target is not None and golden is not None and may_say_nothing:
            figures = _figures(row)
            found = nonfinite if _are_nonfinite(figures) else zero if _are_zero(figures) else None
            if found is not None:
                found.append(row.pair)
    covered = {}
    for side, fates in fates_of_sides(pairs, rows, verdicts):
        covered[side] = _cover_side(fates, nonfinite, zero, silent_outputs.get(side, 0))
    return {side: covered[side] for side in ("target", "golden")}


def _that_may_say_nothing(rows: Sequence[Row]) -> Iterator[int]:
    """Yield the numbers of rows that may be zero or not finite throughout.

    Of recorded statistics these are the ones without a maximum that is finite and not zero; of most rows that is seen
    many at a time.
    """
    if len(rows) < FEW:
        yield from range(len(rows))
        return
    import numpy as np

    from probe_flow.records.figure_columns import RecordedColumns

    columns = RecordedColumns()
    for begin in range(0, len(rows), AT_ONCE):
        cells = columns.of([_recorded_target(row) for row in rows[begin : begin + AT_ONCE]])
        highest = cells.values[:, _MAX]
        says = cells.are_floats[:, _MAX] & np.isfinite(highest) & (highest != 0.0)
        yield from (np.flatnonzero(~says) + begin).tolist()


_MAX = Statistics.__struct_fields__.index("max")


def _recorded_target(row: Row) -> TensorRef | None:
    """Return the target's tensor where what it has recorded is what is known of it."""
    target = row.pair.target
    return target if row.measurement is not None and row.measurement.given.target is target else None


_Recorded: TypeAlias = list[tuple[list[float], bool]]


def _cover_side(fates: Fates, nonfinite: Sequence[Pair], zero: Sequence[Pair], silent: int) -> Coverage:
    produced = fates.produced()
    counts, outputs = fates.counts(), fates.counts(produced)
    return Coverage(
        tensors=sum(counts.values()),
        compared=counts["compared"],
        expected=counts["expected"],
        outside=counts["outside"],
        missing=counts["missing"] + counts["unreadable"],
        unreadable=counts["unreadable"],
        outputs=len(produced),
        outputs_compared=outputs["compared"],
        outputs_missing=outputs["missing"] + outputs["unreadable"],
        outputs_nonfinite=fates.number_in(nonfinite, produced),
        outputs_zero=fates.number_in(zero, produced),
        outputs_silent=silent,
    )


def _are_nonfinite(sides: _Recorded) -> bool:
    """Whether neither side has a finite figure, so that the two agree without saying anything."""
    return all((figures and not any(map(math.isfinite, figures))) or empty for figures, empty in sides)


def _are_zero(sides: _Recorded) -> bool:
    """Whether both sides are zero everywhere."""
    return all(figures and not any(figures) for figures, _ in sides)


def _figures(row: Row) -> _Recorded:
    """Return the recorded figures of both sides, each with whether elements are there of which none is finite."""
    measured = row.measurement
    if measured is None or measured.count == 0 or measured.mode not in (Mode.TENSOR, Mode.STATISTICS):
        return [([], False)]
    found = []
    for known in (measured.target_statistics, measured.golden_statistics):
        if known is None:
            return [([], False)]
        figures = [float(x) for x in (known.min, known.max, known.mean, known.l2norm) if x is not None]
        found.append((figures, not figures and bool((known.nan or 0) + (known.inf or 0))))
    return found


def incompleteness(
    rows: Sequence[Row],
    verdicts: Sequence[Verdict],
    coverage: Mapping[str, Coverage],
    *,
    required: Required,
    unused: Sequence[Diagnostic] = (),
    nameless: Mapping[str, int] | None = None,
) -> tuple[str, ...]:
    """Return why the run counts as incomplete, one sentence each; nothing when it is complete.

    Args:
        rows: all rows.
        verdicts: theirs, with the roles that the search for the origin gave.
        coverage: of both sides.
        required: what a complete run needs.
        unused: warnings of mapping entries that matched nothing.
        nameless: per side how many files of the dump hold values of nobody knows what.
    """
    failures = [rows[number].failure for number, each in enumerate(verdicts) if each.status is Status.ERROR]
    broken = [each for each in failures if each is not None and each.code == "PF9002"]
    said = (len(failures) - len(broken), "read"), (len(broken), broken and f"measured: {broken[0].message}")
    causes = [f"{count} selected tensor{'s' if count > 1 else ''} could not be {what}" for count, what in said if count]
    for side, count in (nameless or {}).items():
        if count:
            files = "1 file" if count == 1 else f"{count} files"
            causes.append(f"nobody knows whose values {files} of the {side} hold: no `mapping.csv` names them")
    is_nothing = not any(
        verdict.status in COMPARED and not row.pair.rule.is_self and not is_empty(row)
        for row, verdict in zip(rows, verdicts, strict=True)
    )
    without_values = _without_values(rows) if is_nothing else None
    if is_nothing:
        causes.append(f"nothing was compared: {without_values or why_nothing(rows)}")
    if without_values is None:
        causes.extend(_executions_without_pair(rows, verdicts, required))
    if unused and required.entries:
        causes.append(_unused(unused))
    if without_values is not None:  # what else could be said follows from it
        return tuple(causes)
    doubtful = doubtful_rows(rows, verdicts)
    if doubtful and not any(verdict.role is Role.ORIGIN for verdict in verdicts):
        pairs = f"{doubtful} pairs were" if doubtful > 1 else "1 pair was"
        causes.append(f"{pairs} guessed and differ{'' if doubtful > 1 else 's'}: the guess or the target is wrong")
    if required.coverage:
        causes.extend(_too_few(coverage, required.coverage))
    causes.extend(_saying_nothing(coverage))
    hashed = sum(row.failure is not None and row.failure.code == _OTHER_HASHES for row in rows)
    if causes and hashed:
        causes.append(
            f"of {hashed} pair{'s' if hashed > 1 else ''} only checksums of two dtypes are known, which differ where "
            "the values are equal, too: reduce to statistics, or dump both sides in one dtype"
        )
    return tuple(causes)


def nameless_files(pairs: Pairs) -> Mapping[str, int]:
    """Return of each side how many files were skipped because nothing tells what their hashed names stand for."""
    sides = {"target": pairs.target, "golden": pairs.golden}
    return {side: sum(each.code == _NAMELESS for each in catalog.problems) for side, catalog in sides.items()}


def _without_values(rows: Sequence[Row]) -> str | None:
    """Return in words that a side is a dump of task ``structure``, and which calls correspond; None if none is."""
    sides = [[(row.pair.target, row.pair.golden)[which] for row in rows] for which in (0, 1)]
    records_none = [any(ref is not None and ref.slot.role is SlotRole.CALL for ref in side) for side in sides]
    if not any(records_none):
        return None
    if not all(records_none):
        bare, other = ("target", "golden") if records_none[0] else ("golden", "target")
        return (
            f"the {bare} is a dump of task `structure`, which records calls and no values, and the {other} has values; "
            f"dump the {bare} again with task `statistics` or `tensor`, or the {other} with task `structure`"
        )
    both = sum(one is not None and other is not None for one, other in zip(*sides, strict=True))
    alone = [sum(ref is not None for ref in side) - both for side in sides]
    calls = "1 call corresponds" if both == 1 else f"{both} calls correspond"
    return (
        f"both dumps are of task `structure`, which records calls and no values; {calls}, {alone[0]} only in the "
        f"target, {alone[1]} only in the golden"
    )


def examination_gaps(
    rows: Sequence[Row], verdicts: Sequence[Verdict], coverage: Mapping[str, Coverage], *, required: float
) -> tuple[str, ...]:
    """Return why the examination of one dump counts as incomplete, as `incompleteness` does for a comparison."""
    unreadable = sum(1 for verdict in verdicts if verdict.status is Status.ERROR)
    causes = [f"{unreadable} selected tensor{'s' if unreadable > 1 else ''} could not be read"] if unreadable else []
    if not any(verdict.status in COMPARED and not is_empty(row) for row, verdict in zip(rows, verdicts, strict=True)):
        causes.append("nothing was examined: the dump has no values, and no minimum or maximum of them")
    if required:
        causes.extend(_too_few(coverage, required, "examined"))
    return tuple(causes)


def _too_few(coverage: Mapping[str, Coverage], required: float, done_to: str = "compared") -> list[str]:
    causes = []
    for side, found in coverage.items():
        if (ratio := found.ratio) is not None and ratio < required:
            what = "outputs" if found.outputs else "tensors"
            done = found.outputs_compared if found.outputs else found.compared
            silent = found.outputs_silent if found.outputs else 0
            total = done + (found.outputs_missing + silent if found.outputs else found.missing)
            why = f"; {silent} of operators that ran are not in the dump" if silent else ""
            is_near = f"{ratio:.0%}" == f"{required:.0%}"  # 89.6 % are not the 90 % that are required
            share = f"{math.floor(ratio * 1000) / 10:g}%" if is_near else f"{ratio:.0%}"
            causes.append(
                f"only {share} of the {side}'s {what} were {done_to} ({done} of {total}, required {required:.0%}{why})"
            )
    has_outputs, has_rows = (
        any(getattr(found, name) for found in coverage.values()) for name in ("outputs", "compared")
    )
    if has_outputs and has_rows and not causes and not any(found.outputs_compared for found in coverage.values()):
        causes.append(f"no output was {done_to}, only what operators read")
    return causes


def _saying_nothing(coverage: Mapping[str, Coverage]) -> list[str]:
    """Return the reasons of outputs that agree because they hold nothing on either side."""
    found = coverage.get("target", Coverage())
    causes = []
    for count, limit, what in (
        (found.outputs_nonfinite, MAX_NONFINITE, "NaN or infinite everywhere"),
        (found.outputs_zero, MAX_ZERO, "zero everywhere"),
    ):
        if count > limit * found.outputs_compared:
            causes.append(
                f"{count} of the {found.outputs_compared} compared outputs are {what} on both sides (at most "
                f"{limit:.0%} may be): that they agree says nothing"
            )
    return causes


def _unused(unused: Sequence[Diagnostic]) -> str:
    named = "; ".join(each.message for each in unused[:MAX_NAMED])
    more = f"; and {len(unused) - MAX_NAMED} more" if len(unused) > MAX_NAMED else ""
    entries = (
        "1 mapping entry or option matches" if len(unused) == 1 else f"{len(unused)} mapping entries or options match"
    )
    return f"{entries} nothing: {named}{more}"


def _executions_without_pair(rows: Sequence[Row], verdicts: Sequence[Verdict], required: Required) -> list[str]:
    """Name executions of which nothing was compared, unless nothing of them was to be."""
    sides: tuple[dict[int, Execution], dict[int, Execution]] = {}, {}  # by the object: hashing a run is slow
    asked: dict[int, bool] = {}  # whether something of it is missing
    why: dict[int, str | None] = {}  # the first reason for that
    done: set[int] = set()
    for row, verdict in zip(rows, verdicts, strict=True):
        for tensor, runs in zip((row.pair.target, row.pair.golden), sides, strict=True):
            if tensor is None or row.pair.rule.is_self or (place := id(run := tensor.node.execution)) in done:
                continue
            runs[place] = run
            if verdict.status in COMPARED:
                done.add(place)
            elif not asked.get(place) and (fate := fate_of(tensor, row, verdict)) != "outside":
                asked[place] = fate != "expected"
                why[place] = _first_clause(row)
    known = [{run.identity for run in runs.values()} for runs in sides]
    causes = []
    for which, (name, word) in enumerate((("target", "golden"), ("golden", "target"))):
        compared = {run.identity for place, run in sides[which].items() if place in done}
        left = {run.identity: (run, place) for place, run in sides[which].items() if place in asked}
        for identity, (run, place) in left.items():
            if identity in compared:
                continue
            if identity not in known[1 - which]:
                if required.executions and asked[place]:
                    because = _lacking(word, known[1 - which], why.get(place))
                    causes.append(f"nothing of {run} of the {name} was compared: {because}")
            elif which == 0:
                causes.append(f"nothing of {run} was compared, though both sides have it")
    return causes


def _first_clause(row: Row) -> str | None:
    """Return why a tensor is alone, without what could be done about it."""
    return row.pair.reason.text.partition("; ")[0] if row.pair.reason is not None else None


def _lacking(word: str, known: Collection[tuple[object, ...]], reason: str | None) -> str:
    """Return why nothing of an execution was compared that the other side does not have by this name.

    Arrays, and a run that was chosen of several, name no execution and go with each: then a tensor's reason counts.
    """
    is_named = not known or any(part is not None for identity in known for part in identity)
    return reason if reason is not None and not is_named else f"the {word} has no such execution"


def caveats(
    pairs: Pairs,
    coverage: Mapping[str, Coverage],
    *,
    required: Required,
    only: str | None = None,
    max_elements: int = 0,
) -> tuple[str, ...]:
    """Return what has to be said beside the verdict, a few words each; nothing where all was compared.

    Args:
        pairs: what was compared.
        coverage: of both sides.
        required: what a complete run needs; less than usual is said.
        only: the comparison whose suspects alone were compared.
        max_elements: how many elements of each tensor were measured; 0 = all.
    """
    parts = []
    if is_part(pairs.target) or is_part(pairs.golden):
        parts.append("selected part of the dumps")
    if only is not None:
        parts.append(f"suspects of `{only}`")
    if max_elements:
        parts.append(f"first {max_elements:,} elements of each tensor")
    what = "call" if pairs.target.task == pairs.golden.task == "structure" else "tensor"
    for word in ("outside", "missing"):
        counts = {side: count for side, found in coverage.items() if (count := getattr(found, word))}
        if counts:
            told = " and ".join(f"{count} {side}" for side, count in counts.items())
            parts.append(f"{told} {what}{'s' if sum(counts.values()) > 1 else ''} {_WORDS[word]}")
    silent = {side: found.outputs_silent for side, found in coverage.items() if found.outputs_silent}
    if silent:
        told = " and ".join(f"{count} {side}" for side, count in silent.items())
        parts.append(f"{told} output{'s' if sum(silent.values()) > 1 else ''} of operators that ran not in the dump")
    said = [f"partly: {'; '.join(parts)}"] if parts else []
    if required.coverage < Required().coverage:
        said.append(f"coverage of {required.coverage:.0%} accepted")
    found = coverage.get("target", Coverage())
    for count, what in ((found.outputs_nonfinite, "nothing finite"), (found.outputs_zero, "nothing but zero")):
        if count:
            said.append(f"{count} of {found.outputs_compared} outputs hold {what} on both sides")
    return tuple(said)


_WORDS = {"outside": "outside the question", "missing": "missing"}
