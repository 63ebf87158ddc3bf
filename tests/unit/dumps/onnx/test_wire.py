"""Constants and bodies of ONNX models, read from messages that are written here field by field, or by the library."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ge_writer import field_bytes, field_varint

from probe_flow.dumps.onnx.constants import DTYPES, elements
from probe_flow.dumps.onnx.wire import WireModel, read_wire_model
from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile

ANY_OF_LIBRARY = pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="onnx is not installed")


def tensor(kind: int, shape: tuple[int, ...], *content: bytes, name: str = "w") -> bytes:
    dims = b"".join(field_varint(1, dim) or b"\x08\x00" for dim in shape)
    return dims + field_varint(2, kind) + field_bytes(8, name.encode()) + b"".join(content)


def read(path: Path, *, nodes: tuple[bytes, ...] = (), weights: tuple[bytes, ...] = ()) -> WireModel:
    graph = b"".join(field_bytes(1, each) for each in nodes) + b"".join(field_bytes(5, each) for each in weights)
    path.write_bytes(field_varint(1, 8) + field_bytes(7, graph))
    with BinaryFile(path) as file:
        return read_wire_model(file)


def held(path: Path, content: bytes) -> Any:
    return elements(str(path), read(path, weights=(content,)).weights[0])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (tensor(1, (2,), field_bytes(9, struct.pack("<2f", 1.5, -2))), [1.5, -2.0]),
        (tensor(1, (2,), field_bytes(4, struct.pack("<2f", 1.5, -2))), [1.5, -2.0]),
        (tensor(1, (2,), *(b"\x25" + struct.pack("<f", each) for each in (1.5, -2))), [1.5, -2.0]),
        (tensor(11, (1,), b"\x51" + struct.pack("<d", 0.1)), [0.1]),
        (tensor(6, (3,), field_bytes(5, b"\x01\x02" + b"\xff" * 9 + b"\x01")), [1, 2, -1]),
        (tensor(3, (2,), field_varint(5, 7), field_varint(5, 2**64 - 3)), [7, -3]),
        (tensor(9, (2,), field_bytes(5, b"\x01\x00")), [True, False]),
        (tensor(10, (2,), field_bytes(5, b"\x80\x78\x80\x80\x03")), [1.0, -2.0]),
        (tensor(7, (), field_varint(7, 2**64 - 5)), -5),
        (tensor(13, (1,), field_varint(11, 2**64 - 1)), [2**64 - 1]),
        (tensor(1, (0, 3)), np.zeros((0, 3)).tolist()),
        (tensor(16, (2,), field_bytes(5, b"\x80\x7f\x80\x80\x03")), [0x80, 0x3F, 0x00, 0xC0]),
        (tensor(22, (3,), field_bytes(9, b"\x21\x03")), [0x21, 0x03]),
        (tensor(22, (3,), field_bytes(5, b"\x21\x03")), [0x21, 0x03]),
    ],
    ids=["raw", "floats", "floats one by one", "double", "int32", "int8", "bool", "float16", "int64", "uint64", "empty",
         "bfloat16 as bytes", "int4 as bytes", "int4 in int32"],
)  # fmt: skip
def test_elements_are_read_however_they_are_written(tmp_path, content, expected):
    assert held(tmp_path / "model.onnx", content).tolist() == expected


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (tensor(8, (1,), field_bytes(6, b"text")), "`w` holds texts"),
        (tensor(99, (1,)), "`w` is of element type 99"),
        (tensor(1, (3,), field_bytes(9, b"1234")), "`w` has 4 bytes where its shape takes 12"),
        (tensor(1, (2**62,), field_bytes(9, b"")), "`w` has 0 bytes where its shape takes 18,446,744,073,709,551,616"),
        (tensor(1, (2**64 - 1,)), "`w` is of element type 1, or written in another way"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, content, why):
    with pytest.raises(ValueError, match=why):
        held(tmp_path / "model.onnx", content)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"location": "data.bin", "offset": "4"}, [2.0, 3.0]),
        ({"location": "data.bin", "offset": "8"}, "`w` lies in `data.bin` up to byte 16, and that has 12"),
        ({"location": "../data.bin"}, "outside the folder of the model"),
        ({"location": "/etc/passwd"}, "outside the folder of the model"),
    ],
)
def test_elements_in_another_file_are_read_from_the_folder_of_the_model_alone(tmp_path, entries, expected):
    (tmp_path / "data.bin").write_bytes(struct.pack("<3f", 1, 2, 3))
    fields = (
        field_bytes(13, field_bytes(1, key.encode()) + field_bytes(2, text.encode())) for key, text in entries.items()
    )
    content = tensor(1, (2,), *fields)
    if isinstance(expected, list):
        assert held(tmp_path / "model.onnx", content).tolist() == expected
    else:
        with pytest.raises(ValueError, match=expected):
            held(tmp_path / "model.onnx", content)


def test_a_file_of_elements_that_is_not_there_is_named(tmp_path):
    entry = field_bytes(13, field_bytes(1, b"location") + field_bytes(2, b"gone.bin"))
    with pytest.raises(FormatError, match=r"`gone\.bin` cannot be read"):
        held(tmp_path / "model.onnx", tensor(1, (1,), entry))


def name(number: int, text: str) -> bytes:
    return field_bytes(number, text.encode())


def node(inputs: str, outputs: str, *bodies: bytes) -> bytes:
    names = b"".join(name(1, each) for each in inputs.split()) + b"".join(name(2, each) for each in outputs.split())
    return names + name(4, "Op") + b"".join(field_bytes(5, name(1, "body") + field_bytes(6, each)) for each in bodies)


def body(*nodes: bytes, inputs: str = "", weights: str = "", outputs: str = "") -> bytes:
    return b"".join(
        [
            *(field_bytes(1, each) for each in nodes),
            *(field_bytes(5, name(8, each)) for each in weights.split()),
            *(field_bytes(11, name(1, each)) for each in inputs.split()),
            *(field_bytes(12, name(1, each)) for each in outputs.split()),
        ]
    )


def test_what_bodies_take_from_outside_is_read_by_their_operator(tmp_path):
    inner = body(node("deep own", "r"), outputs="r far")
    outer = body(node("a own w", "b", inner), inputs="own", weights="w", outputs="b given")
    (found,) = read(tmp_path / "model.onnx", nodes=(node("x given", "y", outer),)).nodes or ()
    assert found.inputs == ("x", "given")
    assert found.captured == ("a", "deep", "far")
    assert found.reads == ("x", "given", "a", "deep", "far")


def test_bodies_that_nest_without_end_are_refused(tmp_path):
    content = body()
    for _ in range(40):
        content = body(node("", "", content))
    with pytest.raises(FormatError, match="nest deeper than 32"):
        read(tmp_path / "model.onnx", nodes=(node("", "", content),))


def test_floats_of_an_attribute_that_are_written_as_integers_are_left_out(tmp_path):
    content = (
        field_bytes(1, b"scales") + field_varint(7, 2**40) + field_bytes(7, struct.pack("<f", 2.0)) + b"\xa0\x01\x06"
    )
    found = read(tmp_path / "model.onnx", nodes=(field_bytes(4, b"Resize") + field_bytes(5, content),))

    assert [attribute.value for node in found.nodes for attribute in node.attributes] == [(2.0,)]


@pytest.mark.frameworks
@ANY_OF_LIBRARY
@pytest.mark.parametrize("kind", sorted(DTYPES))
@pytest.mark.parametrize("is_raw", [True, False])
def test_elements_are_those_that_the_library_reads(tmp_path, kind, is_raw):
    import onnx
    from onnx import helper, numpy_helper

    if kind not in onnx.TensorProto.DataType.values():
        pytest.skip("the installed onnx lacks this element type")
    values = np.array([0, 1, 2, 1, 0, 1], np.float32).astype(helper.tensor_dtype_to_np_dtype(kind)).reshape(2, 3)
    made = numpy_helper.from_array(values, "w")
    if not is_raw:
        flat = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64).reshape(-1).tolist()
        made = helper.make_tensor("w", kind, (2, 3), flat)
        assert not made.raw_data
    expected = numpy_helper.to_array(made)
    own = held(tmp_path / "model.onnx", made.SerializeToString())
    if own.dtype == np.uint8 and expected.dtype != np.uint8:  # as bytes
        assert own.tobytes() == numpy_helper.from_array(expected).raw_data
    else:
        assert (own.dtype, own.tolist()) == (expected.dtype, expected.tolist())
