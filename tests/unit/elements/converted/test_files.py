"""Converted files of device tensors against numpy, ml_dtypes and the writer of the sample, which knows no reader."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ge_writer
import ml_dtypes
import numpy as np
import om_writer
import pytest
import torch_writer
from ge_writer import DumpTensor
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.blocks import open_tensor
from probe_flow.elements.converted import relayout
from probe_flow.elements.converted.files import ConvertedFile, FileKind, write_converted
from probe_flow.elements.converted.relayout import Relaid, as_stored, in_layout
from probe_flow.elements.converted.values import BLOCK
from probe_flow.errors import NotComparableError
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.files.torch.torch_file import read_torch_header
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorRef

KEY = NodeKey(Execution(), "op")
SHAPE = (2, 5, 3, 4)
WIDTHS = {"hifloat8": np.float32, "float8_e8m0": np.float32, "complex32": np.complex64}
WIDTHS |= {"bfloat16": np.float32, "float8_e5m2": np.float32, "float8_e4m3fn": np.float32}
WIDTHS |= {"int4": np.int8, "uint1": np.uint8, "undefined": np.int8, "resource": np.int64}
NARROW = {"bfloat16": ml_dtypes.bfloat16, "float8_e5m2": ml_dtypes.float8_e5m2}
NARROW |= {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e8m0": ml_dtypes.float8_e8m0fnu}
DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128", "complex32", "float8_e5m2", "float8_e4m3fn", "float8_e8m0",
    "hifloat8", "int4", "uint1", "undefined", "resource",
]  # fmt: skip


def values(dtype: str, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> NDArray[Any]:
    """Raw values for the writer: codes where it takes codes, else numbers that the type holds exactly."""
    rng = np.random.default_rng(seed)
    if dtype in ("bool", "uint1"):
        return rng.integers(0, 2, shape)
    if dtype in ("hifloat8", "float8_e8m0"):
        return rng.integers(1, 100, shape)
    if dtype.startswith(("u", "res")):
        return rng.integers(0, 100, shape)
    if dtype.startswith("int"):
        return rng.integers(-8, 8, shape)
    steps = rng.integers(-8, 9, shape) / 4.0
    return steps + 1j * rng.integers(-8, 9, shape) if dtype.startswith("complex") else steps


def expected(dtype: str, given: NDArray[Any]) -> NDArray[Any]:
    """What a `.npy` file of them holds."""
    if dtype == "hifloat8":
        from probe_flow.tensors.dtypes import decode  # its table is checked against the bit rules elsewhere

        return decode(given.astype(np.uint8).tobytes(), "hifloat8", 0, given.size).reshape(given.shape)
    if dtype == "float8_e8m0":
        return given.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    return given.astype(WIDTHS.get(dtype, dtype))


def dumped(folder: Path, tensor: object) -> TensorRef:
    path = om_writer.OmFolder(folder).op("T", "op", at=1, outputs=[tensor])
    (ref,) = tensor_refs(read_ge_header(path), path, KEY)
    return ref


def convert(relaid: Relaid, path: Path, kind: FileKind) -> ConvertedFile:
    made = write_converted(relaid, path, kind)
    made.draft.flush()
    made.draft.commit(replaces=True)
    return made


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_hold_every_value_exactly(dtype: str, tmp_path: Path) -> None:
    given = values(dtype)
    ref = dumped(tmp_path, DumpTensor(given, dtype, "NC1HWC0", c0=16))
    untyped = dtype == "undefined"  # its bytes fill the slot, and have no layout
    path = tmp_path / "x.npy"

    convert(as_stored(ref) if untyped else in_layout(ref, "NCHW"), path, FileKind.NPY)
    found = np.load(path, allow_pickle=False)

    wanted = expected(dtype, ge_writer.to_layout(given, "NC1HWC0").reshape(-1) if untyped else given)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_bytes_are_those_of_the_dump(dtype: str, tmp_path: Path) -> None:
    given = values(dtype)
    ref = dumped(tmp_path, DumpTensor(given, dtype, "FRACTAL_Z", c0=16, surplus=64))
    path = tmp_path / "x.bin"
    convert(as_stored(ref), path, FileKind.BIN)
    stored = ge_writer.encode(ge_writer.to_layout(given, "FRACTAL_Z", c0=16), dtype)
    assert path.read_bytes() == stored + b"\xab" * (64 if dtype == "undefined" else 0)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "undefined"])
@pytest.mark.parametrize("layout", ["NHWC", "FRACTAL_Z", "FRACTAL_NZ", "NCHW"])
def test_plain_bytes_in_another_layout_are_those_of_a_writer(dtype: str, layout: str, tmp_path: Path) -> None:
    given = values(dtype)
    ref = dumped(tmp_path, DumpTensor(given, dtype, "NC1HWC0", c0=8))
    path = tmp_path / "x.bin"
    convert(in_layout(ref, layout, c0=16), path, FileKind.BIN)
    assert path.read_bytes() == ge_writer.encode(ge_writer.to_layout(given, layout, c0=16), dtype)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "undefined"])
def test_torch_files_keep_the_type_where_torch_has_it(dtype: str, tmp_path: Path) -> None:
    given = values(dtype)
    ref = dumped(tmp_path, DumpTensor(given, dtype, "NC1HWC0", c0=16))
    path = tmp_path / "x.pt"

    made = convert(in_layout(ref, "ND"), path, FileKind.PT)
    header = read_torch_header(path)

    own = dtype in torch_writer.STORAGES or dtype in ("uint16", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn")
    name = dtype if own else np.dtype(WIDTHS[dtype]).name
    assert (header.dtype, header.shape) == (name, SHAPE)
    assert (header.offset, header.nbytes) == (made.offset, made.nbytes)
    content = path.read_bytes()[header.offset : header.offset + header.nbytes]
    stored_as = NARROW.get(name, name)
    wanted = expected(dtype, given).astype(stored_as)
    assert content == wanted.tobytes()


LAYOUTS = {
    "NCHW": 4, "NHWC": 4, "HWCN": 4, "CHWN": 4, "NC1HWC0": 4, "FRACTAL_Z": 4, "FRACTAL_NZ": 4, "NDC1HWC0": 5,
    "NDHWC": 5, "DHWCN": 5, "NCDHW": 5,
}  # fmt: skip


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_layout_becomes_any_other_and_comes_back(data: st.DataObject, tmp_path: Path) -> None:
    source = data.draw(st.sampled_from(sorted(LAYOUTS)))
    rank = LAYOUTS[source]
    target = data.draw(st.sampled_from(sorted(layout for layout, axes in LAYOUTS.items() if axes == rank)))
    shape = tuple(data.draw(st.integers(1, 20 if axis < 2 else 4)) for axis in range(rank))
    dtype = data.draw(st.sampled_from(["float16", "int8", "int4", "bfloat16", "uint1"]))
    given_values = values(dtype, shape)
    block = data.draw(st.sampled_from([8, 16, 32]))
    assume(not fits_in_order(shape, target, source, block))
    assume(dtype != "uint1" or math.prod(shape) > 1)  # one byte: of 8 elements as well
    ref = dumped(tmp_path, DumpTensor(given_values, dtype, source, c0=block))
    is_matrix = source == "FRACTAL_NZ"
    keeps_order = is_matrix and target in ("NHWC", "HWCN", "CHWN")
    c0 = 32 if dtype == "int8" else {"int4": 64, "uint1": 256}.get(dtype, 16)
    stored = given_values if keeps_order else ge_writer.to_layout(given_values, target, c0=c0)

    relaid = in_layout(ref, target)
    if source != target:
        convert(relaid, tmp_path / "x.npy", FileKind.NPY)
        found = np.load(tmp_path / "x.npy")
        assert found.shape == stored.shape
        np.testing.assert_array_equal(found, expected(dtype, stored))
    made = convert(relaid, tmp_path / "x.bin", FileKind.BIN)
    logical = relaid.shape if keeps_order else shape
    layout = "ND" if keeps_order else target
    extent = Extent(str(tmp_path / "x.bin"), made.offset, made.nbytes)
    again = TensorRef.of(
        KEY, ref.slot, ref.kind, dtype, shape=relaid.shape, logical_shape=logical, layout=layout, extents=(extent,)
    )
    convert(in_layout(again, "ND"), tmp_path / "y.npy", FileKind.NPY)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected(dtype, given_values))


def fits_in_order(shape: tuple[int, ...], order: str, source: str, block: int) -> bool:
    """Say whether blocks that hold a shape could hold it in another order too, which the wanted layout then decides."""
    usual = "NCDHW" if len(shape) == 5 else "NCHW"
    if sorted(order) != sorted(usual) or sorted(source) == sorted(usual):
        return False
    sizes = dict(zip(order, shape, strict=True))
    other = tuple(sizes[axis] for axis in usual)
    stored = [ge_writer.to_layout(np.zeros(one), source, c0=block).shape for one in (shape, other)]
    return other != shape and stored[0] == stored[1]


def test_blocks_that_fit_several_orders_are_read_in_the_wanted_one(tmp_path: Path) -> None:
    given = values("float16", (1, 2, 1, 2))
    ref = dumped(tmp_path, DumpTensor(given, "float16", "FRACTAL_Z", c0=16))
    convert(in_layout(ref, "NCHW"), tmp_path / "x.npy", FileKind.NPY)
    convert(in_layout(ref, "CHWN"), tmp_path / "y.npy", FileKind.NPY)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), given)
    assert np.load(tmp_path / "y.npy").shape == (1, 2, 1, 2)


def test_grouped_weights_go_both_ways(tmp_path: Path) -> None:
    given = values("float16", (12, 5, 3, 2))
    plain = tmp_path / "w.npy"
    np.save(plain, given.astype(np.float16))
    ref = dumped(tmp_path, DumpTensor(given, "float16", "FRACTAL_Z", sub_format=4))

    convert(in_layout(ref, "NCHW"), tmp_path / "x.npy", FileKind.NPY)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), given)

    convert(in_layout(ref, "HWCN"), tmp_path / "y.npy", FileKind.NPY)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), given.transpose(2, 3, 1, 0))


def test_large_tensors_are_put_together_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayout, "IN_MEMORY_BYTES", 0)
    given = np.arange(2 * BLOCK + 77, dtype=np.float32).reshape(1, -1)
    ref = dumped(tmp_path, DumpTensor(given, "float32", "ND"))
    convert(in_layout(ref, "FRACTAL_NZ"), tmp_path / "x.npy", FileKind.NPY)
    found = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(found, ge_writer.to_layout(given, "FRACTAL_NZ"))
    assert sorted(path.suffix for path in tmp_path.iterdir())[-1] == ".npy"


@pytest.mark.parametrize("kind", list(FileKind))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
def test_scalars_and_empty_tensors_are_written(kind: FileKind, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.zeros(shape, np.float16)
    np.save(tmp_path / "in.npy", array)
    ref = npy_tensor_ref(tmp_path / "in.npy", KEY, Slot(SlotRole.OUTPUT))
    path = tmp_path / f"x.{kind.extension}"
    made = convert(as_stored(ref), path, kind)
    assert made.nbytes == array.nbytes
    if kind.extension == "npy":
        assert np.load(path).shape == shape


@pytest.mark.parametrize("array", [np.arange(24.0).reshape(2, 3, 4), np.asfortranarray(np.arange(24.0).reshape(4, 6))])
def test_arrays_of_any_order_come_in_c_order(array: NDArray[Any], tmp_path: Path) -> None:
    for number, wanted in enumerate((array, array.astype(">f4"))):
        source = tmp_path / f"in{number}.npy"
        np.save(source, wanted)
        ref = npy_tensor_ref(source, KEY, Slot(SlotRole.OUTPUT))
        for kind in (FileKind.NPY, FileKind.BIN):
            path = tmp_path / f"x{number}.{kind.extension}"
            made = convert(as_stored(ref), path, kind)
            payload = path.read_bytes()[made.offset :]
            assert payload == np.ascontiguousarray(wanted).astype(wanted.dtype.newbyteorder("<")).tobytes()


def test_the_order_of_a_shape_with_channels_last_is_told_by_the_blocks(tmp_path: Path) -> None:
    given = values("float16", (1, 3, 5, 6))
    tensor = om_writer.tensor(given, "float16", "NC1HWC0", original_shape=(1, 5, 6, 3))
    ref = dumped(tmp_path, tensor)
    for layout, wanted in (("NHWC", given.transpose(0, 2, 3, 1)), ("NCHW", given)):
        convert(in_layout(ref, layout), tmp_path / "x.npy", FileKind.NPY)
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), wanted)


def test_a_shape_can_be_given_where_the_dump_has_none(tmp_path: Path) -> None:
    given = values("float16", (20, 35))
    ref = dumped(tmp_path, om_writer.tensor(given, "float16", "FRACTAL_NZ", original_shape=None))
    with pytest.raises(NotComparableError) as caught:
        in_layout(ref, "ND")
    assert caught.value.diagnostic.code == "PF6505"
    convert(in_layout(ref, "ND", given=(20, 35)), tmp_path / "x.npy", FileKind.NPY)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), given)


@pytest.mark.parametrize(
    ("layout", "target", "shape", "given", "code"),
    [
        ("FRACTAL_NZ", "ND", (20, 35), (20, 99), "PF5113"),
        ("NC1HWC0", "NDC1HWC0", SHAPE, None, "PF5113"),
        ("ND", "NC1HWC0", (3, 4), None, "PF5113"),
        ("ND", "ND", (3, 4), (13,), "PF5113"),
    ],
)
def test_what_does_not_fit_is_refused(
    layout: str, target: str, shape: tuple[int, ...], given: tuple[int, ...] | None, code: str, tmp_path: Path
) -> None:
    ref = dumped(tmp_path, DumpTensor(values("float16", shape), "float16", layout))
    with pytest.raises(NotComparableError) as caught:
        in_layout(ref, target, given=given)
    assert caught.value.diagnostic.code == code


@pytest.mark.parametrize("target", ["NHWC", "NCHW", "NDHWC"])
def test_a_layout_of_axes_says_nothing_of_another_rank(target: str, tmp_path: Path) -> None:
    given = values("float16", (3, 4))
    ref = dumped(tmp_path, DumpTensor(given, "float16", "FRACTAL_NZ"))
    relaid = in_layout(ref, target)
    assert (relaid.layout, relaid.shape) == ("ND", (3, 4))
    convert(relaid, tmp_path / "x.npy", FileKind.NPY)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), given)


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    ref = dumped(tmp_path / "in", DumpTensor(values("float16"), "float16", "NC1HWC0"))
    relaid = in_layout(ref, "NCHW")
    Path(ref.extents[0].file).write_bytes(b"cut")
    with pytest.raises(Exception, match="ends at byte"):
        write_converted(relaid, tmp_path / "x.npy", FileKind.NPY)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_elements_kept_wider_than_their_type_are_read_back(tmp_path: Path) -> None:
    given = values("bfloat16")
    ref = dumped(tmp_path, DumpTensor(given, "bfloat16", "NC1HWC0"))
    made = convert(in_layout(ref, "ND"), tmp_path / "x.npy", FileKind.NPY)
    extent = Extent(str(tmp_path / "x.npy"), made.offset, made.nbytes, "raw@float32")
    again = TensorRef.of(KEY, ref.slot, ref.kind, "bfloat16", shape=SHAPE, logical_shape=SHAPE, extents=(extent,))
    with open_tensor(again) as blocks:
        assert blocks.read(0, math.prod(SHAPE)).tolist() == given.reshape(-1).tolist()
    convert(as_stored(again), tmp_path / "y.bin", FileKind.BIN)
    assert (tmp_path / "y.bin").read_bytes() == given.astype(np.float32).tobytes()
