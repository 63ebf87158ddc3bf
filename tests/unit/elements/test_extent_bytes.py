"""Memory that tensors use one after another: it is used again, and nothing that still counts is in it."""

from __future__ import annotations

import tracemalloc

import ge_writer
import numpy as np
import pytest
from ge_writer import DumpTensor
from raw_pairs import raw

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements import extent_bytes
from probe_flow.elements.blocks import open_tensor
from probe_flow.elements.extent_bytes import Loan, SpareMemory
from probe_flow.measure.batches import Batch, measure_batch, plan_tasks
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.records import Execution, NodeKey

RNG = np.random.default_rng(23)


def private(folder, name, data, layout="NC1HWC0"):
    tensor = DumpTensor(data, str(data.dtype), layout)
    path = ge_writer.write_dump(folder / name, op_name=name, inputs=[tensor])
    return tensor_refs(read_ge_header(path), path, NodeKey(Execution(), name))[0]


def test_a_buffer_is_used_again_by_the_next_that_fits():
    spare = SpareMemory()
    large, small = spare.take(1000), spare.take(10)
    spare.give(large)
    spare.give(small)
    assert spare.take(5) is small
    assert spare.take(5) is large
    assert spare.take(5) is not large


def test_no_more_is_kept_than_the_bound(monkeypatch):
    monkeypatch.setattr(extent_bytes, "MOST_BYTES", 100)
    spare = SpareMemory()
    first, second, third = (np.empty(60, np.uint8), np.empty(60, np.uint8), np.empty(40, np.uint8))
    for buffer in (first, second, third):
        spare.give(buffer)
    assert spare.take(60) is first
    assert spare.take(40) is third
    assert spare.take(1) is not second


def test_a_loan_ends_with_all_that_was_taken_and_none_is_needed():
    spare = SpareMemory()
    loan = Loan(spare)
    first = loan.at_least(10, np.empty(0, np.uint8))
    assert loan.at_least(10, first) is first
    second = loan.at_least(20, first)
    loan.end()
    loan.end()
    assert spare.take(10) is first
    assert spare.take(10) is second
    assert Loan(None).at_least(7, np.empty(0, np.uint8)).size == 7


@pytest.mark.parametrize("layout", ["NC1HWC0", "FRACTAL_NZ", "ND"])
def test_tensors_read_one_after_another_are_those_that_were_written(tmp_path, layout):
    spare = SpareMemory()
    shapes = [(2, 40, 90, 80), (1, 33, 200, 100), (1, 16, 300, 120)]
    for number, shape in enumerate(shapes):
        data = RNG.standard_normal(shape).astype(np.float32)
        with open_tensor(private(tmp_path, f"op{number}", data, layout), spare=spare) as blocks:
            for start in range(0, data.size, 50_000):
                stop = min(data.size, start + 50_000)
                np.testing.assert_array_equal(blocks.read(start, stop), data.reshape(-1)[start:stop])


def test_the_second_tensor_takes_no_memory(tmp_path):
    data = RNG.standard_normal((1, 64, 128, 128)).astype(np.float32)
    refs = [private(tmp_path, f"op{number}", data) for number in range(2)]
    spare = SpareMemory()

    def read(ref):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with open_tensor(ref, spare=spare) as blocks:
            blocks.read(0, data.size)
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    try:
        first, second = (read(ref) for ref in refs)
    finally:
        tracemalloc.stop()
    assert first > 2 * data.nbytes
    assert second < data.nbytes // 8


@pytest.mark.parametrize("options", [MeasureOptions(), MeasureOptions(("minmax",)), MeasureOptions(max_elements=1000)])
def test_pairs_of_a_batch_give_what_they_give_alone(tmp_path, options):
    """Small pairs too, which are measured when both sides are closed: padding makes their files large."""
    tasks = []
    for number, (shape, layout) in enumerate(
        [((1, 64, 100, 90), "NC1HWC0"), ((1, 1, 128, 64), "NC1HWC0"), ((1, 1, 64, 128), "NC1HWC0"), ((900, 700), "ND")]
    ):
        golden = RNG.standard_normal(shape)
        target = private(tmp_path, f"op{number}", golden * 1.001, layout)
        tasks += plan_tasks(number, target, raw(tmp_path, "golden", f"g{number}", golden), options)
    small = [task.target for task in tasks if task.target.numel <= 8192]
    assert len(small) == 2
    assert min(tensor.extents[0].nbytes for tensor in small) >= 1 << 20
    together = measure_batch(Batch(tuple(tasks), options, "auto"))
    alone = [measure_batch(Batch((task,), options, "auto"))[0] for task in tasks]
    assert [result.record for result in together] == [result.record for result in alone]
    assert all(result.record is not None for result in together)
