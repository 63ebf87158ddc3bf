"""Whole runs of a model in a child process, by workflow: golden against itself, devices that are stand-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.cli.main import main
from probe_flow.dumpers.base import process
from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumpers.registry import RUNNERS
from probe_flow.errors import IncompleteError, UsageError

pytestmark = pytest.mark.frameworks
torch = pytest.importorskip("torch")

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.drop = torch.nn.Dropout(0.5)
    def forward(self, x, scale=2):
        return self.drop(torch.relu(self.fc(x))) * scale

build = Net

def inputs():
    for n in (2, 3):
        yield {"x": torch.full((n, 4), float(n)), "scale": n}

def broken():
    raise OSError("no weights here")

def torn():
    raise ValueError("end of file")
    yield

class Leaving(Net):
    def forward(self, x):
        torch._dynamo.graph_break()
        raise SystemExit(0)

class Wrong(Net):
    def forward(self, x):
        return torch.mm(x, x)
"""

TORCHAIR = """
import json, torch
from dumper_fakes import new_config as CompilerConfig

def get_npu_backend(compiler_config):
    def backend(module, example_inputs):
        settings = {name: vars(part) for name, part in vars(compiler_config).items() if name != "debug"}
        with open(compiler_config.dump_config.dump_path + "/seen.json", "w") as file:
            json.dump(settings, file)
        return module.forward
    return backend
"""


def run_model(job: ModelJob) -> dict[str, Any]:
    return process.run_model(job, RUNNERS[job.kind])


@pytest.fixture
def job(tmp_path: Path) -> ModelJob:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    output = tmp_path / "out"
    output.mkdir()
    return ModelJob("torchair_fx", "net:build", {}, str(output), import_from=str(tmp_path))


def with_options(job: ModelJob, **options: Any) -> ModelJob:
    from msgspec.structs import replace

    return replace(job, **options)


def test_a_model_is_a_file_or_a_package(job: ModelJob, tmp_path: Path) -> None:
    inputs = {"random": {"seed": 1, "tensors": [{"shape": [2, 4], "dtype": "float32"}]}}
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "__init__.py").write_text("from .small import Net as model", encoding="utf-8")
    (tmp_path / "nets" / "small.py").write_text(NET, encoding="utf-8")

    for name, source in ("net.py:build", "net.py"), ("nets", "nets"):
        output = tmp_path / f"out_{source}"
        output.mkdir()
        given = with_options(job, model=str(tmp_path / name), inputs=inputs, output=str(output), import_from=None)
        record = run_model(given)
        assert record["source"]["path"] == str(tmp_path / source)
        assert record["graphs"] == 1
    dumps = [sorted((tmp_path / f"out_{name}").rglob("addmm-*.OUTPUT.*.npy")) for name in ("net.py", "nets")]
    assert len(dumps[0]) == len(dumps[1]) == 1
    assert np.array_equal(np.load(dumps[0][0]), np.load(dumps[1][0]))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("model.onnx", "is no Python file"),
        ("weights", "is a folder without `__init__.py`"),
        ("gone.py", "does not exist"),
        ("net.py:biuld", "`net.py` has no `biuld`"),
    ],
)
def test_a_path_without_a_model_of_torch_is_refused(job: ModelJob, tmp_path: Path, model: str, message: str) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "weights").mkdir()

    with pytest.raises(UsageError) as raised:
        run_model(with_options(job, model=str(tmp_path / model)))

    assert raised.value.diagnostic.code == "PF6322"
    assert message in raised.value.diagnostic.message


def test_random_inputs_are_kept_as_arrays_and_bytes(job: ModelJob) -> None:
    drawn = {"seed": 1, "tensors": [{"shape": [2, 4], "dtype": "float32"}]}

    record = run_model(with_options(job, inputs={"random": drawn}))

    folder = Path(job.output) / "input" / "0"
    kept = np.load(folder / "0.npy")
    assert kept.shape == (2, 4)
    assert ((kept >= 0) & (kept < 1)).all()
    assert (folder / "0.bin").read_bytes() == kept.tobytes()
    assert record["inputs"][0][0]["file"] == "0.npy"
    assert record["graphs"] == 1


def test_inputs_of_the_users_code_are_given_call_by_call(job: ModelJob) -> None:
    run_model(with_options(job, inputs={"callable": "net:inputs"}, calls=2))

    base = Path(job.output) / "input"
    assert [np.load(base / str(n) / "x.npy").shape for n in (0, 1)] == [(2, 4), (3, 4)]


def test_generator_that_ends_too_early_is_said(job: ModelJob) -> None:
    with pytest.raises(UsageError, match=r"PF6323.*ends after 2 of 3 calls"):
        run_model(with_options(job, inputs={"callable": "net:inputs"}, calls=3))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"model": "net:Wrong"}, "PF6324", "failed in call 0: "),
        ({"model": "net:broken"}, "PF6322", "OSError: no weights here"),
        ({"model": "net:Wrong"}, "PF6324", "same reduction dim, but got [2, 4] X [2, 4]"),
        ({"model": "net:Leaving"}, "PF6324", "called `sys.exit(0)`"),
        ({"inputs": {"callable": "net:broken"}}, "PF6323", "`inputs: net:broken` failed: OSError: no weights here"),
        ({"inputs": {"callable": "net:torn"}}, "PF6323", "`inputs: net:torn` failed: ValueError: end of file"),
        ({"inputs": {"random": {"seed": 0, "tensors": [{"shape": [1], "dtype": "float99"}]}}}, "PF6323", "float99"),
        ({"dump": {"include": ["nothing_like_this"]}}, "PF6327", "nothing was dumped of 1 graphs"),
    ],
)
def test_failures_say_what_to_change(job: ModelJob, options: dict[str, Any], code: str, message: str) -> None:
    given = {"inputs": {"random": {"seed": 0, "tensors": [{"shape": [2, 4], "dtype": "float32"}]}}}

    with pytest.raises((UsageError, IncompleteError)) as raised:
        run_model(with_options(job, **{**given, **options}))

    assert raised.value.diagnostic.code == code
    assert message in raised.value.diagnostic.message


