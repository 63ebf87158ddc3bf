"""Tasks, batches, and what a worker makes of them: splits give the same bits, failures stay where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from raw_pairs import raw

from probe_flow.measure import batches as measuring
from probe_flow.measure.batches import (
    BATCHES,
    MAX_TASKS_PER_BATCH,
    SHORT_BATCHES,
    Batch,
    Task,
    measure_batch,
    plan_batches,
    plan_reduction,
    plan_tasks,
    serial_bytes,
)
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.backends.choice import NUMPY, Backend
from probe_flow.metrics.kernel.compare import TOGETHER
from probe_flow.metrics.sums.record import BLOCK, SpanRecord, fold
from probe_flow.records import Extent, TensorKind, TensorRef

PLAIN = MeasureOptions()
SOFTMAX = MeasureOptions(("softmax",))
RNG = np.random.default_rng(5)


def sides(folder: Path, name="a", count=1000, dtype=np.float32):
    golden = RNG.standard_normal(count).astype(dtype)
    target = (golden * 1.001).astype(dtype)
    return raw(folder, "target", name, target), raw(folder, "golden", name, golden)


def spans(tasks):
    return [(task.first_block, task.n_blocks) for task in tasks]


def described(folder, count):
    tensor = raw(folder, "t", "x", np.zeros(4, np.float32))
    return TensorRef.of(
        tensor.node, tensor.slot, TensorKind.TENSOR, "float32", shape=(count,), logical_shape=(count,),
        extents=(Extent("x", 0, 4 * count),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, [(0, 0)]), (1, [(0, 1)]), (BLOCK, [(0, 1)]), (BLOCK + 1, [(0, 2)]), (512 * BLOCK, [(0, 512)]),
        (512 * BLOCK + 1, [(0, 512), (512, 1)]), (1100 * BLOCK, [(0, 512), (512, 512), (1024, 76)]),
    ],
)  # fmt: skip
def test_tasks_cover_the_tensor_in_aligned_spans(tmp_path, count, expected):
    tensor = described(tmp_path, count)
    assert spans(plan_tasks(3, tensor, tensor, PLAIN)) == expected
    assert {task.pair for task in plan_tasks(3, tensor, tensor, PLAIN)} == {3}


def test_a_second_pass_keeps_the_whole_pair_in_one_task(tmp_path):
    tensor = described(tmp_path, 1100 * BLOCK)
    assert spans(plan_tasks(0, tensor, tensor, SOFTMAX)) == [(0, 1100)]


def test_bytes_of_a_task_are_its_share_of_both_sides(tmp_path):
    tensor = described(tmp_path, 1024 * BLOCK)
    first, second = plan_tasks(0, tensor, tensor, PLAIN)
    assert first.nbytes == second.nbytes == 512 * BLOCK * 4 * 2
    empty = described(tmp_path, 0)
    assert next(plan_tasks(0, empty, empty, PLAIN)).nbytes == 0


def test_spans_of_any_split_fold_to_the_bits_of_the_whole(tmp_path, monkeypatch):
    target, golden = sides(tmp_path, count=5 * BLOCK + 77)
    whole = fold([result.record for result in run(plan_tasks(0, target, golden, PLAIN))])
    for span in (1, 2, 4):
        monkeypatch.setattr(measuring, "SPAN_BLOCKS", span)
        tasks = list(plan_tasks(0, target, golden, PLAIN))
        assert len(tasks) == -(-6 // span)
        assert fold([result.record for result in run(reversed(tasks))]) == whole
    exact = np.fromfile(golden.extents[0].file, np.float32).astype(np.float64)
    assert whole.golden.squares == pytest.approx(float(exact @ exact), rel=1e-12)


@pytest.mark.parametrize(
    ("accumulators", "dtypes", "count", "share"),
    [
        ((), ("float32", "float32"), TOGETHER + 1, 0),
        (("masked", "moments", "signed", "significant"), ("float32", "float32"), TOGETHER + 1, 0),
        (("minmax",), ("float32", "float32"), TOGETHER + 1, 0.5),
        (("moments", "softmax"), ("float32", "float32"), TOGETHER + 1, 0.5),
        ((), ("int8", "float32"), TOGETHER + 1, 1),
        (("minmax",), ("int8", "float32"), TOGETHER + 1, 1),
        ((), ("float32", "float32"), TOGETHER, 1),
    ],
)
def test_threads_wait_for_each_other_but_within_compiled_code(tmp_path, accumulators, dtypes, count, share):
    target, golden = (
        raw(tmp_path, side, side, np.ones(count, dtype)) for side, dtype in zip("tg", dtypes, strict=True)
    )
    task = Task(0, target, golden, 0, 1)
    compiled = Backend("compiled", "1", NUMPY.measure_block, NUMPY.measure_blocks, frozenset({("float32", "float32")}))
    options = MeasureOptions(accumulators)
    assert serial_bytes([task], options, compiled) == share * task.nbytes
    assert serial_bytes([task, task], options, NUMPY) == 2 * task.nbytes


def test_figures_of_one_side_are_taken_by_numpy(tmp_path):
    alone = plan_reduction(0, raw(tmp_path, "t", "x", np.ones(8, np.float32)), ("min", "max"))
    compiled = Backend("compiled", "1", NUMPY.measure_block, NUMPY.measure_blocks, frozenset({("float32", "float32")}))
    assert serial_bytes([alone], PLAIN, compiled) == alone.nbytes == 32


def run(tasks, options=PLAIN, io="auto"):
    return measure_batch(Batch(tuple(tasks), options, io))


@pytest.mark.parametrize("io", ["auto", "mmap", "read"])
def test_ways_of_reading_give_the_same_bits(tmp_path, io):
    target, golden = sides(tmp_path, count=6 * BLOCK)
    (result,) = run(plan_tasks(0, target, golden, PLAIN), io=io)
    (other,) = run(plan_tasks(0, target, golden, PLAIN))
    assert fold([result.record]) == fold([other.record])


def test_softmax_measures_the_whole_pair(tmp_path):
    target, golden = sides(tmp_path)
    (result,) = run(plan_tasks(0, target, golden, SOFTMAX), SOFTMAX)
    assert not isinstance(result.record, SpanRecord)
    values = np.fromfile(golden.extents[0].file, np.float32).astype(np.float64)
    assert result.record.accumulators[0].golden_sum == pytest.approx(np.exp(values - values.max()).sum(), rel=1e-9)
    assert result.record.numel == 1000


def test_an_empty_pair_is_measured(tmp_path):
    target, golden = sides(tmp_path, count=0)
    for options in (PLAIN, SOFTMAX):
        (result,) = run(plan_tasks(0, target, golden, options), options)
        assert result.failure is None
        record = fold([result.record]) if isinstance(result.record, SpanRecord) else result.record
        assert record.numel == 0


def test_one_unreadable_file_costs_one_task(tmp_path):
    tasks = [next(plan_tasks(n, *sides(tmp_path, f"n{n}"), PLAIN)) for n in range(3)]
    Path(tasks[1].golden.extents[0].file).unlink()
    results = run(tasks)
    assert [result.failure is None for result in results] == [True, False, True]
    assert results[1].failure.code.startswith("PF3")
    assert results[1].record is None


def test_a_truncated_file_costs_one_task(tmp_path):
    tasks = [next(plan_tasks(n, *sides(tmp_path, f"n{n}", 4000), PLAIN)) for n in range(2)]
    file = Path(tasks[0].target.extents[0].file)
    file.write_bytes(file.read_bytes()[:-4])
    results = run(tasks)
    assert results[0].failure.code == "PF3101"
    assert results[1].failure is None


def test_a_defect_costs_one_task_and_asks_for_a_report(tmp_path, monkeypatch):
    tasks = [next(plan_tasks(n, *sides(tmp_path, f"n{n}", 2 * TOGETHER), PLAIN)) for n in range(3)]
    original = measuring.measure_span

    def broken(target, golden, first, count, options, scratch):
        if count and broken.calls == 1:
            broken.calls += 1
            raise ZeroDivisionError("a defect")
        broken.calls += 1
        return original(target, golden, first, count, options, scratch)

    broken.calls = 0
    monkeypatch.setattr(measuring, "measure_span", broken)
    results = run(tasks)
    assert [result.failure.code if result.failure else None for result in results] == [None, "PF9002", None]
    assert results[1].failure.message == "measuring `n1.output.0` failed: ZeroDivisionError: a defect"


def test_memory_that_runs_out_costs_one_task(tmp_path, monkeypatch):
    def greedy(*_):
        raise MemoryError

    monkeypatch.setattr(measuring, "measure_span", greedy)
    (result,) = run(plan_tasks(0, *sides(tmp_path, count=2 * TOGETHER), PLAIN))
    assert result.failure.code == "PF3190"


def sized(number, nbytes, folder):
    tensor = described(folder, nbytes // 8)
    return Task(number, tensor, tensor, 0, 1 << 20)


def test_batches_are_filled_up_to_the_limit_largest_first(tmp_path):
    tasks = [sized(n, size, tmp_path) for n, size in enumerate([80, 800, 240, 400, 160])]
    batches = plan_batches(tasks, PLAIN, io="read", batch_bytes=800)
    assert [[task.nbytes for task in batch.tasks] for batch in batches] == [[800], [400, 240, 160], [80]]
    assert {batch.io for batch in batches} == {"read"}
    assert all(batch.options == PLAIN for batch in batches)


def test_a_task_above_the_limit_has_a_batch_of_its_own(tmp_path):
    batches = plan_batches([sized(0, 8000, tmp_path), sized(1, 8, tmp_path)], PLAIN, io="auto", batch_bytes=800)
    assert [len(batch.tasks) for batch in batches] == [1, 1]


def test_many_tiny_tasks_are_split_by_number(tmp_path):
    one = sized(0, 0, tmp_path)
    tasks = [Task(n, one.target, one.golden, 0, 0) for n in range(2 * MAX_TASKS_PER_BATCH + 1)]
    batches = plan_batches(tasks, PLAIN, io="auto", batch_bytes=1)
    assert [len(batch.tasks) for batch in batches] == [MAX_TASKS_PER_BATCH, MAX_TASKS_PER_BATCH, 1]
    assert [task.pair for batch in batches for task in batch.tasks] == list(range(len(tasks)))


def test_much_work_is_cut_into_batches_of_which_the_last_are_not_long(tmp_path):
    tasks = [sized(n, 800, tmp_path) for n in range(BATCHES * 3)]
    for n, task in enumerate(tasks):
        tasks[n] = replace(task, golden=task.golden.changed(dtype=f"float{n}"))  # goldens of their own
    few = plan_batches(tasks[: SHORT_BATCHES * 4], PLAIN, io="auto", batch_bytes=3200)
    assert [len(batch.tasks) for batch in few] == [4] * SHORT_BATCHES
    many = plan_batches(tasks, PLAIN, io="auto", batch_bytes=8000)
    assert [len(batch.tasks) for batch in many] == [3] * (BATCHES * 3 // 4) + [1] * (BATCHES * 3 // 4)
    assert [task.pair for batch in many for task in batch.tasks] == list(range(len(tasks)))


def test_what_reads_one_golden_stays_together_unless_it_is_much_of_all(tmp_path):
    def consumers(golden, count):
        one = sized(0, 800, tmp_path)
        changed = one.golden.changed(logical_shape=(golden,))
        return [replace(one, pair=100 * golden + n, golden=changed) for n in range(count)]

    groups = [consumers(golden, 24) for golden in range(1, 31)]
    batches = plan_batches([task for group in groups for task in group], PLAIN, io="auto", batch_bytes=8000)
    assert sorted(sorted({task.pair // 100 for task in batch.tasks}) for batch in batches) == [
        [golden] for golden in range(1, 31)
    ]
    alone = plan_batches(groups[0], PLAIN, io="auto", batch_bytes=8000)
    assert len(alone) > 1, "one golden tensor is no reason for one worker"


def test_no_task_no_batch():
    assert plan_batches([], PLAIN, io="auto", batch_bytes=1) == []
