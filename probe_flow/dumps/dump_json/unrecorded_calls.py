"""Calls that were collected although a dump.json has no entry of them, by the files beside it.

stack.json lists a call only after the collector decided to take it, so a call of it without an entry was lost.
construct.json lists every call that ran, taken or not: what `list` and `scope` leave out, what the level of risk leaves
out. None of these settings stands in the dump. A backward call of it was therefore lost only where its forward call was
taken and the two files show that no call was picked by name. Nor was one lost whose end the collector never saw: hooks
on a module that changes its input in place (``ReLU(inplace=True)``) see its backward call begin and not end, so that
what comes after it stands in construct.json as called by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from probe_flow.dumps.dump_json.companion_files import Construct, Stacks
from probe_flow.dumps.dump_json.names import EntryName, parse_entry_name
from probe_flow.records import NodeKind, Phase

STACK, CALLS = "stack", "calls"
"""What tells of a call: stack.json or construct.json."""

_TASKS = frozenset({"statistics", "tensor"})
"""Tasks that write an entry of every call that they take; the others write those with overflows, NaN, nothing."""


def calls_without_entry(
    entries: AbstractSet[str], construct: Construct, stacks: Stacks, task: str
) -> Iterator[tuple[str, EntryName, str]]:
    """Yield the calls that were lost: entry name, the same taken apart, and the file that tells of it.

    Args:
        entries: names of all entries of the dump.json.
        construct: its construct.json.
        stacks: its stack.json; without one nothing can be told.
        task: its task.
    """
    taken = stacks.of_entry
    if task not in _TASKS or entries.isdisjoint(taken):  # the dump may hold one direction only
        return
    for entry in taken:
        if entry not in entries and (name := parse_entry_name(entry)) is not None:
            yield entry, name, STACK
    for entry, name in _backward_calls(entries, construct, taken.keys()):
        yield entry, name, CALLS


def _backward_calls(
    entries: AbstractSet[str], construct: Construct, taken: AbstractSet[str]
) -> Iterator[tuple[str, EntryName]]:
    lost = [entry for entry in construct.callers if entry not in entries and entry not in taken]
    if not lost:
        return
    names = [(entry, name) for entry in lost if (name := parse_entry_name(entry)) is not None]
    left_out = {name.name for _, name in names if name.phase is Phase.FORWARD}
    forward = {(name.name, name.call) for entry in taken if (name := parse_entry_name(entry)) is not None}
    # The level of risk leaves out all calls of an API and no module; anything else was picked by name.
    is_picked = any(name.kind is NodeKind.MODULE and name.phase is Phase.FORWARD for _, name in names)
    if is_picked or not left_out.isdisjoint(name for name, _ in forward) or not _has_backward(entries):
        return
    endless = _without_end(construct)
    for entry, name in names:
        if name.phase is Phase.BACKWARD and (name.name, name.call) in forward and entry not in endless:
            yield entry, name


def _without_end(construct: Construct) -> AbstractSet[str]:
    """Return the backward calls that called one whose forward call was made by another call."""
    calls = {entry: name for entry in construct.callers if (name := parse_entry_name(entry)) is not None}
    forward = {(name.name, name.call): entry for entry, name in calls.items() if name.phase is Phase.FORWARD}
    found: set[str] = set()
    for entry, name in calls.items():
        caller = construct.callers[entry]
        twin = forward.get((name.name, name.call))
        if name.phase is Phase.BACKWARD and twin is not None and caller in calls:
            made_by = construct.callers[twin]
            if made_by is None or made_by != forward.get((calls[caller].name, calls[caller].call)):
                found.add(caller)
    return found


def _has_backward(entries: AbstractSet[str]) -> bool:
    """Say whether the dump holds the backward direction at all."""
    return any(name.phase is Phase.BACKWARD for entry in entries if (name := parse_entry_name(entry)) is not None)
