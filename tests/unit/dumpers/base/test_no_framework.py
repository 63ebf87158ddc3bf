"""What every run of a model has once knows no framework: its text names none, and a run of another loads none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from toy_framework import TOY

import probe_flow
from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumpers.base.process import run_model

PACKAGE = Path(probe_flow.__file__).parent
SHARED = [*sorted((PACKAGE / "dumpers" / "base").glob("*.py")), PACKAGE / "stages" / "dump" / "model_run.py"]
NAMES = re.compile(
    r"torch|tensorflow|onnx|mindspore|caffe|paddle|jax|ascend|aten|cuda|cublas|dynamo|(?<![a-z])(fx|ge|npu|tf)(?![a-z=])",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.name)
def test_no_framework_is_named(path: Path) -> None:
    found = [line for line in path.read_text(encoding="utf-8").splitlines() if NAMES.search(line)]
    assert not found


@pytest.mark.parametrize("name", ["torchair_fx", "GE_FOLDER", "import torch", "CUBLAS_WORKSPACE_CONFIG", "onnxruntime"])
def test_names_of_frameworks_are_found(name: str) -> None:
    assert NAMES.search(name)


def test_a_run_loads_its_own_framework_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages, output = tmp_path / "packages", tmp_path / "out"
    packages.mkdir()
    output.mkdir()
    for name in ("torch", "torch_npu", "mindspore", "onnxruntime", "tensorflow"):
        (packages / f"{name}.py").write_text(f"raise ImportError('{name} was loaded')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(packages))
    (tmp_path / "net.py").write_text("from toy_framework import Net, scaled\nmodel = Net(scaled('a', 2.0))", "utf-8")
    inputs = {"random": {"seed": 0, "tensors": [{"shape": [2], "dtype": "float32"}]}}

    record = run_model(ModelJob("toy", "net:model", inputs, str(output), import_from=str(tmp_path)), TOY)

    assert record["ok"] is True
    assert record["versions"].keys() == {"numpy"}
