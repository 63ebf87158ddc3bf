"""Operators of ONNX models computed again: attributes and weights lie in the model, tensors in the dumps."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from ge_writer import field_bytes, field_varint

from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.recompute_worker import HIDDEN
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.matching.model_graph.match_model_graph import match_model_graph
from probe_flow.records import FindingKind
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

RANDOM = np.random.default_rng(24)
X = RANDOM.standard_normal((16, 24))
WEIGHT = RANDOM.standard_normal((24, 12)) / 5


def in_order(function, batches, **_):
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def text(number: int, value: str) -> bytes:
    return field_bytes(number, value.encode())


def node(op_type: str, inputs, output: str, **attributes: int) -> bytes:
    names = b"".join(text(1, each) for each in inputs) + text(2, output) + text(4, op_type)
    return names + b"".join(field_bytes(5, text(1, key) + field_varint(3, n % 2**64)) for key, n in attributes.items())


def model(weight: np.ndarray, axis: int) -> bytes:
    held = b"".join(field_varint(1, size) for size in weight.shape) + field_varint(2, 1) + text(8, "w")
    held += field_bytes(9, weight.astype(np.float32).tobytes())
    nodes = [node("MatMul", ["x", "w"], "m"), node("Softmax", ["m"], "s", axis=axis), node("Sub", ["s", "m"], "d")]
    graph = b"".join(field_bytes(1, each) for each in nodes) + field_bytes(5, held)
    return field_bytes(7, graph) + field_bytes(8, field_varint(2, 17))


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def side(folder: Path, dtype: str, *, product=1.0, share=1.0, weight=WEIGHT, axis=-1) -> Path:
    """Write what `dump.onnx` writes of ``softmax(x @ w) - x @ w``, some of which is off by a factor."""
    folder.mkdir(parents=True)
    content = model(weight, axis)
    path = folder.parent / f"{folder.name}.onnx"
    path.write_bytes(content)
    x = X.astype(dtype)
    m = (x.astype(float) @ weight.astype(np.float32).astype(float) * product).astype(dtype)
    s = (softmax(m.astype(float)) * share).astype(dtype)
    d = (s.astype(float) - m.astype(float)).astype(dtype)
    tensors = []
    for place, (name, value, values) in enumerate([("x", "x", x), ("mm", "m", m), ("sm", "s", s), ("sub", "d", d)]):
        file = f"{name}.0.{1_700_000_000_000_000 + place}.npy"
        np.save(folder / file, values)
        tensors.append({"file": file, "node": name, "slot": "output", "index": 0, "dtype": dtype,
                        "shape": values.shape, "value": value})  # fmt: skip
    nodes = [
        {"name": "x", "op_type": "Input", "outputs": ["x"]},
        {"name": "mm", "op_type": "MatMul", "inputs": ["x", "w"], "outputs": ["m"]},
        {"name": "sm", "op_type": "Softmax", "inputs": ["m"], "outputs": ["s"]},
        {"name": "sub", "op_type": "Sub", "inputs": ["s", "m"], "outputs": ["d"]},
    ]
    manifest = {
        "schema": "probe_flow/dump/1", "is_complete": True, "expected": 4, "written": 4, "nodes": nodes,
        "tensors": tensors,
        "model": {"name": path.name, "path": str(path), "sha256": hashlib.sha256(content).hexdigest()},
    }  # fmt: skip
    (folder / "dump_manifest.json").write_text(json.dumps(manifest))
    return folder


def compared(target: Path, golden: Path, how: str = "auto"):
    told: list[dict] = []

    def emit(event, **fields):
        if event == "compare.recomputed":
            told.append(fields)

    context = Context(
        stage="compare", output=target.parent, map=in_order, emit=emit, report=lambda _: None, settings=Settings(),
        facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    pairs = match_model_graph(read_npy_folder(target, side="target"), read_npy_folder(golden, side="golden"))
    found = compare_pairs(pairs, Asked(recompute=Recompute(how)), context, None)
    return [each for each in found.findings if each.kind is FindingKind.ORIGIN and each.fails], told


def names(findings) -> list[str]:
    return [each.node.name for each in findings]


def test_a_second_fault_is_found_by_the_attributes_of_the_model(tmp_path):
    golden = side(tmp_path / "golden", "float32")
    target = side(tmp_path / "target", "float16", product=1.4, share=1.2)
    assert names(compared(target, golden, "never")[0]) == ["mm"]
    findings, told = compared(target, golden)
    assert names(findings) == ["mm", "sm"]
    assert all("given its own inputs, the output is off by" in each.evidence for each in findings)
    assert (told[0]["calls"], told[0]["left"]) == (3, [])


def test_a_healthy_pair_is_computed_and_accused_of_nothing(tmp_path):
    findings, told = compared(side(tmp_path / "target", "float16"), side(tmp_path / "golden", "float32"), "all")
    assert names(findings) == []
    assert (told[0]["calls"], told[0]["left"]) == (3, [])


def test_a_product_with_other_weights_stays_named_though_it_is_right_with_them(tmp_path):
    spoilt = WEIGHT.copy()
    spoilt[:, 3] *= 2
    golden = side(tmp_path / "golden", "float32")
    findings, told = compared(side(tmp_path / "target", "float16", weight=spoilt), golden)
    assert names(findings) == ["mm"]
    assert ["mm", HIDDEN] in told[0]["left"]


def test_a_model_whose_attributes_are_not_what_ran_accuses_nobody(tmp_path):
    golden = side(tmp_path / "golden", "float32", axis=0)
    findings, _ = compared(side(tmp_path / "target", "float16", axis=0), golden, "all")
    assert names(findings) == []


@pytest.mark.parametrize(
    ("change", "why"), [("write", "was written again"), ("remove", "its attributes are not known")]
)
def test_a_model_that_changed_or_went_away_leaves_the_judgement(tmp_path, change, why):
    target = side(tmp_path / "target", "float16", product=1.4)
    if change == "write":
        (tmp_path / "target.onnx").write_bytes(model(WEIGHT * 2, -1))
    else:
        (tmp_path / "target.onnx").unlink()
    findings, _ = compared(target, side(tmp_path / "golden", "float32"))
    assert names(findings) == ["mm"]
    assert why in findings[0].evidence
