"""The keys that results are kept under: figures of a version that users' caches were written by."""

from __future__ import annotations

import pytest

from probe_flow.measure.batches import Task
from probe_flow.measure.result_keys import key_of, task_fields
from probe_flow.metrics.sums.options import MeasureOptions
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef


def tensor(file: str) -> TensorRef:
    node = NodeKey(Execution(step=0, rank=1), "Add_1")
    return TensorRef(
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
        (MeasureOptions(), "3c035502d80d85aa28def55458704073"),
        (MeasureOptions(backend="numba"), "3c035502d80d85aa28def55458704073"),
        (MeasureOptions(moments=True, masked=True, softmax=True, max_elements=7), "c374f8bf0e0ed28344237a2d982e019a"),
    ],
)
def test_an_old_cache_is_found_whatever_classes_and_fields_are_called(options, known):
    assert key(options.key_text) == known


def test_statistics_of_one_tensor_have_a_key_of_their_own():
    assert key("not asked", golden=False, statistics=("max", "min")) == "85a7fe84b5b67c9b9e735da9dea8b697"
