"""`pf.run` and `pf.compare`: the same results as the command line, mistakes as errors that say all of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import probe_flow as pf
from probe_flow.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "examples" / "torchair"
GE, FX = SAMPLE / "faulty" / "msprobe_ge_dump", SAMPLE / "faulty" / "msprobe_fx_dump"
WORKFLOW = ROOT / "workflows" / "torchair_ge_vs_fx.yaml"
RECORDS = ("comparison.jsonl", "nodes.jsonl")

DECLARES = """
version: 1
name: declares
params:
  dump: {type: path}
  steps: {type: list, optional: true}
  limit: {type: int, default: 0}
  tolerance: {type: float, default: 0.1}
  exact: {type: bool, default: true}
  name: {type: str, default: a, choices: [a, b]}
stages:
  a: {uses: dump.npy, path: "${params.dump}", select: {steps: "${params.steps}", nodes: ["${params.name}"]}}
  b: {uses: dump.npy, path: "${params.dump}"}
  p: {uses: match.name, target: a, golden: b}
  c:
    uses: compare
    pairs: p
    max_elements: "${params.limit}"
    baseline_tolerance: "${params.tolerance}"
    require: {executions: "${params.exact}"}
"""


@pytest.fixture
def declares(in_folder: Path) -> Path:
    (in_folder / "w.yaml").write_text(DECLARES)
    (in_folder / "dump").mkdir()
    return in_folder / "w.yaml"


def codes(error: pf.ProbeFlowError) -> list[str]:
    return [each.code for each in error.diagnostics]


def test_a_run_is_that_of_the_command_line(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", str(WORKFLOW), "--set", f"target={GE}", "--set", f"golden={FX}", "--output", "typed"])
    run = pf.run(WORKFLOW, target=str(GE), golden=FX, output="called")

    assert (run.exit_code, run.verdict, run.folder) == (code, "fail", in_folder / "called")
    for name in RECORDS:
        assert (in_folder / "called" / name).read_bytes() == (in_folder / "typed" / name).read_bytes(), name
    typed, called = ((in_folder / name).glob("*.csv") for name in ("typed", "called"))
    assert [path.read_bytes() for path in typed] == [path.read_bytes() for path in called] != []
    assert capsys.readouterr().out.count("\nFAIL ") == 1, "the call prints nothing"
    reports = {path.name for path in run.reports}
    assert {"report.html", "junit.xml"} <= reports
    assert reports.isdisjoint({"run.json", *RECORDS})
    assert all(path.is_file() for path in run.reports)


def test_a_comparison_without_a_workflow_has_the_same_rows(in_folder: Path, faulty: pf.Run) -> None:
    run = pf.run(WORKFLOW, target=GE, golden=FX, output="out")

    assert (faulty.verdict, faulty.exit_code, faulty.origin) == (run.verdict, run.exit_code, run.origin)
    for name in RECORDS:
        assert (faulty.folder / name).read_bytes() == (run.folder / name).read_bytes(), name
    assert [each.evidence for each in faulty.findings] == [each.evidence for each in run.findings]
    assert list(in_folder.iterdir()) == [in_folder / "out"], "no folder beside the one that was asked for"


def test_a_run_without_a_name_for_its_folder_gets_one(in_folder: Path) -> None:
    run = pf.run(WORKFLOW, target=GE, golden=FX, until="pairs")

    assert run.folder.parent == in_folder / "probe_flow_runs"
    assert (run.verdict, run.exit_code, len(run.rows())) == (None, 0, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": "3"}, "the parameter `limit` must be a whole number, not `'3'`, a `str`"),
        ({"limit": True}, "the parameter `limit` must be a whole number, not `True`, a `bool`"),
        ({"limit": 2.5}, "the parameter `limit` must be a whole number, not `2.5`, a `float`"),
        ({"tolerance": "x"}, "the parameter `tolerance` must be a number, not `'x'`, a `str`"),
        ({"exact": 1}, "the parameter `exact` must be `true` or `false`, not `1`, a `int`"),
        ({"name": "c"}, "the parameter `name` cannot be `c`"),
        ({"name": Path("c")}, "the parameter `name` must be text, not `PosixPath('c')`, a `PosixPath`"),
        ({"steps": 3}, "the parameter `steps` must be a list, not `3`, a `int`"),
        ({"steps": "0,1"}, "the parameter `steps` must be a list, not `'0,1'`, a `str`"),
        ({"steps": [object]}, "the parameter `steps` must be a list, not `[<class 'object'>]`, a `list`"),
        ({"dump": 3}, "the parameter `dump` must be a path, not `3`, a `int`"),
        ({"dump": ""}, "the parameter `dump` must be a path, not `''`, a `str`"),
    ],
    ids=repr,
)
def test_a_parameter_of_another_type_is_refused(declares: Path, given: dict[str, object], said: str) -> None:
    with pytest.raises(pf.WorkflowError) as caught:
        pf.run(declares, **{"dump": "dump", **given})

    assert codes(caught.value) == ["PF1304"]
    ((name, value),) = given.items()
    line = next(line for line in str(caught.value).splitlines() if line.endswith(f"{name}={value!r}"))
    assert said in str(caught.value)
    assert line.split(" | ")[0].strip().isdigit(), "with the argument as it was given"


@pytest.mark.parametrize(
    "given",
    [
        {"limit": np.int64(3)},
        {"tolerance": 1},
        {"tolerance": np.float32(0.5)},
        {"exact": False},
        {"name": "b"},
        {"steps": (0, 1)},
        {"steps": np.arange(2)},
        {"steps": range(2)},
        {"steps": None},
    ],
    ids=repr,
)
def test_values_of_python_and_numpy_are_taken(declares: Path, given: dict[str, object]) -> None:
    run = pf.run(declares, dump=Path("dump"), output="out", **given)

    ((name, value),) = given.items()
    wanted = list(value) if name == "steps" and value is not None else value
    assert run.record.params[name] == wanted
    assert run.record.params["dump"] == str(declares.parent / "dump")


def test_an_unknown_parameter_is_told_with_the_nearest_and_all_mistakes_at_once(declares: Path) -> None:
    with pytest.raises(pf.WorkflowError) as caught:
        pf.run(declares, dmp="dump", limit=True)

    assert codes(caught.value) == ["PF1303", "PF1304", "PF1302"]
    text = str(caught.value)
    assert "error[PF1303]: the call names an unknown parameter `dmp`" in text
    assert "did you mean `dump`?" in text
    assert "1 | dmp='dump'\n   | ^^^" in text
    assert "help: `dump=VALUE`, or give it a `default`" in text


def test_a_misspelt_argument_is_told_with_the_nearest(declares: Path) -> None:
    with pytest.raises(pf.WorkflowError, match="did you mean `output`, an argument of `run`"):
        pf.run(declares, dump="dump", outptu="out")


def test_a_name_of_an_argument_can_be_a_parameter(declares: Path) -> None:
    with pytest.raises(pf.WorkflowError, match="must be a whole number"):
        pf.run(declares, dump="dump", parameters={"limit": "3"})
    assert pf.run(declares, parameters={"dump": "dump", "exact": False}, output="o").record.params["exact"] is False


def test_mistakes_of_a_workflow_read_as_on_the_command_line(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_folder / "w.yaml").write_text("version: 1\nname: w\nstages:\n  a: {uses: dump.ny, path: x, kin: 3}\n  b: 3\n")
    assert main(["run", "w.yaml"]) == 2
    printed = capsys.readouterr().err

    with pytest.raises(pf.WorkflowError) as caught:
        pf.run("w.yaml")

    assert str(caught.value).strip() == printed.strip()
    assert len(caught.value.diagnostics) == 2
    assert not (in_folder / "probe_flow_runs").exists()


def test_paths_that_do_not_exist_are_shown_at_the_argument(in_folder: Path) -> None:
    with pytest.raises(pf.WorkflowError) as caught:
        pf.run(WORKFLOW, target="nothing", golden="nor_this")
    assert codes(caught.value) == ["PF2101", "PF2101"]
    assert "call from Python:1:8" in str(caught.value)
    with pytest.raises(pf.WorkflowError) as caught:
        pf.compare("nothing", "nor_this")
    assert codes(caught.value) == ["PF2101", "PF2101"]
    with pytest.raises(pf.WorkflowError, match="there is no such file"):
        pf.run("no.yaml")
    assert list(in_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"workers": "4"}, "PF2130", "the argument `workers` must be a whole number, not '4' (of type `str`)"),
        ({"workers": True}, "PF2130", "must be a whole number"),
        ({"workers": -1}, "PF2130", "the argument `workers` must be 1 or more, not -1"),
        ({"scheduler": 3}, "PF2130", "the argument `scheduler` must be a text"),
        ({"scheduler": "thread"}, "PF2103", "did you mean `threads`?"),
        ({"strict": 3}, "PF2130", "the argument `strict` must be a text or a list of texts"),
        ({"output": 3}, "PF2130", "the argument `output` must be a path"),
        ({"output": ""}, "PF2130", "the argument `output` must be a path"),
    ],
    ids=repr,
)
def test_wrong_arguments_are_refused(in_folder: Path, given: dict[str, object], code: str, said: str) -> None:
    with pytest.raises(pf.UsageError) as caught:
        pf.run(WORKFLOW, target=GE, golden=FX, **given)
    assert (codes(caught.value), said in str(caught.value)) == ([code], True)
    with pytest.raises(pf.UsageError) as caught:
        pf.compare(GE, FX, **given)
    assert codes(caught.value) == [code]
    assert list(in_folder.iterdir()) == []


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_side_that_is_none_is_refused(in_folder: Path, side: str) -> None:
    with pytest.raises(pf.UsageError) as caught:
        pf.compare(**{"target": GE, "golden": FX, side: None})
    assert f"the argument `{side}` must be a path, not None" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"match": "nam"}, "PF2002", "did you mean `match.name`"),
        ({"match": {"uses": "match.name", "fuzy": True}}, "PF1203", "did you mean `fuzzy`?"),
        ({"match": 3}, "PF2130", "the argument `match` must be a text or a stage"),
        ({"policy": "torchiar"}, "PF1205", "did you mean `torchair`?"),
        ({"polcy": "torchair"}, "PF2130", "did you mean `policy`?"),
        ({"metrcs": "torchair"}, "PF2130", "did you mean `metrics`"),
        ({"xyz": 1}, "PF2130", "arguments: target, golden, match, policy"),
        ({"pairs": "x"}, "PF2130", "there is no argument `pairs`"),
        ({"metrics": ["cosin"]}, "PF1205", "did you mean `cosine`?"),
        ({"policy": open}, "PF2130", "the argument `policy` must be a value that a workflow can have"),
        ({"kind": "torchair"}, "PF1205", "torchair_ge"),
        ({"kind": {"taget": "om"}}, "PF2130", "did you mean `target`?"),
        ({"ranks": "0"}, "PF1202", "ranks"),
        ({"reports": "htm"}, "PF1204", "html"),
    ],
    ids=repr,
)
def test_wrong_options_of_a_comparison_are_refused(
    in_folder: Path, given: dict[str, object], code: str, said: str
) -> None:
    with pytest.raises(pf.UsageError) as caught:
        pf.compare(GE, FX, **given)
    assert set(codes(caught.value)) == {code}, str(caught.value)
    assert said in str(caught.value)


def test_texts_of_options_mean_themselves(in_folder: Path) -> None:
    run = pf.compare(GE, FX, nodes=["${params.x}"])

    assert run.verdict == "incomplete", "no node has that name"


def test_sides_that_do_not_go_together_are_refused(in_folder: Path) -> None:
    with pytest.raises(pf.UsageError, match="the other way round they do") as caught:
        pf.compare(FX, GE)
    assert codes(caught.value) == ["PF2122"]
    with pytest.raises(pf.UsageError, match="holds no dump of a known kind"):
        pf.compare(in_folder, GE)


def test_a_dump_that_cannot_be_read_is_no_success(in_folder: Path) -> None:
    (in_folder / "empty").mkdir()
    run = pf.compare(GE, "empty", kind={"golden": "torchair_fx"}, match="torchair")

    assert (run.verdict, run.origin) == ("incomplete", None)
    assert run.exit_code in (2, 3)
    with pytest.raises(pf.ProbeFlowError) as caught:
        run.check()
    assert "empty" in str(caught.value)


@pytest.mark.parametrize(
    ("sample", "match", "policy"),
    [
        ("torchair/healthy/msprobe_ge_dump torchair/healthy/msprobe_fx_dump", "match.torchair", "torchair"),
        ("dump_json/target dump_json/golden", "match.name", "dump_json"),
        ("dump_json/mindspore_target dump_json/mindspore_golden", "match.name", "dump_json"),
        ("dump_json/mindspore_twin dump_json/pytorch_twin", "match.layer_mapping", "dump_json"),
    ],
)
def test_match_and_policy_follow_the_dumps(in_folder: Path, sample: str, match: str, policy: str) -> None:
    target, golden = (ROOT / "examples" / each for each in sample.split())
    run = pf.compare(target, golden, max_elements=1)

    assert [stage.uses for stage in run.record.stages] == ["dump.auto", "dump.auto", match, "compare"]
    assert run.record.gate is not None
    assert run.record.gate.policy == policy
    own = pf.match(pf.read_dump(target), pf.read_dump(golden, side="golden"))
    assert len(own.pairs) == len(run.rows())


def test_reports_are_written_on_request(in_folder: Path) -> None:
    run = pf.compare(GE, FX, output="out", reports=["junit", {"csv": "torchair"}])

    assert {path.suffix for path in run.reports} == {".xml", ".csv"}
    assert all(path.parent == in_folder / "out" for path in run.reports)


def test_progress_is_told_on_request(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Heard:
        def __init__(self) -> None:
            self.words: list[str] = []

        def stage_started(self, name: str, uses: str) -> None:
            self.words.append(f"{name} {uses}")

        def stage_advanced(self, name: str, done: int, total: int, unit: str = "bytes") -> None:
            assert 0 < done <= total

        def stage_ended(self, outcome: object) -> None:
            self.words.append("ended")

    heard = Heard()
    pf.compare(GE, FX, progress=heard)
    assert capsys.readouterr() == ("", "")
    pf.compare(GE, FX, progress=True)
    assert "result: done in" in capsys.readouterr().err
    assert heard.words == [
        "target dump.auto", "ended", "golden dump.auto", "ended", "pairs match.torchair", "ended",
        "result compare", "ended",
    ]  # fmt: skip
