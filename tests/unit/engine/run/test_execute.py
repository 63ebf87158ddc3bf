from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from name_builders import catalog
from report_builders import comparison, good_row
from run_records import first_divergence

from probe_flow.engine.run import results
from probe_flow.engine.run.events import Clock
from probe_flow.engine.run.execute import RunOutcome, execute
from probe_flow.engine.run.plan import make_plan
from probe_flow.engine.schedulers.choice import make_scheduler
from probe_flow.errors import Diagnostic, IncompleteError, UsageError
from probe_flow.record.run_json import comparison_summary
from probe_flow.record.schemas import schema
from probe_flow.work import at_once

TWO_BRANCHES = """\
  other: {uses: compare.fake, pairs: pairs}
"""


def ticking_clock() -> Clock:
    """Return a clock that stands still, and a stop watch that gains a second whenever it is read."""
    seconds = iter(range(10_000))
    now = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    return Clock(now=lambda: now, monotonic=lambda: float(next(seconds)))


@pytest.fixture
def run(demo, tmp_path) -> Callable[..., RunOutcome]:
    """Return a function that runs a workflow of fake stages, by default in the folder ``out``."""

    def run_demo(
        *, scheduler: str = "sync", output: str | None = "out", only=(), keeps_going: bool = True, **project: Any
    ) -> RunOutcome:
        plan = make_plan(demo(**project), only=only)
        return execute(
            plan,
            scheduler=make_scheduler(scheduler, 2),
            cwd=tmp_path,
            output=Path(output) if output else None,
            clock=ticking_clock(),
            keeps_going=keeps_going,
        )

    return run_demo


def record_of(outcome: RunOutcome) -> dict[str, Any]:
    record = json.loads((outcome.folder / "run.json").read_text(encoding="utf-8"))
    jsonschema.validate(record, schema("run"))
    return record


def statuses(outcome: RunOutcome) -> dict[str, str]:
    return {stage.name: stage.status.value for stage in outcome.stages}


def events_of(outcome: RunOutcome) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (outcome.folder / "events.jsonl").read_text().splitlines()]


def test_what_run_json_says_of_a_comparison_is_handed_to_reports(tmp_path):
    of_run, other = comparison(good_row()), comparison(good_row())
    kept = results.Results((), tmp_path, print, at_once)
    kept.comparisons["result"], kept.summaries["result"] = of_run, comparison_summary(of_run)
    assert kept.summary_of(of_run) is kept.summaries["result"]
    assert kept.summary_of(other) == kept.summaries["result"]
    assert kept.summary_of(other) is not kept.summaries["result"]


def test_dumps_of_one_program_share_their_nodes(tmp_path):
    held = results.Results((), tmp_path, print, at_once)
    held._held["target"] = target = catalog(["Functional.relu.0.forward"])
    golden = held.sharing(catalog(["Functional.relu.0.forward"]))
    assert golden.nodes is target.nodes
    assert held.sharing("no dump") == "no dump"


def test_a_run_that_finds_nothing_wrong_passes_and_leaves_its_record(run, tmp_path):
    outcome = run()
    record = record_of(outcome)
    assert outcome.exit_code == record["exit_code"] == 0
    assert record["verdict"] == "pass"
    assert record["incomplete"] == []
    assert record["counts"]["pass"] == 3
    assert record["coverage"]["target"]["compared"] == 3
    assert first_divergence(record) is None
    assert record["workflow"]["name"] == "demo"
    assert record["params"] == {"target": str(tmp_path / "target.txt"), "golden": str(tmp_path / "golden.txt")}
    assert {"probe_flow", "python", "numpy", "dask"} <= set(record["versions"])
    assert [stage["status"] for stage in record["stages"]] == ["done"] * 5
    assert all(stage["wall_s"] > 0 for stage in record["stages"])
    assert [(entry["stage"], entry["fingerprint"]) for entry in record["inputs"]] == [
        ("target", "fingerprint of target"),
        ("golden", "fingerprint of golden"),
    ]
    assert record["artifacts"] == [
        "run.json",
        "events.jsonl",
        "comparison.jsonl",
        "nodes.jsonl",
        "comparison.msgpack",
        "table.csv",
    ]
    assert sorted(path.name for path in outcome.folder.iterdir()) == sorted(record["artifacts"])
    assert record["timings"]["started"] == "2026-02-03T04:05:06+00:00"


