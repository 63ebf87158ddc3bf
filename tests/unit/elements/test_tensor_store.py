"""Converted tensors: the same values as the conversion itself, kept only where it pays, safe against damage."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from ge_writer import DumpTensor, write_dump
from sealed_files import sealed

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.tensor_store import TensorStore, problem_of
from probe_flow.records import Execution, NodeKey

KEY = "ab" * 16


def stored(tmp_path, data: np.ndarray, dtype: str, layout: str):
    path = write_dump(tmp_path / "dump", op_name="op", inputs=[], outputs=[DumpTensor(data, dtype, layout)])
    (ref,) = tensor_refs(read_ge_header(path), path, NodeKey(Execution(), "op"))
    return ref


def values(blocks) -> np.ndarray:
    with blocks:
        return np.array(blocks.read(0, blocks.numel), copy=True)


@pytest.mark.parametrize(
    ("layout", "shape"), [("FRACTAL_NZ", (2, 35, 50)), ("NC1HWC0", (2, 20, 5, 7)), ("FRACTAL_Z", (20, 33, 3, 3))]
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_copy_holds_the_logical_values(tmp_path, layout, shape, dtype):
    data = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    ref = stored(tmp_path, data, dtype, layout)
    store = TensorStore(tmp_path / "store", keeps_all=True)
    assert store.wants(ref)
    for _ in ("made", "found"):
        np.testing.assert_array_equal(values(store.open(ref, KEY, io="auto")), data.ravel())
    assert problem_of(tmp_path / "store" / "ab" / f"{KEY}.h5") is None


def test_the_copy_is_read_instead_of_the_dump(tmp_path):
    ref = stored(tmp_path, np.ones((32, 32), np.float16), "float16", "FRACTAL_NZ")
    store = TensorStore(tmp_path / "store", keeps_all=True)
    store.open(ref, KEY, io="auto").close()
    (tmp_path / "dump").unlink()
    assert values(store.open(ref, KEY, io="auto")).tolist() == [1.0] * 1024


def test_plain_and_small_tensors_and_those_in_long_runs_are_not_kept(tmp_path):
    plain = stored(tmp_path, np.ones((600, 1000), np.float16), "float16", "ND")
    assert not TensorStore(tmp_path, keeps_all=True).wants(plain)
    small = stored(tmp_path, np.ones((32, 32), np.float16), "float16", "FRACTAL_NZ")
    assert not TensorStore(tmp_path).wants(small)
    large = stored(tmp_path, np.ones((256, 256, 3, 3), np.float16), "float16", "FRACTAL_Z")
    assert TensorStore(tmp_path).wants(large)
    in_runs = stored(tmp_path, np.ones((1024, 1024), np.float16), "float16", "FRACTAL_NZ")
    assert not TensorStore(tmp_path).wants(in_runs)
    assert TensorStore(tmp_path, keeps_all=True).wants(in_runs)
    packed = stored(tmp_path, np.ones((1024, 1024), np.int8), "int4", "FRACTAL_NZ")
    assert not TensorStore(tmp_path, keeps_all=True).wants(packed)


def test_a_damaged_copy_is_made_again(tmp_path):
    data = np.arange(1024, dtype=np.float16).reshape(32, 32)
    ref = stored(tmp_path, data, "float16", "FRACTAL_NZ")
    store = TensorStore(tmp_path / "store", keeps_all=True)
    store.open(ref, KEY, io="auto").close()
    path = tmp_path / "store" / "ab" / f"{KEY}.h5"
    path.write_bytes(path.read_bytes()[:100])
    assert problem_of(path) is not None
    np.testing.assert_array_equal(values(store.open(ref, KEY, io="auto")), data.ravel())
    assert problem_of(path) is None


def test_a_flipped_value_is_found_by_its_checksum(tmp_path):
    ref = stored(tmp_path, np.ones((32, 32), np.float16), "float16", "FRACTAL_NZ")
    TensorStore(tmp_path, keeps_all=True).open(ref, KEY, io="auto").close()
    path = tmp_path / "ab" / f"{KEY}.h5"
    with h5py.File(path, "a") as file:
        file["values"][5] = 99
    problem = problem_of(path)
    assert problem is not None
    assert "checksum" in problem.message


def test_a_copy_that_cannot_be_written_raises_and_leaves_nothing(tmp_path):
    ref = stored(tmp_path, np.ones((32, 32), np.float16), "float16", "FRACTAL_NZ")
    (tmp_path / "store").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        TensorStore(tmp_path / "store", keeps_all=True).open(ref, KEY, io="auto")


@pytest.mark.parametrize(("count", "dtype"), [(2**50, "u1"), (2**30, [("pad", "V4096"), ("byte", "u1")])])
def test_a_copy_that_declares_what_it_does_not_hold_is_made_anew(tmp_path, count, dtype):
    data = np.arange(1024, dtype=np.float16).reshape(32, 32)
    ref = stored(tmp_path, data, "float16", "FRACTAL_NZ")
    path = tmp_path / "store" / "ab" / f"{KEY}.h5"
    path.parent.mkdir(parents=True)
    with sealed(path) as file:
        file.create_dataset("values", shape=(count,), dtype=dtype, chunks=(16,))
        file.attrs.update({"format": 1, "dtype": "float16", "crc32": 0})
    problem = problem_of(path)
    assert problem is not None
    assert problem.code == "PF6201"
    store = TensorStore(tmp_path / "store", keeps_all=True)
    np.testing.assert_array_equal(values(store.open(ref, KEY, io="auto")), data.ravel())
