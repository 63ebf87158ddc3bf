"""Measure both sides of a comparison against its reference, in the way and through the cache of any two sides.

Target and reference of every pair, golden and reference once for each golden tensor: three passes of two sides rather
than one of three, so that a tensor is read at most twice and every result can be kept by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from probe_flow.analysis.search.reference_check import with_figures
from probe_flow.errors import Diagnostic, Severity
from probe_flow.measure.run import measure_pairs, planned_texts
from probe_flow.metrics.catalogue.derive import WHOLE, Scope
from probe_flow.metrics.catalogue.registry import PREFIX, of_two_sides
from probe_flow.records import Measurement, Mode, NodeKey, Pair, Pairs, Rule, TensorKind, TensorRef
from probe_flow.records.row import Row, ThirdSide
from probe_flow.work import Context

_REFERENCE = Rule("reference")
APART = 0.5
"""Relative error from which on golden and reference have nothing in common."""

EXAMPLES = 3

_Twosome = tuple[int, int]
"""A side and the reference, by identity."""


def measure_reference(
    rows: Sequence[Row], ids: tuple[str, ...], context: Context, *, scope: Scope = WHOLE
) -> list[Row]:
    """Return the rows with what was measured of both sides against the reference; those without one as they are.

    Args:
        rows: measured, in execution order.
        ids: metrics that the comparison derives.
        context: scheduler, cache and settings.
        scope: how pairs are measured.
    """
    pairs = {number: row.pair for number, row in enumerate(rows) if _can_be_judged(row)}
    reasons = {number: reason for number, pair in pairs.items() if (reason := _hindrance(pair))}
    twosomes = _twosomes(pair for number, pair in pairs.items() if number not in reasons)
    measured = {}
    if twosomes:
        found = measure_pairs(list(twosomes.values()), of_two_sides(ids), context, scope=scope)
        measured = dict(zip(twosomes, found, strict=True))
    return [
        row if number not in pairs else _joined(row, measured, reasons.get(number)) for number, row in enumerate(rows)
    ]


def with_reference_texts(
    pairs: Pairs, ids: tuple[str, ...], *, by: str, scope: Scope = WHOLE
) -> Iterator[tuple[str, str, str]]:
    """Yield what `planned_texts` does, for the two sides and for what is measured against the reference."""
    yield from planned_texts(pairs, ids, by=by, scope=scope)
    judged = (pair for pair in pairs.pairs if pair.golden is not None and pair.reference is not None)
    twosomes = _twosomes(pair for pair in judged if pair.target is not None and not _hindrance(pair))
    if twosomes:
        against = replace(pairs, pairs=tuple(twosomes.values()))
        yield from planned_texts(against, of_two_sides(ids), by=by, scope=scope)


def reference_problems(rows: Sequence[Row]) -> list[Diagnostic]:
    """Return warnings about a reference that cannot be read (PF5130), or that is not the golden's model (PF5131)."""
    unread, apart = [], []
    for row in rows:
        if row.third is None and row.measurement is not None and row.pair.reference is not None:
            unread.append(row.pair.reference.id)
        elif row.third is not None and (row.third.golden.metrics.get("relative_euclidean_distance") or 0.0) > APART:
            apart.append(row.pair.reference.id if row.pair.reference else "")
    problems = []
    if unread := list(dict.fromkeys(unread)):
        problems.append(
            Diagnostic(
                "PF5130",
                f"{_counted(unread)} of the reference cannot be measured: {_named(unread)}; judged by the golden alone",
                severity=Severity.WARNING,
                help="read the reasons of these rows, and dump them again in high precision",
            )
        )
    if apart := list(dict.fromkeys(apart)):
        problems.append(
            Diagnostic(
                "PF5131",
                f"golden and reference have little in common in {_counted(apart)}: {_named(apart)}",
                severity=Severity.WARNING,
                help="check that both ran the same model with the same weights and inputs",
            )
        )
    return problems


def _can_be_judged(row: Row) -> bool:
    return row.measurement is not None and row.measurement.mode is not Mode.VALUE and row.pair.reference is not None


def _hindrance(pair: Pair) -> str | None:
    """Return why the reference of a pair cannot judge it."""
    reference, golden = pair.reference, pair.golden
    assert reference is not None
    assert golden is not None
    if reference.kind is TensorKind.UNREADABLE:
        return f"the reference is unreadable: {reference.reason}"
    if not reference.has_numbers:
        return f"the reference is a {reference.kind.value}"
    if reference.numel is not None and golden.numel is not None and reference.numel != golden.numel:
        return f"the reference has {reference.numel} elements, the golden {golden.numel}"
    return None


def _twosomes(pairs: Iterator[Pair]) -> dict[_Twosome, Pair]:
    """Return each side with its reference, once however many pairs it is in."""
    found: dict[_Twosome, Pair] = {}
    for pair in pairs:
        for word, side in (("target", pair.target), ("golden", pair.golden)):
            assert side is not None
            assert pair.reference is not None
            key = _key(side, pair.reference)
            if key not in found:
                two = side if word == "target" else _told(word, side), _told("reference", pair.reference)
                # A reference has the axes of the golden: it comes from the same framework.
                transform = pair.transform if word == "target" else ()
                found[key] = Pair.on_terms(*two, pair.group, _REFERENCE, transform=transform)
    return found


def _told(word: str, tensor: TensorRef) -> TensorRef:
    """Return a tensor that names its side: three sides may have one name, and what is kept is explained by names."""
    node = tensor.node
    return replace(tensor, node=NodeKey(node.execution, f"{word} {node.name}", node.call, node.phase))


def _key(side: TensorRef, reference: TensorRef) -> _Twosome:
    return id(side), id(reference)


def _joined(row: Row, measured: Mapping[_Twosome, Row], reason: str | None) -> Row:
    pair, measurement = row.pair, row.measurement
    assert pair.target is not None
    assert pair.golden is not None
    assert pair.reference is not None
    assert measurement is not None
    if reason is None:
        sides = [measured[_key(side, pair.reference)] for side in (pair.target, pair.golden)]
        target, golden = (side.measurement for side in sides)
        if target is not None and golden is not None:
            third = ThirdSide(target, golden)
            return with_figures(replace(row, measurement=_with_metrics(measurement, target)).with_aside(third=third))
        reason = next(
            f"the reference cannot be measured [{side.failure.code}]" for side in sides if side.failure is not None
        )
    return replace(row, measurement=replace(measurement, notes=(*measurement.notes, reason)))


def _with_metrics(measurement: Measurement, target: Measurement) -> Measurement:
    against = {PREFIX + metric_id: value for metric_id, value in target.metrics.items()}
    return measurement.with_metrics(against, reference=target.golden)


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} tensor{'s' if len(names) > 1 else ''}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else ""
    return ", ".join(f"`{name}`" for name in names[:EXAMPLES]) + more
