"""Reports of finished runs: the same bytes as those that the runs made, without the dumps; damaged files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from probe_flow.record.stored.kinds import FILE
from probe_flow.record.stored.reading import read_comparison
from probe_flow.record.stored.writing import write_comparison
from probe_flow.workflow.loading.loader import load_workflow

ROOT = Path(__file__).resolve().parents[2]
COMMON = ["html", "junit", "markdown", "annotations", "annotations=gitlab", "data_mapping", "jsonl"]
DUMP_JSON = ["csv=dump_json", "csv=dump_json_msprobe", "xlsx=dump_json", "diff_analyze"]
TORCHAIR = ["csv=torchair", "csv=torchair_percent", "csv=torchair_legacy", "xlsx=torchair"]
OFFLINE = ["csv=offline", "csv=msaccucmp", "xlsx=offline", "advisor", "mapping"]
CASES = {
    "torchair_ge_vs_fx": TORCHAIR,
    "torchair_minmax": TORCHAIR,
    "torchair_with_reference": TORCHAIR,
    "torchair_fusion_on_vs_off": TORCHAIR,
    "pytorch_compare": DUMP_JSON,
    "multi_rank_merge": DUMP_JSON,
    "mindspore_vs_pytorch_layer_mapping": DUMP_JSON,
    "offline_om_vs_caffe": OFFLINE,
    "offline_om_vs_om": OFFLINE,
    "offline_quantized": OFFLINE,
}


def entry(text: str) -> Any:
    word, equals, option = text.partition("=")
    return {word: option} if equals else word


@pytest.fixture
def run(probe_flow: Any, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that runs a packaged workflow with other reports, and returns the folder of the run."""

    def ran(name: str, formats: list[str]) -> Path:
        packaged = load_workflow(ROOT / "workflows" / f"{name}.yaml", env={}, cwd=ROOT, sets={})
        report = {"formats": [entry(text) for text in formats]}
        project = {"version": 1, "name": "demo", "extends": f"template:{name}", "stages": {"report": report}}
        (tmp_path / "demo.yaml").write_text(json.dumps(project))
        sets = [word for key, value in packaged.params.items() for word in ("--set", f"{key}={value}")]
        done = probe_flow("run", tmp_path / "demo.yaml", *sets, "--output", tmp_path / "live", "--scheduler", "sync")
        assert (tmp_path / "live" / FILE).is_file(), done.err
        return tmp_path / "live"

    return ran


@pytest.mark.parametrize("name", CASES)
def test_reports_of_a_reopened_run_are_those_of_the_run(run: Any, probe_flow: Any, tmp_path: Path, name: str) -> None:
    formats = [*COMMON, *CASES[name]]
    live = run(name, formats)
    again = tmp_path / "again"
    words = [word for each in formats for word in ("--format", each)]
    done = probe_flow("report", live, *words, "-o", again)
    assert done.code == 0, done.err
    made = sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    left = [path.relative_to(live) for path in live.rglob("*") if path.is_file()]
    left = [path for path in left if not path.parts[0].startswith("reduce")]  # what other stages of the workflow write
    assert set(left) - set(made) <= {Path("run.json"), Path("events.jsonl"), Path("details.jsonl"), Path(FILE)}
    assert len(made) >= len(formats)
    for path in made:
        assert (again / path).read_bytes() == (live / path).read_bytes(), path


def test_reports_of_a_run_with_several_report_stages_name_the_same_stages(probe_flow: Any, tmp_path: Path) -> None:
    bug, base = (
        ROOT / "tests" / "data" / "dump_json" / f"pt_stat_{which}" / "step0" / "proc1000" / "dump.json"
        for which in ("bug", "base")
    )
    live = tmp_path / "live" / "probe_flow"
    probe_flow("compare", "-tp", bug, "-gp", base, "-o", tmp_path / "live")
    assert [stage["uses"] for stage in json.loads((live / "run.json").read_text())["stages"]].count("report") == 2
    done = probe_flow("report", live, "--format", "html", "-o", tmp_path)
    assert done.code == 0, done.err
    assert (tmp_path / "report.html").read_bytes() == (live / "report.html").read_bytes()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from probe_flow.engine.run.execute import execute
    from probe_flow.engine.run.plan import make_plan
    from probe_flow.engine.schedulers.choice import make_scheduler

    folder = tmp_path_factory.mktemp("run")
    loaded = load_workflow(ROOT / "workflows" / "offline_om_vs_caffe.yaml", env={}, cwd=ROOT, sets={})
    done = execute(make_plan(loaded), scheduler=make_scheduler("sync", 1), cwd=ROOT, output=folder / "out")
    (comparison,) = done.comparisons.values()
    write_comparison(comparison, folder / "out" / FILE)
    assert read_comparison(folder / "out" / FILE) == comparison
    return folder / "out"


