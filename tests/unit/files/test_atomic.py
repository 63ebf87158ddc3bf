from __future__ import annotations

import errno
from pathlib import Path

import pytest

from probe_flow.errors import IncompleteError
from probe_flow.files.atomic import atomic_bytes, atomic_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_stands_at_its_name_only_after_the_block(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.csv"
    with atomic_text(path) as file:
        file.write("a\nb\r\n")
        assert not path.exists()
    assert path.read_bytes() == b"a\nb\r\n"
    assert names(path.parent) == ["result.csv"]


def test_an_error_in_the_block_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "result.csv"
    path.write_text("old")

    def interrupted() -> None:
        with atomic_text(path) as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["result.csv"]


def test_a_full_disk_becomes_a_diagnostic_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "result.csv"
    with pytest.raises(IncompleteError) as caught, atomic_text(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.diagnostic.code == "PF7001"
    assert caught.value.diagnostic.message == "`result.csv` cannot be written: No space left on device"
    assert names(tmp_path) == []


def test_a_folder_that_is_a_file_becomes_a_diagnostic(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(IncompleteError) as caught, atomic_bytes(tmp_path / "out" / "result.bin"):
        pass
    assert caught.value.diagnostic.code == "PF7001"


def test_a_name_of_the_longest_length_still_has_room_for_the_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 251 + ".csv")
    with atomic_bytes(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


def test_a_lone_surrogate_of_a_file_name_is_written_escaped(tmp_path: Path) -> None:
    path = tmp_path / "result.csv"
    with atomic_text(path) as file:
        file.write("bad\udc80name")
    assert path.read_bytes() == b"bad\\udc80name"
