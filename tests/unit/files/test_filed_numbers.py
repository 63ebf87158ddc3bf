"""Numbers in a file: read as an array is, also by a fork, and nothing of them is left."""

from __future__ import annotations

import gc
import os
import pickle
import random
import sys
import tracemalloc
from array import array

import pytest

from probe_flow.files import filed_numbers
from probe_flow.files.filed_numbers import HELD_PAGES, PAGE, GrowingNumbers, NumberFile
from probe_flow.files.forked import Forked
from probe_flow.files.opening import INHERITED

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks are for Linux alone")


def some(count: int, begin: float = 0.5) -> array[float]:
    return array("d", [begin + number for number in range(count)])


@pytest.mark.parametrize("count", [1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE + 7])
def test_they_are_read_as_an_array_is(count):
    file, numbers = NumberFile(), some(count)
    file.put(some(5))
    found = file.put(numbers)

    assert not isinstance(found, array)
    assert len(found) == count
    assert found[:] == numbers
    drawn = random.Random(count)
    for _ in range(200):
        begin, end = drawn.randrange(count + 1), drawn.randrange(count + 3)
        assert found[begin:end] == numbers[begin:end]
    assert [found[place] for place in (0, count // 2, count - 1)] == [numbers[p] for p in (0, count // 2, count - 1)]
    with pytest.raises(IndexError):
        found[count]


def test_what_is_read_is_a_copy():
    found = NumberFile().put(some(10))
    found[2:4][0] = -1.0
    assert found[2] == 2.5


def test_nan_infinities_and_signs_come_back():
    given = array("d", [float("nan"), float("inf"), -0.0, 5e-324])
    assert NumberFile().put(given)[:].tobytes() == given.tobytes()


def test_a_few_pages_are_in_memory():
    file = NumberFile()
    found = file.put(some(4 * HELD_PAGES * PAGE))
    tracemalloc.start()
    try:
        assert sum(found[place] for place in range(0, len(found), PAGE)) > 0
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.1 * HELD_PAGES * PAGE * 8


def test_nothing_is_put_twice_and_nothing_is_no_file():
    file = NumberFile()
    found = file.put(some(3))
    assert file.put(found) is found
    assert file.put(array("d")) == array("d")


def test_where_there_is_no_room_they_stay_in_memory(monkeypatch):
    def is_full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    numbers = some(3)
    monkeypatch.setattr(os, "pwrite", is_full)
    assert NumberFile().put(numbers) is numbers


def test_a_folder_that_a_variable_names_is_taken(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(filed_numbers.tempfile, "TemporaryFile", lambda **given: asked.append(given))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    filed_numbers._temporary_file()
    monkeypatch.delenv("TMPDIR")
    filed_numbers._temporary_file()
    assert asked == [{}, {"dir": "/var/tmp"}]


def test_nothing_is_left_of_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(filed_numbers.tempfile, "tempdir", None)
    gc.collect()  # files of other tests
    before = set(INHERITED)
    found = NumberFile().put(some(3))
    assert not list(tmp_path.iterdir())
    (own,) = INHERITED - before
    del found
    gc.collect()
    assert own not in INHERITED
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(own)


def test_pickled_they_are_an_array():
    assert pickle.loads(pickle.dumps(NumberFile().put(some(3)))) == some(3)


@LINUX
def test_a_fork_goes_on_reading():
    found = NumberFile().put(some(2 * PAGE))
    assert Forked(lambda: (found[PAGE], found[0])).result() == (PAGE + 0.5, 0.5)


@pytest.mark.parametrize("is_full", [False, True])
def test_numbers_that_grow_are_read_as_an_array_is(is_full, monkeypatch):
    monkeypatch.setattr(filed_numbers, "AT_ONCE", 2)
    if is_full:
        monkeypatch.setattr(filed_numbers, "_temporary_file", lambda: (_ for _ in ()).throw(OSError("no room")))
    found, expected, drawn = GrowingNumbers(), array("d"), random.Random(7)
    for _ in range(40):
        more = some(drawn.randrange(700), drawn.random())
        found.frombytes(more.tobytes())
        expected += more
        begin, end = drawn.randrange(len(expected) + 1), drawn.randrange(len(expected) + 3)
        assert len(found) == len(expected)
        assert (found[begin:end], found[begin:]) == (expected[begin:end], expected[begin:])
        assert [found[place] for place in range(0, len(found), 97)] == [*expected[::97]]
    assert (found._file is None) is is_full
    assert found._filed >= 4 * PAGE or is_full
    assert pickle.loads(pickle.dumps(found)) == expected
