"""Measuring all pairs: a dump that changes meanwhile, and results of two backends."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.files.opening import open_regular
from probe_flow.files.small_files import SmallFiles, state_of
from probe_flow.measure.run import measure_pairs
from probe_flow.metrics.catalogue.registry import metric_ids
from probe_flow.records import Execution, NodeKey, Pair, Rule, Slot, SlotRole
from probe_flow.work import Context, Settings

IDS = metric_ids("default")
EXACT = Rule("exact")


class Memory:
    """A cache in memory."""

    key = "stat"

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def find(self, keys):
        return {key: self.texts[key] for key in keys if key in self.texts}

    def add(self, texts) -> None:
        self.texts.update({key: text for key, (text, _) in texts.items()})


def ref(path: Path, data: np.ndarray):
    np.save(path, data)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return npy_tensor_ref(path, NodeKey(Execution(), path.stem), Slot(SlotRole.OUTPUT))


def pair(tmp_path: Path, name: str, data: np.ndarray) -> Pair:
    return Pair(ref(tmp_path / f"{name}_t.npy", data), ref(tmp_path / f"{name}_g.npy", data), "g", EXACT)


def context(
    cache: Memory, *, meanwhile=lambda: None, calls: list[int] | None = None, small_files: SmallFiles | None = None
) -> Context:
    def in_order(function, batches, **_):
        for number, batch in enumerate(batches):
            if calls is not None:
                calls.append(len(batch.tasks))
            result = function(batch)
            meanwhile()
            yield number, result

    def ignore(*_: object, **__: object) -> None:
        return None

    held = small_files or SmallFiles()
    return Context("c", Path(), in_order, ignore, ignore, Settings(), {}, cache, small_files=held)


@pytest.mark.parametrize("change", ["time", "size", "bytes"])
@pytest.mark.usefixtures("all_kept")
def test_a_file_that_changes_while_it_is_read_costs_its_row_and_is_not_kept(tmp_path, change):
    changing, quiet = (pair(tmp_path, name, np.ones(10, np.float32)) for name in ("changing", "quiet"))

    def touch() -> None:
        path = Path(changing.target.extents[0].file)
        if change == "time":
            os.utime(path, (1_700_000_009, 1_700_000_009))
        elif change == "bytes":
            path.write_bytes(path.read_bytes()[:-1] + b"\1")
            os.utime(path, (1_700_000_000, 1_700_000_000))
        else:
            path.write_bytes(path.read_bytes() + b"more")

    cache = Memory()
    rows = measure_pairs([changing, quiet], IDS, context(cache, meanwhile=touch))
    assert rows[0].measurement is None
    assert rows[0].failure.code == "PF3192"
    assert rows[1].measurement.metrics["max_abs_err"] == 0.0
    assert len(cache.texts) == 1


def at_look(monkeypatch, number: int, path: str, change) -> None:
    """Have a file change just before one of the looks at it, counted from 1."""
    looks = []

    def looked(file: str):
        if file == path:
            looks.append(file)
            if len(looks) == number:
                change()
        return state_of(file)

    monkeypatch.setattr("probe_flow.measure.result_keys.state_of", looked)


@pytest.mark.usefixtures("all_kept")
def test_a_file_that_changes_until_its_result_is_kept_is_not_kept_under_the_new_file(tmp_path, monkeypatch):
    changing = pair(tmp_path, "changing", np.ones(10, np.float32))
    path = Path(changing.target.extents[0].file)

    def rewrite() -> None:
        path.write_bytes(path.read_bytes()[:-1] + b"\1")
        os.utime(path, (1_700_000_000, 1_700_000_000))

    at_look(monkeypatch, 2, str(path), rewrite)  # the first look was for what the cache has
    cache = Memory()
    rows = measure_pairs([changing], IDS, context(cache))
    assert rows[0].failure.code == "PF3192"
    assert cache.texts == {}


@pytest.mark.usefixtures("all_kept")
def test_a_file_that_was_too_young_when_it_was_looked_up_is_not_kept_later(tmp_path, monkeypatch):
    young = pair(tmp_path, "young", np.ones(10, np.float32))
    ages = iter([False, True, True, True])
    monkeypatch.setattr("probe_flow.files.small_files.FileState.is_settled", property(lambda _state: next(ages)))
    cache = Memory()
    rows = measure_pairs([young], IDS, context(cache))
    assert rows[0].measurement.metrics["max_abs_err"] == 0.0
    assert cache.texts == {}


def test_each_file_is_looked_at_twice(tmp_path, monkeypatch):
    golden = ref(tmp_path / "g.npy", np.ones(10, np.float32))
    targets = [ref(tmp_path / f"t{number}.npy", np.full(10, number, np.float32)) for number in range(3)]
    looks: Counter[str] = Counter()

    def looked(file: str):
        looks[Path(file).name] += 1
        return state_of(file)

    monkeypatch.setattr("probe_flow.measure.result_keys.state_of", looked)
    measure_pairs([Pair(target, golden, "g", EXACT) for target in targets], IDS, context(Memory()))
    assert looks == {"g.npy": 2, "t0.npy": 2, "t1.npy": 2, "t2.npy": 2}


@pytest.fixture
def opened(monkeypatch) -> Counter[str]:
    """How often each file was opened to be read."""
    counted: Counter[str] = Counter()

    def counting(path, **more):
        counted[Path(path).name] += 1
        return open_regular(path, **more)

    monkeypatch.setattr("probe_flow.files.binary_file.open_regular", counting)
    return counted


def test_small_files_that_were_read_with_their_headers_are_neither_opened_nor_looked_at_again(
    tmp_path, opened, monkeypatch
):
    files = SmallFiles()
    with files.filled():
        pairs = [pair(tmp_path, name, np.arange(5, dtype=np.float32)) for name in ("a", "b")]
        pairs.append(Pair(ref(tmp_path / "c_t.npy", np.arange(5, dtype=np.float32)), pairs[0].golden, "g", EXACT))
    assert set(opened.values()) == {1}
    opened.clear()
    monkeypatch.setattr("probe_flow.measure.result_keys.state_of", None)
    rows = measure_pairs(pairs, IDS, context(Memory(), small_files=files))
    assert [row.measurement.metrics["max_abs_err"] for row in rows] == [0.0, 0.0, 0.0]
    assert not opened


def test_nothing_of_small_files_is_held_once_they_are_measured(tmp_path):
    """Not by the batches either, for which the scheduler may ask again until it has their results."""
    files, held = SmallFiles(), []
    with files.filled():
        pairs = [pair(tmp_path, name, np.arange(5, dtype=np.float32)) for name in ("a", "b")]
    path = pairs[0].target.holder
    given = context(Memory(), small_files=files)

    def kept(function, batches, **how):
        held.append(batches)
        assert len(batches[0].contents) == 4
        assert files.content(path) is None
        assert files.state(path) is not None
        return given.map(function, batches, **how)

    measure_pairs(pairs, IDS, replace(given, map=kept))
    assert [(batch.tasks, dict(batch.contents)) for batch in held[0]] == [((), {})]
    assert files.state(path) is None


@pytest.mark.parametrize("by", ["stat", "content"])
@pytest.mark.usefixtures("all_kept")
def test_a_result_of_held_content_is_that_of_the_file_as_it_was(tmp_path, by):
    files, cache, calls = SmallFiles(), Memory(), []
    cache.key = by
    with files.filled():
        held = pair(tmp_path, "a", np.arange(5, dtype=np.float32))
    (before,) = measure_pairs([held], IDS, context(Memory()))
    path = Path(held.target.extents[0].file)
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    (during,) = measure_pairs([held], IDS, context(cache, calls=calls, small_files=files))
    (after,) = measure_pairs([held], IDS, context(cache, calls=calls))
    assert repr(during) == repr(before) != repr(after)
    assert calls == [1, 1], "the new file does not get the result of the old one"
    assert len(cache.texts) == 2


@pytest.mark.usefixtures("all_kept")
def test_what_was_measured_is_taken_from_the_cache(tmp_path):
    pairs = [pair(tmp_path, name, np.arange(5, dtype=np.float32)) for name in ("a", "b")]
    cache, calls = Memory(), []
    first = measure_pairs(pairs, IDS, context(cache, calls=calls))
    again = measure_pairs(pairs, IDS, context(cache, calls=calls))
    assert calls == [2], "the second time nothing is measured"
    assert repr(first) == repr(again)
    assert again[0].measurement.backend.startswith("numpy ")


def test_a_text_that_is_no_record_is_measured_again(tmp_path):
    pairs = [pair(tmp_path, "a", np.arange(5, dtype=np.float32))]
    cache, calls = Memory(), []
    measure_pairs(pairs, IDS, context(cache))
    cache.texts = dict.fromkeys(cache.texts, "numpy 1\nof another version")
    rows = measure_pairs(pairs, IDS, context(cache, calls=calls))
    assert calls == [1]
    assert rows[0].measurement is not None


def test_a_pair_is_measured_by_one_backend(tmp_path, monkeypatch):
    monkeypatch.setattr("probe_flow.measure.batches.SPAN_BLOCKS", 1)
    pairs = [pair(tmp_path, "a", np.arange(3 * 65536, dtype=np.float32))]
    cache, calls = Memory(), []
    measure_pairs(pairs, IDS, context(cache))
    assert len(cache.texts) == 3
    keys = list(cache.texts)
    # As if another backend had measured two of the three spans, and the third had been lost.
    cache.texts = {key: "other 1\n" + cache.texts[key].partition("\n")[2] for key in keys[:2]}
    rows = measure_pairs(pairs, IDS, context(cache, calls=calls))
    assert calls == [3], "spans of two backends are not folded"
    assert rows[0].measurement.backend.startswith("numpy ")


@pytest.mark.parametrize(("elements", "kept"), [(4095, 0), (4096, 1)])
def test_a_result_is_kept_of_32_kib_of_both_sides(tmp_path, elements, kept):
    cache, calls = Memory(), []
    given = [pair(tmp_path, "a", np.ones(elements, np.float32))]
    first = measure_pairs(given, IDS, context(cache, calls=calls))
    assert len(cache.texts) == kept
    assert measure_pairs(given, IDS, context(cache, calls=calls)) == first
    assert sum(calls) == 2 - kept
