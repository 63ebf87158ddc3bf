"""Nano dumps, on files from a writer that shares no code with the reader."""

from __future__ import annotations

import struct

import nano_writer
import numpy as np
import pytest
from ge_writer import DumpTensor
from hypothesis import given, settings
from hypothesis import strategies as st
from nano_writer import NanoTensor, block, nano_bytes

from probe_flow.dumps.device.device_file import MAX_HEADER_BYTES, read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import FormatError
from probe_flow.records import Execution, NodeKey, TensorKind

KEY = NodeKey(Execution(), "Add_1")
DATA = np.arange(6, dtype="f4").reshape(2, 3)
ONE = NanoTensor(DumpTensor(np.array([7.0]), "float32"))


def write(tmp_path, content):
    path = tmp_path / "Add.Add_1.1.2.1700000000000000"
    path.write_bytes(content)
    return path


def values_of(path):
    values = []
    for ref in tensor_refs(read_ge_header(path), path, KEY):
        with open_tensor(ref) as blocks:
            values.append(blocks.read(0, blocks.numel).reshape(ref.logical_shape))
    return values


def code_of(path):
    with pytest.raises(FormatError) as caught:
        read_ge_header(path)
    assert caught.value.diagnostic.path == str(path)
    assert caught.value.diagnostic.help
    return caught.value.diagnostic.code


def test_hand_made_bytes_read_field_by_field(tmp_path):
    content = struct.pack("<Q2I", 8 + 12 + 56 + 12 + 104, 0x5A5A5A5A, 1)
    content += struct.pack("<3I", 4, 4 + 56, 1)
    content += struct.pack("<3i3QI2IQ", 1, 2, 0, 4096, 0, 4, 16, 0, 8, 2)  # float16, ND, (2,)
    content += struct.pack("<3I", 5, 4 + 104, 1)
    content += struct.pack("<6i3QI", 0, 2, 0, 1, 0, 2, 0, 0, 8, 52)
    content += struct.pack("<2IQ2I2Q2I4s", 0, 8, 2, 1, 16, 1, 2, 2, 4, b"Cast")
    content += np.array([1.0, -2.5], "<f2").tobytes() + np.array([3.0, 4.0], "<f4").tobytes()
    path = write(tmp_path, content)
    dump = read_ge_header(path)
    assert (dump.op_name, dump.version, dump.problems) == ("", 3, ())
    (source,), (result,) = dump.inputs, dump.outputs
    assert (source.data_type, source.shape, source.original_shape, source.address) == (2, (2,), None, 4096)
    assert (result.data_type, result.shape, result.original_shape) == (1, (2,), (1, 2))
    assert (result.original_op, result.original_output) == ("Cast", 1)
    first, second = values_of(path)
    np.testing.assert_array_equal(first, [1.0, -2.5])
    np.testing.assert_array_equal(second, [[3.0, 4.0]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "uint8", "int16", "uint16", "uint32", "int64",
                                   "uint64", "float64", "bool", "bfloat16", "complex64", "qint8", "int4", "uint1",
                                   "complex32", "float8_e5m2", "float8_e4m3fn"])  # fmt: skip
def test_the_second_numbering_of_types_is_understood(tmp_path, dtype):
    data = np.array([[0, 1, 1], [1, 0, 1]])
    path = write(tmp_path, nano_bytes([NanoTensor(DumpTensor(data, dtype))], [NanoTensor(DumpTensor(data, dtype))]))
    for ref in tensor_refs(read_ge_header(path), path, KEY):
        assert ref.stored_dtype.startswith("DT_")
    for values in values_of(path):
        np.testing.assert_array_equal(values, data)


@pytest.mark.parametrize("layout", ["FRACTAL_NZ", "ND"])
def test_layouts_and_surplus_of_slots(tmp_path, layout):
    tensors = [NanoTensor(DumpTensor(DATA + i, "float32", layout, surplus=32)) for i in range(3)]
    dump = write(tmp_path, nano_bytes(tensors[:2], tensors[2:]))
    for i, values in enumerate(values_of(dump)):
        np.testing.assert_array_equal(values, DATA + i)


@pytest.mark.parametrize(("number", "shown"), [(5, "5"), (42, "42"), (-1, "4294967295")])
def test_an_unknown_type_number_is_named_and_leaves_the_others(tmp_path, number, shown):
    odd = NanoTensor(DumpTensor(np.zeros(2), "int8"), number=number)
    path = write(tmp_path, nano_bytes([odd], [ONE]))
    first, second = tensor_refs(read_ge_header(path), path, KEY)
    assert (first.kind, first.stored_dtype) == (TensorKind.OPAQUE, f"DT_{shown}")
    assert f"number {shown} " in (first.reason or "")
    assert second.kind is TensorKind.TENSOR


