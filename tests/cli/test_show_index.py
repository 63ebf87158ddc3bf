"""Questions to a run with an index: the same answers as without one, from few of its lines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored_runs import packaged_run

from probe_flow.record.line_file import LineFile
from probe_flow.record.row_index import FILE

ROWS, NODES = "comparison.jsonl", "nodes.jsonl"
WORKFLOWS = ("torchair_ge_vs_fx", "torchair_with_reference", "pytorch_compare", "offline_om_vs_onnx")
QUESTIONS = [
    [],
    ["--format", "json"],
    ["--verdict", "fail"],
    ["--verdict", "pass", "--limit", "3"],
    ["--verdict", "unmatched_golden", "--limit", "0", "--format", "json"],
    ["--role", "inherited", "--format", "json"],
    ["--rank", "0"],
    ["--step", "7"],
    ["--graph", "1", "--verdict", "pass"],
    ["--comparison", "result", "--limit", "2"],
    ["--node", "*e*", "--limit", "4"],
    ["--node", "*", "--verdict", "pass", "--rank", "0", "--limit", "0"],
    ["--origin"],
    ["--origin", "--rank", "0", "--format", "json"],
    ["--unmatched"],
    ["--unmatched", "--limit", "0", "--format", "json"],
    ["--node", "e", "--limit", "0"],
    ["--node", "1", "--depth", "3", "--attrs", "--format", "json"],
    ["--tensor", "output.0"],
    ["--above", "cosine=0.5"],
]


@pytest.fixture(scope="module", params=WORKFLOWS)
def indexed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with an index, few rows as it has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("probe_flow.record.row_index.LEAST_ROWS", 1)
        folder = packaged_run(request.param, tmp_path_factory.mktemp("indexed") / "run")
    assert list(folder.rglob(FILE))
    return folder


@pytest.fixture
def run(indexed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(indexed, tmp_path / "run"))


def answers(probe_flow: Callable[..., Any], run: Path) -> list[tuple[int, str, str]]:
    found = []
    for question in QUESTIONS:
        shown = probe_flow("show", run, *question)
        found.append((shown.code, shown.out, shown.err))
    return found


def test_answers_are_the_same_with_and_without_an_index(probe_flow, run):
    (file,) = run.rglob(FILE)
    known = answers(probe_flow, run)
    assert sum(code == 0 for code, _, _ in known) > len(QUESTIONS) // 2
    data = file.read_bytes()
    file.unlink()
    assert answers(probe_flow, run) == known
    for wrong in (b"", data[:-1], data[:-5], data + b"\0", data.replace(b'"crc32": ', b'"crc32": 1', 1)):
        file.write_bytes(wrong)
        assert answers(probe_flow, run)[:8] == known[:8]


def test_an_index_of_another_run_is_of_no_use(probe_flow, run):
    (file,) = run.rglob(FILE)
    rows = file.with_name(ROWS)
    lines = rows.read_text().splitlines(keepends=True)
    # The same size, with a verdict and a figure exchanged: what an editor may do.
    at = next(number for number, line in enumerate(lines) if '"verdict": "pass"' in line and '"role": "clean"' in line)
    lines[at] = lines[at].replace('"verdict": "pass"', '"verdict": "fail"')
    rows.write_text("".join(lines))
    changed = answers(probe_flow, run)
    file.unlink()
    assert answers(probe_flow, run) == changed
    assert json.loads(lines[at])["node"] in changed[QUESTIONS.index(["--verdict", "fail"])][1]


@pytest.mark.parametrize("name", [ROWS, NODES])
@pytest.mark.parametrize("how", ["cut", "bytes", "missing"])
def test_a_file_that_is_damaged_is_told_as_without_an_index(probe_flow, run, name, how):
    (index,) = run.rglob(FILE)
    file = index.with_name(name)
    data = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        middle = len(data) // 2
        file.write_bytes(data[:middle] if how == "cut" else data[:middle] + b"{{{{" + data[middle + 4 :])
    damaged = answers(probe_flow, run)
    assert any(code == 3 for code, _, _ in damaged)
    index.unlink()
    assert answers(probe_flow, run) == damaged


def test_only_the_lines_that_are_shown_are_read(probe_flow, run, monkeypatch):
    read: list[int] = []

    def noting(file: LineFile, reader: Any) -> Any:
        def note(line: bytes, number: int) -> Any:
            read.append(number)
            return reading(file, reader)(line, number)

        return note

    reading = LineFile.reading
    monkeypatch.setattr(LineFile, "reading", noting)
    (index,) = run.rglob(FILE)
    count = len(index.with_name(ROWS).read_bytes().splitlines())
    for question, most in ([], 5), (["--verdict", "pass", "--limit", "3"], 3), (["--origin"], count // 3):
        read.clear()
        assert probe_flow("show", run, *question).code == 0
        assert len(read) <= most < count
