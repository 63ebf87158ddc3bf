"""Files that forked children make: the bytes are the same, whatever becomes of the children."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from processes_seen import children

from probe_flow.engine.run import background_writers as beside
from probe_flow.engine.run.background_writers import MIN_ROWS, Beside
from probe_flow.files.atomic import atomic_text

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only")

HERE = os.getpid()
TEXT = "".join(f"{number}: é \udc80 \u2028 {'x' * 100}\n" for number in range(1000))
BYTES = TEXT.encode("utf-8", "backslashreplace")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[Beside]:
    """Yield what writes beside the test; at the end no child and no folder of one is left."""
    monkeypatch.setattr(beside, "usable_cpus", lambda: 2)
    monkeypatch.setattr(beside, "free_memory", lambda: 2**50)
    monkeypatch.setattr(beside.threading, "active_count", lambda: 1)
    others = set(children(HERE))  # a browser of an earlier test, for example
    found = Beside()
    yield found
    found.close()
    assert set(children(HERE)) <= others


def write(path: Path, *, before_the_end: Callable[[], None] = lambda: None) -> None:
    with atomic_text(path) as file:
        file.write(TEXT)
        before_the_end()


def note_the_process(folder: Path) -> None:
    (folder / f"by {os.getpid()}").touch()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_long_file_is_made_by_a_child(tmp_path: Path, files: Beside) -> None:
    path = tmp_path / "new" / "a.txt"
    wait = files.begin(partial(write, before_the_end=partial(note_the_process, tmp_path)), path, rows=MIN_ROWS)
    assert not path.exists()
    wait()
    assert path.read_bytes() == BYTES
    assert names_in(path.parent) == ["a.txt"]
    (maker,) = tmp_path.glob("by *")
    assert maker.name != f"by {HERE}"


def test_a_short_file_is_there_at_once(tmp_path: Path, files: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    files.begin(write, tmp_path / "a", rows=MIN_ROWS - 1)
    assert (tmp_path / "a").read_bytes() == BYTES


def test_an_old_file_stays_until_the_new_one_is_complete(tmp_path: Path, files: Beside) -> None:
    (tmp_path / "a").write_text("old")
    wait = files.begin(write, tmp_path / "a", rows=MIN_ROWS)
    assert (tmp_path / "a").read_text() == "old"
    wait()
    assert (tmp_path / "a").read_bytes() == BYTES


@pytest.mark.parametrize("end", ["raises", "killed", "leaves"])
def test_what_a_child_does_not_bring_to_its_end_is_written_here(tmp_path: Path, files: Beside, end: str) -> None:
    def fail_elsewhere() -> None:
        if os.getpid() != HERE:
            if end == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise MemoryError if end == "raises" else SystemExit(0)

    files.begin(partial(write, before_the_end=fail_elsewhere), tmp_path / "a", rows=MIN_ROWS)()
    assert (tmp_path / "a").read_bytes() == BYTES
    assert names_in(tmp_path) == ["a"]


def test_what_a_child_hangs_at_is_written_here(tmp_path: Path, files: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "WRITE_S", 0.5)

    def hang_elsewhere() -> None:
        if os.getpid() != HERE:
            time.sleep(600)

    files.begin(partial(write, before_the_end=hang_elsewhere), tmp_path / "a", rows=MIN_ROWS)()
    assert (tmp_path / "a").read_bytes() == BYTES
    assert names_in(tmp_path) == ["a"]


def test_a_child_that_cannot_be_killed_is_left_behind(
    tmp_path: Path, files: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that hangs in a file system."""
    monkeypatch.setattr(beside, "KILL_S", 0.5)
    kill, survivors = os.kill, []
    monkeypatch.setattr(beside.os, "kill", lambda number, _signal: survivors.append(number))
    files.begin(partial(write, before_the_end=partial(time.sleep, 600)), tmp_path / "a", rows=MIN_ROWS)
    files.close()
    (child,) = survivors
    assert os.waitpid(child, os.WNOHANG) == (0, 0), "it still runs: nobody waited for it"
    kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_ctrl_c_leaves_the_child_to_its_work(tmp_path: Path, files: Beside) -> None:
    def interrupt() -> None:
        assert os.getpid() != HERE
        os.kill(os.getpid(), signal.SIGINT)

    files.begin(partial(write, before_the_end=interrupt), tmp_path / "a", rows=MIN_ROWS)()
    assert (tmp_path / "a").read_bytes() == BYTES


