"""A pipe, a socket or a device where a file should be is refused at once, whoever would read it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from probe_flow.errors import ProbeFlowError
from probe_flow.files.opening import open_bytes
from probe_flow.record.baseline_file import read_baseline

SECONDS = 60
PIPE = "it is a pipe, not a regular file"


@pytest.fixture(autouse=True)
def _bound() -> Iterator[None]:
    """Wake a test that waits for a pipe."""

    def wake(*_: object) -> None:
        raise AssertionError(f"still waiting after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """Two dumps with the same content, and a folder below which pipes stand."""
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1, "Min": 0, "Mean": 0, "Norm": 1}
    data = {"Torch.add.0.forward": {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}}
    for side in ("t", "g"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "dump.json").write_text(json.dumps({"task": "statistics", "level": "L1", "data": data}))
    return tmp_path


def in_place_of(path: Path) -> Path:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def compare(probe_flow: Callable[..., Any], *more: object) -> Any:
    return probe_flow("compare", "-tp", "t/dump.json", "-gp", "g/dump.json", "-o", "out", *more)


def test_a_workflow(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    in_place_of(tmp_path / "w.yaml")
    done = probe_flow("validate", "w.yaml")
    assert (done.code, PIPE in done.err) == (2, True)


def test_what_a_workflow_extends(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    in_place_of(tmp_path / "base.yaml")
    (tmp_path / "w.yaml").write_text("extends: base.yaml\n")
    done = probe_flow("validate", "w.yaml")
    assert (done.code, PIPE in done.err) == (2, True)


def test_a_workflow_of_a_shell(probe_flow: Callable[..., Any]) -> None:
    read, write = os.pipe()
    try:
        done = probe_flow("validate", f"/dev/fd/{read}")
    finally:
        os.close(read)
        os.close(write)
    assert (done.code, PIPE in done.err) == (2, True)


def test_a_device(probe_flow: Callable[..., Any]) -> None:
    done = probe_flow("validate", "/dev/null")
    assert (done.code, "it is a device, not a regular file" in done.err) == (2, True)


@pytest.mark.parametrize("name", ["dump.json", "construct.json", "stack.json"])
def test_a_file_of_a_dump(probe_flow: Callable[..., Any], dumps: Path, name: str) -> None:
    in_place_of(dumps / "t" / name)
    assert compare(probe_flow).code in ((2, 3) if name == "dump.json" else (0, 1))


@pytest.mark.parametrize("option", ["-dm", "-lm", "-cm"])
def test_a_mapping(probe_flow: Callable[..., Any], dumps: Path, option: str) -> None:
    in_place_of(dumps / "map.yaml")
    done = compare(probe_flow, option, "map.yaml")
    assert (done.code, PIPE in done.err) == (2, True)


RUN = "out/probe_flow"


@pytest.mark.parametrize("name", ["run.json", "comparison.jsonl", "nodes.jsonl"])
def test_a_record_of_a_run(probe_flow: Callable[..., Any], dumps: Path, name: str) -> None:
    assert compare(probe_flow).code == 0
    in_place_of(dumps / RUN / name)
    shutil.copytree(dumps / RUN, dumps / "other", ignore=shutil.ignore_patterns(name))
    in_place_of(dumps / "other" / name)
    assert probe_flow("show", RUN, "--node", "Torch.add").code in (2, 3)
    assert probe_flow("diff", RUN, "other").code in ((0,) if name == "nodes.jsonl" else (2, 3))


def test_a_merge_configuration(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    in_place_of(tmp_path / "merge.yaml")
    done = probe_flow("merge_result", "-i", "in", "-o", "out", "-config", "merge.yaml")
    assert (done.code, PIPE in done.err) == (2, True)


def test_a_baseline(tmp_path: Path) -> None:
    with pytest.raises(ProbeFlowError, match=PIPE):
        read_baseline(in_place_of(tmp_path / "baseline.yaml"))


def test_others_are_named_too(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="it is a socket"):
            open_bytes(tmp_path / "s")
    with pytest.raises(IsADirectoryError):
        open_bytes(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with open_bytes(tmp_path / "link") as file:
        assert file.read() == b"x"
