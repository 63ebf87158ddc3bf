"""One reducer per folder: held, left behind, of another machine, above the folder."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from probe_flow.errors import UsageError
from probe_flow.files import lock_file
from probe_flow.files.folder_lock import LOCK_NAME, FolderLock, check_inside
from probe_flow.files.lock_file import STALE_S, HeldError, LockFile

HOLD = """
import sys
from pathlib import Path
from probe_flow.files.folder_lock import FolderLock
FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def foreign(folder, *, age_s):
    path = folder / LOCK_NAME
    path.write_text(json.dumps({"pid": 17, "host": "another-machine"}))
    os.utime(path, (time.time() - age_s,) * 2)


def test_the_lock_is_gone_with_its_holder(tmp_path):
    with FolderLock(tmp_path):
        assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path, holder):
    with pytest.raises(UsageError, match=f"is being reduced by process {holder.pid} on") as caught:
        FolderLock(tmp_path)
    assert caught.value.diagnostic.code == "PF6301"


def test_a_folder_inside_a_held_one_is_refused(tmp_path, holder):
    (tmp_path / "rank0").mkdir()
    with pytest.raises(UsageError, match=r"above `.*rank0`"):
        FolderLock(tmp_path / "rank0")


def test_a_held_folder_inside_is_refused(tmp_path, holder):
    with pytest.raises(UsageError, match=r"inside `above`, is being reduced by process") as caught:
        check_inside(tmp_path / LOCK_NAME, Path("above"))
    assert caught.value.diagnostic.code == "PF6301"
    holder.kill()
    holder.wait()
    check_inside(tmp_path / LOCK_NAME, Path("above"))


def test_a_refused_lock_inside_a_held_folder_leaves_nothing(tmp_path, holder):
    (tmp_path / "rank0").mkdir()
    with pytest.raises(UsageError):
        FolderLock(tmp_path / "rank0")
    assert list((tmp_path / "rank0").iterdir()) == []


def test_a_folder_that_was_made_anew_is_locked_anew(tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    with FolderLock(folder) as lock:
        shutil.rmtree(folder)
        lock.keep()
        folder.mkdir()
        lock.keep()
        assert json.loads((folder / LOCK_NAME).read_text())["pid"] == os.getpid()
        with pytest.raises(UsageError, match="is being reduced"):
            FolderLock(folder)
    assert list(folder.iterdir()) == []


def test_who_comes_second_to_a_folder_that_was_made_anew_is_refused_and_takes_nothing(tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    with FolderLock(folder) as lock:
        (folder / LOCK_NAME).unlink()
        with FolderLock(folder):
            with pytest.raises(UsageError) as caught:
                lock.keep()
            assert caught.value.diagnostic.code == "PF6301"
            lock.release()
            assert (folder / LOCK_NAME).exists()


def test_on_a_full_disk_a_lock_holds_though_it_says_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock_file.os, "pwrite", full)
    with FolderLock(tmp_path):
        assert (tmp_path / LOCK_NAME).read_bytes() == b""
        with pytest.raises(UsageError, match="another process"):
            FolderLock(tmp_path)


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / LOCK_NAME).exists()
    with FolderLock(tmp_path):
        assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] == os.getpid()


def test_a_lock_of_another_machine_counts_while_it_is_touched(tmp_path):
    foreign(tmp_path, age_s=STALE_S / 2)
    with pytest.raises(UsageError, match="process 17 on `another-machine`"):
        FolderLock(tmp_path)
    foreign(tmp_path, age_s=STALE_S + 1)
    with FolderLock(tmp_path):
        pass


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[1]", b'{"pid": "x"}', b"\xff"])
def test_a_lock_file_that_says_nothing_is_taken_over(tmp_path, content):
    (tmp_path / LOCK_NAME).write_bytes(content)
    with FolderLock(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK_NAME).read_text()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError) as caught:
        FolderLock(tmp_path)
    assert caught.value.diagnostic.code == "PF6302"
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(UsageError, match="cannot be written") as caught:
        FolderLock(tmp_path / "missing")
    assert caught.value.diagnostic.code == "PF6302"


def test_the_holder_touches_its_lock_now_and_then(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(lock_file.time, "monotonic", lambda: now[0])
    with FolderLock(tmp_path) as lock:
        os.utime(tmp_path / LOCK_NAME, (5, 5))
        lock.keep()
        assert (tmp_path / LOCK_NAME).stat().st_mtime == 5
        now[0] += lock_file.TOUCH_S
        lock.keep()
        assert (tmp_path / LOCK_NAME).stat().st_mtime > 5


def test_where_the_file_system_has_no_locks_the_file_decides(tmp_path, monkeypatch, holder):
    def refuse(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(lock_file.fcntl, "flock", refuse)
    with pytest.raises(HeldError, match=f"process {holder.pid} on"):
        LockFile(tmp_path / LOCK_NAME)
    holder.kill()
    holder.wait(timeout=60)
    LockFile(tmp_path / LOCK_NAME).release()
    assert list(tmp_path.iterdir()) == []
