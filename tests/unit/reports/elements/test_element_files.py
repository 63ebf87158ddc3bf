"""Element-wise views: their files as the comparison of offline models writes them, and the lists of the worst."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef
from probe_flow.reports.elements.element_files import element_files
from probe_flow.reports.elements.element_scan import scan
from probe_flow.reports.elements.element_view import ElementView, elements_of, plain_prefix

KEY = NodeKey(Execution(), "block/conv1.a")


def ref(folder: Path, name: str, values: np.ndarray, **more) -> TensorRef:
    file = folder / name
    file.write_bytes(values.tobytes())
    facts = {"dtype": str(values.dtype), "shape": values.shape, "logical_shape": values.shape, **more}
    return TensorRef.of(
        KEY, Slot(SlotRole.OUTPUT, (0,)), TensorKind.TENSOR, extents=(Extent(str(file), 0, values.nbytes),), **facts
    )


def view(folder: Path, target: np.ndarray, golden: np.ndarray, **more) -> ElementView:
    sides = ref(folder, "t.bin", target), ref(folder, "g.bin", golden)
    return ElementView(more.pop("prefix", "op_output_0"), *sides, more.pop("golden_names", ("flatten", "fc")), **more)


def written(folder: Path, *views: ElementView) -> dict[str, Path]:
    out = folder / "out"
    paths = {}
    for file in element_files(views):
        file.write(out / file.name)
        paths[file.name] = out / file.name
    return paths


TARGET = np.array([[4.0, 0.0, -2.5], [1.0, math.inf, 7.0]], np.float16)
GOLDEN = np.array([[4.5, 0.0, -2.0], [0.0, 1.0, 7.0]], np.float32)


def test_the_files_of_a_small_tensor(tmp_path):
    paths = written(tmp_path, view(tmp_path, TARGET, GOLDEN, top=2))
    assert {name: path.read_text() for name, path in paths.items() if not name.endswith(".npy")} == {
        "op_output_0_0.csv": (
            "Index,N C H W,NPUDump,GroundTruth,AbsoluteError,RelativeError\n"
            "0,0 0 0 0,4.000000\t,4.500000\t,0.500000\t,0.111111\t\n"
            "1,0 1 0 0,0.000000\t,0.000000\t,0.000000\t,-\n"
            "2,0 2 0 0,-2.500000\t,-2.000000\t,0.500000\t,0.250000\t\n"
            "3,1 0 0 0,1.000000\t,0.000000\t,1.000000\t,-\n"
            "4,1 1 0 0,inf\t,1.000000\t,inf\t,-\n"
            "5,1 2 0 0,7.000000\t,7.000000\t,0.000000\t,0.000000\t\n"
        ),
        "op_output_0_absolute_error_topn.csv": (
            "Index,N C H W,NPUDump,GroundTruth,AbsoluteError,RelativeError\n"
            "3,1 0 0 0,1.000000\t,0.000000\t,1.000000\t,-\n"
            "2,0 2 0 0,-2.500000\t,-2.000000\t,0.500000\t,0.250000\t\n"
        ),
        "op_output_0_relative_error_topn.csv": (
            "Index,N C H W,NPUDump,GroundTruth,AbsoluteError,RelativeError\n"
            "2,0 2 0 0,-2.500000\t,-2.000000\t,0.500000\t,0.250000\t\n"
            "0,0 0 0 0,4.000000\t,4.500000\t,0.500000\t,0.111111\t\n"
        ),
        "op_output_0_summary.txt": (
            "TotalCount:6\nNPUDump:block/conv1.a\nGroundTruth:flatten fc\nFormat:N C H W\n"
            "MinAbsoluteError:0.000000\nMaxAbsoluteError:1.000000\nMinRelativeError:0.000000\n"
            "MaxRelativeError:0.250000\n"
        ),
    }
    stored = np.load(paths["op_output_0.npy"])
    assert (stored.dtype, stored.shape) == (np.float16, (2, 3))
    np.testing.assert_array_equal(stored, TARGET)


def test_tables_have_so_many_lines_and_are_called_by_their_first_index(tmp_path):
    golden = np.arange(25_000, dtype=np.float32).reshape(5, 5, 10, 100)
    paths = written(tmp_path, view(tmp_path, golden + 1, golden, lines=10_000))
    tables = {name: path.read_text().splitlines() for name, path in paths.items() if name[12:-4].isdigit()}
    assert {name: len(lines) for name, lines in tables.items()} == {
        "op_output_0_0.csv": 10_001, "op_output_0_10000.csv": 10_001, "op_output_0_20000.csv": 5_001,
    }  # fmt: skip
    assert tables["op_output_0_10000.csv"][1].startswith("10000,2 0 0 0,10001.000000\t,10000.000000")
    assert tables["op_output_0_20000.csv"][-1].startswith("24999,4 4 9 99,")


def test_tables_can_be_left_out(tmp_path):
    names = list(written(tmp_path, view(tmp_path, TARGET, GOLDEN, has_tables=False)))
    assert names == [
        "op_output_0.npy", "op_output_0_absolute_error_topn.csv", "op_output_0_relative_error_topn.csv",
        "op_output_0_summary.txt",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "axes", "last"),
    [((), "N C H W", "0 0 0 0"), ((6,), "N C H W", "5 0 0 0"), ((1, 2, 3), "N C H W", "0 1 2 0"),
     ((1, 1, 1, 2, 3), "N C D H W", "0 0 0 1 2"),
     ((1, 1, 1, 1, 2, 3), "axis0 axis1 axis2 axis3 axis4 axis5", "0 0 0 0 1 2")],
)  # fmt: skip
def test_places_count_along_the_logical_shape(tmp_path, shape, axes, last):
    values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    paths = written(tmp_path, view(tmp_path, values, values))
    lines = paths["op_output_0_0.csv"].read_text().splitlines()
    assert lines[0].split(",")[1] == axes
    assert lines[-1].split(",")[1] == last


def test_a_private_layout_is_shown_in_logical_order(tmp_path):
    logical = np.arange(3 * 2 * 2, dtype=np.float16).reshape(1, 3, 2, 2)
    stored = np.zeros((1, 1, 2, 2, 16), np.float16)
    stored[0, 0, :, :, :3] = logical[0].transpose(1, 2, 0)
    target = ref(tmp_path, "t.bin", stored, logical_shape=(1, 3, 2, 2), layout="NC1HWC0")
    golden = ref(tmp_path, "g.bin", logical)
    paths = written(tmp_path, ElementView("x", target, golden, ("x",)))
    np.testing.assert_array_equal(np.load(paths["x.npy"]), logical)
    assert "MaxAbsoluteError:0.000000" in paths["x_summary.txt"].read_text()


def test_types_that_arrays_cannot_name_are_widened(tmp_path):
    values = np.array([1.5, -3.0], ml_dtypes.bfloat16)
    target = ref(tmp_path, "t.bin", values, dtype="bfloat16")
    paths = written(tmp_path, ElementView("x", target, ref(tmp_path, "g.bin", values.astype(np.float32)), ("x",)))
    stored = np.load(paths["x.npy"])
    assert stored.dtype == np.float32
    assert stored.tolist() == [1.5, -3.0]


def test_names_of_files_are_safe_and_short(tmp_path):
    hostile = TensorRef.of(NodeKey(Execution(), "../a b/\x00ü"), Slot(SlotRole.INPUT, (1,)), TensorKind.TENSOR)
    assert plain_prefix(hostile) == ".._a_b____input_1"
    again = TensorRef.of(NodeKey(Execution(), "a", call=2), Slot(SlotRole.OUTPUT, (0,)), TensorKind.TENSOR)
    assert plain_prefix(again) == "a_call_2_output_0"
    long = "a" * 260 + "_output_0"
    paths = written(tmp_path, view(tmp_path, TARGET, GOLDEN, prefix=long))
    (row,) = csv.reader(paths["simple_op_mapping.csv"].read_text().splitlines())
    assert row[1] == long
    assert f"{row[0]}_summary.txt" in paths
    assert all(len(name) < 100 for name in paths)


@pytest.mark.parametrize("top", [1, 5, 20, 10_000])
def test_the_worst_over_several_blocks(tmp_path, top):
    rng = np.random.default_rng(2)
    golden = rng.integers(-3, 4, 150_001).astype(np.float32)
    target = golden + rng.choice([0, 0.25, 0.5, -0.5], golden.size).astype(np.float32)
    target[[7, 70_000]] = np.nan, np.inf
    found = scan(elements_of(view(tmp_path, target, golden)), top)
    with np.errstate(all="ignore"):
        absolute = np.abs(target.astype(np.float64) - golden)
        errors = {"absolute": absolute, "relative": absolute / np.abs(golden)}
    for name, values in errors.items():
        ranks = np.where(np.isfinite(values), values, 0)
        expected = sorted(range(golden.size), key=lambda n, r=ranks: (r[n], n), reverse=True)[:top]
        assert getattr(found, name)["index"].tolist() == expected
    finite = errors["relative"][np.isfinite(errors["relative"])]
    assert found.extremes == (0.0, 0.5, finite.min(), finite.max())


def test_no_finite_error_has_no_extremes(tmp_path):
    nothing = np.array([np.nan], np.float32)
    paths = written(tmp_path, view(tmp_path, nothing, nothing))
    assert "MaxAbsoluteError:nan" in paths["op_output_0_summary.txt"].read_text()


def test_options_load_without_numpy():
    code = "import sys, probe_flow.stages.report.report_detail; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
