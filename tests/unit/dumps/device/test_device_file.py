"""The device dump reader, on files from a writer that shares no code with it."""

from __future__ import annotations

import struct
import tracemalloc

import ge_writer
import numpy as np
import pytest
from ge_writer import DumpTensor
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.dumps.device.device_file import MAX_HEADER_BYTES, read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import FormatError, NotComparableError
from probe_flow.records import Execution, NodeKey, SlotRole, TensorFacts, TensorKind

KEY = NodeKey(Execution(), "Add_1")
ADD_1 = bytes.fromhex(
    "3e000000000000000a03322e30108080f9c0c1c482031a12080110021a040a02010230083a040a0201022213080210021a030a01022804"
    "32030a010240802032054164645f31003c00c10000404000008040"
)


def write(tmp_path, content):
    path = tmp_path / "Add.Add_1.1.2.1700000000000000"
    path.write_bytes(content)
    return path


def read_all(path):
    dump = read_ge_header(path)
    values = []
    for ref in tensor_refs(dump, path, KEY):
        with open_tensor(ref) as blocks:
            values.append(blocks.read(0, blocks.numel).reshape(ref.logical_shape))
    return values


def message(*fields):
    return ge_writer.container(b"".join(fields) + ge_writer.field_bytes(6, b"op"))


def tensor_field(number, *, dtype=1, shape=None, size, layout=2):
    first = 5 if number == 3 else 4
    body = ge_writer.field_varint(1, dtype) + ge_writer.field_varint(2, layout)
    if shape is not None:
        body += ge_writer.field_bytes(3, ge_writer.shape_message(shape))
    return ge_writer.field_bytes(number, body + ge_writer.field_varint(first + 1, size))


def code_of(path):
    with pytest.raises(FormatError) as caught:
        read_ge_header(path)
    diagnostic = caught.value.diagnostic
    assert diagnostic.path == str(path)
    assert diagnostic.help
    return diagnostic.code


def test_published_container_reads_field_by_field(tmp_path):
    path = write(tmp_path, ADD_1)
    dump = read_ge_header(path)
    assert (dump.op_name, dump.dump_time, dump.version) == ("Add_1", 1_700_000_000_000_000, 2)
    assert dump.problems == ()
    (source,), (result,) = dump.inputs, dump.outputs
    # 8 bytes of length and 62 of header; the input comes first although its field number is higher.
    assert (source.offset, source.size, source.address, source.shape) == (70, 4, 4096, (2,))
    assert (result.offset, result.size, result.data_type, result.original_shape) == (74, 8, 1, (1, 2))
    first, second = tensor_refs(dump, path, KEY)
    assert (first.id, first.dtype, first.stored_dtype, first.layout) == ("Add_1.input.0", "float16", "DT_FLOAT16", "ND")
    assert first.facts == TensorFacts(address=4096)
    assert (second.slot.role, second.logical_shape) == (SlotRole.OUTPUT, (1, 2))
    values = read_all(path)
    np.testing.assert_array_equal(values[0], [1.0, -2.5])
    np.testing.assert_array_equal(values[1], [[3.0, 4.0]])


