"""Files of machine code, which are the same whatever is in them: no test here needs numba."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probe_flow.metrics.backends import code_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(code_files.ENVIRONMENT, str(tmp_path / "deep" / "er"))
    return tmp_path / "deep" / "er"


def test_what_is_kept_reads_back(folder: Path) -> None:
    code_files.keep("measure-float32-1.code", b"machine code")
    assert code_files.kept("measure-float32-1.code") == b"machine code"
    assert code_files.kept("measure-float32-2.code") is None
    assert [path.name for path in folder.iterdir()] == ["measure-float32-1.code"]


@pytest.mark.parametrize("bytes_left", [0, 1, 31, 32, 33, 43])
def test_a_file_that_was_cut_is_not_there(folder: Path, bytes_left: int) -> None:
    code_files.keep("a.code", b"machine code")
    content = (folder / "a.code").read_bytes()
    assert len(content) == 44
    (folder / "a.code").write_bytes(content[:bytes_left])
    assert code_files.kept("a.code") is None


def test_a_pipe_in_the_place_of_code_is_not_waited_for(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.mkfifo(folder / "a.code")
    assert code_files.kept("a.code") is None


def test_whether_a_pass_was_ever_compiled_asks_neither_for_versions_nor_processors(folder: Path) -> None:
    assert not code_files.is_any_kept("measure")
    code_files.keep("measured-float32-1.code", b"")
    assert not code_files.is_any_kept("measure")
    code_files.keep("measure-int8-of-another-processor.code", b"")
    assert code_files.is_any_kept("measure")


def test_a_folder_to_be_made_counts_as_writable_and_is_not_made(folder: Path) -> None:
    assert code_files.writable_folder() == folder
    assert not folder.parent.exists()


def test_a_file_in_the_place_of_the_folder_takes_no_code(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("")
    assert code_files.writable_folder() is None
    code_files.keep("a.code", b"x")
    assert code_files.kept("a.code") is None


def test_a_read_only_home_takes_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(code_files.ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    asked = []

    def refused(path: Path, mode: int) -> bool:
        asked.append((Path(path), mode))
        return False

    monkeypatch.setattr(os, "access", refused)  # root may write everywhere
    assert code_files.writable_folder() is None
    assert (tmp_path, os.W_OK | os.X_OK) in asked
