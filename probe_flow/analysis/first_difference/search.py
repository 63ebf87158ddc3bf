"""The first difference of a dump.json comparison: of one process, or over ranks that communicate.

Entries of several ranks are ordered by the layers of communication (`communication_layers`); of the earliest layer in
which anything differs, calls between communications come before communications. A difference that was read is traced
back to the call without counterpart that wrote it, or to the rank that sent it. Of several steps the first one with a
difference counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from probe_flow.analysis.communication import Call, Exchange, Network, exchanges_of
from probe_flow.analysis.first_difference.entry_differences import Thresholds, entries_by_execution, statistics_of
from probe_flow.records import Comparison, Execution
from probe_flow.records.differences import (
    DifferenceKind,
    Differences,
    EntryDifference,
    ExecutionDifferences,
    FirstDifference,
)
from probe_flow.records.row import PRODUCED

_Print: TypeAlias = tuple[object, ...]
"""What tells the values of a tensor from others."""


def sources_of(
    entry: EntryDifference, entries: Sequence[EntryDifference], comparison: Comparison
) -> tuple[EntryDifference | None, EntryDifference | None]:
    """Return the calls without counterpart behind the wrong data that an entry reads.

    Args:
        entry: of the target, with inputs that differ.
        entries: all of its execution, in order.
        comparison: has their rows.

    Returns:
        The first of the chain of target calls that wrote what it reads, and the golden call that wrote what its
        counterpart reads; None where there is none.
    """
    before = entries[: next(place for place, each in enumerate(entries) if each is entry)]
    writers = _writers(before, comparison, is_golden=False)
    found, wanted, seen = None, _read(entry, comparison, is_golden=False), {entry.node}
    while wanted:
        writer = next((writers[text] for text in wanted if text in writers), None)
        if writer is None or writer.kind is not DifferenceKind.UNMATCHED or writer.node in seen:
            break
        found = writer
        seen.add(writer.node)
        wanted = _read(writer, comparison, is_golden=False, is_all=True)
    alone = _writers([each for each in entries if each.is_golden_only], comparison, is_golden=True)
    missing = next((alone[text] for text in _read(entry, comparison, is_golden=True) if text in alone), None)
    return found, missing


def _writers(
    entries: Iterable[EntryDifference], comparison: Comparison, *, is_golden: bool
) -> Mapping[_Print, EntryDifference]:
    writers: dict[_Print, EntryDifference] = {}
    for entry in entries:
        for position in entry.rows:
            if comparison.rows[position].pair.shown.slot.role in PRODUCED:
                text = _print(position, comparison, is_golden=is_golden)
                if text is not None:
                    writers[text] = entry
    return writers


def _read(entry: EntryDifference, comparison: Comparison, *, is_golden: bool, is_all: bool = False) -> Sequence[_Print]:
    """Return the values that an entry reads: those that differ from the other side's, or all of them."""
    found = []
    for position in entry.rows:
        if comparison.rows[position].pair.shown.slot.role in PRODUCED:
            continue
        own, other = (_print(position, comparison, is_golden=side) for side in (is_golden, not is_golden))
        if own is not None and (is_all or own != other):
            found.append(own)
    return found


def _print(position: int, comparison: Comparison, *, is_golden: bool) -> _Print | None:
    row = comparison.rows[position]
    tensor = row.pair.golden if is_golden else row.pair.target
    if tensor is None:
        return None
    if tensor.checksum is not None:
        return (tensor.checksum,)
    found = statistics_of(row)[is_golden]
    if found is None or found.max is None or not found.l2norm:
        return None
    return tensor.shape, found.max, found.min, found.mean, found.l2norm


IGNORED = ("Torch.empty", "Torch.fill", "Tensor.__setitem__")
"""Calls that hand out memory or fill it; never a first difference."""


def first_differences(comparison: Comparison, thresholds: Mapping[str, float] | None = None) -> Differences:
    """Return the entries of every execution with how they differ, and the first difference where there is one.

    Args:
        comparison: of dump.json dumps.
        thresholds: metric id (`entry_differences.METRICS`) -> ratio from which a relative difference counts; None =
            what the analysis of the run calls diverging.
    """
    entries = entries_by_execution(comparison, Thresholds.of(thresholds))
    first: Mapping[Execution, FirstDifference] = {}
    for executions in _together(entries):
        first = _Search(comparison, {execution: entries[execution] for execution in executions}).first()
        if first:
            break
    return tuple(ExecutionDifferences(execution, found, first.get(execution)) for execution, found in entries.items())


def _together(executions: Mapping[Execution, object]) -> list[list[Execution]]:
    """Return the executions that ran at the same time: those of one step of one graph."""
    groups: dict[tuple[object, ...], list[Execution]] = {}
    for execution in executions:
        groups.setdefault((execution.graph, execution.step, execution.micro_step), []).append(execution)
    return sorted(groups.values(), key=lambda group: (-1 if group[0].step is None else group[0].step, str(group[0])))


class _Candidate(Struct, frozen=True):
    """The first differing entry of a rank: where it stands, and its communication, if it is one."""

    rank: int
    entry: EntryDifference
    layer: int
    call: Call | None = None


