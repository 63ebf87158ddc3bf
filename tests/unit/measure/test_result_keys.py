"""The keys that results are kept under: figures of a version that users' caches were written by."""

from __future__ import annotations

import gc
import json
import os
import weakref

import pytest

from probe_flow.measure.batches import Task
from probe_flow.measure.result_keys import Sources, key_of, task_text
from probe_flow.metrics.accumulators.moments import Moments
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef

pytestmark = pytest.mark.usefixtures("all_kept")


def tensor(file: str) -> TensorRef:
    node = NodeKey(Execution(step=0, rank=1), "Add_1")
    return TensorRef.of(
        node, Slot(SlotRole.OUTPUT, (0,)), TensorKind.TENSOR, "float16", (2, 3), extents=(Extent(file, 64, 12),)
    )


def key(asked: str, *, golden: bool = True, statistics: tuple[str, ...] = ()) -> str:
    task = Task(0, tensor("t"), tensor("g") if golden else None, 0, 1, statistics=statistics)
    text = task_text(task, asked, identify=lambda extent: f'"{extent.file}", 76, 1')
    assert text is not None
    return key_of(text)


@pytest.mark.parametrize(
    ("options", "known"),
    [
        (MeasureOptions(), "b31b2c2b8b088c98b9bfa2b533f1eef3"),
        (MeasureOptions(backend="numba"), "b31b2c2b8b088c98b9bfa2b533f1eef3"),
        (MeasureOptions(("masked", "moments", "softmax"), max_elements=7), "7df80128a77ae8aaa64a34608e06219d"),
    ],
)
def test_an_old_cache_is_found_whatever_classes_and_fields_are_called(options, known):
    assert key(options.key_text) == known


def test_statistics_of_one_tensor_have_a_key_of_their_own():
    assert key("not asked", golden=False, statistics=("max", "min")) == "c95350eb52183becf552cebf5fed581e"


def test_a_new_version_of_an_accumulator_misses_only_results_that_hold_it(monkeypatch):
    plain, with_moments = MeasureOptions(("masked",)), MeasureOptions(("masked", "moments"))
    before = plain.key_text, with_moments.key_text
    monkeypatch.setattr(Moments, "version", 2)
    assert plain.key_text == before[0]
    assert with_moments.key_text == "MeasureOptions(accumulators=(masked=1, moments=2), max_elements=0)" != before[1]


def test_a_text_is_json_with_its_fields_in_the_order_of_their_names():
    strange = TensorRef.of(
        NodeKey(Execution(), "a"),
        Slot(SlotRole.INPUT, (0,)),
        TensorKind.TENSOR,
        "float32",
        shape=(4, 3),
        logical_shape=(3, 4),
        layout="NHWC",
        sub_format=2,
        extents=(Extent('ü"\udcff', 8, 12, "raw-strided:3,1@float32", (0, 1)),),
    )
    asked = 'of "all"'
    text = task_text(Task(4, strange, tensor("g"), 512, 3), asked, identify=lambda extent: '"digest"')
    fields = {
        "blocks": [512, 3],
        "golden.decoding": ["float16", "ND", 0, None, None],
        "golden.source": [["digest", 64, 12, "raw", None]],
        "kernel": 4,
        "options": asked,
        "target.decoding": ["float32", "NHWC", 2, [4, 3], [3, 4]],
        "target.source": [["digest", 8, 12, "raw-strided:3,1@float32", [0, 1]]],
    }
    assert text == json.dumps(fields, sort_keys=True)


def test_a_source_is_identified_by_path_size_times_and_inode(tmp_path):
    path = tmp_path / 'a "file"'
    path.write_bytes(b"content")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    status = path.stat()
    found = Sources("stat").identify(Extent(str(path), 0, 7))
    known = [str(path), 7, 1_700_000_000_000_000_000, status.st_ctime_ns, status.st_ino]
    assert json.loads(f"[{found}]") == known


def test_a_source_that_is_young_or_gone_is_not_identified(tmp_path):
    path = tmp_path / "young"
    path.write_bytes(b"content")
    assert Sources("stat").identify(Extent(str(path), 0, 7)) is None
    assert Sources("stat").identify(Extent(str(tmp_path / "gone"), 0, 7)) is None
    assert Sources("content").identify(Extent(str(tmp_path / "gone"), 0, 7)) is None


def test_equal_content_identifies_equally_wherever_it_is(tmp_path):
    for name, content in (("a", b"12content"), ("b", b"xxcontent"), ("c", b"xxcontenT")):
        (tmp_path / name).write_bytes(content)
    sources = Sources("content")
    found = [sources.identify(Extent(str(tmp_path / name), 2, 7)) for name in "abc"]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("by", ["stat", "content"])
def test_what_is_known_of_files_goes_with_its_batch_and_waits_for_no_collection_of_garbage(tmp_path, by):
    path = tmp_path / "a"
    path.write_bytes(b"content")
    gc.disable()
    try:
        sources = Sources(by)
        sources.seen_again().identify(Extent(str(path), 0, 7))
        sources.identify(Extent(str(path), 0, 7))
        gone = weakref.ref(sources._state)
        del sources
        assert gone() is None
    finally:
        gc.enable()
