"""All models inside the onnx and onnxruntime wheels are dumped, or refused with the reason that ONNX Runtime has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumpers.base.child import run_job
from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumps.manifest import read_manifest
from probe_flow.errors import ProbeFlowError

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from onnx import numpy_helper  # noqa: E402
from onnx_models import asked_directly  # noqa: E402

from probe_flow.dumpers.onnx import runner  # noqa: E402
from probe_flow.dumpers.onnx.codes import SUFFIX  # noqa: E402

OnnxRunner = runner.OnnxRunner
pytestmark = pytest.mark.frameworks

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
MODELS = sorted(DATA.rglob("*.onnx"))
RUNTIMES = sorted((Path(ort.__file__).parent / "datasets").glob("*.onnx"))
REASONS = (
    "has no CPU kernel of it",
    "Failed to construct locale",
    "onnxruntime does not know",
    "cannot be given",
    "nothing was dumped",
    "leaves sizes open",
)


def test_the_wheels_hold_models() -> None:
    assert len(MODELS) > 100
    assert len(RUNTIMES) >= 3


def job_of(path: Path, output: Path) -> ModelJob:
    """Return the job of a model with the inputs that the wheel has for it, drawn ones where it has none."""
    files = sorted(path.parent.glob("test_data_set_0/input_*.pb"), key=lambda each: int(each.stem.split("_")[1]))
    inputs = {"files": [str(file) for file in files]} if files else {}
    return ModelJob("onnx", str(path), inputs, str(output), threads=1)


def run(job: ModelJob) -> tuple[dict[str, Any] | None, str]:
    """Return the record of a run, or the words of its refusal."""
    try:
        return run_job(job, OnnxRunner(job, Path(job.output) / "onnx_dump")), ""
    except ProbeFlowError as error:
        return None, error.diagnostic.message


@pytest.mark.parametrize(
    "path", [*MODELS, *RUNTIMES], ids=lambda path: path.parent.name if path.stem == "model" else path.stem
)
def test_model_of_a_wheel(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SEGMENT_OPERATORS", 2)
    job = job_of(path, tmp_path)
    record, refusal = run(job)
    if record is None:
        assert any(reason in refusal for reason in REASONS), refusal
        return

    manifest = read_manifest(tmp_path / "onnx_dump")
    assert manifest is not None
    assert manifest.is_complete
    files = [Path(file) for file in job.inputs.get("files", ())]
    model = onnx.load(path)
    weights = {each.name for each in model.graph.initializer}
    names = [each.name for each in model.graph.input if each.name not in weights]
    if files:
        feeds = dict(zip(names, (_array(file) for file in files), strict=False))
    else:
        feeds = {each["name"]: np.load(tmp_path / "input" / "0" / each["file"]) for each in record["inputs"][0]}
    expected = asked_directly(model, feeds)
    found = [each for each in manifest.tensors if each.op_type != "Input" and not each.value.endswith(SUFFIX)]
    assert found or manifest.skipped
    for each in found:
        array, wanted = np.load(tmp_path / "onnx_dump" / each.file), expected[each.value]
        wanted = wanted if each.item is None else wanted[each.item]
        assert (array.dtype, array.shape, array.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes()), each


def _array(file: Path) -> Any:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(file.read_bytes())
    return numpy_helper.to_array(tensor)


def test_most_of_them_run(tmp_path: Path) -> None:
    """A refusal is the exception: without this, all of the above would pass if everything was refused."""
    chosen = MODELS[::8]
    for number in range(len(chosen)):
        (tmp_path / str(number)).mkdir()

    ran = [run(job_of(path, tmp_path / str(number)))[0] is not None for number, path in enumerate(chosen)]

    assert sum(ran) >= len(chosen) * 0.6
