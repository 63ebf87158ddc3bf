from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from probe_flow.engine.run.plan import make_plan
from probe_flow.errors import Diagnostic, Severity, UsageError, WorkflowError
from probe_flow.stages.base import Forecast
from probe_flow.workflow.loading.loader import load_workflow

BESIDE = """\
  other: {uses: compare.fake, pairs: pairs}
"""


def codes(diagnostics) -> list[str]:
    return [diagnostic.code for diagnostic in diagnostics]


def test_stages_come_in_an_order_that_runs_with_the_reason_why(demo):
    plan = make_plan(demo())
    assert [(planned.stage.name, planned.needs, planned.reason) for planned in plan.stages] == [
        ("target", (), "needed by `pairs`"),
        ("golden", (), "needed by `pairs`"),
        ("pairs", ("target", "golden"), "needed by `result`"),
        ("result", ("pairs",), "needed by `table`"),
        ("table", ("result",), "its result is what the run is for"),
    ]
    assert all(planned.is_selected for planned in plan.stages)
    assert plan.warnings == ()


def test_only_selects_stages_and_what_they_need(demo):
    plan = make_plan(demo(), only=["pairs"])
    assert [planned.stage.name for planned in plan.selected] == ["target", "golden", "pairs"]
    left_out = [planned for planned in plan.stages if not planned.is_selected]
    assert {planned.reason for planned in left_out} == {"left out by the command line"}
    assert plan.stages[2].reason == "its result is what the run is for"


def test_until_leaves_out_what_follows_and_keeps_other_branches(demo):
    plan = make_plan(demo(more=BESIDE), until="result")
    assert [planned.stage.name for planned in plan.selected] == ["target", "golden", "pairs", "result", "other"]


def test_only_and_until_leave_what_both_allow(demo):
    plan = make_plan(demo(), only=["result"], until="pairs")
    assert [planned.stage.name for planned in plan.selected] == ["target", "golden", "pairs"]


MATRIX = """
version: 1
name: variants
stages:
  target: {uses: dump.arrays, path: "${matrix.run}", matrix: &all {run: [a, b], big: [true, false]}}
  golden: {uses: dump.arrays, path: "${matrix.run}", matrix: *all}
  pairs: {uses: match.name, target: target, golden: golden}
  result: {uses: compare, pairs: pairs}
  report: {uses: report, comparison: result}
"""


@pytest.mark.parametrize(
    ("only", "meant"),
    [
        ("result", {"a,big=true", "a,big=false", "b,big=true", "b,big=false"}),
        ("result[run=a]", {"a,big=true", "a,big=false"}),
        ("result[big=false]", {"a,big=false", "b,big=false"}),
        ("result[run=b,big=true]", {"b,big=true"}),
        ("result[big=true,run=b]", {"b,big=true"}),
    ],
)
def test_a_stage_with_a_matrix_is_named_whole_or_by_values(tmp_path, only, meant):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.npy").write_bytes(b"")
    (tmp_path / "w.yaml").write_text(MATRIX)
    workflow = load_workflow(tmp_path / "w.yaml", sets={}, env={}, cwd=tmp_path)
    chosen = {planned.stage.name for planned in make_plan(workflow, only=[only]).selected}
    expected = {f"{stage}[run={each}]" for each in meant for stage in ("target", "golden", "pairs", "result")}
    assert chosen == expected
    assert make_plan(workflow, force=[only]).forced == {f"result[run={each}]" for each in meant}
    before = {planned.stage.name for planned in make_plan(workflow, until=only).selected}
    assert "report" not in before
    assert f"result[run={max(meant)}]" in before


@pytest.mark.parametrize("only", ["result[run=c]", "result[nur=a]", "report[run=a]", "result[", "resul"])
def test_variants_that_no_stage_has_are_refused(tmp_path, only):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "w.yaml").write_text(MATRIX)
    workflow = load_workflow(tmp_path / "w.yaml", sets={}, env={}, cwd=tmp_path)
    with pytest.raises(UsageError) as caught:
        make_plan(workflow, only=[only])
    assert caught.value.diagnostic.code == "PF2108"


