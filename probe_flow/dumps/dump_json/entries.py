"""The entries of one dump.json: each becomes a node with its tensors, or a problem. A file counts whole or not."""

from __future__ import annotations

import fnmatch
from array import array
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.dump_json.companion_files import CONSTRUCT_FILE, Construct, Stacks, read_construct, read_stacks
from probe_flow.dumps.dump_json.folders import DumpFile
from probe_flow.dumps.dump_json.names import OPTIMIZER, EntryName, parse_entry_name
from probe_flow.dumps.dump_json.problems import ProblemList
from probe_flow.dumps.dump_json.stream import DATA, EntryStream
from probe_flow.dumps.dump_json.tensor_files import TensorFiles
from probe_flow.dumps.dump_json.unrecorded_calls import calls_without_entry
from probe_flow.dumps.dump_json.values import Flattened, Flattener, has_known_shape
from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.records import (
    CallFacts,
    Execution,
    Framework,
    Node,
    NodeKey,
    NodeKind,
    Phase,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
    entry_name,
    shared_numbers,
)
from probe_flow.records.frameworks import MINDSPORE, MINDTORCH, PYTORCH

if TYPE_CHECKING:
    from probe_flow.records.tables.catalogs import Packing

TENSOR, STATISTICS, STRUCTURE = "tensor", "statistics", "structure"
_CALL_SLOT = Slot(SlotRole.CALL, ())

_FRAMEWORKS = (PYTORCH, MINDSPORE, MINDTORCH)


class Reading(Struct):
    """What has been read so far, over all files; tasks by name of the file, with the first file that has it.

    Of many ranks the executions are packed (`Catalog.ran`): then nodes and tensors are those that are not, yet.
    """

    nodes: dict[NodeKey, Node] = field(default_factory=dict)
    tensors: list[TensorRef] = field(default_factory=list)
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    facts: dict[tuple[NodeKind, str | None, int | None], CallFacts] = field(default_factory=dict)
    tasks: dict[str, tuple[str, str]] = field(default_factory=dict)
    levels: dict[str, None] = field(default_factory=dict)
    frameworks: dict[Framework, None] = field(default_factory=dict)
    undumped: list[Node] = field(default_factory=list)
    call_order: dict[Execution, array[int]] = field(default_factory=dict)
    entries: int = 0
    has_stacks: bool = False
    packing: Packing | None = None
    packed: int = 0


class _Sides(Struct, frozen=True):
    """What the files beside one dump.json say; names of parents are taken apart once."""

    construct: Construct
    stacks: Stacks
    names: dict[str, str] = field(default_factory=dict)

    def name_of(self, entry: str) -> str:
        """Return the name of a parent without call number and direction."""
        name = self.names.get(entry)
        if name is None:
            parsed = parse_entry_name(entry)
            name = self.names[entry] = parsed.name if parsed else entry
        return name


def read_file(file: DumpFile, number: int, patterns: Sequence[str] | None, reading: Reading) -> None:
    """Add what one file holds.

    Args:
        file: the file.
        number: its number, which keeps its stacks apart from those of other files.
        patterns: glob patterns of node names to keep; None keeps all.
        reading: what has been read so far.

    Raises:
        FormatError: PF3402 no entry, PF3407 to PF3409 not to be used; then nothing of it was added.
    """
    folder = file.file.parent
    problems = ProblemList(file.shown)
    sides = _Sides(read_construct(folder, problems), read_stacks(folder, f"{number}:", problems))
    files = TensorFiles(folder, problems)
    entries = _Entries(file, patterns, sides, Flattener(str(file.file), files), problems, reading)
    stream = EntryStream(file.file, file.shown)
    count = 0
    seen: set[str] = set()
    for entry, value in stream:
        count += 1
        entries.read(entry, value)
        seen.add(entry)
    entries.finish()
    top = _checked_top(stream, file)
    task = str(top.get("task") or STATISTICS)
    if not count and task == STRUCTURE:
        entries.read_calls(sides.construct)
        seen.update(sides.construct.callers)
        count = len(seen)
    if not count:
        raise _empty(file, task, problems)
    for key in stream.repeated:
        message = f"`{key}` is written more than once in one object of `{file.shown}`; the last one counts"
        problems.add("PF3412", message, severity=Severity.WARNING)
    if patterns is None:
        files.report_unnamed()
    framework = next((each for each in _FRAMEWORKS if each.name == top.get("framework")), stream.framework or PYTORCH)
    reading.frameworks[framework] = None
    _note_task(task, file, problems, reading)
    reading.levels[str(top.get("level"))] = None
    reading.entries += count
    reading.tensors.extend(entries.tensors)
    undumped = [*entries.undumped(seen, task)]
    if order := entries.call_order(undumped, reading):
        reading.call_order.setdefault(file.execution, array("i")).extend(order)
    reading.nodes.update(entries.nodes)
    reading.undumped.extend(undumped)
    reading.stacks.update(sides.stacks.frames)
    reading.has_stacks = reading.has_stacks or sides.stacks.found
    reading.problems.extend(problems.finish())


