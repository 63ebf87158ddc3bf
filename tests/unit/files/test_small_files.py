"""Small files that are held with what they were when they were read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probe_flow.files.binary_file import AHEAD_BYTES, BinaryFile
from probe_flow.files.small_files import ENTRY_BYTES, FileState, SmallFiles, state_of

LONG_AGO = 1_700_000_000


def written(path: Path, content: bytes, *, at: int | None = LONG_AGO) -> str:
    path.write_bytes(content)
    if at is not None:
        os.utime(path, (at, at))
    return str(path)


def header_of(path: str) -> None:
    """Read the first bytes, as readers of dumps do."""
    with BinaryFile(path) as file:
        file.read_at(0, 4)


def test_a_small_file_is_held_as_it_was_when_its_header_was_read(tmp_path):
    path = written(tmp_path / "a", b"header and elements")
    before, files = state_of(path), SmallFiles()
    with files.filled():
        header_of(path)
    written(tmp_path / "a", b"other header", at=LONG_AGO + 1)
    assert files.content(path) == b"header and elements"
    assert files.state(path) == before != state_of(path)


def test_nothing_is_held_that_is_read_at_other_times(tmp_path):
    path, files = written(tmp_path / "a", b"content"), SmallFiles()
    header_of(path)
    with files.filled():
        pass
    header_of(path)
    assert files.content(path) is None
    assert files.state(path) is None


@pytest.mark.parametrize(("count", "is_held"), [(AHEAD_BYTES, True), (AHEAD_BYTES + 1, False), (0, False)])
def test_only_files_that_are_read_whole_at_once_are_held(tmp_path, count, is_held):
    path, files = written(tmp_path / "a", bytes(count)), SmallFiles()
    with files.filled():
        header_of(path)
    assert (files.content(path) is not None) == is_held


def test_a_file_that_is_too_young_to_be_known_again_is_not_held(tmp_path):
    path, files = written(tmp_path / "a", b"content", at=None), SmallFiles()
    with files.filled():
        header_of(path)
    assert files.content(path) is None


def test_what_is_held_is_bounded_until_it_is_dropped():
    files, state = SmallFiles(limit=2 * (ENTRY_BYTES + 10)), FileState(10, 0, 0, 1)
    for name in "abc":
        files.add(name, state, bytes(10))
    files.add("a", state, bytes(9))
    assert [files.content(name) for name in "abc"] == [bytes(10), bytes(10), None]
    files.clear()
    files.add("c", state, bytes(10))
    assert [files.content(name) for name in "abc"] == [None, None, bytes(10)]


def test_a_state_is_that_of_one_file_at_one_time(tmp_path):
    path = written(tmp_path / "a", b"1234")
    first = state_of(path)
    assert first == state_of(path)
    assert first.is_settled
    assert (first.size, first.modified_ns) == (4, LONG_AGO * 10**9)
    written(tmp_path / "a", b"5678")
    assert state_of(path) != first, "size and times of modification are equal; the kernel's own time is not"
    assert state_of(str(tmp_path / "b")) is None
    assert not state_of(written(tmp_path / "c", b"", at=None)).is_settled


def test_what_was_handed_over_is_still_known_by_its_state(tmp_path):
    path, files = written(tmp_path / "a", b"content"), SmallFiles()
    with files.filled():
        header_of(path)
    state = files.state(path)
    files.hand_over()
    assert files.content(path) is None
    assert files.state(path) == state is not None
    files.clear()
    assert files.state(path) is None