def test_unknown_stage_names_are_reported_together_with_suggestions(demo):
    with pytest.raises(UsageError) as caught:
        make_plan(demo(), only=["resutl", "zzz"], until="pair")
    assert codes(caught.value.diagnostics) == ["PF2108"] * 3
    helps = [diagnostic.help for diagnostic in caught.value.diagnostics]
    assert helps[0] == "did you mean `result`?"
    assert helps[1] == "stages: target, golden, pairs, result, table"
    assert "`pairs`" in helps[2]


def test_all_missing_paths_are_reported_at_once_at_their_stage(demo, tmp_path):
    workflow = demo()
    (tmp_path / "target.txt").unlink()
    (tmp_path / "golden.txt").unlink()
    with pytest.raises(WorkflowError) as caught:
        make_plan(workflow)
    assert codes(caught.value.diagnostics) == ["PF2101", "PF2101"]
    first = caught.value.diagnostics[0]
    assert first.stage == "target"
    assert str(tmp_path / "target.txt") in first.message
    assert first.span is not None
    assert (first.span.file, first.span.line) == ("demo.yaml", 7)
    assert "demo.yaml" in caught.value.sources


def test_a_missing_path_from_the_command_line_points_there(demo, tmp_path):
    with pytest.raises(WorkflowError) as caught:
        make_plan(demo(sets={"golden": "gone.txt"}))
    (problem,) = caught.value.diagnostics
    text = caught.value.sources[problem.span.file].splitlines()[problem.span.line - 1]
    assert text[problem.span.column - 1 : problem.span.end_column - 1] == "gone.txt"


def test_a_missing_path_gets_names_that_look_alike(demo, tmp_path):
    with pytest.raises(WorkflowError) as caught:
        make_plan(demo(sets={"golden": "goldn.txt"}))
    assert caught.value.diagnostic.help == f"did you mean `golden.txt`? (in `{tmp_path}`)"


def test_a_path_far_off_says_how_far_it_is_right(demo, tmp_path):
    with pytest.raises(WorkflowError) as caught:
        make_plan(demo(sets={"golden": "nowhere/deep/down"}))
    assert caught.value.diagnostic.help == f"`{tmp_path}` is there, `nowhere` is not in it"


def test_a_path_that_cannot_be_read_is_not_called_missing(demo, monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "golden.txt")  # root may read everything
    with pytest.raises(WorkflowError) as caught:
        make_plan(demo())
    assert codes(caught.value.diagnostics) == ["PF2102"]


def test_paths_of_stages_that_do_not_run_are_not_checked(demo, tmp_path):
    workflow = demo()
    (tmp_path / "golden.txt").unlink()
    assert [planned.stage.name for planned in make_plan(workflow, only=["target"]).selected] == ["target"]


def test_sizes_are_counted_below_each_path(demo, tmp_path):
    dump = tmp_path / "dump"
    (dump / "deep").mkdir(parents=True)
    (dump / "a").write_bytes(b"x" * 10)
    (dump / "deep" / "b").write_bytes(b"x" * 5)
    (dump / "loop").symlink_to(dump)
    plan = make_plan(demo(sets={"golden": "dump"}))
    (size,) = plan.stages[1].sizes
    assert (size.option, size.files, size.size_bytes, size.is_complete) == ("path", 2, 15, True)
    assert plan.size_bytes == len("1 2 3") + 15


def test_two_dump_stages_on_one_folder_are_a_warning(demo, tmp_path):
    (tmp_path / "alias").symlink_to(tmp_path / "target.txt")
    plan = make_plan(demo(sets={"golden": "alias"}))
    (warning,) = plan.warnings
    assert (warning.code, warning.severity, warning.stage) == ("PF2110", Severity.WARNING, "golden")
    assert "`target` and `golden`" in warning.message