RNG = np.random.default_rng(7)
NUMBERS = [
    ("float16", RNG.normal(size=(3, 5)).astype("f2")),
    ("float32", RNG.normal(size=(3, 5)).astype("f4")),
    ("float64", RNG.normal(size=(3, 5))),
    ("int8", RNG.integers(-128, 128, (3, 5)).astype("i1")),
    ("uint8", RNG.integers(0, 256, (3, 5)).astype("u1")),
    ("int16", RNG.integers(-(2**15), 2**15, (3, 5)).astype("i2")),
    ("uint16", RNG.integers(0, 2**16, (3, 5)).astype("u2")),
    ("int32", RNG.integers(-(2**31), 2**31, (3, 5)).astype("i4")),
    ("uint32", RNG.integers(0, 2**32, (3, 5)).astype("u4")),
    ("int64", RNG.integers(-(2**63), 2**63 - 1, (3, 5))),
    ("uint64", RNG.integers(0, 2**64 - 1, (3, 5), dtype="u8")),
    ("bool", RNG.integers(0, 2, (3, 5)).astype(bool)),
    ("complex64", (RNG.normal(size=(3, 5)) + 1j).astype("c8")),
    ("complex128", RNG.normal(size=(3, 5)) - 2j),
    ("qint8", RNG.integers(-128, 128, (3, 5)).astype("i1")),
    ("quint16", RNG.integers(0, 2**16, (3, 5)).astype("u2")),
    ("resource", RNG.integers(0, 2**40, (3, 5))),
    ("int4", RNG.integers(-8, 8, (3, 5)).astype("i1")),
    ("uint1", RNG.integers(0, 2, (3, 5)).astype("u1")),
    ("complex32", np.array([1.5 - 2j, 0.25 + 4j], "c8")),
    # Values that these types hold exactly.
    ("bfloat16", np.array([1.0, -2.5, 2.0**127, 0.0], "f4")),
    ("float8_e5m2", np.array([1.0, -0.5, 57344.0, np.inf, -np.inf], "f4")),
    ("float8_e4m3fn", np.array([1.0, -0.5, 448.0, 2.0**-9], "f4")),
]


@pytest.mark.parametrize(("dtype", "data"), NUMBERS, ids=[name for name, _ in NUMBERS])
def test_every_dtype_comes_back(tmp_path, dtype, data):
    path = ge_writer.write_dump(
        tmp_path / "dump", op_name="op", inputs=[DumpTensor(data, dtype, surplus=32)], outputs=[DumpTensor(data, dtype)]
    )
    for values in read_all(path):
        np.testing.assert_array_equal(values, data)


@pytest.mark.parametrize(
    ("shape", "original", "content", "logical"),
    [
        ((2,), None, b"\xb0\x41", (16,)),
        ((2,), (2,), b"\xb0\x41", (16,)),
        ((1, 2), (4, 4), b"\xb0\x41", (4, 4)),
        ((2,), (13,), b"\xb0\x41", (13,)),
        ((3, 1), None, b"\xb0\x41\x0f", (3, 8)),
        ((16,), None, b"\xb0\x41", (16,)),  # the shape counts bits
        ((16,), None, b"\xb0\x41" + bytes(30), (16,)),
    ],
)
def test_single_bits_are_unpacked_whether_their_shape_counts_bits_or_bytes(tmp_path, shape, original, content, logical):
    body = ge_writer.field_varint(1, 29) + ge_writer.field_varint(2, 2)
    body += ge_writer.field_bytes(3, ge_writer.shape_message(shape)) + ge_writer.field_varint(6, len(content))
    body += b"" if original is None else ge_writer.field_bytes(7, ge_writer.shape_message(original))
    (values,) = read_all(write(tmp_path, message(ge_writer.field_bytes(3, body)) + content))
    bits = "".join(f"{byte:08b}" for byte in content)  # the highest bit of a byte comes first
    assert values.shape == logical
    assert "".join(map(str, values.ravel())) == bits[: values.size]


def test_raw_eight_bit_codes_come_back_as_their_values(tmp_path):
    hifloat = DumpTensor(np.array([0x08, 0x10, 0x20, 0x6E, 0x01, 0xEF]), "hifloat8")
    exponents = DumpTensor(np.array([127, 130, 0]), "float8_e8m0")
    path = ge_writer.write_dump(tmp_path / "dump", op_name="op", inputs=[hifloat, exponents])
    first, second = read_all(path)
    np.testing.assert_array_equal(first, [1.0, 2.0, 4.0, 32768.0, 2.0**-22, -np.inf])
    np.testing.assert_array_equal(second, [1.0, 8.0, 2.0**-127])


