"""Graphs are written by a fork while the page is: the same files, and the same ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from graph_dumps import write_dump

from benchmarks.same_files import differing
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.forked import Forked
from probe_flow.records import Catalog
from probe_flow.stages.report import graph_files
from probe_flow.stages.report.report_graph import STAGE, Options
from probe_flow.testing.run_records import run_record
from probe_flow.work import Begun, Beside, Context, Settings, at_once

HERE = os.getpid()
FORMATS = ["vis", "vis_db", "html"]
T = TypeVar("T")


class InForks:
    """Begins everything in a fork, and remembers which."""

    def __init__(self) -> None:
        self.begun: list[Forked[Any]] = []
        self.processes: list[int] = []
        self.lost: list[str] = []

    def __call__(self, work: Callable[[], T], *, rows: int, folders: Iterable[Path] = ()) -> Begun[T]:
        assert rows > 0
        forked = Forked(work, folders=folders, lost=self.lost.append)
        self.begun.append(forked)
        self.processes.append(forked._process)
        return forked


def graphs(folder: Path, catalog: Catalog, beside: Beside, **more: Any) -> tuple[list[str], list[Diagnostic]]:
    """Write graphs and their page; return which files were announced, and what was reported."""
    problems: list[Diagnostic] = []
    announced: list[str] = []

    def announce(path: Path) -> None:
        assert not path.exists()
        announced.append(path.relative_to(folder).as_posix())

    def nothing(*_arguments: Any, **_options: Any) -> Any:
        return None

    folder.mkdir()
    services = {"beside": beside, "announce": announce}
    context = Context("graphs", folder, nothing, nothing, problems.extend, Settings(), run_record(), **services)
    options = Options.model_validate({"uses": "report.graph", "catalog": "dump", "formats": FORMATS, **more})
    found: Any = STAGE.run(options, {"catalog": [catalog]}, context)
    assert {path.relative_to(folder).as_posix() for path in found} <= {*announced}
    return announced, problems


def dump(folder: Path, *, has_a_gap: bool = False) -> Catalog:
    for rank in (0, 1):
        write_dump(folder / "step0" / f"rank{rank}", **({"construct": "{}", "level": "L1"} if has_a_gap * rank else {}))
    return read_dump_json(folder, side="dump")


@pytest.mark.parametrize("has_a_gap", [False, True])
def test_a_fork_leaves_the_same_files(tmp_path, has_a_gap):
    catalog = dump(tmp_path / "dump", has_a_gap=has_a_gap)
    forks = InForks()
    alone, beside = (
        graphs(tmp_path / "made-in-turn", catalog, at_once),
        graphs(tmp_path / "made-in-a-fork", catalog, forks),
    )
    assert alone == beside
    assert differing(tmp_path / "made-in-turn", tmp_path / "made-in-a-fork") == []
    assert len(forks.begun) == 1
    assert forks.lost == []
    page = (tmp_path / "made-in-a-fork" / "report.html").read_text(encoding="utf-8")
    assert ("PF7150" in page) == has_a_gap == bool(beside[1])


def test_a_fork_that_is_killed_costs_nothing_but_time(tmp_path, monkeypatch):
    catalog = dump(tmp_path / "dump")
    graphs(tmp_path / "made-in-turn", catalog, at_once)
    write = graph_files.write_vis

    def killed(*arguments: Any, **options: Any) -> None:
        write(*arguments, **options)
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(graph_files, "write_vis", killed)
    forks = InForks()
    graphs(tmp_path / "made-in-a-fork", catalog, forks)
    assert forks.lost == ["it was ended by SIGKILL"]
    assert differing(tmp_path / "made-in-turn", tmp_path / "made-in-a-fork") == []


def test_a_page_that_cannot_be_written_ends_the_fork(tmp_path, monkeypatch):
    def refused(*_arguments: Any, **_options: Any) -> None:
        raise IncompleteError(Diagnostic("PF7001", "the disk is full"))

    monkeypatch.setattr(graph_files, "write_html", refused)
    monkeypatch.setattr(graph_files, "write_vis", lambda *_, **__: signal.pause())
    forks = InForks()
    with pytest.raises(IncompleteError, match="the disk is full"):
        graphs(tmp_path / "out", dump(tmp_path / "dump"), forks)
    assert not forks.begun[0].is_done
    with pytest.raises(ChildProcessError):
        os.waitpid(forks.processes[0], os.WNOHANG)  # it is not left for anybody to wait for


def test_a_full_disk_is_told_as_it_is_without_a_fork(tmp_path, monkeypatch):
    def refused(*_arguments: Any, **_options: Any) -> None:
        raise IncompleteError(Diagnostic("PF7001", "the disk is full"))

    monkeypatch.setattr(graph_files, "write_vis", refused)
    catalog = dump(tmp_path / "dump")
    for name, beside in (("made-in-turn", at_once), ("made-in-a-fork", InForks())):
        with pytest.raises(IncompleteError, match="the disk is full") as caught:
            graphs(tmp_path / name, catalog, beside, formats=["vis", "html"])
        assert [each.code for each in caught.value.diagnostics] == ["PF7001"]
    assert differing(tmp_path / "made-in-turn", tmp_path / "made-in-a-fork") == []
