"""Dump stages that run a model: their options, what a plan says, what is run again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from msgspec.structs import asdict
from pydantic import ValidationError
from toy_framework import TOY

from probe_flow.dumpers.base.job import ModelJob, source_digest
from probe_flow.dumpers.base.runner import RunnerSpec
from probe_flow.dumpers.registry import RUNNERS
from probe_flow.engine.run.paths import input_paths
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.stages.dump import dump_torchair_fx, dump_torchair_ge
from probe_flow.stages.dump.model_run import RunOptions, dump_of_model, forecast
from probe_flow.work import Context, Settings
from probe_flow.workflow.loading.loader import load_workflow

FX = {"uses": "dump.torchair_fx"}
FX_FOLDER = "msprobe_fx_dump"


def context(output: Path, *, resumed: bool = False, found: list[Diagnostic] | None = None) -> Context:
    return Context(
        "golden[m=a/b]",
        output,
        lambda *_, **__: iter(()),
        lambda *_, **__: None,
        (found if found is not None else []).extend,
        Settings(is_resumed=resumed),
        {},
    )


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[ModelJob]:
    """Return the jobs that were run; each writes a dump of one array, which differs from run to run."""
    ran: list[ModelJob] = []

    def run(job: ModelJob, runner: RunnerSpec) -> dict[str, Any]:
        import json

        ran.append(job)
        job.write()
        folder = runner.dump_folder(job) / "worldsize1_global_rank0" / "graph_1" / "0"
        folder.mkdir(parents=True)
        np.save(folder / "rand-aten.rand.default.OUTPUT.0.20260101000000000001.npy", np.array([float(len(ran))]))
        source = Path(__file__)
        record = {
            "schema": "probe_flow/model_run/1",
            "ok": True,
            "job": asdict(job),
            "source": {"path": str(source), "sha256": source_digest(source)},
            "graph_breaks": ["Call to `print`"] if job.model.endswith(":chatty") else [],
        }
        (Path(job.output) / "model_run.json").write_text(json.dumps(record), encoding="utf-8")
        return record

    monkeypatch.setattr("probe_flow.dumpers.base.process.run_model", run)
    return ran


def fx(**options: Any) -> dump_torchair_fx.Options:
    return dump_torchair_fx.Options(**{**FX, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "path\n  Field required"),
        ({"path": "d", "model": "net:build"}, "give either `path`"),
        ({"path": "d", "calls": 2}, "calls\n.*only a stage that runs a `model` takes it"),
        ({"path": "d", "precision": "float64"}, "precision\n.*only a stage that runs"),
        ({"path": "d", "memory_limit": "1GiB"}, "memory_limit\n.*only a stage that runs"),
        ({"path": "d", "time_limit": 60}, "time_limit\n.*only a stage that runs"),
        ({"model": "net:build", "time_limit": 0}, "time_limit\n.*greater than 0"),
        ({"model": "net:build", "memory_limit": "much"}, "memory_limit\n.*pattern"),
        ({"path": "d", "filter": {}}, "filter\n.*only a stage that runs"),
        ({"model": "net"}, "pattern"),
        ({"model": "net:build", "inputs": {}}, "either `files` or `random`"),
        ({"model": "net:build", "inputs": {"files": ["a.npy"], "random": {"tensors": [{"shape": [1]}]}}}, "either"),
        ({"model": "net:build", "inputs": {"random": {"tensors": [{"shape": [-1]}]}}}, "greater than or equal to 0"),
        ({"model": "net:build", "calls": 0}, "greater than 0"),
        ({"model": "net:build", "repeat": 11}, "less than or equal to 10"),
    ],
)
def test_options_that_cannot_be_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        fx(**options)


def test_fusion_off_and_a_switch_file_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="writes a switch file itself"):
        dump_torchair_ge.Options(uses="dump.torchair_ge", model="net:build", fusion="off", fusion_switch_file="s.json")


def test_options_are_handed_to_the_run(tmp_path: Path, jobs: list[ModelJob]) -> None:
    options = fx(
        model="net:build", inputs="net:inputs", calls=3, import_from="/code", backward=True, steps=[0],
        filter={"include": ["mm"], "types": ["aten.*"]}, direction=["output"], precision="float64",
        max_tensor_bytes=10, threads=1, memory_limit="1.5GiB", time_limit=60, device="cpu", seed=7,
    )  # fmt: skip

    dump_torchair_fx.run(options, {}, context(tmp_path))

    assert jobs == [
        ModelJob(
            "torchair_fx", "net:build", {"callable": "net:inputs"}, str(tmp_path / "dumps" / "golden_m_a_b"),
            dump={
                "include": ["mm"], "types": ["aten.*"], "steps": [0], "direction": ["output"], "data": "tensor",
                "precision": "float64", "peer_compatible": False, "max_tensor_bytes": 10,
            },
            calls=3, import_from="/code", seed=7, threads=1, memory_bytes=3 * 2**29, seconds=60, device="cpu",
            has_backward=True,
        )
    ]  # fmt: skip


def test_dump_that_was_written_is_the_catalog(tmp_path: Path, jobs: list[ModelJob]) -> None:
    catalog: Any = dump_torchair_fx.run(fx(model="net:build"), {}, context(tmp_path))

    assert Path(catalog.root) == RUNNERS["torchair_fx"].dump_folder(jobs[0]).resolve()
    assert [key.name for key in catalog.nodes] == ["rand"]
    assert "repeats" not in catalog.attrs


def test_repeats_name_what_is_not_deterministic(tmp_path: Path, jobs: list[ModelJob]) -> None:
    found: list[Diagnostic] = []

    catalog: Any = dump_torchair_fx.run(fx(model="net:build", repeat=3), {}, context(tmp_path, found=found))

    base = tmp_path / "dumps" / "golden_m_a_b"
    assert catalog.attrs["repeats"] == tuple(str(base / f"repeat_{n}" / FX_FOLDER) for n in (2, 3))
    assert [each.code for each in found] == ["PF6330"]
    assert "rand" in found[0].notes[0]
    assert "largest difference 2" in found[0].notes[0]


def test_graph_breaks_are_said_with_their_reasons(tmp_path: Path, jobs: list[ModelJob]) -> None:
    found: list[Diagnostic] = []

    dump_torchair_fx.run(fx(model="net:chatty"), {}, context(tmp_path, found=found))

    assert [(each.code, each.notes) for each in found] == [("PF6332", ("Call to `print`",))]


def test_model_runs_again_unless_the_run_is_resumed(tmp_path: Path, jobs: list[ModelJob]) -> None:
    options = fx(model="net:build")

    dump_torchair_fx.run(options, {}, context(tmp_path))
    dump_torchair_fx.run(options, {}, context(tmp_path))
    dump_torchair_fx.run(options, {}, context(tmp_path, resumed=True))
    assert len(jobs) == 2

    dump_torchair_fx.run(fx(model="net:build", calls=2), {}, context(tmp_path, resumed=True))
    assert len(jobs) == 3


def test_own_output_is_replaced_only_when_asked_for(tmp_path: Path, jobs: list[ModelJob]) -> None:
    options = {"model": "net:build", "output": str(tmp_path / "mine")}
    dump_torchair_fx.run(fx(**options), {}, context(tmp_path))

    with pytest.raises(UsageError) as raised:
        dump_torchair_fx.run(fx(**options), {}, context(tmp_path))
    assert raised.value.diagnostic.code == "PF6321"

    dump_torchair_fx.run(fx(**options, overwrite="replace"), {}, context(tmp_path))
    assert len(jobs) == 2


def test_plan_says_what_runs_and_where_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    forecast = dump_torchair_fx.STAGE.foresee(fx(model="net:build", calls=2, output="/out"))

    assert forecast is not None
    assert forecast.does == "imports and runs `net:build` 2 times in a child process and writes a dump to /out"
    again = dump_torchair_fx.STAGE.foresee(fx(model="net:build", repeat=2))
    assert again is not None
    assert (
        again.does
        == "imports and runs `net:build` once in each of 2 child processes and writes dumps to the run's folder"
    )
    assert [problem.code for problem in forecast.problems] == ["PF6320"]
    assert dump_torchair_fx.STAGE.foresee(fx(path="d")) is None


def test_plan_of_a_ge_dump_needs_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    options = dump_torchair_ge.Options(uses="dump.torchair_ge", model="net:build")

    forecast = dump_torchair_ge.STAGE.foresee(options)

    assert forecast is not None
    assert "PF6328" in [problem.code for problem in forecast.problems]


class ToyOptions(RunOptions):
    uses: Literal["dump.toy"]


def test_a_stage_of_another_framework_needs_only_its_runner(tmp_path: Path) -> None:
    net = "from toy_framework import Net, scaled\nprint('toy: mul is slow')\nmodel = Net(scaled('a', 2.0))\n"
    (tmp_path / "net.py").write_text(net, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.array([1.5, 2.0]))
    given = {"uses": "dump.toy", "model": str(tmp_path / "net.py"), "inputs": {"files": [str(tmp_path / "x.npy")]}}
    options, found = ToyOptions(**given), list[Diagnostic]()

    folders = dump_of_model(TOY, options, {"types": ["mul"]}, context(tmp_path, found=found), repeat=2)

    base = tmp_path / "dumps" / "golden_m_a_b"
    assert folders == [base / "toy_dump", base / "repeat_2" / "toy_dump"]
    assert [np.load(folder / "0" / "a.npy").tolist() for folder in folders] == [[3.0, 4.0]] * 2
    assert [(each.code, each.message) for each in found] == [("PF6333", "slow: mul")]
    written = (base / "model_run.json").stat().st_mtime_ns
    assert dump_of_model(TOY, options, {"types": ["mul"]}, context(tmp_path, resumed=True), repeat=2) == folders
    assert (base / "model_run.json").stat().st_mtime_ns == written
    foreseen = forecast(TOY, options)
    assert foreseen is not None
    assert foreseen.problems == ()
    with pytest.raises(ValidationError, match="backward\n"):
        ToyOptions(**given, backward=True)


WORKFLOW = """version: 1
name: w
params:
  chosen: {default: "nets/small.py:build", type: path}
