from __future__ import annotations

from pathlib import Path

import pytest

from probe_flow.files.existing import exists, files_below, first_names, holds, is_readable, why_missing


def test_holds_finds_a_pattern_at_any_depth(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "dynamo_original_graph_1.txt").write_text("")
    assert holds(tmp_path, "dynamo_original_graph_*.txt")
    assert not holds(tmp_path, "dump.json")
    assert not holds(tmp_path, "dynamo_original_graph_*.txt", max_entries=0)


def test_holds_looks_at_the_name_of_a_file(tmp_path):
    (tmp_path / "dump.json").write_text("")
    assert holds(tmp_path / "dump.json", "dump.json")
    assert not holds(tmp_path / "dump.json", "*.txt")


def test_names_that_no_system_call_takes_do_not_exist():
    assert not exists(Path("a\0b"))
    assert not is_readable(Path("a\0b"))
    assert not exists(Path("x" * 5000))
    assert first_names(Path("a/does/not/exist")) == []


def test_a_name_that_no_file_can_have_holds_nothing():
    assert not holds(Path("a" * 5000), "*.txt")


def test_a_missing_path_names_what_is_there_and_what_is_like_it(tmp_path):
    (tmp_path / "dumps" / "step0").mkdir(parents=True)
    near = f"did you mean `step0`? (in `{tmp_path / 'dumps'}`)"
    assert why_missing(tmp_path / "dumps" / "stpe0" / "rank0") == ("does not exist", near)
    far = f"`{tmp_path}` is there, `else` is not in it"
    assert why_missing(tmp_path / "else" / "step0") == ("does not exist", far)


def test_a_link_that_leads_nowhere_is_no_missing_name(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("away/from/here")
    loop, cure = why_missing(tmp_path / "loop")
    assert (loop, cure) == ("does not exist: it is a link to `loop`, where nothing is", "mend the link")
    below, _ = why_missing(tmp_path / "gone" / "step0")
    assert below == f"does not exist: `{tmp_path / 'gone'}` is a link to `away/from/here`, where nothing is"


@pytest.mark.parametrize("folder", [".", "elsewhere"])
def test_a_home_folder_that_no_shell_named_is_told(tmp_path, monkeypatch, folder):
    (tmp_path / "home" / "npu").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    _, cure = why_missing(tmp_path / folder / "~" / "npu")
    assert cure == f"`~` means a folder to shells only: write `{tmp_path / 'home' / 'npu'}`"
    assert why_missing(Path("~/other"))[1] == f"`{tmp_path}` is there, `~` is not in it"


def test_names_that_no_system_call_takes_are_missing():
    for name in ("a\0b", "x" * 5000):
        assert why_missing(Path(name))[0] == "does not exist"


def test_files_of_a_name_come_in_the_order_of_folders(tmp_path):
    for folder in ("b/x", "a", "c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "dump.json").write_text("")
        (tmp_path / folder / "other.json").write_text("")
    found = [file.relative_to(tmp_path).as_posix() for file in files_below(tmp_path, ["dump.json"])]
    assert found == ["a/dump.json", "b/x/dump.json", "c/dump.json"]
    assert list(files_below(tmp_path, ["dump.json"], max_entries=0)) == []
