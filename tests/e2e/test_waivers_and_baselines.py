"""Waivers, baselines and the difference of two runs, on packaged workflows of three scenarios."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from run_records import first_divergence

from e2e.projects import SAMPLE, WORKFLOWS, Command, Done, sample_params, sample_sets
from probe_flow.cli.main import main
from probe_flow.record.schemas import schema

EXAMPLES = SAMPLE.parent / "dump_json"


@dataclass(frozen=True)
class Scenario:
    """A packaged workflow, what its sample gets wrong first, and a target without that fault."""

    workflow: str
    wrong: str
    healthy: Path

    def healthy_in(self, folder: Path) -> Path:
        """Return a copy of the healthy target: in two scenarios it is the golden, and no dump is its own golden."""
        return Path(shutil.copytree(self.healthy, folder / "healthy_target"))


SCENARIOS = [
    Scenario("torchair_ge_vs_fx", "Gelu_1", SAMPLE / "healthy" / "msprobe_ge_dump"),
    Scenario("pytorch_compare", "Tensor.__mul__", EXAMPLES / "golden"),
    Scenario("mindspore_compare", "Tensor.__mul__", EXAMPLES / "mindspore_golden"),
]
in_three_scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.workflow)

REASON = "the kernel is to be replaced, ticket 12"


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return workflow -> the run of its faulty sample, made once."""
    root = tmp_path_factory.mktemp("runs")
    found = {}
    with _cache_at(root / "cache"):
        for scenario in SCENARIOS:
            found[scenario.workflow] = root / scenario.workflow
            arguments = ["run", str(WORKFLOWS / f"{scenario.workflow}.yaml"), "--quiet"]
            assert main([*arguments, "--output", str(found[scenario.workflow])]) == 1
    return found