def test_what_is_wrong_with_the_file_is_raised_by_whoever_waits(tmp_path: Path, files: Beside) -> None:
    def refuse() -> None:
        raise ValueError("a row that nobody can write")

    wait = files.begin(partial(write, before_the_end=refuse), tmp_path / "a", rows=MIN_ROWS)
    with pytest.raises(ValueError, match="a row that nobody can write"):
        wait()
    assert names_in(tmp_path) == []


def test_a_child_that_nobody_waits_for_is_ended_and_leaves_nothing(tmp_path: Path, files: Beside) -> None:
    def sleep_and_say_so() -> None:
        time.sleep(60)
        (tmp_path / "late").touch()

    files.begin(partial(write, before_the_end=sleep_and_say_so), tmp_path / "a", rows=MIN_ROWS)
    files.close()
    assert names_in(tmp_path) == []


def test_there_are_no_more_children_than_processors(tmp_path: Path, files: Beside) -> None:
    slow = partial(write, before_the_end=partial(time.sleep, 60))
    for name in ("a", "b"):
        files.begin(slow, tmp_path / name, rows=MIN_ROWS)
    files.begin(write, tmp_path / "c", rows=MIN_ROWS)
    assert (tmp_path / "c").exists()


def test_a_child_that_ended_makes_room_for_another(tmp_path: Path, files: Beside) -> None:
    waits = [files.begin(write, tmp_path / str(number), rows=MIN_ROWS) for number in range(2)]
    for wait in waits:
        wait()
    wait = files.begin(partial(write, before_the_end=partial(note_the_process, tmp_path)), tmp_path / "2", rows=10**6)
    wait()
    assert not (tmp_path / f"by {HERE}").exists()


def test_a_child_whose_run_was_killed_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / ".child.tmp"
    folder.mkdir()
    child = os.fork()
    if child == 0:
        beside._write_and_leave(write, folder / "a", parent=-1)  # whoever its parent is by now, it is another one
    assert os.waitpid(child, 0)[1] == 0
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("place", ["_fork", "_remove"])
def test_a_signal_that_comes_while_a_child_begins_or_ends_leaves_nothing(
    tmp_path: Path, files: Beside, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(beside, place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            files.begin(write, tmp_path / "a", rows=MIN_ROWS)()
    files.close()
    assert [name for name in names_in(tmp_path) if name != "a"] == []


def test_without_a_child_the_file_is_written_at_once(
    tmp_path: Path, files: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(**_: object) -> int:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(os, "fork", refuses)
    files.begin(write, tmp_path / "a", rows=MIN_ROWS)
    monkeypatch.setattr(beside, "temporary_path", lambda path: path / "in no folder")
    files.begin(write, tmp_path / "b", rows=MIN_ROWS)
    assert names_in(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(("threads", "cpus", "free"), [(2, 8, 2**50), (1, 1, 2**50), (1, 8, 2**20), (1, 8, -1)])
def test_a_child_needs_a_process_without_threads_a_processor_and_memory(
    tmp_path: Path, files: Beside, monkeypatch: pytest.MonkeyPatch, threads: int, cpus: int, free: int
) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    monkeypatch.setattr(beside.threading, "active_count", lambda: threads)
    monkeypatch.setattr(beside, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(beside, "free_memory", lambda: free)
    files.begin(write, tmp_path / "a", rows=MIN_ROWS)
    assert (tmp_path / "a").exists()
