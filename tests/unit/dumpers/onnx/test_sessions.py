"""Products of uint8 by int8 are added up exactly, on processors too where ONNX Runtime alone would cut sums off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper  # noqa: E402
from onnx_models import info, model  # noqa: E402

from probe_flow.dumpers.base.child import run_job  # noqa: E402
from probe_flow.dumpers.base.job import ModelJob  # noqa: E402
from probe_flow.dumpers.onnx import sessions as module  # noqa: E402
from probe_flow.dumpers.onnx.runner import OnnxRunner  # noqa: E402
from probe_flow.dumpers.onnx.sessions import cuts_sums_off, exact_sums  # noqa: E402
from probe_flow.dumpers.registry import RUNNERS  # noqa: E402

pytestmark = pytest.mark.frameworks

X = np.full((2, 64), 255, np.uint8)
"""With weights of 127 each pair of products is 64,770, twice what 16 bits hold."""
W = np.full((64, 3), 127, np.int8)
QLINEAR = ["x", "s", "zx", "w", "s", "zw", "sy", "zy"]
SCALES = {"s": np.float32(1), "zx": np.uint8(0), "zw": np.int8(0), "sy": np.float32(20000), "zy": np.uint8(1)}


def one(op_type: str, inputs: list[str], weights: dict[str, Any], kind: int = TensorProto.UINT8, **more: Any) -> Any:
    node = helper.make_node(op_type, inputs, ["y"], name="product")
    return model([node], [info("x", kind, list(X.shape))], ["y"], weights, **more)


def dumped(made: Any, folder: Path, x: Any = X, **dump: Any) -> tuple[Any, dict[str, Any]]:
    onnx.save(made, folder / "m.onnx")
    np.save(folder / "x.npy", x)
    job = ModelJob("onnx", str(folder / "m.onnx"), {"files": [str(folder / "x.npy")]}, str(folder), dump=dump)
    record = run_job(job, OnnxRunner(job, folder / "onnx_dump"))
    (found,) = (folder / "onnx_dump").glob("product.0.*.npy")
    return np.load(found), record


def test_no_sum_is_cut_off(tmp_path: Path) -> None:
    found, record = dumped(one("QLinearMatMul", QLINEAR, {**SCALES, "w": W}), tmp_path)

    assert 64 * 255 * 127 == 2_072_640  # divided by 20,000: 103.6
    assert found.tolist() == [[105] * 3] * 2
    assert record["exact_sums"] == ["product"]


def test_zero_points_of_weights_count(tmp_path: Path) -> None:
    weights = {**SCALES, "zw": np.int8(-1), "w": np.full((64, 3), 126, np.int8)}

    assert dumped(one("QLinearMatMul", QLINEAR, weights), tmp_path)[0].tolist() == [[105] * 3] * 2


def test_weights_without_zero_point_get_one(tmp_path: Path) -> None:
    found, record = dumped(one("MatMulInteger", ["x", "w"], {"w": W}), tmp_path)

    assert found.tolist() == [[2_072_640] * 3] * 2
    assert record["exact_sums"] == ["product"]


def test_least_weight_keeps_its_value(tmp_path: Path) -> None:
    weights = {"w": np.full((64, 1), -128, np.int8), "zx": np.uint8(5)}

    assert dumped(one("MatMulInteger", ["x", "w", "zx"], weights), tmp_path)[0].tolist() == [[64 * 250 * -128]] * 2


def test_data_of_a_dynamic_scale_are_uint8() -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["y"]),
    ]
    made = model(nodes, [info("x", TensorProto.FLOAT, [2, 64])], ["y"], {"w": W})

    (changed,) = exact_sums(made, Path())

    assert list(changed.input) == ["q", "w__uint8", "z", "zero_point__uint8"]


def test_convolutions_with_a_zero_point_a_filter_are_exact(tmp_path: Path) -> None:
    weights = {
        **SCALES,
        "s2": np.ones(2, np.float32),
        "zw": np.zeros(2, np.int8),
        "w": np.full((2, 64, 1, 1), 127, np.int8),
    }
    x = np.full((1, 64, 1, 1), 255, np.uint8)
    names = ["x", "s", "zx", "w", "s2", "zw", "sy", "zy"]
    node = helper.make_node("QLinearConv", names, ["y"], name="product")
    made = model([node], [info("x", TensorProto.UINT8, list(x.shape))], ["y"], weights)

    assert dumped(made, tmp_path, x)[0].ravel().tolist() == [105, 105]


def test_products_of_other_types_stay_as_they_are() -> None:
    uint8 = {**SCALES, "zw": np.uint8(0), "w": np.ones((64, 3), np.uint8)}
    int8 = {**SCALES, "zx": np.int8(0), "zy": np.int8(0), "w": W}
    for made in (one("QLinearMatMul", QLINEAR, uint8), one("QLinearMatMul", QLINEAR, int8, TensorProto.INT8)):
        before = made.SerializeToString(deterministic=True)
        assert exact_sums(made, Path()) == []
        assert made.SerializeToString(deterministic=True) == before


def test_weights_that_two_operators_read_are_raised_once() -> None:
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], [name]) for name in ("a", "b")]
    made = model(nodes, [info("x", TensorProto.UINT8, [2, 64])], ["a", "b"], {"w": W})

    assert len(exact_sums(made, Path())) == 2
    assert [each.name for each in made.graph.initializer] == ["w", "w__uint8", "zero_point__uint8"]


def test_weights_in_another_file_are_read_there(tmp_path: Path) -> None:
    made = one("MatMulInteger", ["x", "w"], {"w": np.full((64, 64), 127, np.int8)})
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    np.save(tmp_path / "x.npy", X)
    job = ModelJob("onnx", str(tmp_path / "m.onnx"), {"files": [str(tmp_path / "x.npy")]}, str(tmp_path))

    run_job(job, OnnxRunner(job, tmp_path / "onnx_dump"))

    (found,) = (tmp_path / "onnx_dump").glob("product.0.*.npy")
    assert np.unique(np.load(found)).tolist() == [2_072_640]


@pytest.mark.parametrize(
    ("flags", "machine", "expected"),
    [
        (b"flags : avx2 fma\n", "x86_64", True),
        (b"flags : avx2 avx_vnni\n", "x86_64", False),
        (b"flags : avx512f avx512_vnni\n", "x86_64", False),
        (b"Features : asimd\n", "aarch64", False),
    ],
)
def test_processors_that_cut_sums_off_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: bytes, machine: str, *, expected: bool
) -> None:
    (tmp_path / "cpuinfo").write_bytes(flags)
    monkeypatch.setattr(module, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(module.platform, "machine", lambda: machine)

    assert cuts_sums_off() is expected
    record = {"exact_sums": ["product"], "cuts_sums": cuts_sums_off()}
    assert [note.code for note in RUNNERS["onnx"].remarks(record)] == (["PF6347"] if expected else [])
