"""Tasks of one golden tensor: it is read once, equal targets are measured once, and a failure stays where it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from raw_pairs import raw

from probe_flow.elements.blocks import holds_same
from probe_flow.measure import batches as measuring
from probe_flow.measure.batches import Batch, Task, TaskResult, measure_batch, plan_batches, plan_tasks
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.kernel.kept_blocks import KEPT_BYTES
from probe_flow.metrics.sums.record import BLOCK, fold
from probe_flow.records import TensorRef

PLAIN = MeasureOptions()
TWO_PASSES = MeasureOptions(("minmax",))
RNG = np.random.default_rng(8)
COUNT = 2 * BLOCK + 100
SIZES = {"a": 100, "b": 50, "c": 50}


def tasks_of(targets: list[TensorRef], golden: TensorRef, options: MeasureOptions = PLAIN) -> list[Task]:
    return [task for number, target in enumerate(targets) for task in plan_tasks(number, target, golden, options)]


def consumers(folder: Path, golden: np.ndarray, count: int = 3) -> list[TensorRef]:
    """Targets that differ from each other."""
    return [raw(folder, "target", f"n{n}", golden * np.float32(1 + 0.001 * n)) for n in range(1, count + 1)]


def run(tasks: list[Task], options: MeasureOptions = PLAIN, **more: object) -> list[TaskResult]:
    return measure_batch(Batch(tuple(tasks), options, "auto", **more))


@pytest.fixture
def read(monkeypatch) -> Counter[str]:
    """Elements that were read of each file."""
    counted: Counter[str] = Counter()
    original = measuring.open_tensor

    def opened(ref: TensorRef, **more: str):
        blocks = original(ref, **more)
        reader = blocks._reader

        def counting(start: int, stop: int):
            counted[Path(ref.extents[0].file).name] += stop - start
            return reader(start, stop)

        blocks._reader = counting
        return blocks

    monkeypatch.setattr(measuring, "open_tensor", opened)
    return counted


@pytest.mark.parametrize("options", [PLAIN, TWO_PASSES, MeasureOptions(("minmax",), max_elements=BLOCK + 3)])
def test_a_golden_tensor_is_read_once_however_many_consumers_it_has(tmp_path, read, options):
    values = RNG.standard_normal(COUNT).astype(np.float32)
    golden, targets = raw(tmp_path, "golden", "g", values), consumers(tmp_path, values)
    results = run(tasks_of(targets, golden, options), options)
    wanted = options.max_elements or COUNT
    assert read == {"golden-g.bin": wanted, **{f"target-n{n}.bin": wanted for n in (1, 2, 3)}}
    alone = [run(tasks_of([target], golden, options), options)[0] for target in targets]
    assert [result.record for result in results] == [result.record for result in alone]


def test_what_does_not_fit_into_memory_is_read_again(tmp_path, read):
    values = np.zeros(KEPT_BYTES // 4 + BLOCK, np.float32)
    golden, targets = raw(tmp_path, "golden", "g", values), consumers(tmp_path, values + 1)
    run(tasks_of(targets, golden))
    assert read["golden-g.bin"] == values.size + 2 * BLOCK


@pytest.mark.parametrize("options", [PLAIN, TWO_PASSES])
def test_targets_of_the_same_bytes_are_measured_once(tmp_path, read, options):
    values = RNG.standard_normal(COUNT).astype(np.float32)
    golden = raw(tmp_path, "golden", "g", values)
    output = values * np.float32(1.001)
    targets = [raw(tmp_path, "target", name, output) for name in ("output", "input", "other_input")]
    different = raw(tmp_path, "target", "different", np.where(np.arange(COUNT) == COUNT - 1, 0, output))
    results = run(tasks_of([*targets, different], golden, options), options)
    assert [result.pair for result in results] == [0, 1, 2, 3]
    assert results[0].record == results[1].record == results[2].record != results[3].record
    assert set(read) == {"golden-g.bin", "target-output.bin", "target-different.bin"}
    assert results[3].record == run(tasks_of([different], golden, options), options)[0].record


def test_large_tensors_in_spans_give_what_they_give_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "SPAN_BLOCKS", 1)
    values = RNG.standard_normal(COUNT).astype(np.float32)
    golden = raw(tmp_path, "golden", "g", values)
    targets = [raw(tmp_path, "target", name, values * np.float32(1.001)) for name in ("output", "input")]
    (batch,) = plan_batches(tasks_of(targets, golden), PLAIN, io="auto", batch_bytes=1 << 30)
    assert [(task.first_block, task.pair) for task in batch.tasks] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    results = measure_batch(batch)
    alone = [result.record for result in run(tasks_of(targets[:1], golden))]
    for pair in (0, 1):
        assert fold([result.record for result in results if result.pair == pair]) == fold(alone)


def test_a_golden_that_cannot_be_read_costs_its_tasks_alone(tmp_path):
    values = RNG.standard_normal(500).astype(np.float32)
    golden, others = raw(tmp_path, "golden", "g", values), raw(tmp_path, "golden", "h", values)
    targets = consumers(tmp_path, values)
    Path(golden.extents[0].file).unlink()
    found = run([*tasks_of(targets[:2], golden), *tasks_of(targets[2:], others)])
    assert [result.failure.code if result.failure else None for result in found] == ["PF3001", "PF3001", None]


def test_a_target_that_cannot_be_read_costs_its_own_task(tmp_path):
    values = RNG.standard_normal(500).astype(np.float32)
    targets = [raw(tmp_path, "target", name, values) for name in ("a", "b", "c")]
    Path(targets[1].extents[0].file).unlink()
    results = run(tasks_of(targets, raw(tmp_path, "golden", "g", values)))
    assert [result.failure is None for result in results] == [True, False, True]
    assert results[0].record == results[2].record


def test_the_same_bytes_of_another_meaning_are_another_tensor(tmp_path):
    first, second = (raw(tmp_path, "target", name, np.arange(64, dtype=np.int32)) for name in ("a", "b"))
    assert holds_same(first, second)
    assert not holds_same(first, second.changed(dtype="float32"))
    assert not holds_same(first, second.changed(logical_shape=(8, 8)))
    assert not holds_same(first, second.changed(layout="NHWC"))
    encoded = replace(second.extents[0], encoding="raw-big")
    assert not holds_same(first, second.changed(extents=(encoded,)))
    Path(second.extents[0].file).write_bytes(bytes(200))
    assert not holds_same(first, second)


def test_held_contents_are_compared_as_their_files_would_be(tmp_path):
    first, second = (raw(tmp_path, "target", name, np.arange(64, dtype=np.int32)) for name in ("a", "b"))
    files = [tensor.extents[0].file for tensor in (first, second)]
    content = Path(files[0]).read_bytes()
    for other, is_same in (
        (content, True),
        (content[:-1] + b"x", False),
        (content[:-1], False),
        (content + b"x", True),
    ):
        assert holds_same(first, second, dict(zip(files, (content, other), strict=True))) is is_same
    assert not holds_same(first, second, dict.fromkeys(files, content[:-1])), "neither is whole"
    assert not holds_same(first, second, {files[0]: bytes(len(content)), files[1]: content})
    assert holds_same(first, second, {files[1]: bytes(len(content))}), "with one content both files are opened"


def test_a_held_content_that_is_too_short_costs_its_task(tmp_path):
    values = RNG.standard_normal(50).astype(np.float32)
    target, golden = raw(tmp_path, "target", "a", values), raw(tmp_path, "golden", "a", values)
    (found,) = run(tasks_of([target], golden), contents={target.extents[0].file: b"cut"})
    assert found.failure.code == "PF3101"


def test_consumers_stay_together_and_a_batch_is_not_cut_where_it_would_separate_them(tmp_path):
    goldens = {name: raw(tmp_path, "golden", name, np.zeros(count, np.float32)) for name, count in SIZES.items()}

    def task(pair: int, golden: str, dtype: type = np.float32) -> Task:
        return Task(pair, raw(tmp_path, "target", f"{pair}", np.zeros(SIZES[golden], dtype)), goldens[golden], 0, 1)

    tasks = [task(0, "a"), task(1, "b"), task(2, "c"), task(3, "b"), task(4, "b", np.float16)]
    assert [each.nbytes for each in tasks] == [800, 400, 400, 400, 300]
    batches = plan_batches(tasks, PLAIN, io="auto", batch_bytes=1300)
    assert [[each.pair for each in batch.tasks] for batch in batches] == [[0], [1, 3, 4], [2]]
    batches = plan_batches(tasks, PLAIN, io="auto", batch_bytes=700)
    assert [[each.pair for each in batch.tasks] for batch in batches] == [[0], [1], [3, 4], [2]]