def _checked_top(stream: EntryStream, file: DumpFile) -> Mapping[str, object]:
    top = stream.top
    if not isinstance(top, dict):
        raise _wrong_top(file, f"its top level is a {type(top).__name__} instead of an object")
    if not stream.has_entries:
        found = f"a {type(top[DATA]).__name__} instead of an object" if DATA in top else "missing"
        raise _wrong_top(file, f"its `{DATA}` is {found}")
    return top


_TASKS = frozenset(
    {
        STATISTICS,
        TENSOR,
        STRUCTURE,
        *("md5", "summary", "real_data"),  # of earlier versions
        *("acc_check", "run_ut", "overflow_check", "nan_analyze", "exception_dump", "free_benchmark", "grad_probe"),
    }
)
"""Tasks of the collector of msprobe, 1.0 to 26.2, that write a dump.json."""


def _note_task(task: str, file: DumpFile, problems: ProblemList, reading: Reading) -> None:
    """Keep the task of a file; several files of one name should have one."""
    name = file.file.name
    first, shown = reading.tasks.setdefault(name, (task, file.shown))
    if task not in _TASKS and first == task and shown == file.shown:
        problems.add(
            "PF3457",
            f"`{file.shown}` has the task `{task}`, which this version does not know",
            severity=Severity.WARNING,
            help="its entries are read as far as they have the form of those of `statistics` and `tensor`; `probe-flow "
            "doctor` says which version this is",
        )
    if task != first:
        problems.add(
            "PF3429",
            f"`{file.shown}` has the task `{task}`, `{shown}` has `{first}`",
            severity=Severity.WARNING,
            help="dump all ranks with one configuration, or select those that fit together",
        )


