from __future__ import annotations

import os
from pathlib import Path

import pytest

from probe_flow.engine.run.paths import located, locating, measure_path
from probe_flow.errors import Diagnostic, IncompleteError, Span
from probe_flow.stages.registry import STAGES


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


def settled(folder: Path) -> Path:
    for path in folder.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


def test_a_folder_has_a_state_that_changes_with_anything_in_it(tmp_path):
    folder = settled(fill(tmp_path / "dump", 3))
    (folder / "below").mkdir()
    states = [measure_path("path", folder).state]
    assert states == [measure_path("path", folder).state]
    for change in (
        lambda: (folder / "below" / "new").mkdir(),
        lambda: (folder / "f1").rename(folder / "f7"),
        lambda: os.utime(folder / "f2", (1_700_000_001, 1_700_000_001)),
        lambda: (folder / "f2").chmod(0o600),
        lambda: (folder / "f0").unlink(),
    ):
        change()
        states.append(measure_path("path", folder).state)
    assert all(states)
    assert len(set(states)) == 6


def test_a_copy_at_another_place_has_another_state(tmp_path):
    first, second = (settled(fill(tmp_path / name, 1)) for name in "ab")
    assert measure_path("path", first).state != measure_path("path", second).state


@pytest.mark.parametrize("what", ["link", "young file", "too many", "file alone"])
def test_what_may_change_unseen_has_no_state(tmp_path, what):
    folder = settled(fill(tmp_path / "dump", 3))
    if what == "link":
        (folder / "link").symlink_to("f0")
    elif what == "young file":
        os.utime(folder / "f0")
    path = folder / "f0" if what == "file alone" else folder
    assert measure_path("path", path, max_entries=2 if what == "too many" else 9).state == ""


def dump_at(path):
    return STAGES["dump.torch"].options(uses="dump.torch", path=str(path))


def test_a_problem_names_its_file_from_outside_of_the_dump(tmp_path):
    """Both sides have a file of that name."""
    (tmp_path / "step0").mkdir()
    (tmp_path / "step0/dump.json").write_text("{")
    options = dump_at(tmp_path)
    found = located(
        [
            Diagnostic("PF3407", "cut", span=Span("step0/dump.json", 1, 2), path="step0/dump.json"),
            Diagnostic("PF3407", "elsewhere", path="step1/dump.json"),
            Diagnostic("PF3407", "of no file"),
        ],
        options,
    )
    whole = str(tmp_path / "step0/dump.json")
    assert [(str(each.span), each.path) for each in found] == [
        (f"{whole}:1:2", whole), ("None", "step1/dump.json"), ("None", None),
    ]  # fmt: skip


def test_a_dump_that_is_one_file_lies_beside_what_its_problems_name(tmp_path):
    (tmp_path / "dump.json").write_text("{")
    with pytest.raises(IncompleteError) as caught, locating(dump_at(tmp_path / "dump.json")):
        raise IncompleteError(Diagnostic("PF3407", "cut", path="dump.json"))
    assert caught.value.diagnostic.path == str(tmp_path / "dump.json")
