"""Indices that an offline model gives (argmax, argmin, top k, sort), held against the operator's own input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from offline_builders import Case
from om_writer import tensor
from rule_builders import desc, op

ROWS, CLASSES = 6, 40


def out(origin: str, **given: object) -> dict[str, object]:
    return desc(origin, 0, origin_layout="ND", **given)  # type: ignore[arg-type]


def picked(op_type: str, x: np.ndarray) -> np.ndarray:
    if op_type == "TopKV2":
        return np.argsort(-x, axis=1, kind="stable")[:, :3].astype(np.int32)
    if op_type == "Sort":
        return np.argsort(x, axis=1, kind="stable").astype(np.int32)
    find = np.argmin if op_type == "ArgMin" else np.argmax
    return find(x, axis=1).astype(np.int32)


def model(folder: Path, op_type: str, spoil) -> Case:
    """Logits on a float16 device and the indices picked from them; ``spoil`` changes these."""
    case = Case(folder)
    golden = np.random.default_rng(3).normal(size=(ROWS, CLASSES)).astype(np.float32)
    golden[0, 7] = golden[0].max() + 4.0
    golden[1, :2] = 9.0, 9.0 + 1e-4  # a near tie, which float16 does not tell apart
    golden[2, 30] = golden[2].min() - 4.0
    device = golden.astype(np.float16)
    logits, right = tensor(device, dtype="float16"), picked(op_type, device.astype(np.float32))
    values = [tensor(np.take_along_axis(device, right, 1), dtype="float16")] if op_type == "Sort" else []
    case.device("MatMulV2", "fc", outputs=[logits])
    case.device(op_type, "pick", inputs=[logits], outputs=[*values, tensor(spoil(right), dtype="int32")])
    case.golden.output("fc", 0, golden)
    if values:
        case.golden.output("pick", 0, np.sort(golden, axis=1))
    case.golden.output("pick", len(values), picked(op_type, golden))
    outputs = [*(out("pick") for _ in values), desc("pick", len(values), origin_layout="ND", dtype="DT_INT32")]
    case.rule(
        op("fc", "MatMulV2", number=1, originals=["fc"], outputs=[out("fc")]),
        op("pick", op_type, number=2, inputs=["fc:0"], originals=["pick"], outputs=outputs),
    )
    return case


def compare(probe_flow, case: Case):
    sides = ("-tp", case.target.path, "-gp", case.golden.path, "-fr", case.path / "fr.json", "-o", case.path / "out")
    done = probe_flow("compare", *sides)
    record = case.path / "out/probe_flow/run.json"
    return done, json.loads(record.read_text()) if record.exists() else {}


def one_other(indices: np.ndarray) -> np.ndarray:
    wrong = indices.copy()
    wrong.flat[-1] = (wrong.flat[-1] + 5) % CLASSES
    return wrong


@pytest.mark.parametrize("rows_at_once", [1, 4, ROWS])
@pytest.mark.parametrize("op_type", ["ArgMaxV2", "ArgMaxD", "ArgMin", "TopKV2", "Sort"])
def test_an_index_of_another_value_is_named(probe_flow, tmp_path, monkeypatch, op_type, rows_at_once):
    monkeypatch.setattr("probe_flow.comparing.picks.SLAB_BYTES", rows_at_once * CLASSES * 8)
    done, record = compare(probe_flow, model(tmp_path, op_type, one_other))
    assert done.code == 1, done.out + done.err
    first = record["findings"][0]
    assert (first["kind"], first["node"]) == ("origin", "pick")
    assert "away from the one due" in first["evidence"]


@pytest.mark.parametrize("op_type", ["ArgMaxV2", "ArgMin", "TopKV2", "Sort"])
def test_near_ties_that_fall_the_other_way_pass(probe_flow, tmp_path, op_type):
    done, _ = compare(probe_flow, model(tmp_path, op_type, lambda indices: indices))
    assert done.code == 0, done.out + done.err


def test_an_index_out_of_range_is_named(probe_flow, tmp_path):
    done, record = compare(probe_flow, model(tmp_path, "ArgMaxV2", lambda indices: indices + 100))
    assert done.code == 1, done.out + done.err
    assert "out of range" in record["findings"][0]["evidence"]
