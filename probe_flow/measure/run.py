"""Measure all pairs of a comparison: from what the dumps record, from the cache, or in batches over the scheduler.

What a batch brings is kept as soon as it arrives, so that a killed run loses little.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace

from probe_flow.elements.blocks import NO_CONTENTS
from probe_flow.errors import Diagnostic
from probe_flow.files.machine import return_free_memory
from probe_flow.measure.batches import (
    Task,
    TaskResult,
    defect,
    lost_batch,
    measure_batch,
    plan_batches,
    plan_reduction,
    plan_tasks,
    serial_bytes,
)
from probe_flow.measure.kept_results import KeptResults, Part
from probe_flow.measure.result_keys import Identify, Sources, identity, task_text, tensor_key
from probe_flow.measure.results import (
    derived_ids,
    incomparable,
    measurement_of_record,
    measurement_without_data,
)
from probe_flow.measure.sides import Reduced, aligned_sides, element_side, figures_to_take, is_mixed, with_statistics
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.backends.choice import backend_named
from probe_flow.metrics.catalogue.derive import WHOLE, Scope
from probe_flow.metrics.catalogue.registry import options_for
from probe_flow.metrics.sums.record import Record, SpanRecord
from probe_flow.records import Figures, Measurement, Pair, Pairs, TensorKind, TensorRef
from probe_flow.records.figures import FEW
from probe_flow.records.pairs import Many
from probe_flow.records.row import Row, Rows, in_execution_order
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.elements.tensor_store import TensorStore
    from probe_flow.records.tables.row_table import MeasuredColumn


def measure_pairs(
    pairs: Sequence[Pair],
    ids: tuple[str, ...],
    context: Context,
    *,
    selected: set[int] | None = None,
    scope: Scope = WHOLE,
    brought: Mapping[int, str] | None = None,
) -> Rows:
    """Measure pairs and return them in the same order; those that cannot be measured say why.

    Args:
        pairs: in execution order.
        ids: metrics to derive.
        context: scheduler, cache and settings.
        selected: numbers of the pairs to measure; None = all.
        scope: how they are measured.
        brought: numbers of pairs that are measured already, with the text of that (`metrics.brought`).
    """
    options = options_for(ids, max_elements=scope.max_elements)
    work = _Work(context, options, pairs, derived_ids(ids), scope)
    measurements = work.measurements
    with_data = []
    wanted = array(
        "I",
        [
            number
            for number, pair in enumerate(pairs)
            if pair.target is not None and pair.golden is not None and (selected is None or number in selected)
        ],
    )
    for number, measurement in _plain(pairs, [n for n in wanted if n not in brought] if brought else wanted, work):
        measurements[number] = measurement
    for number in work.not_measured(wanted):
        pair = pairs[number]
        assert pair.target is not None
        assert pair.golden is not None
        failure = incomparable(pair)
        if failure is not None:
            work.failures[number] = failure
        elif brought and number in brought:
            work.take(number, brought[number])
        elif TensorKind.TENSOR in (pair.target.kind, pair.golden.kind):
            with_data.append(number)
        else:
            measurements[number] = measurement_without_data(pair, work.figures)
    work.measure(list(_tasks(pairs, with_data, options)))
    return work.rows()


def _plain(pairs: Sequence[Pair], numbers: Sequence[int], work: _Work) -> Iterator[tuple[int, Measurement]]:
    """Yield what is measured of many pairs at once."""
    recorded = (number for number in numbers if _kinds(pairs[number]) == _RECORDED)
    if next(islice(recorded, FEW, None), None) is None:
        return
    from probe_flow.measure.plain_statistics import plain_measurements

    yield from plain_measurements(pairs, numbers, work.figures)


_RECORDED = (TensorKind.STATISTICS, TensorKind.STATISTICS)


def examine_tensors(pairs: Sequence[Pair], context: Context) -> Rows:
    """Take the figures of the targets of pairs without a golden; return the rows in the same order.

    Those of which nothing can be said say why; those that hold no values have no measurement.
    """
    from probe_flow.measure.alone import measurement_of_recorded, unexaminable

    work = _Work(context, options_for(()), pairs, (), WHOLE)
    for number, pair in enumerate(pairs):
        tensor = pair.target
        assert tensor is not None
        failure = unexaminable(tensor)
        if failure is not None:
            work.failures[number] = failure
        elif tensor.kind in (TensorKind.STATISTICS, TensorKind.SCALAR):
            work.measurements[number] = measurement_of_recorded(tensor, work.figures)
    work.measure(list(_examinations(pairs)))
    return work.rows()


def find_lone_tensors(rows: Rows, context: Context) -> None:
    """Give the rows of the target alone `Aside.alone` if any row differs in NaN or infinities.

    It may be there that these begin. Tensors of which the dump recorded statistics are not read: these say as much.
    """
    if not any(row.measurement is not None and row.measurement.nonfinite_mismatch for row in rows):
        return
    lone = [number for number, row in enumerate(rows) if _is_lone(row.pair)]
    for number, examined in zip(lone, examine_tensors([rows[n].pair for n in lone], context), strict=True):
        if examined.measurement is not None:
            rows[number] = rows[number].with_aside(alone=examined.measurement)


def _is_lone(pair: Pair) -> bool:
    target = pair.target
    return target is not None and pair.golden is None and target.kind is TensorKind.TENSOR and target.recorded is None


def _examinations(pairs: Sequence[Pair]) -> Iterator[Task]:
    from probe_flow.metrics.reduction import EXAMINED

    for number, pair in enumerate(pairs):
        if pair.target is not None and pair.target.kind is TensorKind.TENSOR:
            yield plan_reduction(number, pair.target, EXAMINED)


def planned_texts(
    pairs: Pairs, ids: tuple[str, ...], *, by: str, scope: Scope = WHOLE
) -> Iterator[tuple[str, str, str]]:
    """Yield ``(target tensor, identity, text of what it depends on)`` of every result that would be kept."""
    if pairs.is_examination:
        yield from _keyed(_examinations(pairs.pairs), options_for(()), by=by)
        return
    both = [pair for pair in in_execution_order(pairs) if pair.target is not None and pair.golden is not None]
    with_data = [
        number for number, pair in enumerate(both) if incomparable(pair) is None and TensorKind.TENSOR in _kinds(pair)
    ]
    options = options_for(ids, max_elements=scope.max_elements)
    yield from _keyed(_tasks(both, with_data, options), options, by=by)


def _keyed(tasks: Iterable[Task], options: MeasureOptions, *, by: str) -> Iterator[tuple[str, str, str]]:
    sources = Sources(by)
    for task in tasks:
        text = task_text(task, options.key_text, identify=sources.identify)
        if text is not None:
            yield task.target.id, identity(task), text


def _tasks(pairs: Sequence[Pair], numbers: Sequence[int], options: MeasureOptions) -> Iterator[Task]:
    for number in numbers:
        if is_mixed(pairs[number]):
            yield plan_reduction(number, element_side(pairs[number]), figures_to_take(pairs[number]))
        else:
            yield from plan_tasks(number, *aligned_sides(pairs[number]), options)


def _kinds(pair: Pair) -> tuple[TensorKind, ...]:
    return tuple(tensor.kind for tensor in (pair.target, pair.golden) if tensor is not None)


def _records(parts: Sequence[Part]) -> list[SpanRecord | Record]:
    return [part for part in parts if not isinstance(part, Reduced)]


class _Work:
    """What has been measured so far, and why some of it could not be.

    What the tasks of a pair leave is folded when the last of them is done: it takes more memory than the measurement.
    """

    def __init__(
        self, context: Context, options: MeasureOptions, pairs: Sequence[Pair], derived: tuple[str, ...], scope: Scope
    ) -> None:
        self.context, self.options, self.pairs, self.derived, self.scope = context, options, pairs, derived, scope
        self.figures = Figures()
        self.open_tasks = array("I", bytes(4 * len(pairs)))
        self.parts: dict[int, dict[int, Part]] = defaultdict(dict)
        self.backends: dict[int, str] = {}
        self.failures: dict[int, Diagnostic] = {}
        self.measurements: list[Measurement | None] | MeasuredColumn = [None] * len(pairs)
        if isinstance(pairs, Many):
            from probe_flow.files.filed_numbers import GrowingNumbers
            from probe_flow.records.tables.row_table import MeasuredColumn

            self.measurements = MeasuredColumn(pairs)
            self.figures = Figures(GrowingNumbers)
        self.kept = KeptResults(context.cache, options.key_text, pairs=len(pairs), small_files=context.small_files)

    def not_measured(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return which of some pairs have no measurement."""
        found = self.measurements
        return [n for n in numbers if found[n] is None] if isinstance(found, list) else found.without(numbers)

    def measure(self, tasks: Sequence[Task]) -> None:
        """Take from the cache what it holds, measure the rest."""
        settings = self.context.settings
        remaining = self._recall(tasks)
        backend = backend_named(
            settings.metrics_backend,
            sum(task.nbytes for task in remaining if task.golden is not None),
            self.options.accumulators,
            compile_later=self.context.compile_later,
        )
        remaining += self._of_other_backends(tasks, remaining, backend.label)
        for task in remaining:
            self.open_tasks[task.pair] += 1
        for pair in [pair for pair in self.parts if not self.open_tasks[pair]]:
            self._fold(pair)
        options = replace(self.options, backend=backend.name)
        store = None
        if settings.tensors:
            from probe_flow.elements.tensor_store import TensorStore

            store = TensorStore(settings.tensors, settings.keeps_all_tensors)
            remaining = _with_keys(remaining, store, self.kept.sources.identify)
        small_files = self.context.small_files
        batches = plan_batches(
            remaining,
            options,
            io=settings.io,
            batch_bytes=settings.batch_bytes,
            store=store,
            small_files=small_files,
        )
        small_files.hand_over()
        sizes = [sum(task.nbytes for task in batch.tasks) for batch in batches]
        kept = len(tasks) - len(remaining)
        self.context.emit("compare.planned", tasks=len(tasks), kept=kept, batches=len(batches), backend=backend.label)
        serial = serial_bytes(remaining, options, backend)
        del tasks, remaining
        for index, results in self.context.map(
            measure_batch, batches, sizes=sizes, lost=lost_batch, serial_bytes=serial
        ):
            done = batches[index]
            self._take(results, done.tasks, backend.label)
            batches[index] = replace(done, tasks=(), contents=NO_CONTENTS)  # what it held takes more than its results
            if done.contents:
                del done, results
                return_free_memory()
        small_files.clear()  # what they were is of no use any more
        return_free_memory()

    def take(self, number: int, text: str) -> None:
        """Take over what a pair brings along."""
        try:
            from probe_flow.metrics.brought import kept_part

            self.backends[number], self.parts[number][0] = kept_part(text)
        except ValueError as error:
            self.failures[number] = defect(self.pairs[number].shown.id, error)
            return
        self._fold(number)

    def rows(self) -> Rows:
        """Return the rows of all pairs, in their order."""
        found: Rows
        if isinstance(self.measurements, list):
            found = [Row(pair, measurement) for pair, measurement in zip(self.pairs, self.measurements, strict=True)]
        else:
            found = self.measurements.rows()
        for number, failure in self.failures.items():
            found[number] = found[number].with_aside(failure=failure)
        return found

    def _recall(self, tasks: Sequence[Task]) -> list[Task]:
        remaining = []
        for task, found in zip(tasks, self.kept.find(tasks), strict=True):
            if found is None:
                remaining.append(task)
            else:
                self.backends[task.pair], self.parts[task.pair][task.first_block] = found
        return remaining

    def _of_other_backends(self, tasks: Sequence[Task], remaining: Sequence[Task], backend: str) -> list[Task]:
        """Drop what is kept of a pair that is measured in part now, if another backend measured it; return its tasks.

        A pair is measured by one backend, so that its result does not depend on what happened to be kept.
        """
        mixed = {task.pair for task in remaining if self.backends.get(task.pair, backend) != backend}
        again = [task for task in tasks if task.pair in mixed and task.first_block in self.parts[task.pair]]
        for pair in mixed:
            self.parts[pair].clear()
        return again

    def _take(self, results: Sequence[TaskResult], batch: Sequence[Task], backend: str) -> None:
        tasks = {(task.pair, task.first_block): task for task in batch}
        look = self.kept.look_again(batch)
        to_keep: list[tuple[Task, str, Part]] = []
        for result in results:
            place = result.pair, result.first_block
            self.open_tasks[result.pair] -= 1
            self.context.report(result.warnings)
            if result.record is None or result.pair in look.changed:
                failure = result.failure or _changed(tasks[place])
                self.failures.setdefault(result.pair, failure)
                continue
            self.parts[result.pair][result.first_block] = result.record
            self.backends[result.pair] = backend
            if (text := look.texts.get(place)) is not None:
                to_keep.append((tasks[place], text, result.record))
            if not self.open_tasks[result.pair]:
                self._fold(result.pair)
        self.kept.keep(to_keep, backend)

    def _fold(self, number: int) -> None:
        """Make the measurement of a pair from what its tasks left."""
        parts, backend = self.parts.pop(number), self.backends.pop(number)
        if number in self.failures:
            return
        records = [parts[first] for first in sorted(parts)]
        pair = self.pairs[number]
        try:
            if isinstance(records[0], Reduced) and pair.golden is None:
                from probe_flow.measure.alone import measurement_of_elements

                found = measurement_of_elements(records[0], backend=backend, figures=self.figures)
            elif isinstance(records[0], Reduced):
                found = measurement_without_data(with_statistics(pair, records[0]), self.figures)
            else:
                found = measurement_of_record(
                    pair,
                    _records(records),
                    self.derived,
                    backend=backend,
                    scope=self.scope,
                    figures=self.figures,
                )
        except Exception as error:  # a metric of a package must cost its rows, not hours of work
            self.failures[number] = defect(pair.shown.id, error)
        else:
            self.measurements[number] = found


def _with_keys(tasks: Sequence[Task], store: TensorStore, identify: Identify) -> list[Task]:
    """Return the tasks with the keys of the converted copies that the store wants of their tensors."""

    def key(tensor: TensorRef) -> str | None:
        return tensor_key(tensor, identify) if store.wants(tensor) else None

    def keyed(task: Task) -> Task:
        keys = key(task.target), key(task.golden) if task.golden else None
        return task if keys == (None, None) else structs.replace(task, target_key=keys[0], golden_key=keys[1])

    return [keyed(task) for task in tasks]


def _changed(task: Task) -> Diagnostic:
    return Diagnostic(
        "PF3192",
        f"a file of `{task.target.id}` changed while it was being read",
        path=task.target.source,
        tensor=task.target.id,
        help="wait until the dump is complete and run again",
    )
