"""Files of which a forked child makes the second half: the bytes are the same, whatever becomes of the child."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from probe_flow.reports import halves
from probe_flow.reports.atomic import atomic_text
from probe_flow.reports.csv_dump_json import dump_json_table, write_dump_json_csv
from probe_flow.reports.halves import write_parts
from probe_flow.reports.jsonl import write_comparison_jsonl
from tests.call_rows import Call, compared

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only")

HERE = os.getpid()
LINES = [f"{number}: é \udc80 \u2028 {'x' * 100}\n" for number in range(1000)]


@pytest.fixture
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "MIN_PARTS", 2)
    monkeypatch.setattr(halves, "_may_fork", lambda: True)


def lines(start: int, stop: int) -> Iterator[str]:
    yield from LINES[start:stop]


def written(path: Path, texts: Callable[[int, int], Iterator[str]], count: int = len(LINES)) -> bytes:
    with atomic_text(path) as file:
        write_parts(file, texts, count, folder=path.parent)
    return path.read_bytes()


def expected() -> bytes:
    return "".join(LINES).encode("utf-8", "backslashreplace")


def assert_no_child_is_left() -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.usefixtures("_forks")
def test_both_halves_are_the_file_that_one_process_writes(tmp_path: Path) -> None:
    makers = tmp_path / "makers"

    def noting(start: int, stop: int) -> Iterator[str]:
        with makers.open("a") as file:
            file.write(f"{os.getpid()}\n")
        yield from lines(start, stop)

    assert written(tmp_path / "a", noting) == expected()
    assert len(set(makers.read_text().split())) == 2
    assert_no_child_is_left()


@pytest.mark.usefixtures("_forks")
@pytest.mark.parametrize("end", ["raises", "killed", "interrupted", "leaves"])
def test_the_half_of_a_child_that_does_not_come_to_its_end_is_made_here(tmp_path: Path, end: str) -> None:
    def texts(start: int, stop: int) -> Iterator[str]:
        yield from LINES[start : stop - 1]
        if os.getpid() != HERE:
            if end == "raises":
                raise MemoryError
            if end == "leaves":
                raise SystemExit(0)
            os.kill(os.getpid(), signal.SIGKILL if end == "killed" else signal.SIGINT)
            time.sleep(10)
        yield LINES[stop - 1]

    assert written(tmp_path / "a", texts) == expected()
    assert_no_child_is_left()


@pytest.mark.usefixtures("_forks")
def test_an_error_of_the_second_half_is_raised_here(tmp_path: Path) -> None:
    def texts(start: int, stop: int) -> Iterator[str]:
        yield from LINES[start:stop]
        if start:
            raise ValueError("a row that nobody can write")

    with pytest.raises(ValueError, match="a row that nobody can write"):
        written(tmp_path / "a", texts)
    assert list(tmp_path.iterdir()) == []
    assert_no_child_is_left()


@pytest.mark.usefixtures("_forks")
def test_an_error_of_the_first_half_ends_the_child(tmp_path: Path) -> None:
    def texts(start: int, stop: int) -> Iterator[str]:
        yield ""
        if start:
            time.sleep(60)
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path / "a", texts)
    assert time.monotonic() - began < 30
    assert_no_child_is_left()


@pytest.mark.usefixtures("_forks")
def test_without_a_child_all_is_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(**_: object) -> int:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(os, "fork", refuses)
    assert written(tmp_path / "a", lines) == expected()
    monkeypatch.setattr(tempfile, "TemporaryFile", refuses)
    assert written(tmp_path / "b", lines) == expected()


def test_short_files_have_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    assert written(tmp_path / "a", lines) == expected()


def test_a_process_with_other_threads_does_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "usable_cpus", lambda: 8)
    monkeypatch.setattr(halves, "free_memory", lambda: 2**50)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert halves._may_fork()
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not halves._may_fork()


@pytest.mark.parametrize(("cpus", "free"), [(1, 2**50), (8, 2**20), (8, -1)])
def test_a_child_needs_a_processor_and_memory(monkeypatch: pytest.MonkeyPatch, cpus: int, free: int) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(halves, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(halves, "free_memory", lambda: free)
    assert not halves._may_fork()


CALLS = [
    Call("Functional.linear", call=number, inputs=[(1.5 * number, 1.25)], outputs=[(2.0 * number, 1e-7), (None, 3.0)])
    for number in range(5)
]


@pytest.mark.usefixtures("_forks")
@pytest.mark.parametrize("write", [write_comparison_jsonl, write_dump_json_csv])
def test_result_files_are_the_same_in_two_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., None]
) -> None:
    comparison = compared(*CALLS)
    write(comparison, tmp_path / "two")
    monkeypatch.setattr(halves, "_may_fork", lambda: False)
    write(comparison, tmp_path / "one")

    assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()
    assert_no_child_is_left()


def test_any_part_of_a_table_goes_on_where_the_rows_before_it_ended() -> None:
    table = dump_json_table(compared(*CALLS))
    part, rows = table.part, list(table.rows)

    assert part is not None
    assert table.count == len(rows) == 15
    for start in range(table.count):
        assert list(part(start, table.count)) == rows[start:]
