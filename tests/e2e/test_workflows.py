"""Every workflow that comes with probe_flow runs as it stands, from anywhere, and writes what its schemas promise."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest
from precheck_dumps import STAND_INS, tables_in
from run_records import first_divergence

from e2e.projects import ROOT, SAMPLE, TORCHAIR, WORKFLOWS, Command, Done
from probe_flow.errors.explanations import FILES

SHIPPED = sorted(WORKFLOWS.glob("*.yaml"))
FIRST_WRONG = {
    "torchair_ge_vs_fx": "Gelu_1",
    "torchair_fusion_on_vs_off": "Mul_3Add_8",
    "torchair_minmax": "Gelu_1",
    "torchair_with_reference": "Gelu_1",
    "pytorch_compare": "Tensor.__mul__",
    "mindspore_compare": "Tensor.__mul__",
    "mindspore_code_mapping": "Expand__Muls_Mul",
    "pytorch_graph": "Tensor.__mul__",
    "suspect_repro": "Functional.linear",
    "mindspore_graph": "Tensor.__mul__",
    "multi_rank_merge": "Tensor.__add__",
    "offline_om_vs_caffe": "pool1",
    "offline_om_vs_om": "fc",
    "offline_om_vs_onnx": "fc",
    "offline_om_vs_tensorflow": "block/conv2relu2",
    "offline_training_batch": "block/shortcut",
    "tf_training": "gradients/dense2/Tanh_grad/TanhGrad",
    "tf_training_two_runs": "gradients/dense2/Tanh_grad/TanhGrad",
}
"""What is wrong in the bundled sample of each workflow."""

TWINS = {
    "mindspore_vs_pytorch_layer_mapping": "layer_mapping",
    "mindspore_vs_pytorch_api_mapping": "api_mapping",
    "mindspore_vs_pytorch_graph": "layer_mapping",
}
"""Workflows whose sample is the same model in two frameworks, with the rule that pairs them: the kernels differ, no
value is wrong."""

SHOWN = {"build_graph"}
"""Workflows that show one dump and judge nothing."""

APART = {"arrays_compare": ["block/mlp/weight", "token_ids"]}
"""Workflows of dumps whose nodes do not depend on each other, with what fails in their samples, worst first."""

EXAMINES = {"find_nonfinite": "Torch.matmul.6.forward", "overflow_check": "Torch.matmul.6.forward"}
"""Workflows that examine one dump, with the entry where what is wrong in their samples begins."""

HEALTHY = {"offline_quantized", "mindspore_precheck"}
"""Workflows whose sample is a model that computes what it should."""

CHECKED_AFTERWARDS = {"compare_then_precheck": "Mint.mul"}
"""Workflows that check what a first comparison suspects, with the operator that is wrong in their samples."""

IN_TORCH = {"mindspore_vs_pytorch", "pytorch_precheck", "torch_vs_torch"}
"""Workflows whose samples need a framework: `test_precheck_torch.py`, `test_dump_torch.py`, `test_dump_mindspore.py`
run them."""


RUNS_MODELS = {"mindspore_vs_pytorch", "torch_vs_torch"}
"""Workflows that run models: without their framework, the plan says so."""

IN_FRAMEWORKS = {
    "offline_caffe_oneclick",
    "offline_onnx_oneclick",
    "offline_tensorflow_oneclick",
    "onnx_vs_onnx",
    "tf_training_oneclick",
}
"""Workflows that run models by frameworks, which a plan asks for too: `tests/e2e/test_run_models.py` and
`test_tf_training_model.py` run them."""

WITHOUT = [path for path in SHIPPED if path.stem not in IN_FRAMEWORKS]


@pytest.fixture(autouse=True)
def _stand_ins_for_pre_checks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pre-checks run without the frameworks; `tests/e2e/test_precheck_frameworks.py` runs them with these."""
    if "precheck" in request.node.name:
        monkeypatch.syspath_prepend(str(STAND_INS))


