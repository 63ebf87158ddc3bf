"""Where checksums begin to differ: outputs whose node's inputs agree, and inputs that nothing before explains.

An input is told from what an earlier operator wrote by the golden's checksum: equal checksum, same tensor.

A collective works in place, and a collector may hash its tensor when it is over although it recorded the statistics
before. So a checksum of a collective that differs beside recorded statistics that agree says little: nothing follows
from it, and it is named only where nothing else is and no output of the call agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from probe_flow.analysis.communication import PREFIXES
from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.flow.links import calls_of
from probe_flow.analysis.model.memory import is_memory
from probe_flow.records import Finding, FindingKind, Mode, NodeKey, Pairs, Phase, SlotRole
from probe_flow.records.row import Row

if TYPE_CHECKING:
    from probe_flow.analysis.flow.across_ranks import AcrossRanks


class ChecksumSearch(Struct, frozen=True):
    """Rows whose checksums differ: where that begins, and what only follows."""

    origins: tuple[int, ...]
    inherited: frozenset[int]


def search_checksums(rows: Sequence[Row], pairs: Pairs, order: Sequence[int]) -> ChecksumSearch:
    """Sort the rows with differing checksums into origins and heirs.

    Memory that a call only writes has a checksum of what lay there, and says nothing.

    Args:
        rows: all rows.
        pairs: what was compared.
        order: row numbers in order of time.
    """
    origins: list[int] = []
    doubtful: list[int] = []
    agreeing: set[NodeKey] = set()
    inherited: set[int] = set()
    tainted_nodes: set[NodeKey] = set()
    seen: dict[tuple[object, str], bool] = {}
    exchanges = _Exchanges(rows, pairs)
    for number in order:
        row = rows[number]
        differs = checksums_differ(row)
        if differs is None or row.pair.golden is None or (differs and exchanges.is_memory(row)):
            continue
        if differs and is_hashed_late(row):
            doubtful.append(number)
            continue
        if not differs and row.is_produced:
            agreeing.add(row.node)
        name = (row.node.execution, _golden_checksum(row))
        if differs:
            if exchanges.is_sent(row) or _is_inherited(row, tainted_nodes, known=seen.get(name), begun=bool(origins)):
                inherited.add(number)
            else:
                origins.append(number)
            if not row.is_produced:
                tainted_nodes.add(row.node)
        seen[name] = differs
    if not origins:
        origins = [number for number in doubtful if rows[number].node not in agreeing]
    return ChecksumSearch(tuple(origins), frozenset(inherited))


class _Exchanges:
    """What calls of several ranks gave each other; found when a communication has a row that differs."""

    def __init__(self, rows: Sequence[Row], pairs: Pairs) -> None:
        self._rows = rows
        self._pairs = pairs

    @cached_property
    def _calls(self) -> Calls:
        return calls_of(self._rows, self._pairs)

    @cached_property
    def _across(self) -> AcrossRanks:
        from probe_flow.analysis.flow.across_ranks import AcrossRanks

        return AcrossRanks(self._calls, self._rows)

    def is_memory(self, row: Row) -> bool:
        """Whether a row is memory that its call only writes."""
        return is_memory(row) or (_is_of_collective(row) and self._across.is_buffer(row))

    def is_sent(self, row: Row) -> bool:
        """Whether some rank gave a tensor that differs to the communication that made a row."""
        if not (row.is_produced and _is_of_collective(row)):
            return False
        call = self._calls.by_key[row.node]
        given = [self._rows[n] for n in (*call.read, *self._across.given(call))]
        return any(checksums_differ(each) and not is_hashed_late(each) and not self.is_memory(each) for each in given)


def is_hashed_late(row: Row) -> bool:
    """Say whether all that was recorded of a tensor of a collective agrees beside its checksum."""
    target, golden = row.pair.target, row.pair.golden
    if target is None or golden is None or target.recorded is None or golden.recorded is None:
        return False
    known = (golden.recorded.min, golden.recorded.max, golden.recorded.mean, golden.recorded.l2norm)
    return None not in known and target.recorded == golden.recorded and _is_of_collective(row)


def _is_of_collective(row: Row) -> bool:
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
    head = "" if writer is None else f"has no counterpart in the golden and wrote `{row.pair.shown.id}`: "
    what = "checksum differs although the checksums of the inputs are equal"
    if not row.is_produced:
        what = f"checksum of the {row.pair.shown.slot.role.value} differs, and nothing before it explains that"
    doubt = "; its recorded statistics agree, so it may have been hashed late" if is_hashed_late(row) else ""
    at = number if writer is None else writer
    return Finding.at(
        at,
        rows[at],
        FindingKind.CHECKSUM_ORIGIN,
        head + what + doubt,
        severity=1.0,
        metrics={},
        size="checksum differs",
    )
