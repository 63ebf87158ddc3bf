"""What is new or changed below a folder, found with few looks at it."""

from __future__ import annotations

import os
import time

import pytest

from probe_flow.files import folder_changes
from probe_flow.files.folder_changes import FULL_PERIOD_S, FolderChanges

LONG_AGO = 1_700_000_000


class Clock:
    def __init__(self):
        self.now_s = 0.0
        self.wall_ns = time.time_ns()

    def forward(self, seconds):
        self.now_s += seconds
        self.wall_ns += int(seconds * 1e9)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def changes(tmp_path, clock):
    def skips(name):
        return "hidden file" if name.startswith(".") else None

    return FolderChanges(tmp_path, skips, monotonic=lambda: clock.now_s, wall_ns=lambda: clock.wall_ns)


def names(changes, settle_s=0.0):
    return ["/".join((*key[0], key[1])) for key, _ in changes.ready(settle_s)]


def deal_with_all(changes):
    for key, identity in list(changes.ready(0.0)):
        changes.deal(key, identity)


def age(*paths):
    for path in paths:
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_files_are_found_at_any_depth_and_once(tmp_path, changes):
    (tmp_path / "rank0" / "1").mkdir(parents=True)
    for name in ("b", "rank0/1/a", "rank0/c"):
        (tmp_path / name).write_bytes(b"x")
    assert changes.scan()
    assert names(changes) == ["b", "rank0/c", "rank0/1/a"] or sorted(names(changes)) == ["b", "rank0/1/a", "rank0/c"]
    deal_with_all(changes)
    assert names(changes) == []


def test_a_file_that_appears_later_is_found(tmp_path, changes, clock):
    changes.scan()
    (tmp_path / "a").write_bytes(b"x")
    assert changes.scan()
    assert names(changes) == ["a"]
    assert not changes.scan()


def test_a_file_waits_until_it_rests(tmp_path, changes, clock):
    path = tmp_path / "a"
    path.write_bytes(b"x")
    changes.scan()
    assert names(changes, 2.0) == []
    clock.forward(1.5)
    with path.open("ab") as file:
        file.write(b"y")
    assert changes.scan()
    clock.forward(1.5)
    changes.scan()
    os.utime(path, ns=(clock.wall_ns, clock.wall_ns))
    changes.scan()
    assert names(changes, 2.0) == []
    clock.forward(2.0)
    changes.scan()
    assert names(changes, 2.0) == ["a"]


def test_an_old_file_need_not_rest_again(tmp_path, changes):
    (tmp_path / "a").write_bytes(b"x")
    age(tmp_path / "a")
    changes.scan()
    assert names(changes, 2.0) == ["a"]


def test_a_file_that_vanishes_is_forgotten(tmp_path, changes):
    (tmp_path / "a").write_bytes(b"x")
    changes.scan()
    (tmp_path / "a").unlink()
    assert changes.scan()
    assert names(changes) == []


def test_a_folder_that_vanishes_takes_its_files_along(tmp_path, changes):
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "a").write_bytes(b"x")
    changes.scan()
    (tmp_path / "rank0" / "a").unlink()
    (tmp_path / "rank0").rmdir()
    changes.scan()
    assert names(changes) == []


def test_a_file_that_is_replaced_is_new_again(tmp_path, changes):
    (tmp_path / "a").write_bytes(b"x")
    changes.scan()
    deal_with_all(changes)
    (tmp_path / "b").write_bytes(b"longer")
    (tmp_path / "b").replace(tmp_path / "a")
    changes.scan()
    assert names(changes) == ["a"]


def test_a_file_that_is_written_anew_in_place_is_found_by_the_next_full_look(tmp_path, changes, clock):
    (tmp_path / "a").write_bytes(b"x")
    age(tmp_path / "a", tmp_path)
    changes.scan()
    deal_with_all(changes)
    changes.scan()
    (tmp_path / "a").write_bytes(b"longer")
    clock.forward(FULL_PERIOD_S + 1)
    assert changes.scan()
    assert names(changes) == ["a"]


def test_a_folder_that_rests_is_not_listed_again(tmp_path, changes, monkeypatch):
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "a").write_bytes(b"x")
    age(tmp_path / "rank0" / "a", tmp_path / "rank0", tmp_path)
    changes.scan()
    deal_with_all(changes)
    monkeypatch.setattr(folder_changes.os, "scandir", lambda _path: pytest.fail("the folder was listed"))
    assert not changes.scan()


def test_a_folder_whose_time_is_fresh_is_listed_again(tmp_path, changes, monkeypatch):
    changes.scan()
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(folder_changes.os, "scandir", lambda path: listed.append(path) or scandir(path))
    changes.scan()
    assert len(listed) == 1


def test_links_and_pipes_are_never_followed_and_are_counted(tmp_path, changes):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "file").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".hidden").write_bytes(b"x")
    changes.scan()
    assert names(changes) == []
    assert changes.skipped == {"link": 2, "no regular file": 1, "hidden file": 1}


def test_a_file_that_becomes_a_link_is_forgotten(tmp_path, changes):
    (tmp_path / "a").write_bytes(b"x")
    changes.scan()
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to("/etc/hostname")
    changes.scan()
    assert names(changes) == []


def test_a_failing_file_waits_twice_as_long_each_time(tmp_path, changes, clock):
    (tmp_path / "a").write_bytes(b"x")
    changes.scan()
    key = ((), "a")
    waits = []
    for _ in range(5):
        changes.retry(key, first_s=1.0, most_s=6.0)
        began = clock.now_s
        while not names(changes):
            clock.forward(0.5)
        waits.append(clock.now_s - began)
    assert waits == [1.0, 2.0, 4.0, 6.0, 6.0]


def test_folders_too_deep_are_counted(tmp_path, changes):
    tmp_path.joinpath(*"a" * 65).mkdir(parents=True)
    changes.scan()
    assert changes.skipped["folder too deep"] == 1


def test_a_file_that_changes_while_it_is_dealt_with_stays(tmp_path, changes):
    (tmp_path / "a").write_bytes(b"x")
    changes.scan()
    ((key, identity),) = changes.ready(0.0)
    (tmp_path / "a").write_bytes(b"longer")
    changes.scan()
    changes.deal(key, identity)
    assert names(changes) == ["a"]
