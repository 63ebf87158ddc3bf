from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import fake_stages
import pytest
from fake_stages import write_project
from run_records import first_divergence


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)


def test_a_passing_run_exits_with_0_and_ends_with_verdict_share_and_place(probe_flow, tmp_path):
    write_project(tmp_path)
    done = probe_flow("run", "demo.yaml", "--output", "out")
    assert done.code == 0
    assert done.last_line == "PASS no operator of the target goes wrong | 3 of 3 compared | out/run.json"
    assert done.out.startswith("target fake dump `target.txt`, 3 tensors | golden fake dump `golden.txt`, 3 tensors\n")
    assert json.loads((tmp_path / "out" / "run.json").read_text())["verdict"] == "pass"


def test_a_failing_gate_exits_with_1(probe_flow, tmp_path):
    write_project(tmp_path, target="1 2 4")
    done = probe_flow("run", "demo.yaml", "--output", "out")
    assert done.code == 1
    assert "n2" in done.out
    assert done.last_line.startswith("FAIL")


def test_a_failed_stage_exits_with_3_and_shows_its_problem_on_stderr(probe_flow, tmp_path):
    write_project(tmp_path, on_result="trouble: incomplete")
    done = probe_flow("run", "demo.yaml", "--output", "out")
    assert done.code == 3
    assert "error[PF3999]: the dump is empty" in done.err
    assert done.last_line.startswith("INCOMPLETE")


def test_a_failed_stage_says_why_once_where_both_streams_are_read_together(tmp_path):
    (tmp_path / "dump").mkdir()
    (tmp_path / "one.yaml").write_text("version: 1\nname: one\nstages: {a: {uses: dump.npy, path: dump}}\n")
    command = [sys.executable, "-m", "probe_flow", "run", "one.yaml", "--output", "out"]
    message = "`dump` holds no array"

    def said(stderr: int) -> tuple[str, str]:
        done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
        assert done.returncode == 3
        return done.stdout, done.stderr or ""

    together, _ = said(subprocess.STDOUT)
    assert together.count(message) == 1, together
    assert "a: failed: PF3202" in together
    assert "stage `a` failed: see PF3202 above" in together
    assert [text.count(message) for text in said(subprocess.PIPE)] == [2, 1], "among the causes and in the last line"


def test_an_interrupt_exits_with_130(probe_flow, tmp_path):
    write_project(tmp_path, on_pairs="", on_golden="trouble: interrupt")
    assert probe_flow("run", "demo.yaml", "--output", "out").code == 130


def test_missing_paths_exit_with_2_and_nothing_is_written(probe_flow, tmp_path):
    write_project(tmp_path)
    done = probe_flow("run", "demo.yaml", "--set", "golden=gone.txt")
    assert done.code == 2
    assert "error[PF2101]" in done.err
    assert "gone.txt" in done.err
    assert not (tmp_path / "probe_flow_runs").exists()


def test_set_changes_a_parameter(probe_flow, tmp_path):
    write_project(tmp_path)
    (tmp_path / "other.txt").write_text("1 2 9")
    assert probe_flow("run", "demo.yaml", "--set", "golden=other.txt", "--output", "out").code == 1


def test_json_prints_the_record_and_nothing_else_on_stdout(probe_flow, tmp_path):
    write_project(tmp_path, target="1 2 4")
    done = probe_flow("run", "demo.yaml", "--output", "out", "--format", "json")
    assert done.json == json.loads((tmp_path / "out" / "run.json").read_text())
    assert first_divergence(done.json)["node"] == "n2"


def test_progress_is_plain_lines_of_long_stages_where_stderr_is_no_terminal(probe_flow, tmp_path):
    write_project(tmp_path)
    assert probe_flow("run", "demo.yaml", "--output", "short").err == ""
    lines = probe_flow("run", "demo.yaml", "--output", "out", "-v").err.splitlines()
    assert lines[0] == "target: dump.fake ..."
    assert lines[1].startswith("target: done in ")
    assert [line.partition(":")[0] for line in lines[::2]] == ["target", "golden", "pairs", "result", "table"]


def test_quiet_leaves_only_the_last_line(probe_flow, tmp_path):
    write_project(tmp_path)
    done = probe_flow("run", "demo.yaml", "--output", "out", "--quiet")
    assert done.err == ""
    assert len(done.out.splitlines()) == 1
    assert done.out.startswith("PASS")


def test_quiet_still_shows_what_ended_a_stage(probe_flow, tmp_path):
    write_project(tmp_path, on_result="trouble: incomplete")
    done = probe_flow("run", "demo.yaml", "--output", "out", "--quiet")
    assert "PF3999" in done.err
    assert "result: compare.fake" not in done.err


def test_only_runs_a_part(probe_flow, tmp_path):
    write_project(tmp_path)
    done = probe_flow("run", "demo.yaml", "--only", "pairs", "--output", "out", "--format", "json")
    assert done.code == 0
    assert done.json["verdict"] is None
    assert [stage["status"] for stage in done.json["stages"]] == ["done"] * 3 + ["not_selected"] * 2


def test_scheduler_and_workers_are_recorded(probe_flow, tmp_path):
    write_project(tmp_path)
    done = probe_flow(
        "run", "demo.yaml", "--scheduler", "threads", "--workers", "3", "--output", "out", "--format", "json"
    )
    assert done.json["executor"] == {"scheduler": "threads", "workers": 3}
    assert done.json["counts"]["pass"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--scheduler", "distribute"], 2, "PF2103"),
        (["--only", "resutl"], 2, "PF2108"),
        (["--workers", "0"], 2, "--workers"),
        (["--set", "nonsense"], 2, "NAME=VALUE"),
        (["--resume"], 2, "--resume"),
    ],
)
def test_mistakes_on_the_command_line_exit_with_2(probe_flow, tmp_path, arguments, code, told):
    write_project(tmp_path)
    done = probe_flow("run", "demo.yaml", *arguments)
    assert done.code == code
    assert told in done.err
    assert not (tmp_path / "probe_flow_runs").exists()


def test_an_output_folder_of_other_origin_is_refused(probe_flow, tmp_path):
    write_project(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    done = probe_flow("run", "demo.yaml", "--output", "out")
    assert done.code == 2
    assert "PF6010" in done.err


def test_warnings_of_the_plan_are_shown(probe_flow, tmp_path):
    write_project(tmp_path)
    done = probe_flow("run", "demo.yaml", "--set", "golden=target.txt", "--output", "out")
    assert "warning[PF2110]" in done.err
    assert done.code == 0


def test_an_absolute_folder_outside_is_shown_in_full(probe_flow, tmp_path, tmp_path_factory):
    write_project(tmp_path)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "out"
    assert str(elsewhere) in probe_flow("run", "demo.yaml", "--output", elsewhere).last_line


def test_help_of_run_loads_nothing_heavy():
    code = (
        "import sys; from probe_flow.cli.main import main; main(['run', '--help']);"
        "print([n for n in ('dask', 'numpy', 'h5py', 'structlog', 'yaml', 'pydantic', 'rich') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert done.stdout.rstrip().endswith("[]")
