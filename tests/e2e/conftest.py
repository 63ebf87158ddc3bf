"""A working directory of its own, with the command line and a small pair of dumps in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.projects import Command, Dumps, command_in, write_dumps


@pytest.fixture
def probe_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs ``probe-flow`` in ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return command_in(tmp_path, monkeypatch, capsys)


@pytest.fixture
def dumps(tmp_path: Path) -> Dumps:
    return write_dumps(tmp_path / "dumps")
