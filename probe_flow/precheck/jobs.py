"""From a dump to jobs: the entries of each API call, as text, in the order in which the calls first appear."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from probe_flow.apis import overflow
from probe_flow.dumps.dump_json.names import parse_entry_name
from probe_flow.dumps.dump_json.raw_entries import raw_entries
from probe_flow.dumps.dump_json.stream import EntryStream
from probe_flow.dumps.dump_json.tensor_files import FOLDER
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.precheck.checked import EVERY_CALL, Choice, why_not
from probe_flow.precheck.results import ApiResult, Direction, Status, writable
from probe_flow.records import Catalog, NodeKey, NodeKind, Phase
from probe_flow.records.frameworks import Kernels


class How(Struct, frozen=True):
    """How calls are checked, the same for all of them.

    Args:
        benchmark: precision of the benchmark (`apis.run.BENCHMARKS`).
        generator: ``per_slot`` or ``ms_seed42``.
        max_abs_limit: the largest absolute error must be below it.
        data: folder of the dump's tensor files; None = values are made within the recorded ranges.
        save: folder for the data of calls that fail; None = nowhere.
        saved_as: the same as results name it: relative to the folder of the tables where it lies there.
        memory_bytes: what the tensors of one call may take.
        options: what the kernel measures.
        kernels: of the framework whose APIs are checked, which decides how they are judged.
        is_adapted: whether its APIs are those of MSAdapter, so that both sides have a package `torch`.
        standards: ``per_api`` or ``benchmark_only``: how the standards of PyTorch go by APIs.
        judge: ``acc_check``, ``standard`` or ``overflow``: what decides.
        compiles: whether operators of an NPU are compiled for each shape.
        devices: numbers of the devices, of which each worker takes one.
        locks: folder of the files that say which device is taken.
    """

    benchmark: str
    generator: str
    max_abs_limit: float
    data: str | None
    save: str | None
    memory_bytes: int
    options: MeasureOptions
    kernels: Kernels = Kernels.MINDSPORE
    is_adapted: bool = False
    standards: str = "per_api"
    judge: str = "acc_check"
    compiles: bool = False
    saved_as: str = ""
    devices: tuple[int, ...] = (0,)
    locks: str | None = None


class Job(Struct, frozen=True):
    """One call to check.

    Args:
        name: of the call, without its direction.
        kind, api: its parts: ``Mint``, ``where``.
        entries: its entries as JSON: direction -> entry.
        how: how it is checked.
    """

    name: str
    kind: str
    api: str
    entries: str
    how: How


class Found(Struct):
    """The API calls of a dump.

    Args:
        nodes: of each call its directions, by its name, in the order of first appearance.
        entries: entries as JSON of those that are checked.
        refused: of those that cannot be, why.
        left_out: of those that nobody asked for, why.
    """

    nodes: dict[str, dict[str, NodeKey]]
    entries: dict[str, str]
    refused: dict[str, str]
    left_out: dict[str, str]

    def skipped(self) -> Iterator[ApiResult]:
        """Yield the results of the calls that are not checked."""
        for reasons in (self.refused, self.left_out):
            for name, why in reasons.items():
                is_left_out = reasons is self.left_out
                found = Direction(Status.SKIP, reason=why, is_expected=True, is_left_out=is_left_out)
                yield ApiResult.alike(name, self.nodes[name], found)


def find_calls(catalog: Catalog, choice: Choice = EVERY_CALL) -> Found:
    """Return the API calls of a dump.

    Args:
        catalog: of one dump.json.
        choice: which of them are checked.

    Raises:
        UsageError: PF6601 the dump has several executions, PF6602 it records no call of an API, PF6603 it is of no
            program, or records no values.
        FormatError: the dump.json changed since it was read, so that it is none any more.
    """
    _check(catalog)
    found = Found({}, {}, {}, {})
    for key, node in catalog.nodes.items():
        if node.kind is not NodeKind.API or key.phase is Phase.NONE:
            continue
        name = _call_name(key.name, key.call)
        found.nodes.setdefault(name, {})[key.phase.value] = key
        kind, _, api = key.name.partition(".")
        refused, left_out = why_not(catalog.framework, kind, api), choice.why_not(key, api)
        if refused is not None:
            found.refused[name] = refused
        elif left_out is not None:
            found.left_out[name] = left_out
    if not found.nodes:
        raise UsageError(
            Diagnostic(
                "PF6602",
                f"`{catalog.root}` records no call of an API, so that there is nothing to check",
                path=catalog.root,
                help="dump at level L1 or mix; modules and cells are no APIs",
            )
        )
    _read_entries(found, catalog, choice)
    return found


def _read_entries(found: Found, catalog: Catalog, choice: Choice) -> None:
    """Read the entries of the calls that are not refused, as text, and leave out what these say is not wanted."""
    skipped = found.refused.keys() | found.left_out.keys()
    known: dict[tuple[str, bytes], str] = {}
    overflows: set[str] = set()
    for entry, value in raw_entries(catalog):
        parts = parse_entry_name(entry)
        if parts is None:
            continue
        name, phase = _call_name(parts.name, parts.call), parts.phase.value  # numbers may have zeros before them
        if phase not in found.nodes.get(name, ()) or name in skipped:
            continue
        text = json.dumps(value)
        found.entries[name] = (
            f'{found.entries[name][:-1]}, "{phase}": {text}}}' if name in found.entries else (f'{{"{phase}": {text}}}')
        )
        if choice.overflowing and overflow.overflowed(value) is not False:
            overflows.add(name)
        if choice.once and phase == "forward":
            digest = hashlib.sha256(json.dumps(_without_extremes(value)).encode()).digest()
            first = known.setdefault((name.rpartition(".")[0], digest), name)
            if first != name:
                found.left_out[name] = f"it is alike `{first}`"
    if choice.overflowing:
        found.left_out |= {name: FINITE for name in found.entries if name not in overflows}
    for name in found.left_out:
        found.entries.pop(name, None)


FINITE = "its recorded results are finite"
"""Why calls are left out where only those are asked for that overflowed."""


def _without_extremes(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_extremes(each) for key, each in value.items() if key not in _VALUES}
    return [_without_extremes(each) for each in value] if isinstance(value, list) else value


_VALUES = frozenset({"Max", "Min", "Mean", "Norm", "md5", "data_name"})
"""Of a tensor, what differs from call to call."""


def _call_name(name: str, number: int) -> str:
    return writable(f"{name}.{number}")


def may_overflow(dump: Path) -> bool:
    """Return False for a dump.json with calls of APIs whose recorded results are all finite.

    Raises:
        FormatError: it cannot be read.
    """
    has_calls = False
    for entry, value in EntryStream(dump, dump.name):
        parts = parse_entry_name(entry)
        if parts is not None and parts.kind is NodeKind.API:
            has_calls = True
            if overflow.overflowed(value) is not False:
                return True
    return not has_calls


def jobs_of(found: Found, how: How) -> Iterator[Job]:
    """Yield the jobs of the calls that are checked."""
    for name, entries in found.entries.items():
        kind, _, rest = name.partition(".")
        yield Job(name, kind, rest.rpartition(".")[0], entries, how)


def data_folder(catalog: Catalog) -> str | None:
    """Return the folder of a dump's tensor files; None for a dump of statistics."""
    return str(_file(catalog).with_name(FOLDER)) if catalog.task == "tensor" else None


