from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from probe_flow.engine.output import RunFolder, open_run_folder
from probe_flow.errors import UsageError

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


def test_files_of_the_earlier_run_that_were_not_written_again_are_deleted(tmp_path):
    for name in ("old.csv", "kept.jsonl"):
        (tmp_path / name).write_text("")
    RunFolder(tmp_path, "id", previous=("old.csv", "kept.jsonl", "gone.txt")).forget_previous(["kept.jsonl"])
    assert [path.name for path in tmp_path.iterdir()] == ["kept.jsonl"]


def test_a_record_cannot_make_us_delete_files_elsewhere(tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("")
    run = tmp_path / "run"
    (run / "inside").mkdir(parents=True)
    (run / "link").symlink_to(tmp_path)
    (run / "link.txt").symlink_to(outside)
    names = ("../outside.txt", str(outside), "link/outside.txt", "link.txt", "inside")
    RunFolder(run, "id", previous=names).forget_previous([])
    assert outside.exists()
    assert (run / "link.txt").is_symlink()
    assert (run / "inside").is_dir()