def test_text_is_opaque_and_undefined_elements_are_bytes(tmp_path):
    text, raw = DumpTensor(np.zeros(2), "string"), DumpTensor(np.array([1, 2, 3]), "undefined")
    path = write(tmp_path, nano_bytes([NanoTensor(text), NanoTensor(raw)]))
    first, second = tensor_refs(read_ge_header(path), path, KEY)
    assert (first.kind, second.kind, second.shape) == (TensorKind.OPAQUE, TensorKind.TENSOR, (3,))


def test_an_absent_shape_follows_from_the_slot_and_unknown_blocks_are_skipped(tmp_path):
    bare = NanoTensor(DumpTensor(np.arange(3.0), "float32"), lists=block(9, b"odd"))
    content = nano_writer.container(
        block(7, b"new"),
        nano_writer.records(5, [bare]),
        nano_writer.records(4, [ONE]),
        payload=ONE.payload + bare.payload,
    )
    path = write(tmp_path, content)
    dump = read_ge_header(path)
    # Inputs lie first, whatever the order of the blocks.
    assert (dump.inputs[0].shape, dump.outputs[0].shape) == ((1,), (3,))
    assert [values.tolist() for values in values_of(path)] == [[7.0], [0, 1, 2]]


def test_bytes_behind_the_tensors_are_a_warning_and_a_cut_costs_the_tensors_behind_it(tmp_path):
    content = nano_bytes([ONE], [ONE])
    (problem,) = read_ge_header(write(tmp_path, content + b"tail")).problems
    assert (problem.code, problem.severity.value) == ("PF3019", "warning")
    path = write(tmp_path, content[:-1])
    assert [problem.code for problem in read_ge_header(path).problems] == ["PF3015"]
    kinds = [ref.kind for ref in tensor_refs(read_ge_header(path), path, KEY)]
    assert kinds == [TensorKind.TENSOR, TensorKind.UNREADABLE]
    assert "Add.Add_1" in read_ge_header(path).problems[0].message


def test_every_cut_inside_the_header_is_found(tmp_path):
    content = nano_bytes([ONE], [ONE])
    end = 8 + int.from_bytes(content[:8], "little")
    for length in range(12, end):
        assert code_of(write(tmp_path, content[:length])) == "PF3011"


@pytest.mark.parametrize(
    "blocks",
    [
        (),
        (block(7, b"only an unknown one"),),
        (block(4, b""),),
        (block(4, struct.pack("<I", 1)),),
        (block(4, struct.pack("<I", 2**32 - 1) + ONE.record(is_output=False)),),
        (struct.pack("<II", 4, 2**31),),
        (b"\x04\x00\x00",),
        (block(5, struct.pack("<I", 1) + ONE.record(is_output=False)),),
        (nano_writer.records(4, [NanoTensor(ONE.tensor, lists=block(0, b"123"))]),),
        (nano_writer.records(4, [NanoTensor(ONE.tensor, lists=struct.pack("<II", 0, 99))]),),
    ],
)
def test_malformed_blocks_are_found(tmp_path, blocks):
    assert code_of(write(tmp_path, nano_writer.container(*blocks, payload=bytes(8)))) == "PF3018"


@pytest.mark.parametrize("shape", [(2**62,), (2**63,), (1,) * 65, (1,) * 5000])
def test_a_lying_shape_costs_only_its_tensor(tmp_path, shape):
    liar = NanoTensor(ONE.tensor, lists=block(0, nano_writer.dims(shape)))
    path = write(tmp_path, nano_bytes([liar], [ONE]))
    dump = read_ge_header(path)
    assert [problem.code for problem in dump.problems] == ["PF3017"]
    assert tensor_refs(dump, path, KEY)[1].kind is TensorKind.TENSOR


def test_a_lying_header_length_allocates_nothing(tmp_path):
    path = write(tmp_path, struct.pack("<Q2I", MAX_HEADER_BYTES + 1, 0x5A5A5A5A, 1))
    with path.open("r+b") as file:
        file.truncate(MAX_HEADER_BYTES + 100)
    assert code_of(path) == "PF3012"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_nano_dumps_raise_nothing_but_format_errors(tmp_path_factory, data):
    content = bytearray(nano_bytes([NanoTensor(DumpTensor(DATA, "float16", "FRACTAL_NZ"))], [ONE, ONE]))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(12, 200))] = data.draw(st.integers(0, 255))
    path = write(tmp_path_factory.mktemp("fuzz"), bytes(content))
    code = ""
    try:
        refs = tensor_refs(read_ge_header(path), path, KEY)
    except FormatError as error:
        refs, code = [], error.diagnostic.code
    assert code == "" or code.startswith("PF30")
    for ref in refs:
        if ref.kind is TensorKind.TENSOR:
            assert all(extent.offset + extent.nbytes <= len(content) for extent in ref.extents)
        else:
            assert ref.reason
