"""Where checksums begin to differ: outputs whose node's inputs agree, and inputs that nothing before explains.

An input is told from what an earlier operator wrote by the golden's checksum: equal checksum, same tensor.

A collective works in place, and a collector may hash its tensor when it is over although it recorded the statistics
before. So a checksum of a collective that differs beside recorded statistics that agree says little: nothing follows
from it, and it is named only where nothing else is and no output of the call agrees.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from probe_flow.analysis.flow.calls import same_call
from probe_flow.records import Finding, FindingKind, Mode, NodeKey, Phase, SlotRole
from probe_flow.records.row import Row


class ChecksumSearch(Struct, frozen=True):
    """Rows whose checksums differ: where that begins, and what only follows."""

    origins: tuple[int, ...]
    inherited: frozenset[int]


def search_checksums(rows: Sequence[Row], order: Sequence[int]) -> ChecksumSearch:
    """Sort the rows with differing checksums into origins and heirs.

    Args:
        rows: all rows.
        order: row numbers in order of time.
    """
    origins: list[int] = []
    doubtful: list[int] = []
    agreeing: set[NodeKey] = set()
    inherited: set[int] = set()
    tainted_nodes: set[NodeKey] = set()
    seen: dict[tuple[object, str], bool] = {}
    exchanged = _exchanged(rows)
    for number in order:
        row = rows[number]
        differs = checksums_differ(row)
        if differs is None or row.pair.golden is None:
            continue
        if differs and is_hashed_late(row):
            doubtful.append(number)
            continue
        if not differs and row.is_produced:
            agreeing.add(row.node)
        name = (row.node.execution, _golden_checksum(row))
        if differs:
            is_sent = row.is_produced and bool(exchanged) and same_call(row.node) in exchanged
            if is_sent or _is_inherited(row, tainted_nodes, known=seen.get(name), begun=bool(origins)):
                inherited.add(number)
            else:
                origins.append(number)
            if not row.is_produced:
                tainted_nodes.add(row.node)
        seen[name] = differs
    if not origins:
        origins = [number for number in doubtful if rows[number].node not in agreeing]
    return ChecksumSearch(tuple(origins), frozenset(inherited))


def _exchanged(rows: Sequence[Row]) -> frozenset[object]:
    """Return the collectives that some rank gave a tensor that differs: what all of them get inherits."""
    read = [row for row in rows if not row.is_produced and checksums_differ(row)]
    return frozenset(same_call(row.node) for row in read if _is_of_collective(row) and not is_hashed_late(row))


def is_hashed_late(row: Row) -> bool:
    """Say whether all that was recorded of a tensor of a collective agrees beside its checksum."""
    target, golden = row.pair.target, row.pair.golden
    if target is None or golden is None or target.recorded is None or golden.recorded is None:
        return False
    known = (golden.recorded.min, golden.recorded.max, golden.recorded.mean, golden.recorded.l2norm)
    return None not in known and target.recorded == golden.recorded and _is_of_collective(row)


def _is_of_collective(row: Row) -> bool:
    from probe_flow.analysis.first_difference.communication import PREFIXES

    return row.node.name.startswith(PREFIXES)


def _golden_checksum(row: Row) -> str:
    """Return the golden's checksum: measured where the dump has the elements, else recorded."""
    assert row.pair.golden is not None
    side = row.measurement.golden if row.measurement is not None else None
    measured = side.checksum if side is not None else None
    return str(measured or row.pair.golden.checksum).lower()


def checksums_differ(row: Row) -> bool | None:
    """Say whether the checksums of a row differ, None when it has none to compare."""
    measurement = row.measurement
    if measurement is None or measurement.mode is not Mode.CHECKSUM:
        return None
    return measurement.metrics.get("checksum_equal") is False


def _is_inherited(row: Row, tainted_nodes: set[NodeKey], *, known: bool | None, begun: bool) -> bool:
    """Whether a differing row follows from others.

    ``known``: whether the tensor of the same golden checksum differed when it was last seen, None if it was not;
    ``begun``: whether anything has differed before.
    """
    if known is not None and (known or not row.is_produced):
        return known  # also the output of a module, which is that of its last operator
    if row.is_produced:
        # Gradients depend on what the forward pass saved, which is not among the inputs.
        return row.node in tainted_nodes or (begun and row.node.phase is not Phase.FORWARD)
    return begun and row.pair.shown.slot.role is not SlotRole.PARAMETER


def checksum_finding(number: int, rows: Sequence[Row], writer: int | None) -> Finding:
    """Return the finding of a row whose checksum differs first, at the row that wrote it where that is known."""
    row = rows[number]
    shown = row if writer is None else rows[writer]
    head = "" if writer is None else f"has no counterpart in the golden and wrote `{row.pair.shown.id}`: "
    what = "checksum differs although the checksums of the inputs are equal"
    if not row.is_produced:
        what = f"checksum of the {row.pair.shown.slot.role.value} differs, and nothing before it explains that"
    doubt = "; its recorded statistics agree, so it may have been hashed late" if is_hashed_late(row) else ""
    return Finding(
        kind=FindingKind.CHECKSUM_ORIGIN,
        node=shown.node,
        slot=shown.pair.shown.slot,
        evidence=head + what + doubt,
        severity=1.0,
        row=number if writer is None else writer,
        size="checksum differs",
    )