FAULTY = [path for path in SHIPPED if path.stem in FIRST_WRONG]


def assert_schemas_hold(done: Done) -> None:
    def validator(name: str) -> jsonschema.Draft202012Validator:
        schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(schema)

    validator("run").validate(done.record)
    for name in ("comparison", "nodes"):
        files = list(done.folder.rglob(f"{name}.jsonl"))
        assert files
        check = validator(name)
        for file in files:
            lines = file.read_text().splitlines()
            assert lines
            for line in lines:
                check.validate(json.loads(line))


def test_every_shipped_workflow_is_known_here():
    known = {*FIRST_WRONG, *TWINS, *APART, *EXAMINES, *SHOWN, *HEALTHY, *CHECKED_AFTERWARDS, *IN_TORCH, *IN_FRAMEWORKS}
    assert {path.stem for path in SHIPPED} == known


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_a_workflow_of_a_healthy_sample_blames_nothing(probe_flow: Command, name: str):
    done = probe_flow("run", WORKFLOWS / f"{name}.yaml")
    assert done.code == 0, done.out + done.err
    assert first_divergence(done.record) is None
    assert_schemas_hold(done)


@pytest.mark.parametrize("name", sorted(CHECKED_AFTERWARDS))
def test_a_workflow_of_two_steps_checks_what_the_first_suspects_and_nothing_else(probe_flow: Command, name: str):
    done = probe_flow("run", WORKFLOWS / f"{name}.yaml")
    origin = CHECKED_AFTERWARDS[name]
    assert done.code == 1, done.out + done.err
    assert first_divergence(done.record)["node"] == origin
    states = tables_in(done.folder).states
    assert states.pop(f"{origin}.0") == ("pass", ""), "the processor computes it right: the fault is the device's"
    assert set(states.values()) == {("SKIP", "")}
    assert all((done.folder / name).is_file() for name in done.record["artifacts"])
    assert_schemas_hold(done)


def test_a_suspect_is_computed_again_or_its_script_waits_for_the_framework(probe_flow: Command):
    done = probe_flow("run", WORKFLOWS / "suspect_repro.yaml")
    (found,) = done.record["reproductions"]
    has_torch = importlib.util.find_spec("torch") is not None
    assert (found["entry"], found["status"]) == (
        "Functional.linear.0.forward",
        "reproduced" if has_torch else "not_run",
    )
    script = done.folder / found["script"]
    assert "itself is wrong" in done.out if has_torch else f"`{found['script']}` was written and not run" in done.out
    assert [each["code"] for each in done.record["problems"]] == ([] if has_torch else ["PF6633"])
    assert json.loads(script.with_suffix(".json").read_text())["status"] == found["status"]
    for side in ("target", "golden"):
        names = {path.name for path in (script.with_suffix("") / side).iterdir()}
        assert names == {
            f"Functional.linear.0.forward.{each}.npy" for each in ("input.0", "input.1", "input.2", "output.0")
        }


@pytest.mark.parametrize("name", sorted(APART))
def test_a_workflow_without_a_path_of_values_names_all_that_fails_and_no_origin(probe_flow: Command, name: str):
    done = probe_flow("run", WORKFLOWS / f"{name}.yaml")
    assert done.code == 1, done.out + done.err
    assert first_divergence(done.record) is None
    assert [(each["kind"], each["node"]) for each in done.record["findings"]] == [
        ("failure", node) for node in APART[name]
    ]
    assert not [row for row in done.rows if row["role"] in ("origin", "inherited")]
    assert f"2 nodes fail, {APART[name][0]} most." in done.out
    assert_schemas_hold(done)