@contextmanager
def _cache_at(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBE_FLOW_CACHE", str(folder))
        yield


def extended(folder: Path, scenario: Scenario, result: str, *, name: str = "") -> Path:
    """Write a workflow that adds options to the compare stage of a packaged one, in flow style."""
    path = folder / "own.yaml"
    head = f"name: {name}\n" if name else ""
    stages = f"stages:\n  result: {{{result}}}\n"
    path.write_text(f"extends: {WORKFLOWS / scenario.workflow}.yaml\n{head}{stages}{sample_params(scenario.workflow)}")
    return path


def waiver(where: str, *, expires: str = "9999-12-31", bound: str = "") -> str:
    extra = f", bound: {{{bound}}}" if bound else ""
    return f'waivers: [{{where: {{{where}}}, reason: "{REASON}", owner: jane, expires: {expires}{extra}}}]'


def at_fault(scenario: Scenario) -> str:
    return f'node: "{scenario.wrong}"'


def assert_schemas_hold(done: Done) -> None:
    jsonschema.Draft202012Validator(schema("run")).validate(done.record)
    check = jsonschema.Draft202012Validator(schema("comparison"))
    for row in done.rows:
        check.validate(row)


@in_three_scenarios
def test_a_waived_origin_stays_visible_everywhere_and_fails_no_run(
    probe_flow: Command, scenario: Scenario, tmp_path: Path, faulty: dict[str, Path]
):
    done = probe_flow("run", extended(tmp_path, scenario, waiver(at_fault(scenario))))
    assert done.code == 0, done.out + done.err
    assert done.out.splitlines()[2] == "Nothing goes wrong beyond what is waived or accepted."
    assert done.out.splitlines()[-1].startswith("PASS nothing goes wrong beyond what is waived or accepted | ")
    text = f"waived until 9999-12-31 by jane: {REASON}"
    record = done.record
    assert first_divergence(record) is None
    assert record["findings"][record["suspects"][0]]["node"] == scenario.wrong
    (finding,) = [each for each in record["findings"] if each["node"] == scenario.wrong]
    assert (finding["fails"], finding["waived"]) == (False, text)
    assert [use["state"] for use in record["comparisons"]["result"]["waivers"]] == ["used"]

    waived = [row for row in done.rows if "waived" in row]
    assert waived
    assert {row["node"] for row in waived} == {scenario.wrong}
    assert "origin" in {row["role"] for row in waived}
    assert all(row["waived"] == text and row["reason"].endswith(text) for row in waived)
    # Nothing else changes: the analysis sees what it saw without the waiver.
    before = [json.loads(line) for line in (faulty[scenario.workflow] / "comparison.jsonl").read_text().splitlines()]
    assert [(row["verdict"], row["role"], row["metrics"]) for row in done.rows] == [
        (row["verdict"], row["role"], row["metrics"]) for row in before
    ]

    (table,) = done.folder.glob("*.csv")
    assert REASON in table.read_text()
    assert REASON in (done.folder / "report.html").read_text()
    cases = ElementTree.parse(done.folder / "junit.xml").getroot().iter("testcase")
    skipped = [case for case in cases if (found := case.find("skipped")) is not None and REASON in found.get("message")]
    assert skipped
    assert_schemas_hold(done)


@in_three_scenarios
def test_a_waiver_that_does_not_reach_leaves_the_run_failing_and_says_so(
    probe_flow: Command, scenario: Scenario, tmp_path: Path
):
    bound = 'max_abs_err: "< 1e-30"'
    path = extended(tmp_path, scenario, waiver(at_fault(scenario), bound=bound))
    done = probe_flow("run", path)
    assert done.code == 1, done.out + done.err
    assert first_divergence(done.record)["node"] == scenario.wrong
    (problem,) = [each for each in done.record["problems"] if each["code"] == "PF7303"]
    assert (Path(problem["file"]).name, problem["line"], problem["stage"]) == ("own.yaml", 3, "result")


def test_a_bound_may_use_a_metric_that_the_policy_does_not_need(probe_flow: Command, tmp_path: Path):
    bound = 'mean_abs_err: "< 1"'
    done = probe_flow("run", extended(tmp_path, SCENARIOS[0], waiver(at_fault(SCENARIOS[0]), bound=bound)))
    assert done.code == 0, done.out + done.err
    assert all("mean_abs_err" in row["metrics"] for row in done.rows if "waived" in row)


def test_each_comparison_of_a_run_has_a_part_of_the_baseline(probe_flow: Command, tmp_path: Path):
    def workflow(options: str) -> Path:
        path = tmp_path / "two.yaml"
        path.write_text(
            f"extends: {WORKFLOWS / 'torchair_ge_vs_fx.yaml'}\n{sample_params('torchair_ge_vs_fx')}"
            "stages:\n"
            f"  result: {{gate: findings{options}}}\n"
            f"  strict: {{uses: compare, pairs: pairs, gate: all_pass{options}}}\n"
        )
        return path

    probe_flow("run", workflow(""), output="first")
    probe_flow("baseline", "accept", "first", output="baseline.yaml")
    done = probe_flow("run", workflow(", baseline: baseline.yaml"), output="second")
    assert done.code == 0, done.out + done.err
    parts = {name: summary["baseline"]["accepted"] for name, summary in done.record["comparisons"].items()}
    assert parts["result"] == 1
    assert parts["strict"] > 1
    jsonschema.Draft202012Validator(schema("run")).validate(done.record)
    assert done.out.splitlines()[2] == "Nothing goes wrong beyond what is waived or accepted."
    assert done.out.splitlines()[-1].startswith("PASS nothing goes wrong beyond what is waived or accepted | ")
    assert probe_flow("baseline", "check", "second", "baseline.yaml", output=None).code == 0
    assert probe_flow("diff", "first", "second", output=None).code == 0


def test_expired_and_unused_waivers_are_told_with_their_lines(probe_flow: Command, tmp_path: Path):
    scenario = SCENARIOS[0]
    path = tmp_path / "own.yaml"
    path.write_text(
        f"extends: {WORKFLOWS / scenario.workflow}.yaml\n"
        "stages:\n"
        "  result:\n"
        "    waivers:\n"
        "      - {where: {node: Gelu_1}, reason: r, owner: jane, expires: 2020-02-29}\n"
        "      - {where: {node: Gellu_1}, reason: r, owner: joe, expires: 9999-12-31}\n"
        "      - {where: {node: GatherV2}, reason: r, owner: joe, expires: 9999-12-31}\n"
        + sample_params(scenario.workflow)
    )
    done = probe_flow("run", path)
    assert done.code == 1
    told = [(each["code"], each["line"]) for each in done.record["problems"] if each["code"].startswith("PF73")]
    assert told == [("PF7302", 5), ("PF7301", 6), ("PF7301", 7)]
    assert [use["state"] for use in done.record["waivers"]] == ["expired", "unused", "unused"]
    assert "did you mean `Gelu_1`" in done.err
    assert re.search(r"own\.yaml:5:9\n", done.err)


def test_the_day_of_a_waiver_is_that_on_which_the_run_began(tmp_path: Path):
    from probe_flow.engine.run.events import Clock
    from probe_flow.engine.run.execute import execute
    from probe_flow.engine.run.plan import make_plan
    from probe_flow.engine.schedulers.choice import SyncScheduler
    from probe_flow.workflow.loading.loader import load_workflow

    path = extended(tmp_path, SCENARIOS[0], waiver(at_fault(SCENARIOS[0]), expires="2026-06-30"))
    workflow = load_workflow(path, env={}, cwd=tmp_path)
    last = datetime(2026, 6, 30, 23, 59, tzinfo=timezone.utc)
    codes = []
    for number, moment in enumerate((last, last + timedelta(minutes=1))):
        outcome = execute(
            make_plan(workflow), scheduler=SyncScheduler(), cwd=tmp_path, output=tmp_path / f"out{number}",
            clock=Clock(now=lambda moment=moment: moment),
        )  # fmt: skip
        assert outcome.record.timings.started == moment.isoformat(timespec="seconds")
        codes.append(outcome.exit_code)
    assert codes == [0, 1]


@in_three_scenarios
def test_an_accepted_run_passes_against_its_own_baseline(
    probe_flow: Command, scenario: Scenario, tmp_path: Path, faulty: dict[str, Path]
):
    accepted = probe_flow("baseline", "accept", faulty[scenario.workflow], output="baseline.yaml")
    assert accepted.code == 0, accepted.err
    text = (tmp_path / "baseline.yaml").read_text()
    assert text.count("\n      - ") <= 3
    assert f'"{scenario.wrong}"' in text

    done = probe_flow("run", extended(tmp_path, scenario, "baseline: baseline.yaml"))
    assert done.code == 0, done.out + done.err
    baseline = done.record["baseline"]
    assert baseline["accepted"] >= 1
    assert baseline["counts"] == {"worse": 0, "better": 0, "absent": 0}
    assert any("accepted" in finding for finding in done.record["findings"])
    assert_schemas_hold(done)
    # Accepting the run that passed against the baseline gives the same baseline.
    probe_flow("baseline", "accept", done.folder, output="again.yaml")
    again = (tmp_path / "again.yaml").read_text()
    assert _without_run(again) == _without_run(text)
    assert probe_flow("baseline", "check", faulty[scenario.workflow], "baseline.yaml", output=None).code == 0


def _without_run(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("run: "))


@in_three_scenarios
def test_a_repaired_operator_is_an_improvement_on_the_baseline(
    probe_flow: Command, scenario: Scenario, tmp_path: Path, faulty: dict[str, Path]
):
    probe_flow("baseline", "accept", faulty[scenario.workflow], output="baseline.yaml")
    path = extended(tmp_path, scenario, "baseline: baseline.yaml")
    done = probe_flow("run", path, *sample_sets(scenario.workflow, target=scenario.healthy_in(tmp_path)))
    assert done.code == 0, done.out + done.err
    counts = done.record["baseline"]["counts"]
    # The fault of the PyTorch sample is a call that the golden does not have: repaired, it is not there.
    is_absent = scenario.workflow == "pytorch_compare"
    assert (counts["worse"], counts["absent"] > 0, counts["better"] > 0) == (0, is_absent, not is_absent)
    assert ("PF7315" if is_absent else "PF7314") in done.codes


@in_three_scenarios
def test_a_new_fault_fails_against_the_baseline_of_a_healthy_run(
    probe_flow: Command, scenario: Scenario, tmp_path: Path
):
    workflow = WORKFLOWS / f"{scenario.workflow}.yaml"
    healthy = probe_flow(
        "run", workflow, *sample_sets(scenario.workflow, target=scenario.healthy_in(tmp_path)), output="healthy"
    )
    assert healthy.code == 0
    probe_flow("baseline", "accept", "healthy", output="baseline.yaml")
    assert "nodes: []" in (tmp_path / "baseline.yaml").read_text()
    done = probe_flow("run", extended(tmp_path, scenario, "baseline: baseline.yaml"))
    assert done.code == 1
    assert done.record["baseline"]["worse"][0]["node"] == scenario.wrong
    assert "PF7313" in done.codes
    checked = probe_flow("baseline", "check", done.folder, "baseline.yaml", "--format", "json", output=None)
    assert checked.code == 1
    assert json.loads(checked.out)["comparisons"]["result"]["worse"][0]["new"]


@pytest.mark.parametrize("scenario", [SCENARIOS[0], SCENARIOS[2]], ids=lambda each: each.workflow)
def test_under_all_pass_a_baseline_holds_every_failing_row(probe_flow: Command, scenario: Scenario, tmp_path: Path):
    first = probe_flow("run", extended(tmp_path, scenario, "gate: all_pass"), output="first")
    assert first.code == 1
    probe_flow("baseline", "accept", "first", output="baseline.yaml")
    options = "gate: all_pass, baseline: baseline.yaml, baseline_tolerance: 0"
    done = probe_flow("run", extended(tmp_path, scenario, options), output="second")
    assert done.code == 0, done.out + done.err
    failing = [row for row in done.rows if row["verdict"] == "fail"]
    assert failing
    assert all("accepted" in row for row in failing)
    assert done.record["baseline"]["counts"] == {"worse": 0, "better": 0, "absent": 0}
    root = ElementTree.parse(done.folder / "junit.xml").getroot()
    assert root.get("failures") == "0"


def test_an_error_that_grew_beyond_the_tolerance_fails(probe_flow: Command, tmp_path: Path, faulty: dict[str, Path]):
    scenario = SCENARIOS[0]
    probe_flow("baseline", "accept", faulty[scenario.workflow], output="baseline.yaml")
    text = (tmp_path / "baseline.yaml").read_text()
    (tmp_path / "baseline.yaml").write_text(re.sub(r'"output\.0": [\d.]+', '"output.0": 0.07', text))
    path = extended(tmp_path, scenario, "baseline: baseline.yaml, baseline_tolerance: 0.01")
    done = probe_flow("run", path)
    assert done.code == 1
    assert "origin has an error of 0.07531, accepted was 0.07" in done.err
    path = extended(tmp_path, scenario, "baseline: baseline.yaml, baseline_tolerance: 0.1")
    assert probe_flow("run", path, output="wider").code == 0


def test_the_baseline_of_another_workflow_is_refused_before_anything_is_measured(
    probe_flow: Command, tmp_path: Path, faulty: dict[str, Path]
):
    probe_flow("baseline", "accept", faulty["pytorch_compare"], output="baseline.yaml")
    done = probe_flow("run", extended(tmp_path, SCENARIOS[0], "baseline: baseline.yaml"))
    assert done.code == 2
    assert "belongs to the workflow `pytorch-compare`, not to `torchair-ge-vs-fx`" in done.err
    checked = probe_flow("baseline", "check", faulty["mindspore_compare"], "baseline.yaml", output=None)
    assert (checked.code, "PF7311" in checked.err) == (2, True)


def test_a_baseline_that_does_not_exist_stops_the_run_before_it_begins(probe_flow: Command, tmp_path: Path):
    done = probe_flow("run", extended(tmp_path, SCENARIOS[0], "baseline: none.yaml"))
    assert done.code == 2
    assert "none.yaml" in done.err
    assert not done.folder.exists()


def test_a_run_that_is_incomplete_is_not_accepted(probe_flow: Command, tmp_path: Path, faulty: dict[str, Path]):
    run = tmp_path / "run"
    shutil.copytree(faulty["pytorch_compare"], run)
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"verdict": "incomplete", "incomplete": ["a file was cut off"]}))
    done = probe_flow("baseline", "accept", run, output="baseline.yaml")
    assert done.code == 3
    assert "the run is incomplete: a file was cut off" in done.err
    assert not (tmp_path / "baseline.yaml").exists()