def _file(catalog: Catalog) -> Path:
    root = Path(catalog.root)
    return root if root.is_file() else root / _shown(catalog)


def _shown(catalog: Catalog) -> str:
    files = catalog.attrs["files"]
    assert isinstance(files, tuple)
    return str(files[0])


def _check(catalog: Catalog) -> None:
    files = catalog.attrs.get("files")
    if not isinstance(files, tuple) or catalog.framework.kernels is None:
        raise UsageError(
            Diagnostic(
                "PF6603", f"`{catalog.root}` is no dump of API calls", help="name a dump.json of level L1 or mix"
            )
        )
    if len(files) > 1:
        raise UsageError(
            Diagnostic(
                "PF6601",
                f"`{catalog.root}` has {len(files)} dump.json files, and one is checked at a time",
                path=catalog.root,
                help="name one of them, or one rank and step by `select`: " + ", ".join(map(str, files[:4])),
            )
        )
    # A dump of statistics may hold checksums too, and is one of task md5 to whoever compares dumps.
    if catalog.task not in ("statistics", "tensor") and catalog.attrs.get("task") != "statistics":
        raise UsageError(
            Diagnostic(
                "PF6603",
                f"`{catalog.root}` is a dump of task `{catalog.task}`, from which no inputs can be made",
                path=catalog.root,
                help="dump with task `statistics` or `tensor`",
            )
        )