@pytest.mark.parametrize("name", sorted(EXAMINES))
def test_a_workflow_of_one_dump_has_findings_gate_and_reports_without_a_golden(probe_flow: Command, name: str):
    done = probe_flow("run", WORKFLOWS / f"{name}.yaml")
    assert done.code == 1, done.out + done.err
    assert first_divergence(done.record) is None
    found = done.record["findings"][done.record["nonfinite_origin"]]
    assert (found["kind"], found["name"], found["fails"]) == ("nonfinite_origin", EXAMINES[name], True)
    assert done.record["coverage"].keys() == {"target"}
    assert {row["golden"] for row in done.rows} == {None}
    assert "golden" not in done.out
    assert "48 of 48 examined" in done.out.splitlines()[-1]
    assert_schemas_hold(done)


@pytest.mark.parametrize("name", sorted(TWINS))
def test_a_workflow_across_frameworks_fails_no_row_of_the_twins(probe_flow: Command, name: str):
    done = probe_flow("run", WORKFLOWS / f"{name}.yaml")
    assert done.code == 0, done.out + done.err
    assert {row["rule"] for row in done.rows} >= {TWINS[name]}
    assert not [row for row in done.rows if row["verdict"] in ("fail", "error")]
    assert_schemas_hold(done)


@pytest.mark.parametrize("name", ["pytorch_graph", "mindspore_graph", "mindspore_vs_pytorch_graph", "build_graph"])
def test_a_workflow_of_graphs_writes_both_formats_and_the_page(probe_flow: Command, name: str):
    done = probe_flow("run", WORKFLOWS / f"{name}.yaml")
    kind = "build" if name in SHOWN else "compare"
    assert len(list((done.folder / "vis").glob(f"{kind}_*.vis"))) == 1
    assert len(list((done.folder / "vis_db").glob(f"{kind}_*.vis.db"))) == 1
    assert (done.folder / "report.html").is_file()
    assert not done.record["problems"]


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_a_workflow_that_shows_a_dump_judges_nothing(probe_flow: Command, name: str):
    done = probe_flow("run", WORKFLOWS / f"{name}.yaml")
    assert done.code == 0, done.out + done.err
    assert done.record["verdict"] is None
    assert done.out.splitlines()[-1].startswith("DONE the workflow ended; it compares nothing")


def test_a_layer_mapping_leaves_nothing_of_the_twins_missing(probe_flow: Command):
    done = probe_flow("run", WORKFLOWS / "mindspore_vs_pytorch_layer_mapping.yaml")
    assert {side: counts["missing"] for side, counts in done.record["coverage"].items()} == {"target": 0, "golden": 0}


@pytest.mark.parametrize("workflow", FAULTY, ids=lambda path: path.stem)
def test_a_shipped_workflow_finds_what_is_wrong_in_its_sample(probe_flow: Command, workflow: Path):
    done = probe_flow("run", workflow)
    assert done.code == 1
    assert first_divergence(done.record)["node"] == FIRST_WRONG[workflow.stem]
    assert f"The target first goes wrong at {FIRST_WRONG[workflow.stem]}" in done.out
    assert {"run.json", "comparison.jsonl", "nodes.jsonl"} <= set(done.record["artifacts"])
    assert all((done.folder / name).is_file() for name in done.record["artifacts"])
    assert_schemas_hold(done)