def test_accept_replaces_a_baseline_and_nothing_else(probe_flow: Command, tmp_path: Path, faulty: dict[str, Path]):
    run = faulty["torchair_ge_vs_fx"]
    (tmp_path / "notes.yaml").write_text("mine: 1\n")
    done = probe_flow("baseline", "accept", run, output="notes.yaml")
    assert (done.code, "PF7321" in done.err) == (2, True)
    assert (tmp_path / "notes.yaml").read_text() == "mine: 1\n"
    assert probe_flow("baseline", "accept", run, output="b.yaml").out.startswith("result: 1 deviation accepted, gate")
    assert "0 new, 0 gone" in probe_flow("baseline", "accept", run, output="b.yaml").out
    before = (tmp_path / "b.yaml").read_text()
    done = probe_flow("baseline", "accept", faulty["pytorch_compare"], output="b.yaml")
    assert (done.code, "`b.yaml` is the baseline of the workflow `torchair-ge-vs-fx`, not of" in done.err) == (2, True)
    assert (tmp_path / "b.yaml").read_text() == before
    shown = probe_flow("baseline", "show", "b.yaml", output=None)
    assert "  Gelu_1.output.0 (Gelu), graph 1, origin: 0.07532" in shown.out
    facts = json.loads(probe_flow("baseline", "show", "b.yaml", "--format", "json", output=None).out)
    assert facts["comparisons"]["result"]["deviations"][0]["figure"] == 0.07532