LAYOUTS = [
    ("ND", (2, 3, 4), 16, 0),
    ("NCHW", (2, 3, 4, 5), 16, 0),
    ("NHWC", (2, 3, 4, 5), 16, 0),
    ("HWCN", (2, 3, 4, 5), 16, 0),
    ("CHWN", (2, 3, 4, 5), 16, 0),
    ("NDHWC", (2, 3, 4, 5, 6), 16, 0),
    ("NCDHW", (2, 3, 4, 5, 6), 16, 0),
    ("FRACTAL_NZ", (18,), 16, 0),
    ("FRACTAL_NZ", (3, 18), 16, 0),
    ("FRACTAL_NZ", (2, 17, 33), 32, 0),
    ("FRACTAL_NZ", (2, 3, 2, 17, 20), 16, 0),
    ("NC1HWC0", (2, 19, 3, 4), 16, 0),
    ("NC1HWC0_C04", (2, 3, 3, 4), 4, 0),
    ("NDC1HWC0", (2, 19, 2, 3, 4), 16, 0),
    ("FRACTAL_Z", (20, 19, 2, 3), 16, 0),
    ("FRACTAL_Z", (20, 19, 2, 3), 32, 0),
    ("FRACTAL_Z", (16, 8, 1, 1), 16, 2),
    ("FRACTAL_Z", (30, 3, 2, 2), 16, 6),
]


@pytest.mark.parametrize(("layout", "shape", "c0", "groups"), LAYOUTS)
@pytest.mark.parametrize("surplus", [0, 32])
def test_every_layout_is_undone(tmp_path, layout, shape, c0, groups, surplus):
    data = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    tensor = DumpTensor(data, "int32", layout=layout, c0=c0, sub_format=groups, surplus=surplus)
    path = ge_writer.write_dump(tmp_path / "dump", op_name="op", inputs=[tensor], outputs=[tensor])
    for values in read_all(path):
        np.testing.assert_array_equal(values, data)


def test_sections_lie_behind_the_tensors(tmp_path):
    data = np.arange(3, dtype="i1")
    path = ge_writer.write_dump(
        tmp_path / "dump",
        op_name="op",
        inputs=[DumpTensor(data, "int8")],
        outputs=[DumpTensor(data, "int8", surplus=1)],
        attrs=[("slices", '{"threadMode": true}')],
        buffers=[b"12345"],
        spaces=[b"678", b"9"],
    )
    dump = read_ge_header(path)
    start = dump.inputs[0].offset
    assert dump.outputs[0].offset == start + 3
    assert [(section.offset - start, section.size) for section in dump.buffers + dump.spaces] == [
        (7, 5),
        (12, 3),
        (15, 1),
    ]
    assert dump.attrs == (("slices", '{"threadMode": true}'),)
    assert dump.problems == ()
    path.write_bytes(path.read_bytes() + b"a tail that nobody announced")
    (problem,) = read_ge_header(path).problems
    assert (problem.code, problem.severity.value) == ("PF3019", "warning")
    assert problem.message == "`dump` goes on for 28 bytes behind what its header describes"


def test_unknown_fields_are_skipped(tmp_path):
    extra = ge_writer.field_varint(99, 5) + ge_writer.field_bytes(15, b"dfx") + b"\x8d\x01abcd" + b"\x91\x01abcdefgh"
    group = b"\xa3\x01" + ge_writer.field_varint(1, 3) + b"\xa4\x01"
    path = write(tmp_path, message(extra, group, tensor_field(4, shape=[1], size=4)) + struct.pack("<f", 2.5))
    np.testing.assert_array_equal(read_all(path), [[2.5]])


def test_unpacked_dimensions_are_read(tmp_path):
    dims = ge_writer.field_varint(1, 2) + ge_writer.field_varint(1, 3)
    body = ge_writer.field_varint(1, 3) + ge_writer.field_varint(2, 2) + ge_writer.field_bytes(3, dims)
    path = write(tmp_path, message(ge_writer.field_bytes(4, body + ge_writer.field_varint(5, 6))) + bytes(range(6)))
    np.testing.assert_array_equal(read_all(path), [[[0, 1, 2], [3, 4, 5]]])


@pytest.mark.parametrize(("size", "shape"), [(4, ()), (12, (3,))])
def test_absent_shape_follows_from_the_slot(tmp_path, size, shape):
    path = write(tmp_path, message(tensor_field(4, size=size)) + bytes(size))
    assert read_ge_header(path).inputs[0].shape == shape


