"""The files of a check survive a kill at any byte, and none that anybody changed is touched."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from probe_flow.errors import IncompleteError, UsageError
from probe_flow.precheck.log import CheckLog, Terms, new_log
from probe_flow.precheck.log import continued_log as log_of
from probe_flow.precheck.results import ApiResult, Direction, Output, Side, Status

TERMS = Terms(1, "a dump", "options")
STAMP = "20260102030405"
RESULT = f"accuracy_checking_result_{STAMP}.csv"
DETAILS = f"accuracy_checking_details_{STAMP}.csv"
RECORD = f"accuracy_checking_record_{STAMP}.jsonl"
NAMES = (RECORD, DETAILS, RESULT)
"""In the order in which they are written."""


def direction(count: int, message: str = "", shape: tuple[int, ...] = (2, 3)) -> Direction:
    side = Side("float32", shape)
    output = Output(side, side, not message, 1.0, 0.5 if message else 0.0, 0.0, message, "numpy\n{}")
    return Direction(Status.ERROR if message else Status.PASS, (output,) * count)


RESULTS = (
    ApiResult("Mint.a.0", direction(1)),
    ApiResult("Mint.b.0", direction(1), direction(2, 'wrong, "very"\r\nin two lines')),
    ApiResult("Mint.c.0", None, Direction(Status.SKIP, reason="=no kernel\u00fc")),
    ApiResult("-d.0", direction(2, "wrong"), device=1, unsaved="disk full"),
)


CALLS = {result.name: result.phases for result in RESULTS}


def continued_log(path: Path, terms: Terms, *, is_forced: bool) -> CheckLog:
    return log_of(path, terms, CALLS, is_forced=is_forced)


def written(folder: Path, results: Sequence[ApiResult] = RESULTS) -> dict[str, bytes]:
    """Return what one check writes that nothing ends."""
    with new_log(folder, STAMP, TERMS).open() as log:
        for result in results:
            log.add(result)
    return {name: (folder / name).read_bytes() for name in NAMES}


def writes(folder: Path) -> list[tuple[str, bytes]]:
    """Return what is written, one behind the other, found out by writing ever longer checks."""
    found: list[tuple[str, bytes]] = []
    before = dict.fromkeys(NAMES, b"")
    for count in range(len(RESULTS) + 1):
        now = written(folder / str(count), RESULTS[:count])
        for name in NAMES:
            assert now[name].startswith(before[name])
            found.append((name, now[name][len(before[name]) :]))
        before = now
    return found


def killed(folder: Path, done: Sequence[tuple[str, bytes]], name: str = "", part: bytes = b"") -> None:
    """Leave what a check leaves that is killed in the middle of a write."""
    folder.mkdir()
    for each, data in [*done, *([(name, part)] if name else [])]:
        with (folder / each).open("ab") as file:
            file.write(data)


def finish(folder: Path) -> dict[str, bytes]:
    with continued_log(folder / RESULT, TERMS, is_forced=False).open() as log:
        for result in RESULTS:
            if result.name not in log.known:
                log.add(result)
    return {name: (folder / name).read_bytes() for name in NAMES}


def kills(all_writes: Sequence[tuple[str, bytes]]) -> Iterator[tuple[int, int]]:
    for number, (_, data) in enumerate(all_writes):
        yield from ((number, length) for length in range(len(data) + 1))


@pytest.mark.parametrize("part", range(4))
def test_a_kill_at_any_byte_leaves_what_is_continued_to_the_same_bytes(part: int, tmp_path: Path) -> None:
    whole = written(tmp_path / "whole")
    all_writes = writes(tmp_path)
    points = [(number, length) for number, length in kills(all_writes) if number >= 2]  # the result table exists
    assert len(points) > 1500
    for number, length in points[part::4]:
        name, data = all_writes[number]
        folder = tmp_path / f"{number}_{length}"
        killed(folder, all_writes[:number], name, data[:length])
        assert finish(folder) == whole, f"killed after {length} bytes of write {number}, {name}"


def test_what_ended_before_its_table_began_is_begun_anew(tmp_path: Path) -> None:
    all_writes = writes(tmp_path)
    killed(tmp_path / "early", all_writes[:2])
    with pytest.raises(UsageError, match="does not exist") as caught:
        finish(tmp_path / "early")
    assert caught.value.diagnostic.code == "PF6606"


def test_results_are_continued_as_they_were(tmp_path: Path) -> None:
    written(tmp_path)
    found = continued_log(tmp_path / RESULT, TERMS, is_forced=False)
    assert list(found.known.values()) == list(RESULTS)
    assert found.stamp == STAMP


def test_nothing_is_written_again_that_is_whole(tmp_path: Path) -> None:
    written(tmp_path)
    before = {name: (tmp_path / name).stat() for name in NAMES}
    continued_log(tmp_path / RESULT, TERMS, is_forced=False)
    after = {name: (tmp_path / name).stat() for name in NAMES}
    assert [each.st_ino for each in before.values()] == [each.st_ino for each in after.values()]


@pytest.mark.parametrize(
    "terms", [Terms(1, "another dump", "options"), Terms(1, "a dump", "others"), Terms(2, "a dump", "options")]
)
def test_other_terms_are_refused_unless_forced(terms: Terms, tmp_path: Path) -> None:
    whole = written(tmp_path)
    with pytest.raises(UsageError) as caught:
        continued_log(tmp_path / RESULT, terms, is_forced=False)
    assert caught.value.diagnostic.code == "PF6607"
    word = "another dump" if terms.dump != TERMS.dump else "other options"
    assert caught.value.diagnostic.message.endswith(f"is of {word}")
    assert {name: (tmp_path / name).read_bytes() for name in NAMES} == whole
    assert len(continued_log(tmp_path / RESULT, terms, is_forced=True).known) == len(RESULTS)
    again = continued_log(tmp_path / RESULT, terms, is_forced=False)
    assert len(again.known) == len(RESULTS), "forced once is enough"


def test_by_force_results_of_calls_that_the_dump_has_otherwise_are_left_out(tmp_path: Path) -> None:
    written(tmp_path)
    calls = {"Mint.a.0": ["forward", "backward"], "Mint.b.0": ["backward", "forward"], "-d.0": ["forward"], "new": []}
    found = log_of(tmp_path / RESULT, Terms(1, "another dump", "options"), calls, is_forced=True)
    assert list(found.known) == ["Mint.b.0", "-d.0"]
    expected = written(tmp_path / "only", [RESULTS[1], RESULTS[3]])
    assert [(tmp_path / name).read_bytes() for name in NAMES[1:]] == [expected[name] for name in NAMES[1:]]


@pytest.mark.parametrize("name", [RESULT, DETAILS])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"pass", b"pess", 1),
        lambda data: data + b"Mint.x.0,pass,,\r\n",
        lambda data: data + data.splitlines(keepends=True)[1],
        lambda data: b"something else\r\n" + data,
    ],
)
def test_tables_that_were_changed_are_not_touched(name: str, change, tmp_path: Path) -> None:
    whole = written(tmp_path)
    changed = change(whole[name])
    (tmp_path / name).write_bytes(changed)
    with pytest.raises(UsageError) as caught:
        continued_log(tmp_path / RESULT, TERMS, is_forced=False)
    assert caught.value.diagnostic.code == "PF6608"
    assert (tmp_path / name).read_bytes() == changed
    continued_log(tmp_path / RESULT, TERMS, is_forced=True)
    assert (tmp_path / name).read_bytes() == whole[name]


def test_a_table_that_was_removed_is_written_anew(tmp_path: Path) -> None:
    whole = written(tmp_path)
    (tmp_path / DETAILS).unlink()
    assert finish(tmp_path) == whole


@pytest.mark.parametrize(
    "name",
    ["result.csv", "accuracy_checking_result_2026.csv", f"accuracy_checking_details_{STAMP}.csv", f"{RESULT}.bak"],
)
def test_files_of_others_are_not_continued(name: str, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match="cannot be continued") as caught:
        continued_log(tmp_path / name, TERMS, is_forced=True)
    assert caught.value.diagnostic.code == "PF6606"


@pytest.mark.parametrize("record", [None, b"", b"\x00\xff\n", b"[]\n", b'{"version": 1}\n', b'{"name": "a"}\n'])
def test_without_its_record_a_check_is_not_continued(record: bytes | None, tmp_path: Path) -> None:
    whole = written(tmp_path)
    (tmp_path / RECORD).unlink() if record is None else (tmp_path / RECORD).write_bytes(record)
    with pytest.raises(UsageError, match="the record of the check, cannot be used") as caught:
        continued_log(tmp_path / RESULT, TERMS, is_forced=True)
    assert caught.value.diagnostic.code == "PF6606"
    assert (tmp_path / RESULT).read_bytes() == whole[RESULT]


def test_a_record_with_a_broken_line_is_not_continued(tmp_path: Path) -> None:
    whole = written(tmp_path)
    lines = whole[RECORD].splitlines(keepends=True)
    (tmp_path / RECORD).write_bytes(b"".join([*lines[:2], b"{broken\n", *lines[2:]]))
    with pytest.raises(UsageError) as caught:
        continued_log(tmp_path / RESULT, TERMS, is_forced=False)
    assert caught.value.diagnostic.code == "PF6606"


def test_new_files_never_replace_others(tmp_path: Path) -> None:
    whole = written(tmp_path)
    with pytest.raises(UsageError) as caught:
        new_log(tmp_path, STAMP, TERMS)
    assert caught.value.diagnostic.code == "PF6606"
    assert (tmp_path / RESULT).read_bytes() == whole[RESULT]


def test_all_files_are_brought_into_the_order_of_the_dump(tmp_path: Path) -> None:
    names = [result.name for result in RESULTS]
    whole = written(tmp_path / "whole")
    written(tmp_path / "turned", RESULTS[::-1])
    log = continued_log(tmp_path / "turned" / RESULT, TERMS, is_forced=False)
    log.sort(names, TERMS)
    assert {name: (tmp_path / "turned" / name).read_bytes() for name in NAMES} == whole
    assert list(log.known) == names


@pytest.mark.parametrize("done", [1, 2])
def test_a_kill_while_files_are_sorted_is_mended(done: int, tmp_path: Path) -> None:
    whole, turned = written(tmp_path / "whole"), written(tmp_path / "turned", RESULTS[::-1])
    for name in NAMES[:done]:
        assert turned[name] != whole[name]
        (tmp_path / "turned" / name).write_bytes(whole[name])
    assert finish(tmp_path / "turned") == whole


@pytest.mark.parametrize("full", NAMES)
def test_a_disk_that_is_full_names_the_file_and_what_is_there_is_continued(full: str, tmp_path: Path) -> None:
    whole = written(tmp_path / "whole")
    folder = tmp_path / "full"
    log = new_log(folder, STAMP, TERMS)
    with pytest.raises(IncompleteError) as caught, on_full_disk(folder / full), log.open():
        log.add(RESULTS[0])
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "PF6605"
    assert diagnostic.message.endswith("cannot be written: No space left on device")
    assert finish(folder) == whole


@contextmanager
def on_full_disk(path: Path) -> Iterator[None]:
    """Let a file lie on a device that takes nothing."""
    kept = path.read_bytes()
    path.unlink()
    path.symlink_to("/dev/full")
    try:
        yield
    finally:
        path.unlink()
        path.write_bytes(kept)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(IncompleteError) as caught:
        new_log(tmp_path / "sub", STAMP, TERMS)
    assert caught.value.diagnostic.code == "PF6605"


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IncompleteError) as caught:
        new_log(tmp_path / "file" / "sub", STAMP, TERMS)
    assert caught.value.diagnostic.code == "PF6605"


def test_the_record_holds_what_the_tables_lack(tmp_path: Path) -> None:
    whole = written(tmp_path)
    lines = whole[RECORD].splitlines()
    assert [msgspec.json.decode(line, type=ApiResult) for line in lines[1:]] == list(RESULTS)
    rows = list(csv.reader(io.StringIO(whole[RESULT].decode("utf-8-sig"), newline="")))
    assert [row[:3] for row in rows[1:]] == [
        ["Mint.a.0", "pass", ""],
        ["Mint.b.0", "pass", "error"],
        ["Mint.c.0", "", "SKIP"],
        ["'-d.0", "error", ""],
    ]
    assert isinstance(continued_log(tmp_path / RESULT, TERMS, is_forced=False), CheckLog)


def test_a_log_holds_the_places_of_its_results_and_reads_them_as_often_as_they_are_asked_for(tmp_path: Path) -> None:
    with new_log(tmp_path, STAMP, TERMS).open() as log:
        for count, result in enumerate(RESULTS, 1):
            log.add(result)
            assert list(log.known.values()) == list(RESULTS[:count])
        found = log.known.values()
    assert list(found) == list(found) == [log.known[each.name] for each in RESULTS] == list(RESULTS)
    assert len(found) == len(RESULTS)


def test_a_record_that_others_change_meanwhile_says_so_when_its_results_are_read(tmp_path: Path) -> None:
    with new_log(tmp_path, STAMP, TERMS).open() as log:
        log.add(RESULTS[0])
    (tmp_path / RECORD).write_bytes(b"{\n")
    with pytest.raises(UsageError) as caught:
        list(log.known.values())
    assert caught.value.diagnostic.code == "PF6606"
    (tmp_path / RECORD).unlink()
    with pytest.raises(UsageError, match="cannot be used"):
        list(log.known.values())
