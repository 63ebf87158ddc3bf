from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from probe_flow.files.leftovers import LEFT_BEHIND_S, is_temporary, remove_leftovers, temporary_path

WRITE = """
import sys
from pathlib import Path
from probe_flow.files.leftovers import temporary_path
temporary_path(Path(sys.argv[1])).write_text("half")
"""


def written_by_a_process_that_ended(path: Path) -> Path:
    before = set(path.parent.iterdir())
    subprocess.run([sys.executable, "-c", WRITE, str(path)], check=True)
    (written,) = set(path.parent.iterdir()) - before
    return written


def test_a_temporary_path_is_fresh_hidden_and_beside_its_file(tmp_path):
    first, second = (temporary_path(tmp_path / "table.csv") for _ in range(2))
    assert first != second
    assert first.parent == tmp_path
    assert first.name.startswith(".table.csv.")
    assert is_temporary(first.name)


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "\udcff" * 3])
def test_the_longest_names_have_room(tmp_path, name):
    path = temporary_path(tmp_path / name)
    path.write_text("")
    assert is_temporary(path.name)


@pytest.mark.parametrize("name", [".hidden.tmp", "table.csv.tmp", ".x.17-deadbeef.tmp", "x.17-deadbeef-01234567.tmp"])
def test_files_of_others_are_no_leftovers(tmp_path, name):
    (tmp_path / name).write_text("mine")
    remove_leftovers(tmp_path, is_ours=True)
    assert (tmp_path / name).exists()


def test_a_file_goes_when_its_writer_is_gone_and_stays_while_it_lives(tmp_path):
    dead = written_by_a_process_that_ended(tmp_path / "a.csv")
    mine = temporary_path(tmp_path / "b.csv")
    mine.write_text("")
    remove_leftovers(tmp_path)
    assert not dead.exists()
    assert mine.exists()


def test_of_other_machines_only_old_files_go(tmp_path):
    old, young = (tmp_path / f".a.csv.1-deadbeef-0000000{number}.tmp" for number in range(2))
    for path, age_s in ((old, LEFT_BEHIND_S + 60), (young, LEFT_BEHIND_S - 60)):
        path.write_text("")
        os.utime(path, (time.time() - age_s,) * 2)
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [young.name]


def test_folders_below_are_looked_at_where_they_are_asked_for(tmp_path):
    (tmp_path / "below").mkdir()
    dead = written_by_a_process_that_ended(tmp_path / "below" / "a.csv")
    remove_leftovers(tmp_path, goes_below=False)
    assert dead.exists()
    remove_leftovers(tmp_path)
    assert not dead.exists()


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    dead = written_by_a_process_that_ended(outside / "inner" / "a.csv")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    temporary_path(folder / "x").symlink_to(outside / "inner")
    remove_leftovers(folder, is_ours=True)
    assert dead.exists()
    assert [path.name for path in folder.iterdir()] == ["link"]


def test_a_folder_that_is_not_there_is_no_trouble(tmp_path):
    remove_leftovers(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
