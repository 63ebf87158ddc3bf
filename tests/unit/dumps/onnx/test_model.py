"""Operators and weights of an ONNX model, read from messages that are written here field by field."""

from __future__ import annotations

import hashlib
import struct
from contextlib import suppress

import numpy as np
import pytest
from ge_writer import field_bytes, field_varint

from probe_flow.dumps.onnx.model import OtherModelError, read_onnx_model
from probe_flow.errors import FormatError

FLOAT, INT64 = 1, 7


def text(number: int, value: str) -> bytes:
    return field_bytes(number, value.encode())


def floating(number: int, value: float) -> bytes:
    return bytes([number << 3 | 5]) + struct.pack("<f", value)


def tensor(name: str, shape, kind=FLOAT, raw=None, rest=b"") -> bytes:
    dims = b"".join(field_varint(1, dim) for dim in shape)
    held = b"" if raw is None else field_bytes(9, raw)
    return dims + field_varint(2, kind) + text(8, name) + held + rest


def attribute(name: str, *fields: bytes) -> bytes:
    return text(1, name) + b"".join(fields)


def node(op_type: str, inputs, outputs, *attributes: bytes, domain="") -> bytes:
    names = b"".join(text(1, each) for each in inputs) + b"".join(text(2, each) for each in outputs)
    return names + text(4, op_type) + b"".join(field_bytes(5, each) for each in attributes) + text(7, domain)


def model(nodes, weights=(), opset=17) -> bytes:
    graph = b"".join(field_bytes(1, each) for each in nodes) + b"".join(field_bytes(5, each) for each in weights)
    return field_varint(1, 8) + field_bytes(7, graph) + field_bytes(8, field_varint(2, opset))


def read(tmp_path, content: bytes):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    return read_onnx_model(str(path), hashlib.sha256(content).hexdigest())


def test_attributes_of_all_kinds_are_read(tmp_path):
    found = read(tmp_path, model([node(
        "Conv", ["x", "", "w"], ["y", "z"],
        attribute("alpha", floating(2, 0.25)), attribute("group", field_varint(3, 2)),
        attribute("auto_pad", text(4, "VALID")), attribute("pads", field_bytes(8, bytes([1, 0, 2]))),
        attribute("strides", field_varint(8, 3), field_varint(8, 4)), attribute("axis", field_varint(3, 2**64 - 1)),
        attribute("scales", field_bytes(7, struct.pack("<2f", 1.5, 2.5))), attribute("body", field_bytes(6, b"")),
    )]))  # fmt: skip
    operator = found.operators["y"]
    assert operator is found.operators["z"]
    assert (operator.op_type, operator.inputs, operator.outputs) == ("Conv", ("x", "", "w"), ("y", "z"))
    assert operator.opset == 17
    assert operator.attributes == {
        "alpha": 0.25, "group": 2, "auto_pad": "VALID", "pads": (1, 0, 2), "strides": (3, 4), "axis": -1,
        "scales": (1.5, 2.5),
    }  # fmt: skip


def test_an_operator_of_another_domain_is_named_with_it(tmp_path):
    found = read(
        tmp_path, model([node("Relu", ["x"], ["y"], domain="com.own"), node("Relu", ["y"], ["z"], domain="ai.onnx")])
    )
    assert [found.operators[name].op_type for name in "yz"] == ["com.own.Relu", "Relu"]


def test_weights_lie_where_the_file_says(tmp_path):
    values = np.arange(6, dtype=np.float32)
    floats = np.array([7.0, 8.0], np.float32).tobytes()
    away = text(1, "location") + text(2, "weights.bin"), text(1, "offset") + text(2, "64")
    found = read(
        tmp_path,
        model(
            [node("Constant", [], ["c"], attribute("value", field_bytes(5, tensor("", (1,), raw=b"\0\0\x80\x3f"))))],
            [
                tensor("raw", (2, 3), raw=values.tobytes()),
                tensor("typed", (2,), rest=field_bytes(4, floats)),
                tensor("shape", (2,), INT64, rest=field_bytes(7, bytes([3, 4]))),
                tensor("one", (), INT64, rest=field_varint(7, 5)),
                tensor("away", (4,), rest=b"".join(field_bytes(13, each) for each in away)),
            ],
        ),
    )
    content = (tmp_path / "model.onnx").read_bytes()

    def held(name):
        extent = found.weights[name].extent
        assert extent is not None
        assert extent.file == str(tmp_path / "model.onnx")
        return np.frombuffer(content[extent.offset : extent.offset + extent.nbytes], np.float32).tolist()

    assert (held("raw"), held("typed"), held("c")) == ([0, 1, 2, 3, 4, 5], [7, 8], [1])
    assert (found.weights["raw"].shape, found.weights["raw"].dtype) == ((2, 3), "float32")
    assert (found.weights["shape"].numbers, found.weights["one"].numbers) == ((3, 4), (5,))
    extent = found.weights["away"].extent
    assert extent is not None
    assert (extent.file, extent.offset, extent.nbytes) == (str(tmp_path / "weights.bin"), 64, 16)


@pytest.mark.parametrize("location", ["/etc/passwd", "../outside.bin", ""])
def test_a_weight_outside_the_folder_of_the_model_is_none(tmp_path, location):
    entry = field_bytes(13, text(1, "location") + text(2, location))
    assert read(tmp_path, model([], [tensor("w", (4,), rest=entry)])).weights == {}


def test_a_weight_of_another_size_than_it_says_is_none(tmp_path):
    assert read(tmp_path, model([], [tensor("w", (4,), raw=b"\0" * 4), tensor("s", (1,), 8)])).weights == {}


def test_a_model_that_was_written_again_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(model([]))
    with pytest.raises(OtherModelError, match="is not the one that was run"):
        read_onnx_model(str(path), "0" * 64)


def test_a_model_that_went_away_is_refused(tmp_path):
    with pytest.raises(FormatError) as caught:
        read_onnx_model(str(tmp_path / "gone.onnx"), "0" * 64)
    assert caught.value.diagnostic.code == "PF3001"


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_damaged_model_is_an_error_or_has_less(tmp_path, cut):
    whole = model([node("Relu", ["x"], ["y"])], [tensor("w", (2,), raw=b"\0" * 8)])
    found = None
    with suppress(FormatError):
        found = read(tmp_path, whole[:-cut])
    assert found is None or found.operators.keys() <= {"y"}