class _Search:
    """Looks for the first difference among executions that ran together."""

    def __init__(self, comparison: Comparison, entries: Mapping[Execution, Sequence[EntryDifference]]) -> None:
        self._comparison = comparison
        self._executions = _by_rank(entries)
        self._entries = {rank: entries[execution] for rank, execution in self._executions.items()}
        lines: dict[int, list[tuple[Exchange, ...]]] = {}
        self._calls: dict[int, list[int]] = {}
        for rank, line in self._entries.items():
            exchanging = {number: found for number, entry in enumerate(line) if (found := self._exchanges(entry))}
            lines[rank] = list(exchanging.values())
            self._calls[rank] = list(exchanging)
        self._network = Network(lines)

    def first(self) -> Mapping[Execution, FirstDifference]:
        """Return the first difference of each rank that has its share in it."""
        answers = self._answers(_earliest(self._candidates(is_unmatched=False)))
        if not answers:
            answers = {each.rank: _alone(each.entry) for each in _earliest(self._candidates(is_unmatched=True))}
        return {self._executions[rank]: answer for rank, answer in answers.items()}

    def _candidates(self, *, is_unmatched: bool) -> list[_Candidate]:
        found = (self._candidate(rank, is_unmatched=is_unmatched) for rank in self._entries)
        return [candidate for candidate in found if candidate is not None]

    def _candidate(self, rank: int, *, is_unmatched: bool) -> _Candidate | None:
        for number, entry in enumerate(self._entries[rank]):
            if entry.kind in (None, DifferenceKind.UNREADABLE) or entry.node.name.startswith(IGNORED):
                continue
            if (entry.kind is DifferenceKind.UNMATCHED) == is_unmatched:
                return self._placed(rank, number)
        return None

    def _placed(self, rank: int, number: int) -> _Candidate:
        """Return an entry with its layer: its own when it communicates, else that of the next one that does."""
        calls = self._calls[rank]
        place = next((place for place, at in enumerate(calls) if at >= number), None)
        entry = self._entries[rank][number]
        if place is None:
            return _Candidate(rank, entry, self._network.layers[rank, len(calls) - 1] + 1 if calls else 0)
        call = (rank, place)
        return _Candidate(rank, entry, self._network.layers[call], call if calls[place] == number else None)

    def _answers(self, candidates: Sequence[_Candidate]) -> dict[int, FirstDifference]:
        """Return the first differences of ranks whose candidates are of one layer."""
        answers = {each.rank: self._computed(each) for each in candidates if each.call is None}
        for each in candidates:
            if each.call is not None and each.entry.inputs_differ:
                answers[each.rank] = self._computed(each)
        if answers:
            return answers
        return {each.rank: self._exchanged(each) for each in candidates}

    def _computed(self, candidate: _Candidate) -> FirstDifference:
        entry = candidate.entry
        if not entry.inputs_differ:
            text = "what it reads agrees with the golden, what it writes does not"
            return FirstDifference(entry, received=False, explanation=text)
        source, missing = sources_of(entry, self._entries[candidate.rank], self._comparison)
        if source is not None:
            text = f"`{self._name(entry)}`, the first call that differs, reads what this one wrote"
            return FirstDifference(source, received=False, explanation=f"{_counterpart(source)}; {text}")
        text = "what it reads already differs, and no call before it explains that"
        if missing is not None:
            text += f"; the golden computes it in `{self._name(missing)}`, which the target lacks"
        return FirstDifference(entry, received=True, explanation=text)

    def _exchanged(self, candidate: _Candidate) -> FirstDifference:
        """Explain a communication that is given what it should be and still hands on wrong data."""
        assert candidate.call is not None
        partners = sorted({rank for rank, _ in self._network.partners(candidate.call)})
        ranks = f" and what rank {', '.join(map(str, partners))} gave" if partners else ""
        text = f"what it was given{ranks} agrees with the golden, what comes out of it does not"
        if not partners:
            text += "; whoever it exchanges data with is not part of the dumps"
        return FirstDifference(candidate.entry, received=not partners, explanation=text)

    def _exchanges(self, entry: EntryDifference) -> tuple[Exchange, ...]:
        if entry.is_golden_only:
            return ()
        rows = (self._comparison.rows[position] for position in entry.rows)
        return exchanges_of(entry.node.name, [row.pair.target for row in rows if row.pair.target is not None])

    def _name(self, entry: EntryDifference) -> str:
        pairs = self._comparison.pairs
        node = (pairs.golden if entry.is_golden_only else pairs.target).nodes.get(entry.node)
        return (node.entry if node else None) or entry.node.name


def _by_rank(executions: Mapping[Execution, object]) -> dict[int, Execution]:
    """Return the executions by rank; those without one get the free numbers from 0."""
    found = {execution.rank: execution for execution in executions if execution.rank is not None}
    free = (number for number in range(len(executions) + len(found)) if number not in found)
    return {execution.rank if execution.rank is not None else next(free): execution for execution in executions}


def _earliest(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    least = min((each.layer for each in candidates), default=0)
    return [each for each in candidates if each.layer == least]


def _alone(entry: EntryDifference) -> FirstDifference:
    text = f"{_counterpart(entry)}; nothing that has one differs"
    return FirstDifference(entry, received=False, explanation=text)


def _counterpart(entry: EntryDifference) -> str:
    return "has no counterpart in the target" if entry.is_golden_only else "has no counterpart in the golden"
