"""Runs without their names: the newest one, lists of them, fewer of them."""

from __future__ import annotations

import json
import os
import webbrowser

import fake_stages
import pytest
from fake_stages import write_project
from stored_runs import node, row, write_run

from probe_flow.files.lock_file import LockFile


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)


@pytest.fixture
def project(fakes, probe_flow, tmp_path):
    """A workflow, and a function that runs it into a folder, each run a minute younger than the one before."""
    write_project(tmp_path, target="1 2 4 3 5", golden="1 2 3 3 3")
    written = iter(range(1_700_000_000, 1_800_000_000, 60))

    def run(folder=None, **more):
        before = set((tmp_path / "probe_flow_runs").iterdir()) if (tmp_path / "probe_flow_runs").is_dir() else set()
        probe_flow("run", "demo.yaml", *(("-o", folder) if folder else ()))
        path = tmp_path / folder if folder else next(iter(set((tmp_path / "probe_flow_runs").iterdir()) - before))
        at = next(written)
        os.utime(path / "run.json", (at, at))
        return path

    return run


def test_the_newest_run_is_shown_wherever_it_lies(project, probe_flow):
    older = project()
    assert probe_flow("show", "--quiet").last_line.endswith(f"probe_flow_runs/{older.name}/run.json")
    project("out")
    shown = probe_flow("show", "--quiet")
    assert shown.code == 0
    assert shown.last_line.endswith("| out/run.json")
    assert probe_flow("show", "--node", "n2").out.startswith("n2 (Fake)")


def test_inside_of_its_folder_a_run_is_the_newest(project, probe_flow, monkeypatch):
    project()
    folder = project("out")
    monkeypatch.chdir(folder)
    assert probe_flow("show", "--quiet").last_line.endswith("| ./run.json")


def test_the_record_of_a_command_in_msprobes_syntax_is_found(project, probe_flow):
    project("results/probe_flow")
    assert probe_flow("show", "--quiet").last_line.endswith("| results/probe_flow/run.json")


@pytest.mark.parametrize("words", [("show",), ("diff",), ("report", "--format", "html"), ("diff", "nowhere")])
def test_where_no_run_is_nothing_is_guessed(probe_flow, words, tmp_path):
    (tmp_path / "something").mkdir()
    shown = probe_flow(*words)
    assert shown.code == 2
    assert "PF7119" in shown.err
    assert "probe-flow runs ls" in shown.err


def test_a_difference_is_that_of_the_last_two_runs_of_one_workflow(project, probe_flow, tmp_path):
    first, second = project(), project()
    other = (tmp_path / "demo.yaml").read_text().replace("name: demo", "name: other")
    (tmp_path / "demo.yaml").write_text(other)
    third = project()
    shown = probe_flow("diff")
    assert shown.code == 2
    assert "there are no two runs of one workflow" in shown.err
    (third / "run.json").unlink()
    named = probe_flow("diff").out
    assert str(first.name) in named
    assert str(second.name) in named
    assert probe_flow("diff", first).code == 0


def test_runs_are_listed_newest_first_with_their_verdict(project, probe_flow):
    older, newer = project(), project("out")
    (older / "run.json").write_text('{"schema": "probe_flow.run/99"}')
    os.utime(older / "run.json", (1, 1))
    lines = probe_flow("runs", "ls").out.splitlines()
    assert lines[0].split() == ["written", "verdict", "workflow", "size", "folder", "what"]
    assert lines[1].split()[2:4] == ["FAIL", "demo"]
    assert "  out  " in lines[1]
    assert "PF7112" in lines[2]
    found = probe_flow("runs", "ls", "--format", "json").json
    assert [each["folder"] for each in found] == ["out", f"probe_flow_runs/{older.name}"]
    assert found[0]["size_bytes"] == sum(path.stat().st_size for path in newer.rglob("*"))
    missing = probe_flow("runs", "ls", newer / "nothing")
    assert (missing.code, "does not exist" in missing.err) == (2, True)
    (newer / "nothing").mkdir()
    assert probe_flow("runs", "ls", newer / "nothing").out == f"no runs in `{newer / 'nothing'}`\n"


