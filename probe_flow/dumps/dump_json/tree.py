"""The files beside a dump.json: construct.json (who called whom) and stack.json (where in the source)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from probe_flow.dumps.dump_json.folders import leads_out
from probe_flow.dumps.dump_json.problems import ProblemList
from probe_flow.dumps.dump_json.text import load_document
from probe_flow.errors import FormatError, Severity

CONSTRUCT_FILE = "construct.json"
STACK_FILE = "stack.json"
MICRO_STEPS = "megatron_micro_step_number"
_TEXT = frozenset({str})


@dataclass(frozen=True, slots=True)
class CallTree:
    """Parents by entry name (None = called from outside any module), without cycles; micro steps under Megatron."""

    parents: Mapping[str, str | None] = field(default_factory=dict)
    micro_steps: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stacks:
    """Stack id by entry name, and the frames of each id, innermost first. ``found``: whether there was a file."""

    of_entry: Mapping[str, str] = field(default_factory=dict)
    frames: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    found: bool = False


def read_call_tree(folder: Path, problems: ProblemList) -> CallTree:
    """Read construct.json. A missing file gives an empty tree, a malformed one a warning too."""
    content = _object_in(folder, CONSTRUCT_FILE, problems)
    if content is None:
        return CallTree()
    parents: dict[str, str | None] = {}
    micro_steps: dict[str, int] = {}
    for entry, value in content.items():
        if entry == MICRO_STEPS:
            continue
        parent = value
        if isinstance(value, list) and len(value) == 2:
            parent = value[0]
            if type(value[1]) is int:
                micro_steps[entry] = value[1]
        if parent is None or isinstance(parent, str):
            parents[entry] = parent
        else:
            _warn(problems, CONSTRUCT_FILE, f"the parent of `{entry}` is no name")
    for entry in _closing_cycles(parents):
        parents[entry] = None
        _warn(problems, CONSTRUCT_FILE, f"`{entry}` is its own ancestor; its parent is ignored")
    return CallTree(parents, micro_steps)


def _closing_cycles(parents: Mapping[str, str | None]) -> list[str]:
    """Return one entry of every cycle of parent links."""
    closed: list[str] = []
    done: set[str] = set()
    for start in parents:
        trail: dict[str, None] = {}
        entry: str | None = start
        while entry is not None and entry not in done and entry not in trail:
            trail[entry] = None
            entry = parents.get(entry)
        if entry is not None and entry in trail:
            closed.append(entry)
        done.update(trail)
    return closed


def read_stacks(folder: Path, prefix: str, problems: ProblemList) -> Stacks:
    """Read stack.json in either format: groups of entries by number, or frames by entry name.

    Args:
        folder: where it lies.
        prefix: makes stack ids of several executions distinct.
        problems: gets a warning when the file is malformed.
    """
    content = _object_in(folder, STACK_FILE, problems)
    if content is None:
        return Stacks(found=(folder / STACK_FILE).is_file())
    of_entry: dict[str, str] = {}
    frames: dict[str, tuple[str, ...]] = {}
    ids: dict[tuple[str, ...], str] = {}
    for entries, lines in _stack_groups(content, problems):
        stack = tuple(lines)
        stack_id = ids.get(stack)
        if stack_id is None:
            stack_id = ids[stack] = f"{prefix}{len(ids)}"
            frames[stack_id] = stack
        for entry in entries:
            of_entry[entry] = stack_id
    return Stacks(of_entry, frames, found=True)


def _stack_groups(content: Mapping[str, object], problems: ProblemList) -> Iterator[tuple[list[str], list[str]]]:
    is_grouped = "0" in content
    for key, value in content.items():
        if not is_grouped:
            entries, lines = [key], value
        elif isinstance(value, list) and len(value) == 2:
            entries, lines = value
        else:
            _warn(problems, STACK_FILE, f"group `{key}` is no pair of entries and frames")
            continue
        if _is_text_list(entries) and _is_text_list(lines):
            yield entries, lines  # type: ignore[misc]
        else:
            _warn(problems, STACK_FILE, f"`{key}` is no list of text")


def _is_text_list(value: object) -> bool:
    return type(value) is list and {*map(type, value)} <= _TEXT


def _object_in(folder: Path, name: str, problems: ProblemList) -> dict[str, object] | None:
    """Return the JSON object of a file beside the dump; None when there is no such file or it is no object."""
    file = folder / name
    if not file.is_file():
        return None
    if leads_out(file, folder):
        _warn(problems, name, "it is a link that leads out of the dump")
        return None
    try:
        value = load_document(file, name)
    except FormatError as error:
        _warn(problems, name, error.diagnostic.message)
        return None
    if isinstance(value, dict):
        return value
    _warn(problems, name, "its top level is no object")
    return None


def _warn(problems: ProblemList, name: str, what: str) -> None:
    problems.add("PF3413", f"`{name}` beside `{problems.path}`: {what}", severity=Severity.WARNING)
