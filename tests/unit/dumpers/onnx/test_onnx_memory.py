"""A dump holds a segment of the model, not the model: measured in an interpreter of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from peak_memory import peak_bytes

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.frameworks

SETUP = """
from onnx import helper
from onnx_models import info, model
import numpy as np, onnx, onnxruntime
from probe_flow.dumpers.base.child import run_job
from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumpers.onnx.runner import OnnxRunner
"""
WORK = """
from pathlib import Path
names = ["x", *(f"t{number}" for number in range(80))]
nodes = [helper.make_node("Add", [one, "w"], [other]) for one, other in zip(names, names[1:])]
path = Path(sys.argv[1]) / "model.onnx"
onnx.save(model(nodes, [info("x", shape=[2048, 1024])], [names[-1]], {"w": np.ones((1, 1024), np.float32)}), path)
job = ModelJob("onnx", str(path), {}, sys.argv[1], threads=1)
record = run_job(job, OnnxRunner(job, Path(sys.argv[1]) / "onnx_dump"))
assert record["tensors"] == 81, record
"""


def test_80_tensors_of_8_mib_take_less_than_13_of_them(tmp_path: Path) -> None:
    assert peak_bytes(SETUP, WORK, tmp_path) < 100 << 20