def test_auto_names_its_choice_for_small_work(demo):
    executor = make_plan(demo(), workers=4).executor
    assert (executor.scheduler, executor.workers) == ("auto", 4)
    assert "one after another" in executor.reason


def test_auto_names_its_choice_for_large_work(demo, tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 * 2**20)
    executor = make_plan(demo(sets={"golden": "large"}), workers=4).executor
    assert "4 threads" in executor.reason


def test_the_command_line_overrides_the_scheduler_of_the_file(demo):
    workflow = demo(more="executor: {scheduler: processes}\n")
    executor = make_plan(workflow, workers=3).executor
    assert (executor.scheduler, executor.workers, executor.reason) == ("processes", 3, "as asked for")
    executor = make_plan(workflow, scheduler="sync", workers=8).executor
    assert (executor.scheduler, executor.workers) == ("sync", 1)


def test_start_runs_a_stage_what_follows_and_what_these_need(demo):
    plan = make_plan(demo(), start="pairs")
    assert [planned.stage.name for planned in plan.selected] == ["target", "golden", "pairs", "result", "table"]


def test_forced_stages_are_checked_and_kept(demo):
    assert make_plan(demo(), force=("result",)).forced == {"result"}
    with pytest.raises(UsageError) as error:
        make_plan(demo(), force=("resutl",))
    assert error.value.diagnostic.code == "PF2108"


def test_planning_loads_neither_numpy_nor_dask(tmp_path):
    example = Path(__file__).parents[4] / "workflows" / "pytorch_compare.yaml"
    code = (
        "import sys; from pathlib import Path; from probe_flow.engine.run.plan import make_plan;"
        "from probe_flow.workflow.loading.loader import load_workflow;"
        "make_plan(load_workflow(Path(sys.argv[1]), env={}, cwd=Path.cwd()));"
        "print([name for name in ('dask', 'numpy', 'h5py', 'structlog', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(example)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def with_forecast(workflow, forecast):
    """Return the workflow with its first stage foreseeing something."""
    from msgspec.structs import replace

    first, *others = workflow.stages
    stage = replace(first, type=replace(first.type, forecast=lambda options: forecast))
    return replace(workflow, stages=(stage, *others))


def test_what_a_stage_would_run_is_part_of_its_reason(demo):
    plan = make_plan(with_forecast(demo(), Forecast("runs `net:build`")))
    assert plan.stages[0].reason == "needed by `pairs`; it runs `net:build`"


def test_what_a_stage_foresees_to_fail_is_reported_at_the_stage(demo):
    workflow = with_forecast(demo(), Forecast("runs", (Diagnostic("PF6320", "torch is not installed"),)))
    with pytest.raises(WorkflowError) as raised:
        make_plan(workflow)
    (problem,) = raised.value.diagnostics
    assert (problem.code, problem.stage, problem.span) == ("PF6320", "target", workflow.stages[0].span)
    assert make_plan(workflow, only=["golden"]).selected


def test_the_cache_is_not_asked_for_what_only_a_run_would_show(demo, tmp_path):
    from probe_flow.engine.run.cache_state import cache_states

    def run(options, inputs, context):
        raise AssertionError("a plan runs no model")

    from msgspec.structs import replace

    workflow = with_forecast(demo(), Forecast("runs"))
    first, *others = workflow.stages
    workflow = replace(workflow, stages=(replace(first, type=replace(first.type, run=run)), *others))
    assert cache_states(make_plan(workflow), tmp_path) == []


def test_code_that_two_stages_run_is_no_dump_that_both_read(tmp_path):
    from probe_flow.engine.run.paths import input_paths
    from probe_flow.stages.dump.dump_torchair_fx import Options

    options = Options(
        uses="dump.torchair_fx", model="net:build", import_from=str(tmp_path), inputs={"files": ["x.npy"]}
    )
    assert [name for name, _ in input_paths(options)] == ["inputs.files", "import_from"]
    assert list(input_paths(options, data_only=True)) == []