class _Entries:
    """The nodes and tensors of one file."""

    def __init__(
        self,
        file: DumpFile,
        patterns: Sequence[str] | None,
        sides: _Sides,
        flattener: Flattener,
        problems: ProblemList,
        reading: Reading,
    ) -> None:
        self.nodes: dict[NodeKey, Node] = {}
        self._numbers: dict[str, int] = {}  # of nodes, by their entries
        self._found = Flattened()
        self._file = file
        self._patterns = patterns
        self._sides = sides
        self._flattener = flattener
        self._problems = problems
        self._earlier = reading.nodes
        self._first_order = reading.packed + len(reading.nodes)
        self._shares_orders = reading.packing is None  # packed nodes have those of another rank
        self._names, self._shared_facts = reading.names, reading.facts

    @property
    def tensors(self) -> Sequence[TensorRef]:
        """The tensors so far."""
        return self._found.tensors

    def read(self, entry: str, value: object) -> None:
        """Add the node and the tensors of one entry."""
        name = parse_entry_name(entry) or self._unknown_name(entry)
        if not self._is_selected(name):
            return
        key = self._key(entry, name)
        if key is None:
            return
        if not has_known_shape(value, name.kind):
            self._report_shape(entry, value)
            return
        self._flattener.flatten(value, name=entry, kind=name.kind, node=key, result=self._found)
        self._add(entry, name, key)
        if self._found.problems:
            self._report_unread()

    def finish(self) -> None:
        """Take note that the last entry was read."""
        self._flattener.finish()

    def read_calls(self, construct: Construct) -> None:
        """Add a node for each selected call of construct.json, with the call itself in place of tensors."""
        source = str(self._file.file.with_name(CONSTRUCT_FILE))
        for entry in construct.as_they_ended():
            name = parse_entry_name(entry) or (_as_it_stands if entry == OPTIMIZER else self._unknown_name)(entry)
            key = self._key(entry, name) if self._is_selected(name) else None
            if key is not None:
                self._add(entry, name, key)
                item = None if entry == entry_name(key, name.kind) else entry
                facts: dict[str, Any] = {"item": item, "named_by": name.kind}
                stand_in = TensorRef.of(key, _CALL_SLOT, TensorKind.OPAQUE, "call", "call", source=source, **facts)
                self._found.tensors.append(stand_in)

    def undumped(self, seen: AbstractSet[str], task: str) -> Iterator[Node]:
        """Yield the selected calls of which the dump has no entry, as nodes, by what lies beside it.

        Args:
            seen: names of all entries.
            task: what the dump is.
        """
        lost: dict[str, str] = {}
        # Dumped against an earlier dump, the collector may have stopped before the modules that it was in.
        if task != TENSOR or all(tensor.checksum is None for tensor in self.tensors):
            found = calls_without_entry(seen, self._sides.construct, self._sides.stacks, task)
            lost = {entry: evidence for entry, _, evidence in found}
        rest = [entry for entry in self._sides.construct.callers if entry not in seen and entry not in lost]
        if not lost and not rest:
            return
        orders = self._orders(seen)
        for entry in (*lost, *rest):
            name = parse_entry_name(entry) or _as_it_stands(entry)
            if self._is_selected(name):
                key = NodeKey(self._file.execution, name.name, name.call, name.phase)
                node = self._node(entry, name, key, orders.get(entry, self._next_order))
                assert isinstance(node.facts, CallFacts)
                yield replace(node, facts=replace(node.facts, evidence=lost[entry])) if entry in lost else node

    def call_order(self, undumped: Sequence[Node], reading: Reading) -> array[int]:
        """Return `Catalog.call_order` of the calls that construct.json lists.

        Args:
            undumped: calls of this file without entry.
            reading: what was read before; another file may be of the same execution.
        """
        if not self._sides.construct.callers:
            return array("i")
        run, is_second = self._file.execution, self._file.execution in reading.call_order
        nodes = sum(key.execution == run for key in reading.nodes) if is_second else 0
        others = sum(node.key.execution == run for node in reading.undumped) if is_second else 0
        lost = {node.entry: -1 - number for number, node in enumerate(undumped, others)}
        found = (lost.get(entry, self._numbers.get(entry)) for entry in self._sides.construct.callers)
        return array("i", (number + nodes if number >= 0 else number for number in found if number is not None))

    def _orders(self, seen: AbstractSet[str]) -> dict[str, int]:
        """Return for each call of construct.json without entry the order of the dumped call that ended next."""
        known = {entry: self._first_order + number for entry, number in self._numbers.items()}
        orders: dict[str, int] = {}
        following = self._next_order
        for entry in reversed(self._sides.construct.as_they_ended()):
            if entry in seen:
                following = known.get(entry, following)
            else:
                orders[entry] = following
        return orders

    @property
    def _next_order(self) -> int:
        return self._first_order + len(self.nodes)

    def _key(self, entry: str, name: EntryName) -> NodeKey | None:
        """Return the key of a node; None, with a problem, where an earlier entry has it."""
        numbers = shared_numbers(0)  # as far as there are some already
        call = numbers[name.call] if name.call < len(numbers) else name.call
        key = NodeKey(self._file.execution, self._shared(name.name), call, name.phase)
        if key in self.nodes or key in self._earlier:
            message = f"`{entry}` of `{self._file.shown}` names the same call as an earlier entry and is left out"
            self._problems.add("PF3412", message, tensor=entry)
            return None
        return key

    def _shared(self, name: str) -> str:
        """Return a name, the same object in the files of all ranks."""
        return self._names.setdefault(name, name)

    def _is_selected(self, name: EntryName) -> bool:
        patterns = self._patterns
        return patterns is None or any(fnmatch.fnmatchcase(name.name, pattern) for pattern in patterns)

    def _report_unread(self) -> None:
        """Report what of the last entry could not be understood."""
        (item, reason), *others = self._found.problems
        more = f" (and {len(others)} more of this entry)" if others else ""
        self._problems.add(
            "PF3411",
            f"`{item}` of `{self._file.shown}` cannot be read{more}: {reason}",
            tensor=item,
            help="dump this call again, or leave it out with `select.nodes`",
        )
        self._found.problems.clear()

    def _add(self, entry: str, name: EntryName, key: NodeKey) -> None:
        self._numbers[entry] = len(self.nodes)
        self.nodes[key] = self._node(entry, name, key, self._next_order)

    def _node(self, entry: str, name: EntryName, key: NodeKey, order: int) -> Node:
        sides = self._sides
        parent_entry = sides.construct.callers.get(entry)
        parent = name.module if parent_entry is None else sides.name_of(parent_entry)
        return Node(
            key,
            self._shared(name.op_type),
            None if parent is None else self._shared(parent),
            stack_id=sides.stacks.of_entry.get(entry),
            order=shared_numbers(order + 1)[order] if self._shares_orders else order,
            facts=self._facts(entry, key, name.kind, parent_entry),
        )

    def _facts(self, entry: str, key: NodeKey, kind: NodeKind, caller: str | None) -> CallFacts:
        """Return what the dump says of a call, the same object for those of one caller."""
        step = self._sides.construct.micro_steps.get(entry)
        if entry != entry_name(key, kind):
            return CallFacts(kind, caller, step, entry)
        found = self._shared_facts.get((kind, caller, step))
        if found is None:
            found = self._shared_facts[kind, caller, step] = CallFacts(kind, caller, step)
        return found

    def _unknown_name(self, entry: str) -> EntryName:
        """Keep an entry whose name follows no grammar under its full name."""
        message = f"`{entry}` of `{self._file.shown}` is not named like a call of an API or a module"
        cure = "it is compared with an entry of the same name"
        self._problems.add("PF3410", message, severity=Severity.WARNING, tensor=entry, help=cure)
        return _as_it_stands(entry)

    def _report_shape(self, entry: str, value: object) -> None:
        found = "an object with unknown keys" if isinstance(value, dict) else f"a {type(value).__name__}"
        message = f"`{entry}` of `{self._file.shown}` is {found} and is left out"
        cure = "an entry is an object with `input_args`, `input`, `output` or parameters"
        self._problems.add("PF3416", message, tensor=entry, help=cure)


def _as_it_stands(entry: str) -> EntryName:
    return EntryName(NodeKind.API, entry, entry.rpartition(".")[2], 0, Phase.NONE)


def _wrong_top(file: DumpFile, what: str) -> FormatError:
    return FormatError(
        Diagnostic(
            "PF3408",
            f"`{file.shown}` is no dump: {what}",
            path=str(file.file),
            help="a dump.json is an object with `task`, `level` and `data`",
        )
    )


def _empty(file: DumpFile, task: str, problems: ProblemList) -> FormatError:
    message = f"`{file.shown}` holds no entry"
    cure = "check that the collector was started and stopped around the model, and its `list`, `scope`, `rank`, `step`"
    if task == STRUCTURE:
        message += f", and `{CONSTRUCT_FILE}` next to it is missing or names no call"
        cure = f"the calls of a structure dump are in {CONSTRUCT_FILE}: dump at level mix or L0 with `extra_info`"
    empty = Diagnostic("PF3402", message, path=str(file.file), help=cure)
    return FormatError([empty, *(problem for problem in problems.finish() if problem.code == "PF3413")])
