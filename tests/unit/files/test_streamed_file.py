"""Files that are there whole or not at all, and never in the place of others."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from probe_flow.files.streamed_file import StreamedFile, clear_stale


def made(path: Path, *pieces: bytes) -> StreamedFile:
    draft = StreamedFile(path)
    for piece in pieces:
        draft.write(piece)
    draft.flush()
    return draft


def test_nothing_is_there_before_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    draft = made(path, b"abc", b"", b"def")
    draft.patch(1, b"XY")
    assert not path.exists()
    assert draft.commit()
    assert path.read_bytes() == b"aXYdef"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npy"]


def test_the_same_bytes_count_as_written(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"abc")
    before = path.stat()
    assert not made(path, b"abc").commit()
    assert path.stat().st_ino == before.st_ino


@pytest.mark.parametrize("content", [b"abd", b"ab", b"abcd", b""])
def test_another_file_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(FileExistsError):
        made(path, b"abc").commit()
    assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npy"]


def test_another_file_goes_where_that_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"other")
    assert made(path, b"abc").commit(replaces=True)
    assert path.read_bytes() == b"abc"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"abc")
    path = tmp_path / "a.npy"
    path.symlink_to(other)
    with pytest.raises(FileExistsError):
        made(path, b"abd").commit()
    assert made(path, b"abd").commit(replaces=True)
    assert other.read_bytes() == b"abc"
    assert not path.is_symlink()


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "a.npy"
    assert made(path, b"abc").commit()
    assert path.read_bytes() == b"abc"
    with pytest.raises(FileExistsError):
        made(path, b"abd").commit()


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    made(tmp_path / "a.npy", b"abc").discard()
    assert list(tmp_path.iterdir()) == []


def test_two_files_of_one_name_may_be_in_the_making(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    first, second = made(path, b"abc"), made(path, b"abc")
    assert first.commit()
    assert not second.commit()


def test_only_old_files_of_dead_processes_are_cleared(tmp_path: Path) -> None:
    dead = 2**22 * 1000  # beyond the largest process number
    names = [f".a.npy.tmp-{dead}", f".b.npy.tmp-{dead}", f".c.npy.tmp-{os.getpid() * 1000}", "d.npy"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
        if not name.startswith(".b"):
            os.utime(tmp_path / name, (1.0, 1.0))
    clear_stale(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(names[1:])
    clear_stale(tmp_path / "absent")
