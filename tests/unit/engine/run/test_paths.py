from __future__ import annotations

from pathlib import Path

from probe_flow.engine.run.paths import measure_path


def fill(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"f{number}").write_bytes(b"ab")
    return folder


def test_counting_stops_at_its_limit_and_says_so(tmp_path):
    size = measure_path("path", fill(tmp_path / "dump", 30), max_entries=10)
    assert (size.files, size.size_bytes, size.is_complete) == (10, 20, False)


def test_a_single_file_is_counted_by_itself(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    size = measure_path("path", tmp_path / "a")
    assert (size.files, size.size_bytes, size.is_complete) == (1, 3, True)


def test_dangling_links_are_no_files(tmp_path):
    folder = fill(tmp_path / "dump", 1)
    (folder / "dangling").symlink_to(tmp_path / "gone")
    assert measure_path("path", folder).files == 1


def test_an_empty_folder_holds_nothing(tmp_path):
    size = measure_path("path", fill(tmp_path / "dump", 0))
    assert (size.files, size.size_bytes, size.is_complete) == (0, 0, True)
