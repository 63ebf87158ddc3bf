"""The shard store: what it gives back, and that damage, foreign files and rivals cost misses only."""

from __future__ import annotations

import os
import resource
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest
from sealed_files import sealed

from probe_flow.errors import FormatError
from probe_flow.files.shards import MAX_SHARD_BYTES, Entry, ShardStore, inspect, read_shard

COLUMNS = [
    ("key", "S32"),
    ("offset", "<u8"),
    ("nbytes", "<u8"),
    ("crc", "<u4"),
    ("label_at", "<u8"),
    ("label_nbytes", "<u8"),
]
HUGE = 8 << 30
GROWTH = 256 << 20
"""Bytes that a test may take beyond what the process has."""


@contextmanager
def bounded_memory(growth: int) -> Iterator[None]:
    """Let memory beyond what is taken now, and a little more, be refused: a lie must not eat the machine."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + growth, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def entries(count: int, prefix: str = "") -> dict[str, Entry]:
    return {
        f"{prefix}{number:032x}"[-32:]: Entry(f"text {number} \u00e9", f"label {number}") for number in range(count)
    }


def only_shard(store: ShardStore) -> Path:
    (path,) = store.shards()
    return path


def test_what_is_added_is_found_by_a_new_store(tmp_path):
    ShardStore(tmp_path).add(entries(5))
    found = ShardStore(tmp_path).find([f"{2:032x}", f"{4:032x}", "absent"])
    assert {key: entry.text for key, entry in found.items()} == {
        f"{2:032x}": "text 2 \u00e9",
        f"{4:032x}": "text 4 \u00e9",
    }
    assert found[f"{2:032x}"].label == "label 2"


def test_the_shard_has_the_documented_layout(tmp_path):
    store = ShardStore(tmp_path)
    store.add({"a" * 32: Entry("one", "L"), "b" * 32: Entry("three", "")})
    with h5py.File(only_shard(store), "r") as file:
        assert int(file.attrs["format"]) == 1
        index, blob = file["index"][()], file["blob"][()].tobytes()
    assert [bytes(row["key"]) for row in index] == [b"a" * 32, b"b" * 32]
    assert [(int(row["offset"]), int(row["nbytes"])) for row in index] == [(0, 3), (4, 5)]
    assert blob == b"oneLthree"


def test_the_newest_shard_wins(tmp_path):
    store = ShardStore(tmp_path)
    old = store.add({"k" * 32: Entry("old", "")})
    assert old is not None
    os.utime(old, (1, 1))
    store.add({"k" * 32: Entry("new", "")})
    assert ShardStore(tmp_path).find(["k" * 32])["k" * 32].text == "new"


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_a_shard_that_was_cut_off_is_a_reported_miss(tmp_path, keep):
    store = ShardStore(tmp_path)
    store.add(entries(50))
    path = only_shard(store)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep if keep in (0, 1, 100) else len(data) * keep)])
    store = ShardStore(tmp_path)
    assert store.find([f"{1:032x}"]) == {}
    assert [problem.code for problem in store.problems] == ["PF6201"]
    assert path.exists(), "a file that may not be ours is not deleted"


def test_a_flipped_bit_of_a_text_is_found(tmp_path):
    store = ShardStore(tmp_path)
    store.add(entries(3))
    path = only_shard(store)
    data = bytearray(path.read_bytes())
    data[data.index(b"text 1")] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(FormatError) as error:
        read_shard(path)
    assert error.value.diagnostic.code == "PF6201"


def test_foreign_files_are_reported_and_the_others_are_used(tmp_path):
    ShardStore(tmp_path).add(entries(3))
    (tmp_path / "junk.h5").write_bytes(b"not hdf5 at all")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_dataset("index", data=np.arange(3))
        file.create_dataset("blob", data=np.zeros(3, np.uint8))
    (tmp_path / "notes.txt").write_text("ignored")
    store = ShardStore(tmp_path)
    assert len(store.find([f"{0:032x}", "absent"])) == 1
    assert sorted(problem.code for problem in store.problems) == ["PF6201", "PF6201"]
    assert [inspect(path).problem is None for path in store.shards()].count(True) == 1


def sound(file: h5py.File, path: Path) -> None:
    """Put a shard of one entry into an open file, byte by byte as the format says."""
    text = b"text"
    row = (b"a" * 32, 0, len(text), zlib.crc32(text), len(text), 0)
    file.attrs["format"] = 1
    file.create_dataset("index", data=np.array([row], COLUMNS))
    file.create_dataset("blob", data=np.frombuffer(text, np.uint8))


def declared(name: str) -> Callable[[h5py.File, Path], None]:
    def declare(file: h5py.File, path: Path) -> None:
        sound(file, path)
        dtype = file[name].dtype
        del file[name]
        file.create_dataset(name, shape=(HUGE // dtype.itemsize,), dtype=dtype, chunks=(1024,))

    return declare


def packed(file: h5py.File, path: Path) -> None:
    sound(file, path)
    del file["blob"]
    file.create_dataset("blob", data=np.zeros(HUGE // 256, np.uint8), compression="gzip", compression_opts=1)


def shared_text(file: h5py.File, path: Path) -> None:
    text = bytes(1 << 20)
    row = (b"", 0, len(text), zlib.crc32(text), 0, len(text))
    file.attrs["format"] = 1
    file.create_dataset("index", data=np.array([row] * (HUGE >> 20), COLUMNS))
    file.create_dataset("blob", data=np.frombuffer(text, np.uint8))


def in_another_file(file: h5py.File, path: Path) -> None:
    sound(file, path)
    other = path.with_suffix(".raw")
    other.touch()
    os.truncate(other, HUGE)
    del file["blob"]
    file.create_dataset("blob", shape=(HUGE,), dtype=np.uint8, external=[(str(other), 0, HUGE)])


def long_version(file: h5py.File, path: Path) -> None:
    sound(file, path)
    del file.attrs["format"]
    file.attrs["format"] = np.ones(1000, np.int64)


def group(file: h5py.File, path: Path) -> None:
    file.attrs["format"] = 1
    file.create_group("index")
    file.create_group("blob")


LIES = {
    "blob": declared("blob"),
    "index": declared("index"),
    "packed": packed,
    "shared text": shared_text,
    "external": in_another_file,
    "version": long_version,
    "groups": group,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_shard_that_declares_more_than_it_holds_counts_as_absent(tmp_path, lie):
    with sealed(tmp_path / "lie.h5") as file:
        lie(file, tmp_path / "lie.h5")
    with bounded_memory(GROWTH):
        store = ShardStore(tmp_path)
        assert store.find(["a" * 32]) == {}
        assert inspect(tmp_path / "lie.h5").problem is not None
    assert [problem.code for problem in store.problems] == ["PF6201"]


def test_a_shard_as_large_as_none_counts_as_absent(tmp_path):
    with sealed(tmp_path / "large.h5") as file:
        sound(file, tmp_path / "large.h5")
    assert ShardStore(tmp_path).find(["a" * 32])["a" * 32].text == "text"
    os.truncate(tmp_path / "large.h5", MAX_SHARD_BYTES + 1)
    assert "67,108,865 bytes" in inspect(tmp_path / "large.h5").problem.message


def test_a_newer_version_is_a_miss_that_says_so(tmp_path):
    store = ShardStore(tmp_path)
    store.add(entries(1))
    with sealed(only_shard(store), "a") as file:
        file.attrs["format"] = 2
    store = ShardStore(tmp_path)
    assert store.find([f"{0:032x}"]) == {}
    assert [problem.code for problem in store.problems] == ["PF6202"]


def test_a_writer_that_dies_leaves_nothing_that_is_read(tmp_path, monkeypatch):
    store = ShardStore(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.add(entries(3))
    assert list(tmp_path.iterdir()) == []


def test_two_writers_and_a_reader_at_once_lose_nothing(tmp_path):
    def write(start: int) -> None:
        store = ShardStore(tmp_path)
        for number in range(start, start + 10):
            store.add({f"{number:032x}": Entry(str(number), "")})

    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 10)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert ShardStore(tmp_path).problems == []
        ShardStore(tmp_path).find([f"{19:032x}"])
    for writer in writers:
        writer.join()
    assert len(ShardStore(tmp_path).find([f"{number:032x}" for number in range(20)])) == 20


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert ShardStore(tmp_path / "none").find(["a"]) == {}
    assert ShardStore(tmp_path / "none").shards() == []
