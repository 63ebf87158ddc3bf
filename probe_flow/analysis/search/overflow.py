"""NaN, infinities and sudden growth in one dump: where they begin, and how bad what each call does to them is.

Where they begin is what `nonfinite` finds. Beyond it, mean and norm count, and each call has a level
(`relations.levels`), by the tensors that it reads, its weights among them, and those that it writes. Infinity that was
asked for, such as a mask, is no overflow and gives no level; memory that a call only writes is nothing that it reads.

A result that is much larger than what went into its call, by more than healthy steps explain, is named once and fails
nothing. They do it by plain numbers among the arguments (the scale of a loss, a divisor), by as many elements as are
summed or repeated, roots and reciprocals by how small what they read is, and gradients by the tensors of their forward
call.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.search.nonfinite import Origins
from probe_flow.analysis.search.states import is_fill, state_with_sums
from probe_flow.records import Finding, FindingKind, Mode, Pairs, Role, Status, Verdict
from probe_flow.records.levels import Level
from probe_flow.records.row import Row
from probe_flow.relations.levels import growth_of, level_of

GROWN = "growth"
"""Rule of the rows of a result that is much larger than what it was made of."""

_POWERS = {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}
"""Elements that are all of one size come out at that power of it; what one near zero makes of it is growth."""

_LARGEST = sys.float_info.max
"""Dumps hold integers beyond it."""


def conclude_overflow(
    rows: Sequence[Row], pairs: Pairs, unmeasured: Callable[[Row], Verdict], *, growth: float
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Return what `conclude_nonfinite` returns, with the level of its call in each finding and among its rules.

    Args:
        rows: of an examination, in execution order.
        pairs: the examined dump.
        unmeasured: gives the verdict of a row without a measurement.
        growth: from how many times its largest input on a result is named.
    """
    origins = Origins(rows, pairs, state_with_sums)
    levels = {call.key: level for call in origins.calls if (level := _level(call, origins, growth)) is not None}
    grown = [call for call in origins.calls if call.key in levels and not _is_touched(call, origins)]
    larger = {number for call in grown for number in call.written}
    verdicts = []
    for number, row in enumerate(rows):
        verdict = unmeasured(row) if row.measurement is None else origins.verdict(number)
        level = levels.get(row.node)
        if level is not None and verdict.status is Status.FAIL:
            told = *verdict.reasons, f"level {level.value}"
            verdict = replace(verdict, rule_ids=(*verdict.rule_ids, level.value), reasons=told)
        elif number in larger and verdict.status is Status.PASS:
            verdict = Verdict(Status.WARNING, (GROWN, Level.HIGH.value), (_larger(row, rows, origins),), Role.CLEAN)
        verdicts.append(verdict)
    findings = [
        replace(finding, evidence=f"{levels[finding.node].value}: {finding.evidence}")
        if finding.fails and finding.node in levels
        else finding
        for finding in origins.findings()
    ]
    return (*findings, *_growth_findings(grown, rows, origins)), verdicts


def _level(call: Call, origins: Origins, limit: float) -> Level | None:
    read = origins.read(call)
    return level_of(
        reads_abnormal=any(_is_abnormal(n, origins) for n in read),
        writes_abnormal=any(_is_abnormal(n, origins) for n in call.written),
        growth=_growth(call, origins),
        limit=limit,
    )


def _is_abnormal(number: int, origins: Origins) -> bool:
    root = origins.roots.get(number)
    return root is not None and not origins.is_asked(root)


def _is_touched(call: Call, origins: Origins) -> bool:
    return any(n in origins.states for n in (*origins.read(call), *call.written))


def _growth(call: Call, origins: Origins) -> float | None:
    """Return how many times what explains it the result of a call is; None where it fills memory, or that is unknown.

    |AB| <= |A| |B|; a sum of n elements is at most sqrt(n) times their norm, and n copies of one are sqrt(n) times it.
    """
    rows, read = origins.rows, origins.read(call)
    sizes = {n: size for n in (*read, *call.written) if (size := _size(rows[n])) is not None}
    tensors, results = ([n for n in numbers if n in sizes] for numbers in (read, call.written))
    if not tensors or not results or is_fill(rows[call.written[0]], origins.pairs):
        return None
    found = growth_of(map(sizes.__getitem__, tensors), map(sizes.__getitem__, results))
    if found is None or found <= 1.0:
        return found
    before, after = (max(_count(rows[n]) for n in numbers) for numbers in (tensors, results))
    factors = [_argument(rows[n]) for n in (*read, *call.forward) if n not in sizes]
    saved = {n: size for n in call.forward if (size := _size(rows[n])) is not None}
    factors += saved.values()
    if (power := _power(call)) is not None:  # of a size below 1 it is larger by its nature, and so is its slope
        base = [n for n in saved if not rows[n].is_produced] if call.is_gradient else tensors
        typical = max([(sizes | saved)[n] / math.sqrt(_count(rows[n])) for n in base], default=0.0)
        factors.append(typical ** (power - 1.0) if typical else 1.0)
    return found / max([1.0, *factors]) / math.sqrt(max(before, after) / min(before, after))


def _power(call: Call) -> float | None:
    """Return the power that a call raises what it reads to, where that is below 1; None of other calls."""
    return _POWERS.get(call.node.op_type.lower().strip("_")) if call.node is not None else None


def _count(row: Row) -> int:
    return min(max(1, row.measurement.count), 1 << 62) if row.measurement is not None else 1


def _argument(row: Row) -> float:
    """Return how much a plain number, as factor or divisor, makes larger at most; 1 of anything else."""
    measured = row.measurement
    largest = measured.metric("max_abs") if measured is not None and measured.mode is Mode.VALUE else None
    if largest is None or not 1.0 / _LARGEST < abs(largest) <= _LARGEST:
        return 1.0
    return max(abs(float(largest)), 1.0 / abs(float(largest)))


def _size(row: Row) -> float | None:
    """Return the norm that was recorded of a tensor, else the largest size of its elements.

    None for plain values, and where the number is not finite: a norm may be infinite though no element is.
    """
    measured, recorded = row.measurement, row.pair.shown.recorded
    if measured is None or not row.pair.shown.has_numbers:
        return None
    found = recorded.l2norm if recorded is not None else None
    size = found if found is not None else measured.metric("max_abs")
    return float(size) if size is not None and abs(size) <= _LARGEST else None


def _larger(row: Row, rows: Sequence[Row], origins: Origins) -> str:
    call = origins.calls.by_key[row.node]
    read, written = (
        max((size for n in numbers if (size := _size(rows[n])) is not None), default=0.0)
        for numbers in (origins.read(call), call.written)
    )
    return f"its size is {written:.3g}, that of the largest input {read:.3g}"


def _growth_findings(grown: Iterable[Call], rows: Sequence[Row], origins: Origins) -> list[Finding]:
    """Return one finding, which fails nothing, for the first result that is much larger than what it was made of."""
    first = origins.in_layers({call.written[0] for call in grown})
    if not first:
        return []
    number, *others = first
    row = rows[number]
    more = f"; {len(others)} more call{'s' if len(others) > 1 else ''} alike" if others else ""
    return [
        Finding.at(
            number,
            row,
            FindingKind.SUSPECT,
            f"{Level.HIGH.value}: sudden growth, {_larger(row, rows, origins)}{more}",
            severity=_growth(origins.calls.by_key[row.node], origins) or 0.0,
            fails=False,
            size="sudden growth",
        )
    ]