@in_three_scenarios
def test_the_difference_of_a_healthy_and_a_faulty_run_names_the_fault_and_its_heirs(
    probe_flow: Command, scenario: Scenario, tmp_path: Path, faulty: dict[str, Path]
):
    workflow = WORKFLOWS / f"{scenario.workflow}.yaml"
    probe_flow("run", workflow, *sample_sets(scenario.workflow, target=scenario.healthy_in(tmp_path)), output="healthy")
    run = faulty[scenario.workflow]
    done = probe_flow("diff", "healthy", run, "--format", "json", "--html", "diff.html", output=None)
    assert done.code == 1, done.err
    found = json.loads(done.out)
    kind = "appeared" if scenario.workflow == "pytorch_compare" else "worse"
    assert scenario.wrong in {row["node"] for row in found["rows"] if row["kind"] == kind}
    assert found["findings"]["result"]["worse"][0]["node"] == scenario.wrong
    assert scenario.wrong in (tmp_path / "diff.html").read_text()
    back = probe_flow("diff", run, "healthy", output=None)
    assert back.code == 0
    assert back.out.startswith("NO REGRESSION  The runs are of different dumps: target. Nothing is worse in B.")
    assert found["inputs"][0]["stage"] == "target"
    assert found["inputs"][0]["before"]["fingerprint"] != found["inputs"][0]["after"]["fingerprint"]
    shutil.copytree(run, tmp_path / "copy")
    same = probe_flow("diff", run, "copy", output=None)
    assert same.code == 0
    assert same.out.splitlines()[-1].endswith("the same | exit code 0")


def test_a_run_is_not_compared_with_itself(probe_flow: Command, faulty: dict[str, Path], tmp_path: Path):
    run = faulty["pytorch_compare"]
    (tmp_path / "link").symlink_to(run)
    done = probe_flow("diff", run, "link", output=None)
    assert (done.code, "error[PF7334]: run A and run B are the same run" in done.err) == (2, True)


def test_runs_of_different_scenarios_have_nothing_in_common(probe_flow: Command, faulty: dict[str, Path]):
    done = probe_flow("diff", faulty["torchair_ge_vs_fx"], faulty["pytorch_compare"], output=None)
    assert (done.code, "PF7330" in done.err) == (3, True)


@pytest.mark.parametrize("folder", ["none", "half"])
def test_what_is_no_whole_run_is_told(probe_flow: Command, tmp_path: Path, faulty: dict[str, Path], folder: str):
    run = faulty["pytorch_compare"]
    if folder == "half":
        shutil.copytree(run, tmp_path / folder)
        (tmp_path / folder / "comparison.jsonl").unlink()
    done = probe_flow("diff", run, folder, output=None)
    assert (done.code, "PF7110" in done.err or "PF7113" in done.err) == (2 if folder == "none" else 3, True)
