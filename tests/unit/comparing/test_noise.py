"""The noise floor of repeated dumps: which tensors, which figures, and a repeat that is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from raw_pairs import context

from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import Catalog, FindingKind
from probe_flow.stages.compare import Options

RIGHT = np.linspace(1.0, 2.0, 500, dtype=np.float32)


def fx(folder: Path, **arrays: np.ndarray) -> Path:
    """A dump with one node per array, that has only an output."""
    place = folder / "worldsize1_global_rank0" / "graph_1" / "0"
    place.mkdir(parents=True)
    for number, (name, values) in enumerate(arrays.items()):
        np.save(place / f"{name}-aten.{name}.default.OUTPUT.0.2026010100000000{number:04d}.npy", values)
    return folder


def program(folder: Path, task: str, **arrays: np.ndarray) -> Path:
    """A dump.json with one call of an API per array, that has only a result."""
    tensors = folder / "dump_tensor_data"
    tensors.mkdir(parents=True)
    data = {}
    for name, values in arrays.items():
        entry = f"Torch.{name}.0.forward"
        facts = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(values.shape), "requires_grad": False}
        facts |= {"Max": float(values.max()), "Min": float(values.min()), "Mean": float(values.mean())}
        facts |= {"Norm": float(np.linalg.norm(values))}
        if task == "tensor":
            facts["data_name"] = f"{entry}.output.0.npy"
            np.save(tensors / facts["data_name"], values)
        data[entry] = {"input_args": [], "input_kwargs": {}, "output": [facts]}
    head = {"task": task, "level": "L1", "framework": "pytorch"}
    head["dump_data_dir"] = str(tensors) if task == "tensor" else None
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    return folder


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_dumps_of_programs_have_the_same_floor(tmp_path, task):
    noisy = RIGHT * np.float32(1.01)
    found, _ = compare(
        program(tmp_path / "t", task, add=RIGHT, rand=noisy),
        program(tmp_path / "g", task, add=RIGHT, rand=RIGHT),
        program(tmp_path / "r2", task, add=RIGHT, rand=RIGHT * np.float32(1.02)),
        read=read_dump_json,
    )
    noise = {row.pair.shown.node.name: row.measurement.metrics["noise_error"] for row in found.rows}
    assert noise["Torch.add"] == 0.0
    assert noise["Torch.rand"] == pytest.approx(0.02, rel=0.05)
    kinds = [(finding.kind, finding.node.name) for finding in found.findings]
    assert kinds == [(FindingKind.NOT_DETERMINISTIC, "Torch.rand")]
    assert found.gate_passed


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_program_that_is_off_by_more_than_its_runs_differ_fails(tmp_path, task):
    found, _ = compare(
        program(tmp_path / "t", task, rand=RIGHT * np.float32(1.3)),
        program(tmp_path / "g", task, rand=RIGHT),
        program(tmp_path / "r2", task, rand=RIGHT * np.float32(1.02)),
        read=read_dump_json,
    )
    assert not found.gate_passed


def compare(
    target: Path, golden: Path, *repeats: Path, side: str = "golden", read: Callable[..., Catalog] = read_torchair_fx
):
    sides = {name: read(path, side=name) for name, path in (("target", target), ("golden", golden))}
    pairs = match_name(**{**sides, side: sides[side].with_repeats(repeats)})
    reported: list = []
    run = replace(context(), report=reported.extend)
    return compare_pairs(pairs, Options.model_validate({"uses": "compare", "pairs": "p"}).asked(), run, None), reported


@pytest.mark.parametrize("side", ["target", "golden"])
def test_the_difference_between_runs_is_the_noise_of_each_tensor(tmp_path, side):
    noisy = RIGHT * np.float32(1.01)
    found, _ = compare(
        fx(tmp_path / "t", add=RIGHT, rand=noisy),
        fx(tmp_path / "g", add=RIGHT, rand=RIGHT),
        fx(tmp_path / "r2", add=RIGHT, rand=RIGHT * np.float32(1.02)),
        fx(tmp_path / "r3", add=RIGHT, rand=RIGHT),
        side=side,
    )
    noise = {row.pair.shown.node.name: row.measurement.metrics["noise_error"] for row in found.rows}

    assert noise["add"] == 0.0
    assert noise["rand"] == pytest.approx(0.02 if side == "golden" else 0.01, rel=0.02)
    assert [(finding.kind, finding.node.name) for finding in found.findings] == [
        (FindingKind.NOT_DETERMINISTIC, "rand")
    ]
    assert found.gate_passed


def test_a_difference_beyond_the_noise_fails(tmp_path):
    found, _ = compare(
        fx(tmp_path / "t", rand=RIGHT * np.float32(1.3)),
        fx(tmp_path / "g", rand=RIGHT),
        fx(tmp_path / "r2", rand=RIGHT * np.float32(1.02)),
    )
    assert {finding.kind for finding in found.findings} >= {FindingKind.NOT_DETERMINISTIC}
    assert not found.gate_passed


def test_without_repeats_nothing_is_known_of_noise(tmp_path):
    found, _ = compare(fx(tmp_path / "t", add=RIGHT), fx(tmp_path / "g", add=RIGHT))
    assert "noise_error" not in found.rows[0].measurement.metrics


def test_a_tensor_that_another_run_lacks_or_has_in_another_shape_has_no_noise(tmp_path):
    found, _ = compare(
        fx(tmp_path / "t", add=RIGHT, mul=RIGHT, sub=RIGHT),
        fx(tmp_path / "g", add=RIGHT, mul=RIGHT, sub=RIGHT),
        fx(tmp_path / "r2", add=RIGHT, mul=RIGHT[:7]),
    )
    noise = {row.pair.shown.node.name: row.measurement.metrics.get("noise_error") for row in found.rows}
    assert noise == {"add": 0.0, "mul": None, "sub": None}


def test_a_repeat_that_is_gone_is_a_warning_and_costs_only_the_noise(tmp_path):
    found, reported = compare(fx(tmp_path / "t", add=RIGHT), fx(tmp_path / "g", add=RIGHT), tmp_path / "gone")
    assert [problem.code for problem in reported] == ["PF5132"]
    assert reported[0].path == str(tmp_path / "gone")
    assert found.rows[0].verdict.status.value == "pass"
    assert found.incomplete == ()
