"""Reduced TorchAir dumps: names, what the files say, what the graph adds, and files that are wrong."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from torchair_builders import (
    FIRST_US,
    GeDump,
    Op,
    X,
    Y,
    Z,
    fx_token,
    mul_add_relu,
    write_device_op,
    write_fx_node,
    write_mul_add_relu,
)

from probe_flow.dumps.file_names import parse_fx_name, stem_of
from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedDevice, ReducedTensor
from probe_flow.dumps.reduced.reduced_tensors import statistics_of, task_of
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.records import Catalog, Statistics, TensorKind, TensorRef

S = TensorKind.STATISTICS
MUL = f"Mul.Mul.10.7.{FIRST_US}"
FULL = ("min", "max", "mean", "l2norm", "count", "nan_count", "inf_count", "crc32")


def script(folder: Path, name: str, inputs, outputs, suffix="_min_max") -> Path:
    """Write a device file as the first scripts reduced it: rows [min, max], nothing else."""
    path = folder / f"{name}{suffix}.npz"
    rows = [np.array([[np.min(item), np.max(item)] for item in side]) for side in (inputs, outputs)]
    np.savez(path, inputs=rows[0], outputs=rows[1])
    return path


def array(folder: Path, name: str, values, suffix="_min_max") -> Path:
    path = folder / f"{name}{suffix}.npy"
    np.save(path, np.array([np.min(values), np.max(values)]))
    return path


def ge(root: Path) -> Catalog:
    return read_torchair_ge(root, side="target")


def fx(root: Path) -> Catalog:
    return read_torchair_fx(root, side="golden")


def codes(catalog: Catalog) -> dict[str, int]:
    return dict(Counter(problem.code for problem in catalog.problems))


def by_id(catalog: Catalog) -> dict[str, TensorRef]:
    return {ref.id: ref for ref in catalog.tensors}


@pytest.fixture
def device(tmp_path) -> GeDump:
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph(mul_add_relu())
    return dump


class TestNames:
    @pytest.mark.parametrize(
        ("name", "stem"),
        [
            ("Add.Add_2.44.6.1706596912161941_min_max.npz", "Add.Add_2.44.6.1706596912161941"),
            ("Add.Add_2.44.6.1706596912161941_stats.npz", "Add.Add_2.44.6.1706596912161941"),
            ("Add.Add_2.44.6.1706596912161941-all-8.npz", "Add.Add_2.44.6.1706596912161941"),
            ("Relu.r.1.2.1767225600000000.0.7.0.0_min_max.npz", "Relu.r.1.2.1767225600000000.0.7.0.0"),
            ("add-aten.add.Tensor.OUTPUT.0.20260101000000000002_min_max.npy",
             "add-aten.add.Tensor.OUTPUT.0.20260101000000000002.npy"),
            ("1122334455_min_max.npz", "1122334455"), ("1122334455_min_max.npy", "1122334455.npy"),
            ("Add.Add_2.44.6.1706596912161941.npz", None), ("_min_max.npz", None), ("weights.npz", None),
            ("Add.Add_2.44.6.1706596912161941_min_max.txt", None),
        ],
    )  # fmt: skip
    def test_the_name_of_the_dumped_file_is_what_stands_before_the_suffix(self, name, stem):
        assert stem_of(name) == stem

    def test_an_array_may_have_any_suffix(self):
        name = parse_fx_name("cat-aten.cat.default.INPUT.0.10.20251017071211190258_stats.npy")
        assert (str(name.slot), name.is_reduced, name.timestamp) == ("input.0.10", True, 20251017071211190258)
        assert parse_fx_name("cat-aten.cat.default.INPUT.0.10.20251017071211190258.npy").is_reduced is False


class TestDeviceFiles:
    def test_a_file_of_the_first_scripts_has_its_dtype_and_shape_from_the_graph(self, device):
        path = script(device.token(0), MUL, [X, Y], [X * Y])
        catalog = ge(device.root)
        assert catalog.task == "statistics"
        assert catalog.problems == ()
        found = by_id(catalog)
        assert list(found) == ["Mul.input.0", "Mul.input.1", "Mul.output.0"]
        for ref, low, high in zip(found.values(), (0.0, 10.0, 0.0), (5.0, 15.0, 75.0), strict=True):
            assert (ref.kind, ref.dtype, ref.stored_dtype, ref.logical_shape) == (S, "float32", "DT_FLOAT", (2, 3))
            assert ref.recorded == Statistics(min=low, max=high)
            assert (ref.extents, ref.checksum, ref.source) == ((), None, str(path))

    def test_without_a_graph_dtype_and_shape_stay_unknown(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        script(dump.token(0), MUL, [X], [X])
        ref = ge(dump.root).tensors[0]
        assert (ref.kind, ref.dtype, ref.shape, ref.numel) == (S, "", None, None)

    def test_what_the_file_says_comes_before_the_graph(self, device):
        tensor = ReducedTensor((0.0, 5.0, 2.5, 7.4, 6.0, 0.0, 1.0, float(0x00ABCDEF)), "bfloat16", (6,))
        content = ReducedDevice(FULL, (), (tensor,), "Mul", "Mul", FIRST_US)
        (device.token(0) / f"{MUL}_all.npz").write_bytes(content.to_bytes())
        ref = by_id(ge(device.root))["Mul.output.0"]
        assert ref.recorded == Statistics(min=0.0, max=5.0, mean=2.5, l2norm=7.4, nan=0, inf=1)
        assert (ref.dtype, ref.logical_shape, ref.checksum) == ("bfloat16", (6,), "00abcdef")
        assert ref.facts.hashed_as == "float32"

    def test_checksums_alone_make_an_md5_dump(self, device):
        content = ReducedDevice(("crc32",), (), (ReducedTensor((1.0,), "float16", (2, 3)),))
        (device.token(0) / f"{MUL}_crc.npz").write_bytes(content.to_bytes())
        catalog = ge(device.root)
        assert (catalog.task, catalog.tensors[0].checksum) == ("md5", "00000001")
        assert catalog.tensors[0].facts.hashed_as is None

    def test_a_recorded_count_stands_in_for_an_unknown_shape(self, tmp_path):
        dump = GeDump(tmp_path / "msprobe_ge_dump")
        content = ReducedDevice(("min", "max", "count"), (), (ReducedTensor((0.0, 1.0, 12.0)),))
        (dump.token(0) / f"{MUL}_min_max.npz").write_bytes(content.to_bytes())
        ref = ge(dump.root).tensors[0]
        assert (ref.numel, ref.facts.count) == (None, 12)

    def test_a_graph_shape_that_contradicts_the_recorded_count_is_not_taken(self, device):
        content = ReducedDevice(("min", "max", "count"), (), (ReducedTensor((0.0, 1.0, 12.0)),))
        (device.token(0) / f"{MUL}_min_max.npz").write_bytes(content.to_bytes())
        assert by_id(ge(device.root))["Mul.output.0"].logical_shape is None

    def test_elements_that_nobody_can_decode_are_opaque(self, device):
        tensors = (ReducedTensor((math.nan, math.nan), "string", (2,)), ReducedTensor((0.0, 1.0), "float32", (2,)))
        (device.token(0) / f"{MUL}_min_max.npz").write_bytes(
            ReducedDevice(("min", "max"), tensors[:1], tensors[1:]).to_bytes()
        )
        refs = ge(device.root).tensors
        assert [ref.kind for ref in refs] == [TensorKind.OPAQUE, S]
        assert "string" in refs[0].reason

    def test_a_fused_operator_has_the_shapes_of_what_enters_and_leaves_it(self, device):
        name = f"AutomaticBufferFusionOp.MulAddRelu.11.7.{FIRST_US + 1}"
        script(device.token(0), name, [X, Y, Z], [X])
        refs = ge(device.root).tensors
        assert [(ref.slot.index, ref.dtype, ref.logical_shape) for ref in refs] == [
            ("0", "float32", (2, 3)), ("1", "float32", (2, 3)), ("2", "float32", (2, 3)), ("0", "float32", (2, 3)),
        ]  # fmt: skip

    def test_hashed_names_are_resolved(self, device):
        folder = device.token(0)
        script(folder, "1122334455", [X, Y], [X])
        (folder / "mapping.csv").write_text(f"1122334455,{MUL}\n")
        assert "Mul.output.0" in by_id(ge(device.root))

    def test_tensors_come_before_what_was_made_of_them(self, device):
        path = write_device_op(device.token(0), "Mul", "Mul", at=0, inputs=[X, Y], outputs=[X * Y])
        script(path.parent, path.name, [X, Y], [X])
        catalog = ge(device.root)
        assert {ref.kind for ref in catalog.tensors} == {TensorKind.TENSOR}
        assert (catalog.task, codes(catalog)) == ("tensor", {"PF3250": 1})
        assert path.name in catalog.problems[0].notes[0]

    @pytest.mark.parametrize(
        "content", [b"", b"PK", b"PK\x03\x04" + bytes(60), b"\x93NUMPY", b"PK\x05\x06" + bytes(18)]
    )
    def test_a_file_that_is_none_stays_visible_and_costs_one_operator(self, device, content):
        folder = device.token(0)
        script(folder, MUL, [X, Y], [X])
        (folder / f"Add.Add.11.7.{FIRST_US + 1}_min_max.npz").write_bytes(content)
        catalog = ge(device.root)
        found = by_id(catalog)
        assert (found["Mul.output.0"].kind, found["Add.output.0"].kind) == (S, TensorKind.UNREADABLE)
        assert found["Add.output.0"].reason
        assert set(codes(catalog)) <= {"PF3230", "PF3001"}

    @pytest.mark.parametrize("cut", [1, 40, 200])
    def test_a_file_that_is_cut_off_stays_visible(self, device, cut):
        path = script(device.token(0), MUL, [X, Y], [X])
        path.write_bytes(path.read_bytes()[:-cut])
        catalog = ge(device.root)
        assert [ref.kind for ref in catalog.tensors] == [TensorKind.UNREADABLE]
        assert codes(catalog) == {"PF3230": 1}

    def test_pickled_objects_are_never_unpickled(self, device):
        rows = np.array([[0.0, 1.0]])
        np.savez(device.token(0) / f"{MUL}_min_max.npz", inputs=np.array([None, {}], object), outputs=rows)
        catalog = ge(device.root)
        assert codes(catalog) == {"PF3230": 1}


class TestArrays:
    def test_a_vector_is_minimum_and_maximum_in_the_type_of_the_array(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        folder.mkdir(parents=True)
        array(folder, "a-aten.add.Tensor.INPUT.0.20260101000000000001", np.array([-1.5, 2.0], np.float32))
        array(folder, "a-aten.add.Tensor.INPUT.1.20260101000000000001", np.array([3, 7]))
        array(folder, "a-aten.add.Tensor.INPUT.2.20260101000000000001", np.array([False, True]))
        array(folder, "a-aten.add.Tensor.OUTPUT.0.20260101000000000001", np.array([0.5, 1.5]))
        catalog = fx(tmp_path)
        assert catalog.task == "statistics"
        assert catalog.problems == ()
        assert [(ref.dtype, ref.recorded.min, ref.recorded.max) for ref in catalog.tensors] == [
            ("float32", -1.5, 2.0), ("int64", 3, 7), ("bool", False, True), ("", 0.5, 1.5),
        ]  # fmt: skip
        assert [type(ref.recorded.min) for ref in catalog.tensors] == [float, int, bool, float]
        assert {(ref.kind, ref.shape) for ref in catalog.tensors} == {(S, None)}

    def test_a_record_says_dtype_and_shape(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        folder.mkdir(parents=True)
        crc = zlib.crc32(X.tobytes())
        tensor = ReducedTensor((0.0, 5.0, 2.5, 7.4, 6.0, 0.0, 0.0, float(crc)), "float32", (2, 3))
        path = folder / "a-aten.add.Tensor.OUTPUT.0.20260101000000000001_stats.npy"
        path.write_bytes(ReducedArray(FULL, tensor).to_bytes())
        (ref,) = fx(tmp_path).tensors
        assert (ref.dtype, ref.logical_shape, ref.checksum) == ("float32", (2, 3), f"{crc:08x}")
        assert ref.recorded == Statistics(min=0.0, max=5.0, mean=2.5, l2norm=7.4, nan=0, inf=0)

    def test_nan_is_kept(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        folder.mkdir(parents=True)
        array(folder, "a-aten.add.Tensor.OUTPUT.0.20260101000000000001", np.array([np.nan, 1.0], np.float32))
        (ref,) = fx(tmp_path).tensors
        assert math.isnan(ref.recorded.min)
        assert math.isnan(ref.recorded.max)

    def test_arrays_come_before_what_was_made_of_them(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        write_mul_add_relu(None, folder)
        array(folder, "add-aten.add.Tensor.OUTPUT.0.20260101000000000002", X)
        catalog = fx(tmp_path)
        assert {ref.kind for ref in catalog.tensors} == {TensorKind.TENSOR}
        assert codes(catalog) == {"PF3250": 1}

    def test_a_node_may_be_reduced_in_part(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        write_fx_node(folder, "neg-aten.neg.default", at=9, inputs=[X])
        array(folder, "neg-aten.neg.default.OUTPUT.0.20260101000000000009", X)
        catalog = fx(tmp_path)
        assert [(str(ref.slot), ref.kind) for ref in catalog.tensors] == [
            ("input.0", TensorKind.TENSOR), ("output.0", S),
        ]  # fmt: skip
        assert (catalog.task, catalog.problems) == ("tensor", ())

    def test_hashed_names_are_resolved(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        folder.mkdir(parents=True)
        array(folder, "5566", X)
        (folder / "mapping.csv").write_text("5566.npy,add-aten.add.Tensor.OUTPUT.0.20260101000000000002.npy\n")
        assert [(ref.id, ref.kind) for ref in fx(tmp_path).tensors] == [("add.output.0", S)]

    @pytest.mark.parametrize(
        "values",
        [
            np.zeros(3),
            np.zeros((2, 2)),
            np.zeros(0),
            np.array(["a", "b"]),
            np.array([None, 1], object),
            np.zeros(2, "c8"),
        ],
        ids=["three", "square", "empty", "text", "objects", "complex"],
    )
    def test_other_arrays_of_that_name_stay_visible(self, tmp_path, values):
        folder = fx_token(tmp_path, 0)
        folder.mkdir(parents=True)
        np.save(folder / "a-aten.add.Tensor.OUTPUT.0.20260101000000000001_min_max.npy", values)
        catalog = fx(tmp_path)
        assert [ref.kind for ref in catalog.tensors] == [TensorKind.UNREADABLE]
        assert codes(catalog) == {"PF3230": 1}


def test_a_dynamic_shape_of_the_graph_is_none(tmp_path):
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph([Op("x", "Data", (), [(None, (-1, 3))]), Op("Neg", "Neg", ("x:0",), [("neg-a.OUTPUT.0", (-1, 3))])])
    script(dump.token(0), f"Neg.Neg.10.7.{FIRST_US}", [X], [X])
    assert {(ref.dtype, ref.logical_shape) for ref in ge(dump.root).tensors} == {("float32", None)}


def test_counts_that_are_no_counts_are_left_out():
    found = statistics_of({"nan_count": math.nan, "inf_count": -1.0, "min": 1.5, "max": math.inf}, "int32")
    assert found == Statistics(min=1.5, max=math.inf)


def test_a_dump_without_numbers_is_taken_for_one_of_tensors():
    assert task_of([]) == "tensor"
