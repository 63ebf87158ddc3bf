"""The `.npy` reader, on files that numpy wrote and on headers that nobody should write."""

from __future__ import annotations

import math
import struct
from ast import literal_eval

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import FormatError
from probe_flow.files.arrays.npy import npy_tensor_ref, read_npy_header
from probe_flow.records import Execution, NodeKey, Slot, SlotRole, TensorKind

KEY = NodeKey(Execution(), "add_1")
SLOT = Slot(SlotRole.OUTPUT, (0,))


def save(tmp_path, array):
    path = tmp_path / "array.npy"
    np.save(path, array, allow_pickle=True)
    return path


def with_header(tmp_path, text, data=b"\0" * 64, version=1):
    header = text if isinstance(text, bytes) else text.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    path = tmp_path / "array.npy"
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + header + data)
    return path


def values_of(path):
    ref = npy_tensor_ref(path, KEY, SLOT)
    assert ref.kind is TensorKind.TENSOR
    with open_tensor(ref) as blocks:
        return blocks.read(0, blocks.numel).reshape(ref.logical_shape)


def code_of(path):
    with pytest.raises(FormatError) as caught:
        read_npy_header(path)
    assert caught.value.diagnostic.path == str(path)
    assert caught.value.diagnostic.help
    return caught.value.diagnostic.code


ARRAYS = {
    "float16": np.arange(6, dtype="f2").reshape(2, 3),
    "float32": np.arange(6, dtype="f4").reshape(2, 3),
    "float64": np.arange(6, dtype="f8").reshape(2, 3),
    "int8": np.arange(-3, 3, dtype="i1"),
    "int64": np.array([2**62, -1]),
    "uint64": np.array([2**64 - 1], dtype="u8"),
    "bool": np.array([True, False]),
    "complex64": np.array([1 + 2j], dtype="c8"),
}


@pytest.mark.parametrize("dtype", ARRAYS)
def test_numbers_come_back(tmp_path, dtype):
    path = save(tmp_path, ARRAYS[dtype])
    header = read_npy_header(path)
    assert (header.dtype, header.shape, header.encoding) == (dtype, ARRAYS[dtype].shape, "raw")
    np.testing.assert_array_equal(values_of(path), ARRAYS[dtype])


@pytest.mark.parametrize("array", [np.array(7), np.array(2.5, "f4"), np.array([1, 2, 3]), np.zeros((0, 3))])
def test_scalars_lists_and_empty_arrays_are_tensors(tmp_path, array):
    values = values_of(save(tmp_path, array))
    assert values.shape == array.shape
    np.testing.assert_array_equal(values, array)


def test_fortran_order_and_byte_order_are_undone(tmp_path):
    data = np.arange(24).reshape(2, 3, 4)
    for dtype, order, encoding in [
        (">f4", "C", "raw-big"),
        ("<f4", "F", "raw-fortran"),
        (">i2", "F", "raw-big-fortran"),
    ]:
        path = save(tmp_path, np.array(data, dtype=dtype, order=order))
        assert read_npy_header(path).encoding == encoding
        values = values_of(path)
        np.testing.assert_array_equal(values, data)
        assert values.dtype.isnative


@pytest.mark.parametrize("shape", ["()", "(4,)", "(0, 3)", "(2, 1, 3)"])
def test_a_header_in_another_spelling_says_the_same(tmp_path, shape):
    usual = f"{{'descr': '<f2', 'fortran_order': True, 'shape': {shape}, }}\n"
    data = bytes(2 * math.prod(literal_eval(shape)))
    first = read_npy_header(with_header(tmp_path, usual, data))
    other = usual.replace(", }", "}").replace("'", '"').ljust(len(usual))
    second = read_npy_header(with_header(tmp_path, other, data))
    assert first == second
    assert str(first.shape) == shape


def test_column_major_vectors_are_plain(tmp_path):
    path = with_header(tmp_path, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3, 1)}", bytes(12))
    assert read_npy_header(path).encoding == "raw"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_is_read(tmp_path, version):
    text = "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }   \n"
    path = with_header(tmp_path, text, struct.pack("<2h", 5, -6), version)
    np.testing.assert_array_equal(values_of(path), [5, -6])


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (np.array(None), "never unpickled"),
        (np.array({"layout": "BSH"}, dtype=object), "never unpickled"),
        (np.array("BSH"), "text"),
        (np.array([b"x"]), "byte strings"),
        (np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]), "records"),
        (np.ones(3, dtype=ml_dtypes.bfloat16), "bfloat16"),
        (np.array(["2026-01-01"], dtype="M8[s]"), "dates"),
    ],
)
def test_what_is_no_number_is_opaque_with_its_reason(tmp_path, array, word):
    ref = npy_tensor_ref(save(tmp_path, array), KEY, SLOT)
    assert ref.kind is TensorKind.OPAQUE
    assert word in (ref.reason or "")
    assert ref.extents == ()


def test_pickles_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    npy_tensor_ref(save(tmp_path, np.array([Bomb()], dtype=object)), KEY, SLOT)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("content", [b"", b"\x93NUMP", b"\x93NUMPY\x01", b"PK\x03\x04 and more of it"])
def test_other_files_are_no_npy(tmp_path, content):
    path = tmp_path / "array.npy"
    path.write_bytes(content)
    assert code_of(path) == "PF3020"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not a literal",
        "__import__('os').getcwd()",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'extra': 1}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 65 + ")}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, " + "9" * 30 + ")}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}",
        "{'descr': 'float64, O', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': 4, 'fortran_order': False, 'shape': (2,)}",
        "(" * 40_000,
        "-" * 60_000 + "1",
        b"\xff\xfe{}",
    ],
)
def test_malformed_headers_are_found(tmp_path, text):
    assert code_of(with_header(tmp_path, text, version=3)) == "PF3021"


def test_lying_header_length_is_found(tmp_path):
    path = tmp_path / "array.npy"
    for length in (500, 2**31):
        path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + b"{}")
        assert code_of(path) == "PF3021"
    path.write_bytes(b"\x93NUMPY\x09\x00" + struct.pack("<I", 2) + b"{}")
    assert code_of(path) == "PF3021"


def test_cut_data_are_found_and_so_is_what_lies_behind(tmp_path):
    path = save(tmp_path, np.arange(5, dtype="f4"))
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert code_of(path) == "PF3022"
    path.write_bytes(content + content)  # two calls of `np.save` on one file: numpy loads the first array
    with pytest.raises(FormatError, match=r"goes on for 148 bytes behind its array of shape \[5\]"):
        read_npy_header(path)
    path.write_bytes(content)
    np.testing.assert_array_equal(values_of(path), np.arange(5))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_files_raise_nothing_but_format_errors(tmp_path_factory, data):
    path = save(tmp_path_factory.mktemp("fuzz"), np.arange(12, dtype="f4").reshape(3, 4))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, 90))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))])
    code = ""
    try:
        ref = npy_tensor_ref(path, KEY, SLOT)
    except FormatError as error:
        code = error.diagnostic.code
    else:
        assert ref.kind is TensorKind.OPAQUE or values_of(path).size == ref.numel
    assert code in ("", "PF3020", "PF3021", "PF3022")