def test_a_run_below_probe_flow_runs_goes_whole(project, probe_flow):
    folder = project()
    (folder / "note.txt").write_text("mine")
    shown = probe_flow("runs", "rm", folder)
    assert shown.code == 0
    assert shown.out.startswith(f"removed {folder}\n1 run, ")
    assert not folder.exists()


def test_of_another_folder_only_the_files_of_the_run_go(project, probe_flow):
    folder = project("out")
    (folder / "note.txt").write_text("mine")
    shown = probe_flow("runs", "rm", "out")
    assert shown.code == 0
    assert "removed out; 1 other files stay" in shown.out
    assert [path.name for path in folder.iterdir()] == ["note.txt"]


def test_nothing_is_removed_that_is_no_run_or_is_at_work_or_is_a_link(project, probe_flow, tmp_path):
    folder = project("out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "dump.json").write_text("{}")
    (tmp_path / "latest").symlink_to(folder)
    assert "PF7110" in probe_flow("runs", "rm", "mine").err
    assert "PF6016" in probe_flow("runs", "rm", "latest").err
    assert (tmp_path / "mine" / "dump.json").exists()
    lock = LockFile(folder / ".probe_flow_run.lock")
    try:
        shown = probe_flow("runs", "rm", "out")
    finally:
        lock.release()
    assert shown.code == 2
    assert "PF6013" in shown.err
    assert (folder / "run.json").exists()


def test_old_runs_are_collected_by_workflow(project, probe_flow):
    first, second, third = project(), project(), project()
    outside = project("out")
    assert probe_flow("runs", "gc").code == 2
    dry = probe_flow("runs", "gc", "--keep", "1", "--dry-run").out.splitlines()
    assert dry == [f"would remove probe_flow_runs/{each.name}" for each in (second, first)] + ["2 runs"]
    assert first.exists()
    shown = probe_flow("runs", "gc", "--keep", "1")
    assert shown.code == 0
    assert [each.exists() for each in (first, second, third, outside)] == [False, False, True, True]
    assert probe_flow("runs", "gc", "--days", "100000").out == "0 runs, 0 bytes\n"


def test_a_run_that_has_not_ended_is_not_collected(project, probe_flow):
    folder = project()
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"status": "running"}))
    probe_flow("runs", "gc", "--keep", "0")
    assert folder.exists()


def test_the_report_is_opened_in_a_browser_or_named(project, probe_flow, monkeypatch):
    folder = project("out")
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or len(opened) > 1)
    shown = probe_flow("show", "--open")
    assert shown.code == 2
    assert "PF7117" in shown.err
    assert "probe-flow report out --format html" in shown.err
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"artifacts": ["run.json", "report.html"]}))
    gone = probe_flow("show", "--open")
    assert (gone.code, opened) == (2, [])
    assert "has no HTML report: `report.html` is gone" in gone.err
    (folder / "report.html").touch()
    first = probe_flow("show", "--open")
    assert first.code == 0
    assert "no browser could be started" in first.err
    assert first.out == "out/report.html\n" or first.out == f"{folder}/report.html\n"
    assert probe_flow("show", "--open").err == ""
    assert opened == [(folder / "report.html").as_uri()] * 2


def test_one_call_of_a_node_can_be_asked_for(probe_flow, tmp_path):
    rows = [row(number, "Add", call=number, name=f"Add.{number}.forward") for number in range(3)]
    nodes = [{**node("Add", number), "call": number, "name": f"Add.{number}.forward"} for number in range(3)]
    write_run(tmp_path / "out", rows, nodes)
    assert probe_flow("show", "--node", "Add", "--call", "1").out.splitlines()[0].startswith("Add#1")
    assert len(probe_flow("show", "--node", "Add", "--format", "json").json["nodes"]) == 3
    assert len(probe_flow("show", "--node", "Add", "--call", "2", "--format", "json").json["nodes"]) == 1
    assert "PF7201" in probe_flow("show", "--node", "Add", "--call", "7").err
    assert probe_flow("show", "--call", "1").code == 2
