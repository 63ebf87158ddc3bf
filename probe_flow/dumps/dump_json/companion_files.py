"""The files beside a dump.json: construct.json (who called whom) and stack.json (where in the source)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from probe_flow.dumps.dump_json.folders import leads_out
from probe_flow.dumps.dump_json.problems import ProblemList
from probe_flow.dumps.dump_json.text import Repeated, load_document
from probe_flow.errors import FormatError, Severity
from probe_flow.relations.call_tree import ROOT, completion_order, without_circles

CONSTRUCT_FILE = "construct.json"
STACK_FILE = "stack.json"
MICRO_STEPS = "megatron_micro_step_number"
_TEXT = frozenset({str})


class Construct(Struct, frozen=True):
    """What construct.json says: the caller of each call by its entry, in file order, and micro steps under Megatron.

    A caller is None for what was called from outside any module. There are no circles.
    """

    callers: Mapping[str, str | None] = field(default_factory=dict)
    micro_steps: Mapping[str, int] = field(default_factory=dict)

    def as_they_ended(self) -> list[str]:
        """Return the entries in the order in which the calls ended, which is the order of a dump.json."""
        entries = list(self.callers)
        return [entries[number] for number in completion_order(_numbered(self.callers))]


class Stacks(Struct, frozen=True):
    """Stack id by entry name, and the frames of each id, innermost first. ``found``: whether there was a file."""

    of_entry: Mapping[str, str] = field(default_factory=dict)
    frames: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    found: bool = False


def read_construct(folder: Path, problems: ProblemList) -> Construct:
    """Read construct.json. A missing file gives no calls, a malformed one a warning too."""
    repeated = Repeated()
    content = _object_in(folder, CONSTRUCT_FILE, problems, repeated)
    if content is None:
        return Construct()
    for entry in repeated.keys:
        _warn(problems, CONSTRUCT_FILE, f"`{entry}` stands there twice; what the last one says counts")
    callers: dict[str, str | None] = {}
    micro_steps: dict[str, int] = {}
    for entry, value in content.items():
        if entry == MICRO_STEPS:
            continue
        caller = value
        if isinstance(value, list) and len(value) == 2:
            caller = value[0]
            if type(value[1]) is int:
                micro_steps[entry] = value[1]
        callers[entry] = caller if isinstance(caller, str) and caller else None  # "" is none, as for msprobe
        if caller is not None and not isinstance(caller, str):
            _warn(problems, CONSTRUCT_FILE, f"the parent of `{entry}` is no name")
    for entry in _closing_circles(callers):
        callers[entry] = None
        _warn(problems, CONSTRUCT_FILE, f"`{entry}` is its own ancestor; its parent is ignored")
    return Construct(callers, micro_steps)


def _closing_circles(callers: Mapping[str, str | None]) -> list[str]:
    """Return one entry of every circle of callers."""
    numbered = _numbered(callers)
    whole = zip(callers, numbered, without_circles(numbered), strict=True)
    return [entry for entry, before, after in whole if before != after]


def _numbered(callers: Mapping[str, str | None]) -> list[int]:
    numbers = {entry: number for number, entry in enumerate(callers)}
    return [ROOT if caller is None else numbers.get(caller, ROOT) for caller in callers.values()]


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


def _object_in(
    folder: Path, name: str, problems: ProblemList, repeated: Repeated | None = None
) -> dict[str, object] | None:
    """Return the JSON object of a file beside the dump; None when there is no such file or it is no object."""
    file = folder / name
    if not file.is_file():
        return None
    if leads_out(file, folder):
        _warn(problems, name, "it is a link that leads out of the dump")
        return None
    try:
        value = load_document(file, name, repeated)
    except FormatError as error:
        _warn(problems, name, error.diagnostic.message)
        return None
    if isinstance(value, dict):
        return value
    _warn(problems, name, "its top level is no object")
    return None


def _warn(problems: ProblemList, name: str, what: str) -> None:
    problems.add("PF3413", f"`{name}` beside `{problems.path}`: {what}", severity=Severity.WARNING)