def test_an_index_of_many_rows_is_a_file_of_the_run(run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("probe_flow.record.row_index.LEAST_ROWS", 3)
        outcome = run()
    assert record_of(outcome)["artifacts"][2:5] == ["comparison.jsonl", "nodes.jsonl", "comparison.index"]
    begun = [event["file"] for event in events_of(outcome) if event["event"] == "file.begun"]
    assert begun.index("nodes.jsonl") < begun.index("comparison.index")
    again = run()  # which leaves none
    assert again.folder == outcome.folder
    assert sorted(path.name for path in again.folder.iterdir()) == sorted(record_of(again)["artifacts"])
    assert "comparison.index" not in record_of(again)["artifacts"]


def test_a_difference_fails_the_gate_and_is_named(run):
    outcome = run(target="1 2.5 3")
    record = record_of(outcome)
    assert (outcome.exit_code, record["verdict"]) == (1, "fail")
    assert first_divergence(record)["node"] == "n1"
    rows = [json.loads(line) for line in (outcome.folder / "comparison.jsonl").read_text().splitlines()]
    assert [row["verdict"] for row in rows] == ["pass", "fail", "pass"]
    assert rows[1]["metrics"] == {"squared": 0.25}


def test_an_incomplete_comparison_outranks_a_failed_gate(run):
    outcome = run(target="1 2.5 3", on_result="incomplete: [coverage is low]")
    record = record_of(outcome)
    assert (outcome.exit_code, record["verdict"]) == (3, "incomplete")
    assert record["incomplete"] == ["coverage is low"]
    assert first_divergence(record)["node"] == "n1"


@pytest.mark.parametrize("scheduler", ["sync", "threads", "auto"])
def test_results_are_the_same_bytes_on_every_scheduler(run, scheduler):
    values = " ".join(str(number) for number in range(200))
    expected = (
        run(output="reference", target=values, golden=values.replace("7", "8")).folder / "comparison.jsonl"
    ).read_bytes()
    size = 32 * 2**20  # large enough for `auto` to use threads
    outcome = run(scheduler=scheduler, target=values, golden=values.replace("7", "8"), on_result=f"batch_bytes: {size}")
    assert (outcome.folder / "comparison.jsonl").read_bytes() == expected


def test_a_failed_stage_takes_its_dependents_along_and_nothing_else(run):
    outcome = run(on_result="trouble: incomplete", more=TWO_BRANCHES)
    assert statuses(outcome) == {
        "target": "done",
        "golden": "done",
        "pairs": "done",
        "result": "failed",
        "table": "skipped",
        "other": "done",
    }
    record = record_of(outcome)
    assert (outcome.exit_code, record["verdict"]) == (3, "incomplete")
    reasons = {stage["name"]: stage["reason"] for stage in record["stages"]}
    assert reasons["result"] == "[PF3999] the dump is empty"
    assert reasons["table"] == "it needs `result`, which failed"
    assert record["counts"]["pass"] == 3  # of the branch that ran
    assert [problem["code"] for problem in record["problems"]] == ["PF3999"]
    assert record["problems"][0]["stage"] == "result"


def test_without_keep_going_nothing_begins_after_a_failure(run):
    outcome = run(on_target="trouble: incomplete", keeps_going=False)
    assert statuses(outcome) == {
        "target": "failed",
        "golden": "skipped",
        "pairs": "skipped",
        "result": "skipped",
        "table": "skipped",
    }
    assert "--keep-going" in outcome.stages[1].reason
    assert outcome.exit_code == 3


@pytest.mark.parametrize("keeps_going", [False, True])
def test_reports_are_made_last_and_hear_of_every_failure_before_them(run, keeps_going):
    outcome = run(more="  spare: {uses: compare.fake, pairs: pairs, trouble: incomplete}\n", keeps_going=keeps_going)
    assert list(statuses(outcome).items())[-3:] == [("result", "done"), ("spare", "failed"), ("table", "done")]
    assert outcome.exit_code == 3


def test_the_reason_of_a_skip_is_the_nearest_stage(run):
    outcome = run(on_target="trouble: incomplete")
    reasons = {stage.name: stage.reason for stage in outcome.stages}
    assert reasons["pairs"] == "it needs `target`, which failed"
    assert reasons["result"] == "it needs `pairs`, which did not run"


def test_a_users_mistake_found_late_still_exits_with_2(run):
    assert run(on_result="trouble: usage").exit_code == 2


def test_a_defect_of_a_stage_leaves_a_traceback_in_the_events_and_a_record(run):
    outcome = run(on_result="trouble: defect")
    record = record_of(outcome)
    assert outcome.exit_code == 3
    assert record["stages"][3]["reason"] == "[PF6003] stage `result` stopped: ZeroDivisionError: a defect"
    (crash,) = [event for event in events_of(outcome) if event["event"] == "stage.crashed"]
    assert crash["stage"] == "result"
    assert "ZeroDivisionError: a defect" in crash["traceback"]


def test_a_failing_batch_is_named_with_its_stage_and_its_cause(run):
    outcome = run(on_result="trouble: batch")
    (failed,) = [stage for stage in outcome.stages if stage.status.value == "failed"]
    assert [diagnostic.code for diagnostic in failed.diagnostics] == ["PF6002", "PF3997"]
    assert failed.diagnostics[0].message.startswith("batch 1 of 3 of stage `result` failed: FormatError")
    assert outcome.exit_code == 3


def test_a_result_of_the_wrong_kind_fails_its_stage(run):
    outcome = run(on_target="trouble: wrong_kind")
    assert statuses(outcome)["target"] == "failed"
    assert outcome.stages[0].reason == "[PF6004] stage `target` (`dump.fake`) returned a list, not a catalog"


def test_a_reported_warning_is_recorded_and_changes_nothing(run):
    outcome = run(on_target="trouble: warning")
    (problem,) = record_of(outcome)["problems"]
    assert (problem["code"], problem["stage"], problem["severity"]) == ("PF3998", "target", "warning")
    assert outcome.exit_code == 0


def test_a_reported_error_makes_the_run_incomplete(run):
    outcome = run(on_golden="trouble: error")
    assert outcome.exit_code == 3
    assert record_of(outcome)["incomplete"] == ["[PF3998] a reported error"]


def test_an_interrupt_ends_the_run_with_130_and_a_record(run):
    outcome = run(on_golden="trouble: interrupt")
    assert outcome.exit_code == 130
    assert statuses(outcome) == {
        "target": "done",
        "golden": "interrupted",
        "pairs": "skipped",
        "result": "skipped",
        "table": "skipped",
    }
    record = record_of(outcome)
    assert (record["verdict"], record["exit_code"]) == ("incomplete", 130)
    assert "the run was interrupted before it began" in record["incomplete"][-1]


def test_a_run_that_compares_nothing_on_request_has_no_verdict(run):
    outcome = run(only=["pairs"])
    record = record_of(outcome)
    assert (outcome.exit_code, record["verdict"]) == (0, None)
    assert statuses(outcome)["result"] == "not_selected"
    assert record["comparisons"] == {}


def test_several_comparisons_get_folders_and_the_worst_verdict_counts(run):
    outcome = run(target="1 2.5 3", on_result="incomplete: [gap]", more=TWO_BRANCHES)
    assert sorted(str(path.relative_to(outcome.folder)) for path in outcome.folder.glob("*/*.jsonl")) == [
        "other/comparison.jsonl",
        "other/nodes.jsonl",
        "result/comparison.jsonl",
        "result/nodes.jsonl",
    ]
    record = record_of(outcome)
    assert outcome.exit_code == 3
    assert record["counts"]["fail"] == 2
    assert record["counts"]["pass"] == 4
    assert record["coverage"]["golden"]["compared"] == 6
    assert first_divergence(record)["comparison"] == "result"
    assert [finding["comparison"] for finding in record["findings"]] == ["result", "other"]
    assert set(record["comparisons"]) == {"result", "other"}


def test_the_same_folder_takes_the_results_of_a_second_run(run, tmp_path):
    first = run(target="1 2.5 3", on_table="file: old.csv")
    assert (first.folder / "old.csv").exists()
    second = run(on_table="file: new.csv")
    assert second.folder == first.folder
    assert record_of(second)["verdict"] == "pass"
    assert not (second.folder / "old.csv").exists()
    assert (second.folder / "new.csv").exists()


def test_a_failed_second_run_leaves_no_stale_comparison(run):
    run()
    second = run(on_result="trouble: incomplete")
    assert record_of(second)["verdict"] == "incomplete"
    assert not (second.folder / "comparison.jsonl").exists()


def test_a_record_that_is_not_there_yet_is_not_listed(run, monkeypatch):
    seen = []
    module = sys.modules["probe_flow.engine.run.execute"]  # the name here is that of its function
    write, save = results.write_nodes_jsonl, module.write_run_json

    def slowly(comparison, path):
        time.sleep(0.3)
        write(comparison, path)

    def noting(record, path):
        seen.append({name: (path.parent / name).exists() for name in record.artifacts if "events" not in name})
        save(record, path)

    monkeypatch.setattr(results, "write_nodes_jsonl", slowly)
    monkeypatch.setattr(module, "write_run_json", noting)
    record = record_of(run())
    assert all(is_there for files in seen[1:] for is_there in files.values())
    assert record["artifacts"] == [
        "run.json",
        "events.jsonl",
        "comparison.jsonl",
        "nodes.jsonl",
        "comparison.msgpack",
        "table.csv",
    ]


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (IncompleteError(Diagnostic("PF7001", "the disk is full")), 3, "[PF7001] the disk is full"),
        (ZeroDivisionError("a defect"), 3, "[PF6003] stage `result` stopped: ZeroDivisionError: a defect"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_record_that_cannot_be_written_fails_its_stage(run, monkeypatch, error, code, reason):
    def refuse(_comparison, _path):
        raise error

    monkeypatch.setattr(results, "write_nodes_jsonl", refuse)
    outcome = run()
    record = record_of(outcome)
    assert outcome.exit_code == code
    assert record["verdict"] == "incomplete"
    assert statuses(outcome)["table"] == "skipped"
    assert {stage.name: stage.reason for stage in outcome.stages}["result"] == reason
    assert record["artifacts"] == ["run.json", "events.jsonl", "comparison.jsonl"]
    assert sorted(path.name for path in outcome.folder.iterdir()) == sorted(record["artifacts"])


def test_the_record_says_incomplete_until_the_run_has_ended(run, monkeypatch):
    seen: list[dict[str, Any]] = []
    written = []

    def watch(record, path):
        seen.append({"verdict": record.verdict, "stages": len(record.stages)})
        written.append(path)

    monkeypatch.setattr("probe_flow.engine.run.execute.write_run_json", watch)
    run()
    assert [state["verdict"] for state in seen] == ["incomplete"] * 6 + ["pass"]
    assert [state["stages"] for state in seen] == [0, 1, 2, 3, 4, 5, 5]


def test_findings_are_written_once_when_the_run_has_ended(run, monkeypatch):
    seen = []
    module = sys.modules["probe_flow.engine.run.execute"]
    save = module.write_run_json

    def noting(record, path):
        seen.append((len(record.findings), len(record.suspects)))
        save(record, path)

    monkeypatch.setattr(module, "write_run_json", noting)
    record = record_of(run(target="1 2.5 3"))
    assert seen[:-1] == [(0, 0)] * 6
    assert seen[-1] == (len(record["findings"]), len(record["suspects"])) != (0, 0)


def test_a_folder_of_other_origin_is_refused_before_anything_runs(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError) as caught:
        run()
    assert caught.value.diagnostic.code == "PF6010"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_without_output_the_folder_is_named_after_workflow_and_time(run, tmp_path):
    assert run(output=None).folder == tmp_path / "probe_flow_runs" / "demo-20260203-040506"


def test_run_output_is_filled_in_for_stages(run, tmp_path):
    outcome = run(on_table='file: "${run.output}/named.csv"')
    assert (outcome.folder / "named.csv").exists()


def test_events_tell_the_run_in_order_with_stage_and_run_id(run):
    events = events_of(run())
    assert {event["run_id"] for event in events} == {"demo-20260203-040506"}
    told = [(event["event"], event.get("stage")) for event in events]
    assert told[:3] == [("run.started", None), ("stage.started", "target"), ("stage.ended", "target")]
    assert told[-1] == ("run.ended", None)
    assert ("tasks.started", "result") in told
    assert [event["batch"] for event in events if event["event"] == "batch.done"] == [0, 1, 2]


class Watcher:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def stage_started(self, name, uses):
        self.heard.append(("started", name))

    def stage_advanced(self, name, done, total, unit):
        self.heard.append(("advanced", name, done, total))

    def stage_ended(self, outcome):
        self.heard.append(("ended", outcome.name, outcome.status.value))


def test_progress_hears_of_stages_and_batches(demo, tmp_path):
    watcher = Watcher()
    plan = make_plan(demo(on_result="batch_bytes: 10", on_table="file: x.csv"))
    execute(plan, scheduler=make_scheduler("sync"), cwd=tmp_path, output=Path("out"), progress=watcher)
    assert [entry for entry in watcher.heard if entry[1] == "result"] == [
        ("started", "result"),
        ("advanced", "result", 10, 30),
        ("advanced", "result", 20, 30),
        ("advanced", "result", 30, 30),
        ("ended", "result", "done"),
    ]
    assert [entry[1] for entry in watcher.heard if entry[0] == "ended"] == [
        "target",
        "golden",
        "pairs",
        "result",
        "table",
    ]


def test_results_are_dropped_when_no_consumer_remains(demo, tmp_path, monkeypatch):
    held: list[tuple[str, ...]] = []

    class Watching(Watcher):
        def stage_ended(self, outcome):
            held.append(results[0].held)

    results: list[Any] = []
    from probe_flow.engine.run import execute as module

    class Remembered(module.Results):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            results.append(self)

    monkeypatch.setattr(module, "Results", Remembered)
    execute(make_plan(demo()), scheduler=make_scheduler("sync"), cwd=tmp_path, output=Path("out"), progress=Watching())
    assert held == [("target",), ("target", "golden"), ("pairs",), ("result",), ()]


def test_what_a_run_lacked_is_compiled_when_it_ends(run, tmp_path, monkeypatch):
    started: list[tuple[Path, dict[str, Any]]] = []

    def start(environ, **options):
        assert environ["PROBE_FLOW_WARM_UP"] == "never", "no test starts a compiler"
        started.append((json.loads((tmp_path / "out" / "run.json").read_text())["status"], options))
        return True

    monkeypatch.setattr("probe_flow.metrics.backends.warm_up.start", start)
    run()
    assert started == []
    outcome = run(on_result="trouble: uncompiled", more=TWO_BRANCHES + "executor: {memory_limit: 3GiB}\n")
    assert started == [("ended", {"memory_bytes": 3 * 2**30})]
    assert [each["event"] for each in events_of(outcome)][-2:] == ["compiling.started", "run.ended"]
