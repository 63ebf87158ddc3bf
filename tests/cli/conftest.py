"""A throw-away project in a temporary folder, with the command line run in it, in process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from precheck_dumps import STAND_INS, Tables, tables_in, write_dump

from probe_flow.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def last_line(self) -> str:
        return self.out.rstrip("\n").rpartition("\n")[2]


@pytest.fixture
def probe_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Return a function that runs ``probe-flow`` in ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: object) -> Outcome:
        code = main([str(argument) for argument in arguments])
        streams = capsys.readouterr()
        return Outcome(code, streams.out, streams.err)

    return run


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers, which get the search path of the command, find the stand-ins before any framework."""
    monkeypatch.syspath_prepend(str(STAND_INS))


@pytest.fixture
def check(probe_flow: Callable[..., Outcome], tmp_path: Path, stand_ins: None) -> Callable[..., tuple[Outcome, Tables]]:
    """Return a function that checks calls of a dump: the outcome, and the tables in the folder ``out``."""

    def run(
        entries: dict[str, Any], *options: object, command: str = "acc_check", out: str = "out", **fields: Any
    ) -> tuple[Outcome, Tables]:
        dump = write_dump(tmp_path / "dump", entries, **fields)
        done = probe_flow(command, "-api_info", dump, "-o", out, *options)
        return done, tables_in(tmp_path / out)

    return run
