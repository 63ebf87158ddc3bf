"""Inputs of models that name them: by name or place, from files or drawn, and what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_framework import TOY, ToyRunner

from probe_flow.dumpers.base.declared_inputs import with_shapes
from probe_flow.dumpers.base.inputs import input_files, model_calls
from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumpers.base.runner import DeclaredInput
from probe_flow.errors import UsageError

X = DeclaredInput("x", "float32", ("N", 3))
IDS = DeclaredInput("ids", "int64", (2,))
MASK = DeclaredInput("mask", "bool", (4,), has_default=True)


class Declaring(ToyRunner):
    wanted: tuple[DeclaredInput, ...] = (X, IDS, MASK)

    def declared(self) -> tuple[DeclaredInput, ...]:
        return self.wanted


def call(inputs: dict[str, Any], *wanted: DeclaredInput, seed: int = 0) -> dict[str, Any]:
    runner = Declaring(ModelJob("toy", "net:build", inputs, "out", seed=seed), Path(TOY.folder))
    runner.wanted = wanted or runner.wanted
    ((args, kwargs),) = model_calls(inputs, 1, runner)
    assert args == ()
    return kwargs


def files(folder: Path) -> tuple[str, str]:
    np.save(folder / "x.npy", np.ones((4, 3), np.float32))
    (folder / "ids.bin").write_bytes(np.array([5, -6], "<i8").tobytes())
    return str(folder / "x.npy"), str(folder / "ids.bin")


def test_files_are_taken_in_the_models_order_or_by_name(tmp_path: Path) -> None:
    x, ids = files(tmp_path)

    for inputs in ({"files": [x, ids]}, {"named": {"ids": ids, "x": x}}, {"files": [x], "named": {"ids": ids}}):
        found = call(inputs)
        assert found["x"].shape == (4, 3)
        assert found["ids"].tolist() == [5, -6]
        assert input_files(inputs) == [Path(file) for file in ([x, ids] if "files" in inputs else [ids, x])]


def test_nothing_given_is_drawn_by_dtype_and_shape() -> None:
    fixed = with_shapes((X, IDS, DeclaredInput("flag", "bool", (100,)), MASK), {"x": (5, 3)})

    found, again = call({}, *fixed, seed=3), call({}, *fixed, seed=3)

    assert {name: str(value.dtype) for name, value in found.items()} == {"x": "float32", "ids": "int64", "flag": "bool"}
    assert found["x"].min() >= 0
    assert found["x"].max() < 1
    assert all(np.array_equal(found[name], again[name]) for name in found)
    assert not np.array_equal(found["x"], call({"random": {"seed": 4}}, *fixed)["x"])


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"y": np.ones(1)}, "the model has no input `y`"),
        ({"x": np.ones((2, 3))}, r"holds float64, and input `x` takes float32"),
        ({"x": np.ones((2, 4), np.float32)}, r"has the shape \(2, 4\), and input `x` takes \(N, 3\)"),
        ({"x": np.ones(3, np.float32)}, r"has the shape \(3\)"),
        ({}, "input `x` of the model is not given"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path: Path, named: dict[str, Any], message: str) -> None:
    for name, array in named.items():
        np.save(tmp_path / f"{name}.npy", array)
    inputs = {"named": {name: str(tmp_path / f"{name}.npy") for name in named}}

    with pytest.raises(UsageError, match=message) as found:
        call(inputs, X)
    assert found.value.diagnostic.code == "PF6323"


@pytest.mark.parametrize(
    ("size", "message", "cure"),
    [(15, "has 15 bytes", "their number has to fit"), (8, "takes 16", "half the bytes"), (0, "has 0 bytes", "fit")],
)
def test_raw_bytes_have_to_be_as_many(tmp_path: Path, size: int, message: str, cure: str) -> None:
    (tmp_path / "ids.bin").write_bytes(bytes(size))

    with pytest.raises(UsageError, match=message) as found:
        call({"files": [str(tmp_path / "ids.bin")]}, IDS)
    assert cure in (found.value.diagnostic.help or "")


def test_open_sizes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"leaves sizes open: `N`, one without name") as found:
        call({}, DeclaredInput("x", "float32", ("N", None, 3)))
    assert "input_shape: {x: [1, 1, 3]}" in (found.value.diagnostic.help or "")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": (1,)}, "has no input `y`"),
        ({"x": (1, 2, 3)}, r"the shape \(1, 2, 3\), and the model says \(N, 3\)"),
        ({"x": (1, 4)}, "the model says"),
    ],
)
def test_shapes_have_to_fit_the_model(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        with_shapes((X, IDS), shapes)


def test_too_many_inputs_are_refused(tmp_path: Path) -> None:
    x, ids = files(tmp_path)

    with pytest.raises(UsageError, match="there are 3 inputs, and the model takes 2"):
        call({"files": [x, ids, ids]}, X, IDS)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"`gone\.npy` cannot be read as input: .*No such file"):
        call({"files": [str(tmp_path / "gone.npy")]}, X)