def test_empty_shape_is_a_scalar_even_with_surplus_bytes(tmp_path):
    path = write(tmp_path, message(tensor_field(4, shape=[], size=36)) + struct.pack("<f", 1.5) + bytes(32))
    assert read_all(path) == [1.5]


def test_undefined_elements_are_bytes(tmp_path):
    path = write(tmp_path, message(tensor_field(4, dtype=0, shape=[2], size=3, layout=29)) + b"\x01\xff\x02")
    np.testing.assert_array_equal(read_all(path), [[1, -1, 2]])


def test_slot_without_type_and_bytes_is_null(tmp_path):
    path = write(tmp_path, message(tensor_field(4, dtype=0, size=0)) + b"tail")
    (ref,) = tensor_refs(read_ge_header(path), path, KEY)
    assert ref.kind is TensorKind.NULL


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_empty_tensors_have_no_elements(tmp_path, shape):
    path = ge_writer.write_dump(tmp_path / "dump", op_name="op", outputs=[DumpTensor(np.zeros(shape), "float32")])
    (values,) = read_all(path)
    assert values.shape == shape


@pytest.mark.parametrize("dtype", ["string", "int2", "uint2", "float6_e3m2", "float4_e2m1"])
def test_types_without_known_numbers_are_opaque_and_leave_the_others(tmp_path, dtype):
    odd = DumpTensor(np.arange(4), dtype)
    path = ge_writer.write_dump(
        tmp_path / "dump", op_name="op", inputs=[odd], outputs=[DumpTensor(np.array([2.5]), "float32")]
    )
    first, second = tensor_refs(read_ge_header(path), path, KEY)
    assert first.kind is TensorKind.OPAQUE
    assert first.reason
    with open_tensor(second) as blocks:
        assert blocks.read(0, 1) == [2.5]


def test_unknown_type_and_layout_numbers_are_named(tmp_path):
    path = write(tmp_path, message(tensor_field(4, dtype=77, shape=[1], size=4, layout=88)) + bytes(4))
    (ref,) = tensor_refs(read_ge_header(path), path, KEY)
    assert (ref.kind, ref.stored_dtype, ref.layout) == (TensorKind.OPAQUE, "DT_77", "FORMAT_88")


@pytest.mark.parametrize("number", range(42))
def test_every_type_number_is_read_or_refused_by_name(tmp_path, number):
    path = write(tmp_path, message(tensor_field(3, dtype=number, shape=(4,), size=64)) + bytes(64))
    (ref,) = tensor_refs(read_ge_header(path), path, KEY)
    if ref.kind is TensorKind.OPAQUE:
        assert (ge_writer_name(number) if number < 41 else "41") in (ref.reason or "")
    else:
        assert read_all(path)[0].size in (4, 64)


def ge_writer_name(number):
    """Return the name of a type number by the published enumeration, which these numbers alone of it refuse."""
    return {
        13: "DT_STRING", 24: "DT_STRING_REF", 25: "DT_DUAL", 26: "DT_VARIANT", 30: "DT_INT2", 31: "DT_UINT2",
        37: "DT_FLOAT6_E3M2", 38: "DT_FLOAT6_E2M3", 39: "DT_FLOAT4_E2M1", 40: "DT_FLOAT4_E1M2",
    }[number]  # fmt: skip


def test_original_shape_of_another_size_does_not_hide_plain_elements(tmp_path):
    body = ge_writer.field_varint(1, 3) + ge_writer.field_varint(2, 2)
    body += ge_writer.field_bytes(3, ge_writer.shape_message([4])) + ge_writer.field_varint(5, 4)
    body += ge_writer.field_bytes(6, ge_writer.shape_message([]))
    path = write(tmp_path, message(ge_writer.field_bytes(4, body)) + bytes(4))
    (ref,) = tensor_refs(read_ge_header(path), path, KEY)
    assert ref.logical_shape == (4,)


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\0" * 64, ADD_1[:8]])
def test_empty_files_are_named_so(tmp_path, content):
    assert code_of(write(tmp_path, content)) == "PF3010"


