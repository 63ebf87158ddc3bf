"""How often the files of dumps are opened: once each, as long as they are small, whichever part of a run reads them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from e2e.projects import TORCHAIR, Command, settle, write_dumps
from probe_flow.files.opening import open_regular
from probe_flow.files.small_files import SmallFiles

RESULTS = ("comparison.jsonl", "nodes.jsonl")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[Path]:
    """How often each file was opened for its header or its elements."""
    counted: Counter[Path] = Counter()

    def counting(path, **more):
        counted[Path(path)] += 1
        return open_regular(path, **more)

    monkeypatch.setattr("probe_flow.files.binary_file.open_regular", counting)
    return counted


def test_each_file_of_a_dump_of_small_tensors_is_opened_once(tmp_path, probe_flow: Command, opened, monkeypatch):
    dumps = write_dumps(tmp_path)
    settle(tmp_path)
    options = (TORCHAIR, *dumps.sets(), "--scheduler", "sync")
    once = probe_flow("run", *options, output="once")
    assert len(opened) > 5
    assert set(opened.values()) == {1}

    opened.clear()
    monkeypatch.setattr(SmallFiles, "add", lambda *_: None)
    twice = probe_flow("run", *options, output="twice")
    assert set(opened.values()) > {1}
    assert all((once.folder / name).read_bytes() == (twice.folder / name).read_bytes() for name in RESULTS)
