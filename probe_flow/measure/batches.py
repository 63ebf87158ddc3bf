"""Measure many pairs in batches: how `compare` splits its work, and the function that a worker runs.

A task is a run of 65,536-element blocks of one pair. Large tensors become several tasks whose spans are aligned
powers of two, so folding them gives the same bits on any split. Workers return records, never tensors. The tasks of one
golden tensor, which are many where its consumers were dumped too, stay together, so that it is read once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.elements.blocks import Contents, TensorBlocks, holds_same, open_tensor
from probe_flow.elements.extent_bytes import SpareMemory
from probe_flow.errors import Diagnostic, FormatError, NotComparableError, Severity, UsageError
from probe_flow.files.small_files import SmallFiles
from probe_flow.jobs import in_batches
from probe_flow.measure.sides import Reduced
from probe_flow.measure.small_pairs import SmallPairs
from probe_flow.metrics.accumulators.registry import MeasureOptions, kinds_of
from probe_flow.metrics.backends.choice import Backend
from probe_flow.metrics.kernel.compare import TOGETHER, measure, measure_span
from probe_flow.metrics.kernel.kept_blocks import Blocks, FirstElements, KeptBlocks, count_of_first
from probe_flow.metrics.sums.block_sums import Scratch
from probe_flow.metrics.sums.record import BLOCK, Record, SpanRecord
from probe_flow.records import TensorRef

if TYPE_CHECKING:
    from probe_flow.elements.tensor_store import TensorStore

SPAN_BLOCKS = 512
"""Blocks per task of a huge tensor (33.5 million elements); a power of two."""

MAX_TASKS_PER_BATCH = 1024

BATCHES, SHORT_BATCHES = 32, 4
"""Batches into which work is cut that would fill more than so few of full size."""

LAST = 4
"""This part of much work, the last one, is cut into batches of half that size: no worker waits long for another."""

GROUPS = 4
"""What reads one golden tensor is divided among workers only where it is more than this part of all."""

MAX_COMPARED_TARGETS = 4
"""Targets of one golden tensor that others are held against."""


class Task(Struct, frozen=True, gc=False):
    """Blocks ``[first_block, first_block + n_blocks)`` of pair number ``pair``.

    Without a golden the task takes ``statistics`` of one tensor, which is then the ``target`` whatever its side.
    ``target_key`` and ``golden_key`` name converted copies of tensors that are kept (`TensorStore`).
    """

    pair: int
    target: TensorRef
    golden: TensorRef | None
    first_block: int
    n_blocks: int
    target_key: str | None = None
    golden_key: str | None = None
    statistics: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes that the task reads, both sides."""
        elements = max(1, self.target.numel or 1)
        share = min(1.0, self.n_blocks * BLOCK / elements)
        return int(sum(tensor.nbytes for tensor in self.tensors) * share)

    @property
    def tensors(self) -> tuple[TensorRef, ...]:
        """The tensors that it reads."""
        return (self.target,) if self.golden is None else (self.target, self.golden)

    @property
    def golden_blocks(self) -> tuple[object, ...]:
        """What tells the golden blocks that it reads from those of other tasks."""
        golden = self.golden
        if golden is None:
            return (self.pair,)
        extents = golden.extents
        if len(extents) != 1:
            return (extents, golden.layout, golden.shape, golden.logical_shape, self.first_block)
        (only,) = extents
        place = only.file, only.offset, only.nbytes, only.encoding, golden.dtype
        return (*place, golden.layout, golden.sub_format, golden.shape, golden.logical_shape, self.first_block)


class Batch(Struct, frozen=True):
    """Tasks that one worker runs in one go.

    ``contents`` are those of small files that were read already: a few KB each, which reach a worker sooner than it
    could open the file.
    """

    tasks: tuple[Task, ...]
    options: MeasureOptions
    io: str
    store: TensorStore | None = None
    contents: Contents = field(default_factory=dict)


