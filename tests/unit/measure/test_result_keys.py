"""The keys that results are kept under: figures of a version that users' caches were written by."""

from __future__ import annotations

import pytest

from probe_flow.measure.batches import Task
from probe_flow.measure.result_keys import key_of, task_fields
from probe_flow.metrics.accumulators.moments import Moments
from probe_flow.metrics.accumulators.options import MeasureOptions
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef


def tensor(file: str) -> TensorRef:
    node = NodeKey(Execution(step=0, rank=1), "Add_1")
    return TensorRef.of(
        node, Slot(SlotRole.OUTPUT, (0,)), TensorKind.TENSOR, "float16", (2, 3), extents=(Extent(file, 64, 12),)
    )


def key(asked: str, *, golden: bool = True, statistics: tuple[str, ...] = ()) -> str:
    task = Task(0, tensor("t"), tensor("g") if golden else None, 0, 1, statistics=statistics)
    fields = task_fields(task, asked, identify=lambda extent: (extent.file, 76, 1))
    assert fields is not None
    return key_of(fields)


@pytest.mark.parametrize(
    ("options", "known"),
    [
        (MeasureOptions(), "a482ed32d9ca7f75241f5613d9cb7e85"),
        (MeasureOptions(backend="numba"), "a482ed32d9ca7f75241f5613d9cb7e85"),
        (MeasureOptions(("masked", "moments", "softmax"), max_elements=7), "3ac31e4e40cb2707ea0dca07e5a61016"),
    ],
)
def test_an_old_cache_is_found_whatever_classes_and_fields_are_called(options, known):
    assert key(options.key_text) == known


def test_statistics_of_one_tensor_have_a_key_of_their_own():
    assert key("not asked", golden=False, statistics=("max", "min")) == "f96f73191012d02f3e87e1972fd10ba6"


def test_a_new_version_of_an_accumulator_misses_only_results_that_hold_it(monkeypatch):
    plain, with_moments = MeasureOptions(("masked",)), MeasureOptions(("masked", "moments"))
    before = plain.key_text, with_moments.key_text
    monkeypatch.setattr(Moments, "version", 2)
    assert plain.key_text == before[0]
    assert with_moments.key_text == "MeasureOptions(accumulators=(masked=1, moments=2), max_elements=0)" != before[1]