def test_a_file_that_is_cut_is_named_with_the_next_step(written: Path, tmp_path: Path, probe_flow: Any) -> None:
    folder = shutil.copytree(written, tmp_path / "run")
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(whole[: len(whole) // 2])
    done = probe_flow("report", folder, "--format", "html", "-o", tmp_path)
    assert done.code == 3
    said = " ".join(done.err.split())
    assert "PF7116" in said
    assert "`comparison.msgpack` cannot be read: it ends in the middle" in said
    assert f"{folder / FILE}" in done.err
    assert "copy the folder again, or repeat the run" in said
    assert not (tmp_path / "report.html").exists()


def test_a_file_of_other_records_is_refused_by_name(written: Path, tmp_path: Path, probe_flow: Any) -> None:
    folder = shutil.copytree(written, tmp_path / "run")
    header, _, rest = (folder / FILE).read_bytes().partition(b"\n")
    said = json.loads(header)
    said["records"]["TensorRef"].append("colour")
    (folder / FILE).write_bytes(json.dumps(said).encode() + b"\n" + rest)
    done = probe_flow("report", folder, "--format", "html", "-o", tmp_path)
    assert done.code == 2
    assert "PF7117" in done.err
    (folder / FILE).unlink()
    done = probe_flow("report", folder, "--format", "html", "-o", tmp_path)
    assert done.code == 2
    assert "repeat the run with this probe_flow: with its cache nothing is measured again" in " ".join(done.err.split())


def test_reports_of_a_run_with_several_comparisons_are_numbered(probe_flow: Any, tmp_path: Path) -> None:
    second = {"uses": "compare", "pairs": "pairs", "policy": "torchair"}
    project = {"version": 1, "name": "two", "extends": "template:torchair_ge_vs_fx", "stages": {"second": second}}
    (tmp_path / "two.yaml").write_text(json.dumps(project))
    dumps = ROOT / "examples" / "torchair" / "faulty"
    sets = ["--set", f"target={dumps}/msprobe_ge_dump", "--set", f"golden={dumps}/msprobe_fx_dump"]
    live = tmp_path / "live"
    ran = probe_flow("run", tmp_path / "two.yaml", *sets, "--output", live, "--scheduler", "sync")
    assert ran.code == 1, ran.err
    done = probe_flow("report", live, "--format", "jsonl", "--format", "csv=torchair", "-o", tmp_path / "again")
    assert done.code == 0, done.err
    for number, stage in enumerate(("result", "second"), start=1):
        for name in ("comparison", "nodes"):
            again = tmp_path / "again" / f"{name}_{number}.jsonl"
            assert again.read_bytes() == (live / stage / f"{name}.jsonl").read_bytes()


def test_a_run_that_compared_nothing_has_no_reports(probe_flow: Any, tmp_path: Path) -> None:
    dumps = ROOT / "examples" / "torchair" / "healthy"
    sets = ["--set", f"target={dumps}/msprobe_ge_dump", "--set", f"golden={dumps}/msprobe_fx_dump"]
    workflow = ROOT / "workflows" / "torchair_ge_vs_fx.yaml"
    probe_flow("run", workflow, *sets, "--output", tmp_path / "live", "--only", "target", "--scheduler", "sync")
    done = probe_flow("report", tmp_path / "live", "--format", "html", "-o", tmp_path)
    assert done.code == 2
    assert "it compared nothing" in done.err


def test_a_format_that_is_none_is_named(written: Path, tmp_path: Path, probe_flow: Any) -> None:
    for text in ("htlm", "csv=torchiar", "csv"):
        done = probe_flow("report", written, "--format", text, "-o", tmp_path / "out")
        assert done.code == 2
        assert "PF7118" in done.err
        assert ("did you mean `html`?" in done.err) is (text == "htlm")
    assert not (tmp_path / "out").exists()
