"""`dump.onnx`: its options, what a plan says without the framework, and that arrays are adopted without it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from probe_flow.dumpers.arrays.array_folder import ArrayFolder, ArrayOptions
from probe_flow.records import Catalog
from probe_flow.stages.dump import dump_onnx
from probe_flow.work import Context, Settings


def options(**given: Any) -> dump_onnx.Options:
    return dump_onnx.Options(**{"uses": "dump.onnx", **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "path\n  Field required"),
        ({"path": "d", "model": "m.onnx"}, "give either `path`"),
        ({"path": "d", "optimizations": "all"}, "only a stage that runs a `model` takes it"),
        ({"path": "d", "input_shape": {"x": [1]}}, "only a stage that runs a `model` takes it"),
        ({"model": "m.onnx", "inputs": {}}, "give one of `files`, `named` and `random`"),
        ({"model": "m.onnx", "inputs": {"files": ["x"], "random": {}}}, "give one of"),
        ({"model": "m.onnx", "calls": 2}, "calls"),
        ({"model": "m.onnx", "input_shape": {"x": [-1]}}, "greater than or equal to 0"),
        ({"model": "m.onnx", "optimizations": "some"}, "optimizations"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        options(**given)


def test_options_reach_the_runner() -> None:
    given = options(
        model="m.onnx",
        input_shape={"x": [1, 3]},
        filter={"types": ["Conv"]},
        data="both",
        optimizations="basic",
        custom_ops_library=["ops.so"],
    )

    assert given.dump == {
        "types": ["Conv"],
        "data": "both",
        "max_tensor_bytes": None,
        "input_shape": {"x": [1, 3]},
        "optimizations": "basic",
        "custom_ops_library": ["ops.so"],
        "precision": None,
    }


def test_plan_names_the_extra_where_the_framework_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    forecast = dump_onnx.STAGE.foresee(options(model="m.onnx"))

    assert forecast is not None
    assert "imports and runs `m.onnx` once in a child process" in forecast.does
    (problem,) = forecast.problems
    assert problem.code == "PF6320"
    assert "probe-flow[onnx]" in (problem.help or "")


def test_arrays_are_adopted_without_the_framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    folder = ArrayFolder(tmp_path / "dump", ArrayOptions())
    folder.write("/conv", "Conv", 0, np.ones(2))
    folder.finish({})
    context = Context("golden", tmp_path, lambda *_, **__: iter(()), lambda *_, **__: None, print, Settings(), {})

    catalog = dump_onnx.STAGE.run(options(path=str(folder.folder)), {}, context)

    assert isinstance(catalog, Catalog)
    assert [(key.name, node.op_type) for key, node in catalog.nodes.items()] == [("/conv", "Conv")]


@pytest.mark.parametrize("more", [{"optimizations": "basic"}, {"custom_ops_library": ["ops.so"]}])
def test_float64_is_computed_one_by_one(more: dict[str, Any]) -> None:
    assert options(model="m.onnx", precision="float64").dump["precision"] == "float64"
    with pytest.raises(ValidationError, match="in float64"):
        options(model="m.onnx", precision="float64", **more)


def test_float64_needs_a_model() -> None:
    with pytest.raises(ValidationError, match="only a stage that runs a `model` takes it"):
        options(path="dump", precision="float64")