def test_files_are_inputs(job: ModelJob, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))

    run_model(with_options(job, inputs={"files": [str(tmp_path / "x.npy")]}))
    assert np.load(Path(job.output) / "input" / "0" / "0.npy").tolist() == [[1.0] * 4] * 2


def test_names_of_inputs_do_not_lead_out_of_their_folder(tmp_path: Path) -> None:
    from probe_flow.dumpers.base.inputs import keep_inputs
    from probe_flow.dumpers.torchair.runners import FxRunner

    runner = FxRunner(ModelJob("torchair_fx", "net:build", {}, str(tmp_path)), tmp_path / "dump")
    facts = keep_inputs(((), {"../up": torch.ones(2), "x": torch.zeros(1)}), tmp_path / "input", runner)

    assert [entry["file"] for entry in facts] == ["0.npy", "x.npy"]
    assert [path.name for path in tmp_path.iterdir()] == ["input"]


@pytest.mark.parametrize("name", ["object.npy", "torn.pt", "text.npy"])
def test_input_file_that_cannot_be_read_is_said(job: ModelJob, tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "object.npy", np.array([None]), allow_pickle=True)
    (tmp_path / "torn.pt").write_bytes(b"PK\x03\x04")
    np.save(tmp_path / "text.npy", np.array("x"))

    with pytest.raises(UsageError) as raised:
        run_model(with_options(job, inputs={"files": [str(tmp_path / name)]}))
    assert raised.value.diagnostic.code == "PF6323"


def test_workflow_runs_a_model_twice_and_finds_both_runs_equal(
    job: ModelJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn = "{random: {tensors: [{shape: [32, 4]}]}}"
    side = f"{{uses: dump.torchair_fx, model: 'net:build', import_from: ., backward: true, inputs: {drawn}"
    (tmp_path / "w.yaml").write_text(
        f"""version: 1
name: twice
stages:
  target: {side}}}
  golden: {side}, repeat: 2}}
  pairs: {{uses: match.name, target: target, golden: golden}}
  result: {{uses: compare, pairs: pairs}}
""",
        encoding="utf-8",
    )

    assert main(["run", "w.yaml", "--output", "run"]) == 0

    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["coverage"]["target"]["missing"] == 0
    assert not [problem for problem in record["problems"] if problem["code"] in {"PF6330", "PF6340", "PF3205"}]
    assert {line["metrics"]["max_abs_err"] for line in _rows(tmp_path / "run")} == {0.0}
    dumps = tmp_path / "run" / "dumps" / "golden" / "msprobe_fx_dump" / "worldsize1_global_rank0"
    assert {path.name for path in dumps.glob("graph_*")} == {"graph_1", "graph_2"}


def test_operation_without_deterministic_form_is_named(job: ModelJob) -> None:
    text = """
class Put(torch.nn.Module):
    def forward(self, x):
        return x.clone().put_(torch.tensor([1, 1]), torch.ones(2)) * 2
"""
    assert job.import_from is not None
    (Path(job.import_from) / "net.py").write_text(NET + text, encoding="utf-8")
    given = with_options(job, inputs={"random": {"seed": 0, "tensors": [{"shape": [2, 4], "dtype": "float32"}]}})

    assert run_model(with_options(given, model="net:Put"))["not_deterministic"] == ["put_"]
    other = Path(job.output).parent / "other"
    other.mkdir()
    free = with_options(given, model="net:Put", is_deterministic=False, output=str(other))
    assert run_model(free)["not_deterministic"] == []


def _rows(run: Path) -> list[Any]:
    lines = (run / "comparison.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row.get("metrics")]


def test_ge_dump_is_set_up_with_torchair_and_run(
    job: ModelJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "torch_npu.py").write_text("", encoding="utf-8")
    (packages / "torchair.py").write_text(TORCHAIR, encoding="utf-8")
    monkeypatch.syspath_prepend(str(packages))
    inputs = {"random": {"seed": 0, "tensors": [{"shape": [2, 4], "dtype": "float32"}]}}
    dump = {"mode": "all", "steps": [0, 3], "layers": [], "fusion": "off"}

    record = run_model(with_options(job, kind="torchair_ge", inputs=inputs, dump=dump, device="cpu"))

    seen = json.loads((Path(job.output) / "msprobe_ge_dump" / "seen.json").read_text(encoding="utf-8"))
    assert seen["dump_config"]["enable_dump"] is True
    assert seen["dump_config"]["dump_step"] == "0|3"
    assert seen["fusion_config"]["fusion_switch_file"] == str(Path(job.output) / "fusion_switch.json")
    assert record["settings"]["debug.graph_dump.type"] == "txt"


def test_option_that_torchair_rejects_is_a_wrong_request(
    job: ModelJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "torch_npu.py").write_text("", encoding="utf-8")
    (packages / "torchair.py").write_text(TORCHAIR.replace("new_config", "old_config"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(packages))

    with pytest.raises(UsageError, match="PF6329"):
        run_model(with_options(job, kind="torchair_ge", dump={"layers": ["Add"]}, device="cpu"))


def test_device_package_that_does_not_load_is_said(
    job: ModelJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "torch_npu.py").write_text("raise ImportError('libhccl.so: cannot open')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(packages))

    with pytest.raises(UsageError, match=r"PF6328.*libhccl"):
        run_model(with_options(job, kind="torchair_ge", device="cpu"))