def test_missing_file_and_folder_are_named(tmp_path):
    assert code_of(tmp_path / "absent") == "PF3001"
    assert code_of(tmp_path) in ("PF3001", "PF3002")


@pytest.mark.parametrize("length", range(9, 70))
def test_every_cut_inside_the_header_is_found(tmp_path, length):
    assert code_of(write(tmp_path, ADD_1[:length])) == "PF3011"


@pytest.mark.parametrize(("length", "unreadable"), [(70, 2), (73, 2), (74, 1), (81, 1), (82, 0)])
def test_tensors_before_a_cut_are_kept(tmp_path, length, unreadable):
    path = write(tmp_path, ADD_1[:length])
    dump = read_ge_header(path)
    assert [problem.code for problem in dump.problems] == ["PF3015"] * unreadable
    refs = tensor_refs(dump, path, KEY)
    kinds = [ref.kind for ref in refs]
    assert kinds == [TensorKind.TENSOR] * (2 - unreadable) + [TensorKind.UNREADABLE] * unreadable
    assert all(str(length) in (ref.reason or "") for ref in refs[2 - unreadable :])


def test_cut_behind_the_tensors_is_a_warning(tmp_path):
    content = ge_writer.dump_bytes(op_name="op", inputs=[DumpTensor(np.zeros(2), "float32")], buffers=[b"12345"])
    (problem,) = read_ge_header(write(tmp_path, content[:-1])).problems
    assert (problem.code, problem.severity.value) == ("PF3015", "warning")


@pytest.mark.parametrize("claimed", [MAX_HEADER_BYTES + 1, 2**40, 2**63, 2**64 - 1])
def test_lying_header_length_allocates_nothing(tmp_path, claimed):
    path = write(tmp_path, struct.pack("<Q", claimed) + ADD_1[8:])
    tracemalloc.start()
    try:
        assert code_of(path) == "PF3011"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_huge_header_of_a_huge_file_is_refused_unread(tmp_path):
    path = write(tmp_path, struct.pack("<Q", MAX_HEADER_BYTES + 1) + b"\x0a\x03")
    with path.open("r+b") as file:
        file.truncate(MAX_HEADER_BYTES + 100)  # sparse: takes no disk
    tracemalloc.start()
    try:
        assert code_of(path) == "PF3012"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ([3], "PF3016"),
        ([2**62], "PF3017"),
        ([2**40, 2**40], "PF3017"),
        ([2**63 - 1, 0], "PF3017"),
        ([2**64 - 1, 2], "PF3017"),
        ([2**32, 2], "PF3016"),
        ([1] * 65, "PF3017"),
        ([1] * 5000, "PF3017"),
    ],
)
def test_lying_shape_costs_only_its_tensor(tmp_path, shape, code):
    good = tensor_field(3, shape=[2], size=8)
    path = write(tmp_path, message(good, tensor_field(4, shape=shape, size=8)) + bytes(8) + struct.pack("<2f", 1, 2))
    dump = read_ge_header(path)
    assert [problem.code for problem in dump.problems] == [code]
    bad, kept = tensor_refs(dump, path, KEY)
    assert bad.kind is TensorKind.UNREADABLE
    assert bad.reason == dump.problems[0].message
    with open_tensor(kept) as blocks:
        np.testing.assert_array_equal(blocks.read(0, 2), [1, 2])


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_lying_slot_size_leaves_the_tensors_before_it(tmp_path, size):
    path = write(
        tmp_path, message(tensor_field(4, shape=[1], size=4), tensor_field(4, shape=[1], size=size)) + bytes(8)
    )
    dump = read_ge_header(path)
    # The second tensor's own bytes are there; only the surplus that its slot announces is not.
    assert [tensor.problem for tensor in dump.inputs] == [None, None]
    assert [problem.code for problem in dump.problems] == ["PF3015"]


