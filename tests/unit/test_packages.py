"""Entry points of installed packages are looked up once, as long as the search path stays."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from probe_flow import packages

FOUND = EntryPoints(
    (EntryPoint("one", "a:b", "group.a"), EntryPoint("two", "a:c", "group.b"), EntryPoint("three", "a:d", "group.a"))
)


def test_all_groups_are_taken_from_one_look_at_a_search_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks = []
    monkeypatch.setattr(metadata, "entry_points", lambda: (looks.append("look"), FOUND)[1])
    monkeypatch.syspath_prepend(tmp_path)
    assert [entry.name for entry in packages.entry_points("group.a")] == ["one", "three"]
    assert [entry.name for entry in packages.entry_points(group="group.b")] == ["two"]
    assert not packages.entry_points("group.c")
    assert len(looks) == 1
    monkeypatch.syspath_prepend(tmp_path / "more")
    packages.entry_points("group.a")
    assert len(looks) == 2


def test_it_finds_what_the_standard_library_finds() -> None:
    assert list(packages.entry_points("console_scripts")) == list(metadata.entry_points(group="console_scripts"))