@pytest.mark.parametrize(
    ("command", "workflow"),
    [*(("validate", path) for path in SHIPPED), *(("plan", path) for path in WITHOUT)],
    ids=lambda each: each if isinstance(each, str) else each.stem,
)
def test_a_shipped_workflow_has_no_mistakes_and_touches_nothing(probe_flow: Command, workflow, command, tmp_path):
    done = probe_flow(command, workflow, output=None)
    if command == "plan" and workflow.stem in RUNS_MODELS and importlib.util.find_spec("torch") is None:
        assert (done.code, "PF6320" in done.err) == (2, True)
        return
    assert done.code == 0, done.err
    assert "warning[" not in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "workflow", [path for path in WITHOUT if path.stem not in IN_TORCH], ids=lambda path: path.stem
)
def test_a_shipped_workflow_runs_from_its_own_folder_and_from_elsewhere(
    probe_flow: Command, workflow, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "deep" / "er"
    elsewhere.mkdir(parents=True)
    codes, results = set(), []
    for cwd, name in ((WORKFLOWS, workflow.name), (ROOT, f"workflows/{workflow.name}"), (elsewhere, str(workflow))):
        monkeypatch.chdir(cwd)
        done = probe_flow("run", name, output=str(tmp_path / f"out{len(results)}"))
        codes.add(done.code)
        pattern = "*.vis" if workflow.stem in SHOWN else "comparison.jsonl"
        results.append([file.read_bytes() for file in sorted(done.folder.rglob(pattern))])
    assert results[0]
    assert results[0] == results[1] == results[2]
    assert codes in ({0}, {1})


def test_without_output_a_new_run_folder_appears_in_the_working_directory(probe_flow: Command, tmp_path):
    for _ in range(2):
        assert probe_flow("run", TORCHAIR, output=None).code == 1
    folders = list((tmp_path / "probe_flow_runs").iterdir())
    assert len(folders) == 2
    assert all(folder.name.startswith("torchair-ge-vs-fx-") for folder in folders)
    assert all((folder / "run.json").is_file() for folder in folders)


def test_the_healthy_sample_passes(probe_flow: Command):
    healthy = SAMPLE / "healthy"
    sets = ("--set", f"target={healthy / 'msprobe_ge_dump'}", "--set", f"golden={healthy / 'msprobe_fx_dump'}")
    done = probe_flow("run", TORCHAIR, *sets)
    assert done.code == 0
    assert done.record["verdict"] == "pass"
    assert first_divergence(done.record) is None
    assert done.record["coverage"]["target"]["missing"] == done.record["coverage"]["golden"]["missing"] == 0
    assert done.out.splitlines()[-1].startswith("PASS no operator of the target goes wrong | 143 of 143 compared | ")
    assert_schemas_hold(done)


DUMP = ROOT / "examples" / "dump_json" / "golden"


def another_spelling(folder: Path) -> Path:
    return DUMP.parent / "target" / ".." / "golden"


def a_file_of_it(folder: Path) -> Path:
    return DUMP / "dump.json"


def a_symlink(folder: Path) -> Path:
    (folder / "link").symlink_to(DUMP)
    return folder / "link"


def a_folder_of_symlinks(folder: Path) -> Path:
    (folder / "links").mkdir()
    for file in DUMP.iterdir():
        (folder / "links" / file.name).symlink_to(file)
    return folder / "links"


def hard_links(folder: Path) -> Path:
    shutil.copytree(DUMP, folder / "one")
    shutil.copytree(folder / "one", folder / "other", copy_function=os.link)
    return folder / "other"


@pytest.mark.parametrize("again", [another_spelling, a_file_of_it, a_symlink, a_folder_of_symlinks, hard_links])
def test_the_same_dump_on_both_sides_tests_nothing_and_says_so_everywhere(probe_flow: Command, tmp_path: Path, again):
    golden = again(tmp_path)
    sets = ("--set", f"target={tmp_path / 'one' if again is hard_links else DUMP}", "--set", f"golden={golden}")
    done = probe_flow("run", WORKFLOWS / "pytorch_compare.yaml", *sets)
    assert done.code == 3
    said = "INCOMPLETE nothing was tested: same dump on both sides; name the dump of the other side"
    assert done.out.splitlines()[-1].startswith(said)
    assert said in (done.folder / "junit.xml").read_text()
    again = probe_flow("run", WORKFLOWS / "pytorch_compare.yaml", *sets, output="again")
    assert (again.code, again.out.splitlines()[-1].startswith(said)) == (3, True), "what was stored of it as well"


def test_the_pytorch_sample_names_the_call_that_only_the_target_has(probe_flow: Command):
    done = probe_flow("run", WORKFLOWS / "pytorch_compare.yaml")
    extra = [row for row in done.rows if row["verdict"] == "unmatched_target"]
    assert {row["node"] for row in extra} == {"Tensor.__mul__"}
    assert all(row["golden"] is None and row["reason"] for row in extra)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the wheel as pip would lay it out, away from the checkout."""
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = builder.WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_the_wheel_holds_the_program_the_workflows_and_the_samples_only(installed: Path):
    names = {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}
    packaged = {name.partition("_packaged/")[2] for name in names if "_packaged/" in name}
    tracked = subprocess.run(
        ["git", "ls-files", "workflows", "examples"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    for_readers = (".md", ".ipynb")
    tracked = [
        name
        for name in tracked
        if not name.endswith(for_readers) and not name.startswith(("examples/team_", "examples/ci/"))
    ]
    assert {path.relative_to(ROOT).as_posix() for path in SHIPPED} <= packaged
    pages = {name for name in packaged if name.startswith("docs/")}
    in_docs = subprocess.run(["git", "ls-files", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert set(in_docs.stdout.split()) - {"docs/generate.py"} == pages
    assert set(tracked) == packaged - pages, "archives, not what was unpacked from them"
    assert not any("__pycache__" in name or name.startswith(("tests/", "docs/", "benchmarks/")) for name in names)
    assert "probe_flow/py.typed" in names
    assert {f"probe_flow/errors/codes/{name}.yaml" for name in FILES} <= names


def installed_command(site: Path, cwd: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the installed copy in a fresh interpreter that does not see the checkout."""
    code = (
        "import sys; sys.path = [p for p in sys.path if p not in ('', sys.argv[2])]; sys.path.insert(0, sys.argv[1]);"
        "import probe_flow; assert probe_flow.__file__.startswith(sys.argv[1]), probe_flow.__file__;"
        "from probe_flow.cli.main import main; raise SystemExit(main(sys.argv[3:]))"
    )
    given = [sys.executable, "-c", code, str(site), str(ROOT), *map(str, arguments)]
    return subprocess.run(given, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_an_installed_copy_brings_its_documentation(installed: Path, tmp_path: Path):
    listed = installed_command(installed, tmp_path, "docs")
    assert listed.returncode == 0
    assert "how-to/torchair" in listed.stdout
    assert "is not part of this installation" in " ".join(listed.stdout.split())
    shown = installed_command(installed, tmp_path, "docs", "faq")
    assert shown.stdout == (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")


def test_a_wheel_has_the_site_if_its_build_is_given_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    (tmp_path / "site").mkdir()
    monkeypatch.setenv("PROBE_FLOW_SITE", str(tmp_path / "site"))
    with pytest.raises(ValueError, match="there is no site"):
        list(builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "none"), versions=["standard"]))
    (tmp_path / "site" / "index.html").write_text("the site", encoding="utf-8")
    (wheel,) = builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "wheel"), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("probe_flow/_packaged/site/index.html") == b"the site"


def test_an_installed_copy_brings_workflows_and_samples_to_start_from(installed: Path, tmp_path: Path):
    listed = installed_command(installed, tmp_path, "templates")
    assert listed.returncode == 0
    assert all(path.stem in listed.stdout.replace("-", "_") for path in SHIPPED)
    copied = installed_command(installed, tmp_path, "init", "torchair_ge_vs_fx", "--with-sample")
    assert copied.returncode == 0, copied.stderr
    assert "next: probe-flow run torchair_ge_vs_fx.yaml" in copied.stdout
    done = installed_command(installed, tmp_path, "run", "torchair_ge_vs_fx.yaml", "--output", "out")
    assert done.returncode == 1, done.stderr
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert first_divergence(record)["node"] == "Gelu_1"
    dumps = {Path(entry["path"]) for entry in record["inputs"]}
    assert all(path.is_relative_to(tmp_path) for path in dumps)