@pytest.mark.parametrize(
    "header",
    [
        b"\x1a\x7f\x08\x01",  # a tensor longer than its message
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x41",  # a text of 2^64 - 1 bytes
        b"\x10\x80",  # an integer that does not end
        b"\x10" + b"\xff" * 11 + b"\x01",  # one longer than ten bytes
        b"\x00\x00",  # field number 0
        b"\x0f\x00",  # wire type 7
        b"\x0d\x00\x00",  # half a fixed32
        b"\x0b\x08\x01",  # a group that does not end
        b"\x0c",  # an end without a beginning
        b"\x0b" * 100,  # groups without end
        b"\x78\x01",  # only unknown fields
    ],
)
def test_malformed_headers_are_found(tmp_path, header):
    path = write(tmp_path, ge_writer.container(header, b"payload"))
    assert code_of(path) == "PF3013"


def test_malformed_header_names_the_byte(tmp_path):
    with pytest.raises(FormatError) as caught:
        read_ge_header(write(tmp_path, ge_writer.container(b"\x10\x05\x1a\x7f\x08\x01")))
    assert caught.value.diagnostic.fields["offset"] == 8 + 3


def test_headers_of_countless_fields_are_refused(tmp_path):
    path = write(tmp_path, ge_writer.container(b"\x1a\x00" * 200_000))
    assert code_of(path) == "PF3012"
    nested = ge_writer.field_bytes(3, b"\x78\x01" * 1_100_000)
    assert code_of(write(tmp_path, ge_writer.container(nested))) == "PF3012"


def test_old_bare_message_is_read(tmp_path):
    data = np.arange(6, dtype="f4").reshape(2, 3)
    content = ge_writer.dump_bytes(
        op_name="scope/Add_1",
        inputs=[DumpTensor(data, "float32", surplus=4)],
        outputs=[DumpTensor(data + 1, "float16", layout="FRACTAL_NZ")],
        inline=True,
        buffers=[b"123"],
    )
    path = write(tmp_path, content)
    dump = read_ge_header(path)
    assert (dump.version, dump.op_name, dump.buffers[0].size) == (1, "scope/Add_1", 3)
    first, second = read_all(path)
    np.testing.assert_array_equal(first, data)
    np.testing.assert_array_equal(second, data + 1)


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1, "b": [1, 2, 3]}\n', b"\x93NUMPY\x01\x00v\x00{'descr': ", b"PK\x03\x04" * 9],
    ids=["json", "npy", "zip"],
)
def test_files_of_other_kinds_are_no_dumps(tmp_path, content):
    assert code_of(write(tmp_path, content)) == "PF3011"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_dumps_raise_nothing_but_format_errors(tmp_path_factory, data):
    content = bytearray(
        ge_writer.dump_bytes(
            op_name="op",
            inputs=[DumpTensor(np.ones((3, 18)), "float16", layout="FRACTAL_NZ", address=7)],
            outputs=[DumpTensor(np.ones(4), "int32", surplus=32), DumpTensor(np.ones((1, 3, 2, 2)), "int8", "NC1HWC0")],
            attrs=[("a", "b")],
        )
    )
    for _ in range(data.draw(st.integers(1, 6))):
        # Most damage goes into the header, where it matters.
        position = data.draw(st.integers(0, min(len(content), 220) - 1))
        content[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    check_never_breaks(tmp_path_factory.mktemp("fuzz"), bytes(content[:cut]))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_raise_nothing_but_format_errors(tmp_path_factory, content, is_framed):
    check_never_breaks(
        tmp_path_factory.mktemp("fuzz"), ge_writer.container(content, b"x" * 64) if is_framed else content
    )


def check_never_breaks(folder, content):
    path = write(folder, content)
    code = ""
    try:
        refs = tensor_refs(read_ge_header(path), path, KEY)
    except FormatError as error:
        refs, code = [], error.diagnostic.code
    assert code == "" or code.startswith("PF30")
    for ref in refs:
        if ref.kind is TensorKind.TENSOR:
            assert all(extent.offset + extent.nbytes <= len(content) for extent in ref.extents)
            check_readable(ref)
        else:
            assert ref.reason


def check_readable(ref):
    code = ""
    try:
        with open_tensor(ref) as blocks:
            assert blocks.read(0, blocks.numel).size == ref.numel
    except NotComparableError as error:
        code = error.diagnostic.code
    assert code in ("", "PF5110", "PF5113")