stages:
  module: {uses: dump.torchair_fx, model: "net:build"}
  file: {uses: dump.torchair_fx, model: net.py, inputs: "net:inputs"}
  attribute: {uses: dump.torchair_fx, model: "nets/small.py:build"}
  package: {uses: dump.torchair_fx, model: "./nets:build"}
  chosen: {uses: dump.torchair_fx, model: "${params.chosen}"}
"""


def test_paths_of_models_start_from_the_workflow(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW, encoding="utf-8")

    workflow = load_workflow(tmp_path / "w.yaml", env={}, cwd=tmp_path / "elsewhere", sets={})

    models = {stage.name: stage.options.model for stage in workflow.stages}  # type: ignore[attr-defined]
    assert models == {
        "module": "net:build",
        "file": f"{tmp_path}/net.py",
        "attribute": f"{tmp_path}/nets/small.py:build",
        "package": f"{tmp_path}/nets:build",
        "chosen": f"{tmp_path}/nets/small.py:build",
    }
    assert [path.name for stage in workflow.stages for _, path in input_paths(stage.options)] == [
        "net.py", "small.py", "nets", "small.py",
    ]  # fmt: skip


def test_validate_and_forecast_import_neither_the_model_nor_numpy(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    (tmp_path / "w.yaml").write_text(
        "version: 1\nname: w\nstages:\n  a: {uses: dump.torchair_fx, model: 'net:build', import_from: .}\n",
        encoding="utf-8",
    )
    script = (
        "import sys\nfrom probe_flow.cli.main import main\ncode = main(['validate', 'w.yaml'])\n"
        "from probe_flow.stages.dump.dump_torchair_fx import STAGE\n"
        "STAGE.foresee(STAGE.options(uses='dump.torchair_fx', model='net:build'))\n"
        "print(code, [name for name in ('net', 'numpy', 'torch') if name in sys.modules])"
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert ended.stdout.splitlines()[-1] == "0 []", ended.stderr
