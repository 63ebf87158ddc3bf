"""Files that are there whole or not at all, whatever fails in between."""

from __future__ import annotations

import errno
import os

import pytest

from probe_flow.files import whole_files
from probe_flow.files.whole_files import WholeFile, leftover_of, reads_back, temporary_name, was_cut, write_whole


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_appears_with_its_content_and_nothing_else(tmp_path):
    write_whole(tmp_path / "a.npz", b"content")
    assert (tmp_path / "a.npz").read_bytes() == b"content"
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_before_the_commit_the_former_file_stands(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(b"old")
    file = WholeFile(path, b"new")
    assert path.read_bytes() == b"old"
    file.flush()
    file.commit()
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_leaves_nothing_and_the_former_file(tmp_path, monkeypatch, call):
    path = tmp_path / "a.npz"
    path.write_bytes(b"old")
    monkeypatch.setattr(whole_files.os, call, full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.npz"]


def test_a_disk_that_writes_in_pieces_gets_all_of_them(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(whole_files.os, "write", lambda fd, view: write(fd, view[:3]))
    write_whole(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_disk_that_lies_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_files.os, "write", lambda _fd, view: len(view))
    with pytest.raises(OSError, match="does not read back"):
        write_whole(tmp_path / "a", b"0123456789")


def test_reading_back_wants_every_byte_and_no_more(tmp_path):
    path = tmp_path / "a"
    assert not reads_back(path, b"")
    path.write_bytes(b"abc")
    assert reads_back(path, b"abc")
    assert not reads_back(path, b"ab")
    assert not reads_back(path, b"abcd")


def test_temporary_names_are_hidden_and_known_again():
    assert temporary_name("x_min_max.npz", 4242) == ".x_min_max.npz.tmp-4242"
    assert leftover_of(".x_min_max.npz.tmp-4242") == "x_min_max.npz"
    assert leftover_of("x_min_max.npz.tmp-4242") is None
    assert leftover_of(".x.tmp-") is None
    assert not was_cut("x_min_max.npz")


@pytest.mark.parametrize("name", ["a" * 250 + ".npz", "ä" * 120 + ".npz"])
def test_temporary_names_fit_into_the_limit_of_file_systems(tmp_path, name):
    short = temporary_name(name, 4_000_000)
    assert len(os.fsencode(short)) <= 255
    inner = leftover_of(short)
    assert inner is not None
    assert was_cut(inner)
    write_whole(tmp_path / name, b"x")
    assert (tmp_path / name).read_bytes() == b"x"


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / temporary_name("a", os.getpid())).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"symbolic link|Too many levels"):
        write_whole(tmp_path / "a", b"x")
    assert (tmp_path / "elsewhere").read_text() == "mine"