class TaskResult(Struct, frozen=True):
    """What came of a task, or why nothing did.

    It is the record of its span (of the whole pair after a second pass), or the statistics of a single tensor.
    """

    pair: int
    first_block: int
    record: SpanRecord | Record | Reduced | None
    failure: Diagnostic | None = None
    warnings: tuple[Diagnostic, ...] = ()


def plan_tasks(number: int, target: TensorRef, golden: TensorRef, options: MeasureOptions) -> Iterator[Task]:
    """Yield the tasks of one pair with equal element counts; an empty pair is one task without blocks."""
    blocks = -(-count_of_first(target.numel or 0, options.max_elements) // BLOCK)
    if options.needs_whole_pair:  # a second pass needs the extremes of the first, so one worker reads the whole pair
        yield Task(number, target, golden, 0, blocks)
        return
    for first in range(0, max(1, blocks), SPAN_BLOCKS):
        yield Task(number, target, golden, first, min(SPAN_BLOCKS, blocks - first))


def plan_reduction(number: int, tensor: TensorRef, statistics: tuple[str, ...]) -> Task:
    """Return the task of taking statistics of one side of a pair: one pass in one go, since a checksum is of it all."""
    return Task(number, tensor, None, 0, -(-(tensor.numel or 0) // BLOCK), statistics=statistics)


def plan_batches(
    tasks: Sequence[Task],
    options: MeasureOptions,
    *,
    io: str,
    batch_bytes: int,
    store: TensorStore | None = None,
    small_files: SmallFiles | None = None,
) -> list[Batch]:
    """Group tasks into batches of ``batch_bytes`` at most, the largest tasks first so that the tail is short.

    Tasks that read the same golden blocks follow each other, where the largest of them belongs, and share a batch
    unless they are much of all that is read: their golden is opened once, by one worker. Where there is work for many
    batches these are smaller, so that all workers end at about the same time.
    """
    by_size = sorted(tasks, key=lambda task: (-task.nbytes, task.pair, task.first_block))
    first_of: dict[int, int] = {}  # by hash: whole keys take 500 bytes a task
    place = [first_of.setdefault(hash(task.golden_blocks), number) for number, task in enumerate(by_size)]
    order = sorted(range(len(place)), key=place.__getitem__)
    ordered = [by_size[number] for number in order]
    sizes = ([by_size[number].nbytes for number in together] for _, together in groupby(order, key=place.__getitem__))
    filled = _filled(list(sizes), batch_bytes)
    held = small_files or SmallFiles()
    return [Batch(tuple(ordered[piece]), options, io, store, _contents(ordered[piece], held)) for piece in filled]


def _filled(groups: Sequence[Sequence[int]], batch_bytes: int) -> Iterator[slice]:
    """Yield which tasks make a batch, of groups of their sizes."""
    ends = list(accumulate(map(sum, groups)))
    total = ends[-1] if ends else 0
    most, first = batch_bytes, len(groups)
    if total > SHORT_BATCHES * batch_bytes:
        most, first = min(batch_bytes, total // BATCHES), bisect_right(ends, total - total // LAST)
    begin = 0
    for part, room in ((groups[:first], most), (groups[first:], most // 2)):
        for piece in in_batches(part, most_bytes=room, most_jobs=MAX_TASKS_PER_BATCH, most_group_bytes=total // GROUPS):
            yield slice(begin + piece.start, begin + piece.stop)
        begin += sum(map(len, part))


def _contents(tasks: Sequence[Task], small_files: SmallFiles) -> Contents:
    """Return the contents of the files of some tasks, as far as they are held."""
    found = {}
    for task in tasks:
        for tensor in task.tensors:
            path = tensor.holder
            content = None if path is None else small_files.content(path)
            if path is not None and content is not None:
                found[path] = content
    return found


def serial_bytes(tasks: Iterable[Task], options: MeasureOptions, backend: Backend) -> int:
    """Return the bytes of what threads would measure one after another: all that is not mostly in compiled code.

    The steps of numpy over a block of 65,536 elements are so short that threads wait for the interpreter most of the
    time. A pair whose elements compiled code takes as they are needs none, but a small one takes longer to open than to
    measure. Where compiled code leaves a second pass or an accumulator to numpy, half counts (measured for
    offline models: processes are as fast as threads at 0.6 GB of pairs, and take 0.8 of their time at 1.3 GB).
    """
    kinds = kinds_of(options.accumulators)
    is_mixed = bool(kinds.second_passes) or not all(kind.passes for kind in kinds.of_blocks)

    def serial(task: Task) -> int:
        golden = task.golden
        if golden is None or (task.target.dtype, golden.dtype) not in backend.threaded:
            return task.nbytes
        if (task.target.numel or 0) <= TOGETHER:
            return task.nbytes
        return task.nbytes // 2 if is_mixed else 0

    return sum(map(serial, tasks))


def measure_batch(batch: Batch) -> list[TaskResult]:
    """Run every task of a batch. A task that fails gives its reason; the others are not affected."""
    run = _BatchRun(batch)
    for _, together in groupby(batch.tasks, key=lambda task: task.golden_blocks):
        run.measure_together(list(together))
    return run.ended()


class _Memory(NamedTuple):
    """What the tasks of a batch use one after another."""

    scratch: Scratch
    spare: SpareMemory


class _BatchRun:
    """A batch that is being measured: the results of its tasks so far, in their order.

    Those of small pairs have no record before the end, and neither have those whose target has the bytes of another.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._memory = _Memory(Scratch(), SpareMemory())
        self._small = SmallPairs(batch.options, self._memory.scratch)
        self._results: list[TaskResult] = []
        self._alike: dict[int, int] = {}
        """Number of a task, and of an earlier one whose golden and target are the same."""

    def measure_together(self, tasks: Sequence[Task]) -> None:
        """Run tasks that read the same golden blocks, reading what fits into memory once.

        A target with the bytes of an earlier one (an input, and the output of another operator that it is) is not
        measured again.
        """
        if len(tasks) == 1:
            self._measure(tasks[0])
            return
        distinct: list[tuple[TensorRef, int]] = []
        contents = self._batch.contents
        with ExitStack() as opened:
            golden = _opened_for_all(tasks[0], self._batch, opened, self._memory)
            for task in tasks:
                number = len(self._results)
                first = next((first for target, first in distinct if _is_same_target(task, target, contents)), None)
                if first is not None:
                    self._alike[number] = first
                    self._results.append(TaskResult(task.pair, task.first_block, None))
                elif self._measure(task, golden) and len(distinct) < MAX_COMPARED_TARGETS:
                    distinct.append((task.target, number))

    def ended(self) -> list[TaskResult]:
        """Return the results."""
        results, tasks = self._results, self._batch.tasks
        for number, found in self._small.measured().items():
            if isinstance(found, SpanRecord):
                results[number] = replace(results[number], record=found)
            else:
                results[number] = replace(results[number], failure=_failure(tasks[number], found))
        for number, first in self._alike.items():
            if results[first].record is None:
                results[number] = _measured(tasks[number], self._batch, self._memory)
            else:
                results[number] = replace(results[first], pair=tasks[number].pair, warnings=())
        return results

    def _measure(self, task: Task, golden: Blocks | None = None) -> bool:
        """Run a task, or have it wait for others; return whether it has not failed."""
        small = (self._small, len(self._results))
        self._results.append(_measured(task, self._batch, self._memory, golden, small))
        return self._results[-1].failure is None


def _opened_for_all(task: Task, batch: Batch, opened: ExitStack, memory: _Memory) -> Blocks | None:
    """Open the golden of several tasks; None where that fails, as it will for each of them."""
    assert task.golden is not None
    try:
        blocks = opened.enter_context(_open(task.golden, task.golden_key, batch, [], memory))
    except (FormatError, NotComparableError, OSError, MemoryError):
        return None
    return KeptBlocks(_limited(blocks, batch.options.max_elements))


def _is_same_target(task: Task, measured: TensorRef, contents: Contents) -> bool:
    """Return True if the whole target of a task has the bytes of another."""
    if task.first_block or task.n_blocks * BLOCK < (task.target.numel or 0):
        return False
    try:
        return holds_same(task.target, measured, contents)
    except FormatError:  # measuring it will say so
        return False


def lost_batch(batch: Batch, reason: Diagnostic) -> list[TaskResult]:
    """Return the results of a batch whose worker died each time it was tried: the same failure for every task."""
    return [TaskResult(task.pair, task.first_block, None, reason) for task in batch.tasks]


def _measured(
    task: Task,
    batch: Batch,
    memory: _Memory,
    shared: Blocks | None = None,
    small: tuple[SmallPairs, int] | None = None,
) -> TaskResult:
    """Run one task.

    Args:
        task: what is measured.
        batch: that it is of.
        memory: what it may use.
        shared: its golden blocks where they are open already.
        small: takes small pairs, and the number of this one there; their results have no record yet.
    """
    warnings: list[Diagnostic] = []
    record: SpanRecord | Record | Reduced | None = None
    scratch = memory.scratch
    try:
        if task.golden is None:
            from probe_flow.metrics.reduction import reduce_blocks

            with _open(task.target, task.target_key, batch, warnings, memory) as elements:
                record = Reduced(task.statistics, reduce_blocks(elements, task.statistics, scratch).figures)
            return TaskResult(task.pair, 0, record, None, tuple(warnings))
        options = batch.options
        with ExitStack() as opened:
            limit = options.max_elements
            target = _limited(opened.enter_context(_open(task.target, task.target_key, batch, warnings, memory)), limit)
            golden = shared
            if golden is None:
                golden = opened.enter_context(_open(task.golden, task.golden_key, batch, warnings, memory))
                golden = _limited(golden, limit)
            if options.needs_whole_pair:
                record = measure(target, golden, options, scratch)
            elif small is not None and 0 < target.numel == golden.numel <= TOGETHER:
                small[0].add(small[1], target, golden)
            else:
                record = measure_span(target, golden, task.first_block, task.n_blocks, options, scratch)
        return TaskResult(task.pair, task.first_block, record, None, tuple(warnings))
    except Exception as error:
        return TaskResult(task.pair, task.first_block, None, _failure(task, error), tuple(warnings))


def _failure(task: Task, error: Exception) -> Diagnostic:
    """Return why a task failed; a defect must cost one row, not hours of work, and its code asks for a report."""
    if isinstance(error, (FormatError, NotComparableError, UsageError)):
        return error.diagnostic
    if isinstance(error, (OSError, MemoryError)):
        return Diagnostic("PF3190", f"`{task.target.id}` could not be read: {error}", path=task.target.source)
    return defect(task.target.id, error)


def _limited(tensor: Blocks, max_elements: int) -> Blocks:
    return FirstElements(tensor, max_elements) if max_elements else tensor


def _open(
    tensor: TensorRef, key: str | None, batch: Batch, warnings: list[Diagnostic], memory: _Memory
) -> TensorBlocks:
    """Open a tensor, from its converted copy where one is kept; a copy that cannot be written costs a warning."""
    if key is not None and batch.store is not None:
        try:
            return batch.store.open(tensor, key, io=batch.io)
        except (OSError, RuntimeError) as error:  # HDF5 raises either
            warnings.append(
                Diagnostic(
                    "PF6205",
                    f"converted tensors cannot be kept: {getattr(error, 'strerror', None) or error}",
                    severity=Severity.WARNING,
                    path=str(batch.store.folder),
                    help="results are not affected; free space, or set `cache: {tensors: never}`",
                )
            )
    content = batch.contents.get(tensor.holder or "") if batch.contents else None
    is_small = count_of_first(tensor.numel or 0, batch.options.max_elements) <= TOGETHER
    spare = None if is_small else memory.spare  # small ones are measured together, after they are closed
    return open_tensor(tensor, io=batch.io, content=content, spare=spare)


def defect(tensor: str, error: Exception) -> Diagnostic:
    """Return the problem of a tensor whose measuring failed in a way that nobody foresaw."""
    return Diagnostic("PF9002", f"measuring `{tensor}` failed: {type(error).__name__}: {error}", tensor=tensor)
