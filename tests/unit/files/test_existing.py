from __future__ import annotations

from pathlib import Path

from probe_flow.files.existing import exists, first_names, holds, is_readable


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
