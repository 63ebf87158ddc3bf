from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from probe_flow.engine.run.output import LOCK_NAME, RunFolder, open_run_folder, reopen_run_folder
from probe_flow.errors import UsageError
from probe_flow.files.leftovers import temporary_path

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc)


def open_folder(cwd: Path, output: str | None = None, workflow: str = "demo") -> RunFolder:
    return open_run_folder(Path(output) if output else None, workflow, now=NOW, cwd=cwd)


def write_record(folder: Path, **record: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"schema": "probe_flow.run/1", **record}))


def test_the_default_folder_is_named_after_workflow_and_time(tmp_path):
    folder = open_folder(tmp_path)
    assert folder.path == tmp_path / "probe_flow_runs" / "demo-20260203-040506"
    assert folder.path.is_dir()
    assert folder.run_id == "demo-20260203-040506"


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path):
    names = [open_folder(tmp_path).path.name for _ in range(3)]
    assert names == ["demo-20260203-040506", "demo-20260203-040506-2", "demo-20260203-040506-3"]


def test_a_workflow_name_cannot_leave_the_runs_folder(tmp_path):
    folder = open_folder(tmp_path, workflow="../../evil name")
    assert folder.path.parent == tmp_path / "probe_flow_runs"


def test_a_named_folder_is_created_below_the_working_directory(tmp_path):
    folder = open_folder(tmp_path, "a/b")
    assert folder.path == tmp_path / "a" / "b"
    assert folder.path.is_dir()
    assert folder.previous == ()


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "out").mkdir()
    assert open_folder(tmp_path, "out").path == tmp_path / "out"


def test_a_folder_with_an_earlier_run_is_taken_with_its_files(tmp_path):
    write_record(tmp_path / "out", artifacts=["run.json", "comparison.jsonl"])
    assert open_folder(tmp_path, "out").previous == ("run.json", "comparison.jsonl")


@pytest.mark.parametrize("content", ["{}", "not json", '{"schema": "other/1"}', "[" * 100_000])
def test_a_folder_with_another_run_json_is_refused(tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text(content)
    with pytest.raises(UsageError) as caught:
        open_folder(tmp_path, "out")
    assert caught.value.diagnostic.code == "PF6010"


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError) as caught:
        open_folder(tmp_path, "out")
    assert caught.value.diagnostic.code == "PF6010"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_a_file_is_refused_as_output(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError) as caught:
        open_folder(tmp_path, "out")
    assert caught.value.diagnostic.code == "PF6010"


def test_a_folder_that_cannot_be_created_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        open_folder(tmp_path, "file/out")
    assert caught.value.diagnostic.code == "PF6011"


def test_result_files_of_the_earlier_run_are_deleted_and_no_others(tmp_path):
    write_record(tmp_path / "out", artifacts=["run.json", "old.csv", "result/comparison.jsonl", "gone.txt"])
    (tmp_path / "out" / "result").mkdir()
    for name in ("old.csv", "result/comparison.jsonl", "notes.txt"):
        (tmp_path / "out" / name).write_text("")
    with open_folder(tmp_path, "out") as folder:
        folder.clear()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["notes.txt", "run.json"]


def test_files_that_a_killed_run_had_begun_are_deleted_though_its_record_does_not_name_them(tmp_path):
    write_record(tmp_path / "out", artifacts=["run.json"])
    events = ['{"event": "file.begun", "file": "table.csv"}', "file.begun nonsense", '{"event": "file.beg']
    (tmp_path / "out" / "events.jsonl").write_text("\n".join(events))
    (tmp_path / "out" / "table.csv").write_text("")
    with open_folder(tmp_path, "out") as folder:
        assert folder.previous == ("run.json", "table.csv")
        folder.clear()
    assert not (tmp_path / "out" / "table.csv").exists()


def test_a_record_cannot_make_us_delete_files_elsewhere(tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("")
    run = tmp_path / "run"
    (run / "inside").mkdir(parents=True)
    (run / "link").symlink_to(tmp_path)
    (run / "link.txt").symlink_to(outside)
    names = ("../outside.txt", str(outside), "link/outside.txt", "link.txt", "inside")
    write_record(run, artifacts=[*names, "run.json"])
    with open_folder(tmp_path, "run") as folder:
        assert folder.previous == (*names, "run.json")
        folder.clear()
    assert outside.exists()
    assert (run / "link.txt").is_symlink()
    assert (run / "inside").is_dir()


HOLD = """
import sys
from datetime import datetime
from pathlib import Path
from probe_flow.engine.run.output import open_run_folder
folder = open_run_folder(Path(sys.argv[1]), "demo", now=datetime(2026, 2, 3), cwd=Path("/"))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path) -> Iterator[subprocess.Popen[str]]:
    """Give a process that has opened the folder `out` for a run of workflow `demo`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def resume(cwd: Path, output: str | None = None) -> RunFolder:
    return reopen_run_folder(Path(output) if output else None, "demo", cwd=cwd)


@pytest.mark.parametrize("take", [open_folder, resume])
def test_a_folder_in_which_a_run_is_at_work_is_refused_by_name(tmp_path, holder, take):
    with pytest.raises(UsageError, match=f"process {holder.pid} on `{socket.gethostname()}`") as caught:
        take(tmp_path, "out")
    assert caught.value.diagnostic.code == "PF6013"


@pytest.mark.parametrize("take", [open_folder, resume])
def test_a_run_that_was_killed_before_its_first_record_begins_anew(tmp_path, holder, take):
    holder.kill()
    holder.wait()
    assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK_NAME]
    with take(tmp_path, "out") as folder:
        assert folder.lock.was_left
    assert list((tmp_path / "out").iterdir()) == []


def test_what_killed_writers_left_goes_and_what_a_run_measured_stays_when_it_is_resumed(tmp_path, holder):
    holder.kill()
    holder.wait()
    out = tmp_path / "out"
    write_record(out, workflow={"name": "demo"}, artifacts=["run.json"])
    (out / ".partial").mkdir()
    for path in (out / ".partial" / "kept.h5", temporary_path(out / ".partial" / "cut.h5"), out / ".hidden.tmp"):
        path.write_text("")
    temporary_path(out / "nodes.jsonl").mkdir()
    with resume(tmp_path, "out") as folder:
        folder.clear()
    left = {path.name for path in out.rglob("*")}
    assert left == {"run.json", ".partial", "kept.h5", ".hidden.tmp"}


def test_the_folder_of_a_run_by_another_name_is_not_resumed(tmp_path):
    write_record(tmp_path / "out", workflow={"name": "other"})
    for output in ("out", "missing"):
        with pytest.raises(UsageError) as caught:
            resume(tmp_path, output)
        assert caught.value.diagnostic.code == "PF6012"
