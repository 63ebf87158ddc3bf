"""Tensors of ONNX Runtime as arrays, without a copy where numpy has the type, and arrays as its tensors."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from msgspec import Struct
from numpy.typing import NDArray
from onnx import TensorProto, helper

from probe_flow.dumpers.base.runner import NotHeldError

Array = NDArray[Any]


class ElementType(Struct, frozen=True):
    """An element type of ONNX.

    Args:
        name: canonical name.
        bits: of an element; below 8, several share a byte, the first in the lowest bits.
        stored: dtype of numpy or `ml_dtypes` of one element.
        wide: dtype of numpy that holds every value; None = `stored` itself.
    """

    name: str
    bits: int
    stored: Any
    wide: Any = None


def _types() -> dict[int, ElementType]:
    found: dict[int, ElementType] = {}
    plain = {
        "FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BOOL": "bool", "COMPLEX64": "complex64",
        "COMPLEX128": "complex128",
    }  # fmt: skip
    plain |= {f"{u}INT{bits}": f"{u.lower()}int{bits}" for u in ("", "U") for bits in (8, 16, 32, 64)}
    for word, name in plain.items():
        dtype = np.dtype(name)
        found[getattr(TensorProto, word)] = ElementType(name, dtype.itemsize * 8, dtype)
    small = {
        "BFLOAT16": ("bfloat16", 16), "FLOAT8E4M3FN": ("float8_e4m3fn", 8), "FLOAT8E4M3FNUZ": ("float8_e4m3fnuz", 8),
        "FLOAT8E5M2": ("float8_e5m2", 8), "FLOAT8E5M2FNUZ": ("float8_e5m2fnuz", 8),
        "FLOAT8E8M0": ("float8_e8m0fnu", 8), "FLOAT4E2M1": ("float4_e2m1fn", 4), "INT4": ("int4", 4),
        "UINT4": ("uint4", 4), "INT2": ("int2", 2), "UINT2": ("uint2", 2),
    }  # fmt: skip
    for word, (name, bits) in small.items():
        if hasattr(TensorProto, word) and hasattr(ml_dtypes, name):
            wide = np.dtype({"u": "uint8", "i": "int8"}.get(name[0], "float32"))
            found[getattr(TensorProto, word)] = ElementType(name, bits, np.dtype(getattr(ml_dtypes, name)), wide)
    return found


TYPES = _types()
"""Number of `TensorProto.DataType` -> element type, those of numbers."""


def type_name(number: int) -> str:
    """Return the name of an element type, also of one whose elements are no numbers.

    >>> type_name(16), type_name(8)
    ('bfloat16', 'string')
    """
    if number in TYPES:
        return TYPES[number].name
    return str(TensorProto.DataType.Name(number)).lower()


def array_of(value: ort.OrtValue) -> tuple[Array, str]:
    """Return a tensor's elements, widened where numpy lacks the type, and the name of the true type.

    The array looks into the tensor's memory where nothing is widened: it lives no longer than ``value``.

    Raises:
        NotHeldError: it is no tensor of numbers.
    """
    if not value.has_value():
        raise NotHeldError("an optional output that was not made")
    if not value.is_tensor():
        raise NotHeldError(f"it is {value.data_type()}, not a tensor")
    kind = TYPES.get(value.element_type())
    if kind is None:
        raise NotHeldError(f"its elements are of type {type_name(value.element_type())}, which are no numbers")
    array = _elements(value, kind)
    wide: Array = array if kind.wide is None else array.astype(kind.wide)
    return wide, kind.name


def _elements(value: ort.OrtValue, kind: ElementType) -> Array:
    shape = tuple(value.shape())
    count = math.prod(shape)
    size = -(-count * kind.bits // 8)
    if not count:
        return np.zeros(shape, np.dtype(kind.stored))
    raw = np.frombuffer((ctypes.c_ubyte * size).from_address(value.data_ptr()), np.uint8)
    if kind.bits >= 8:
        whole: Array = raw.view(kind.stored).reshape(shape)
        return whole
    return unpacked(raw, kind, count).reshape(shape)


def unpacked(raw: Array, kind: ElementType, count: int) -> Array:
    """Return elements of which several share a byte, one a byte."""
    shifts = np.arange(0, 8, kind.bits, dtype=np.uint8)
    codes = ((raw[:, None] >> shifts) & ((1 << kind.bits) - 1)).reshape(-1)[:count]
    if kind.name.startswith("int"):  # two's complement: the sign bit moves to that of a byte
        free = 8 - kind.bits
        signed: Array = (codes << free).view(np.int8) >> free
        return signed.astype(kind.stored)
    return codes.astype(kind.stored) if kind.name.startswith("uint") else codes.view(kind.stored)


def value_of(array: Array, number: int) -> ort.OrtValue:
    """Return an array as a tensor of an element type; it looks into the array's memory where it can.

    Raises:
        NotHeldError: ONNX Runtime takes no such elements from here.
    """
    kind = TYPES.get(number)
    if number == TensorProto.STRING:
        return _texts(array)
    if kind is None:
        raise NotHeldError(f"elements of type {type_name(number)} cannot be given")
    array = np.ascontiguousarray(array.astype(kind.stored, copy=False)).reshape(array.shape)
    if kind.wide is None:
        return ort.OrtValue.ortvalue_from_numpy(array)
    if kind.bits < 8:
        raise NotHeldError(f"elements of type {kind.name} cannot be given")
    raw = array.view(np.uint16 if kind.bits == 16 else np.uint8)
    found = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
    found.keeps = raw  # it does not hold the array itself
    return found


def _texts(array: Array) -> ort.OrtValue:
    """Return texts as a tensor, which only a model can give."""
    tensor = onnx.numpy_helper.from_array(array.astype(object))
    (found,) = _session(helper.make_node("Constant", [], ["texts"], value=tensor)).run_with_ort_values(None, {})
    return found


def type_proto(value: ort.OrtValue) -> onnx.TypeProto | None:
    """Return the type of a tensor, with its shape, or of a sequence of them; None for what no graph can be given."""
    if not value.has_value():
        return None
    if value.is_tensor():
        return helper.make_tensor_type_proto(value.element_type(), value.shape())
    if value.is_tensor_sequence():
        inner = value.data_type().removeprefix("seq(tensor(").removesuffix("))")
        if inner in _BY_WORD:
            return helper.make_sequence_type_proto(helper.make_tensor_type_proto(_BY_WORD[inner], None))
    return None


_WORDS = {"FLOAT": "float", "DOUBLE": "double"}
_BY_WORD = {
    _WORDS.get(str(TensorProto.DataType.Name(number)), str(TensorProto.DataType.Name(number)).lower()): number
    for number in (*TYPES, TensorProto.STRING)
}
"""Names of element types in ONNX Runtime's own words -> their numbers."""


def items_of(value: ort.OrtValue) -> Iterator[ort.OrtValue]:
    """Yield the tensors of a sequence, which ONNX Runtime gives out one by one only to a model."""
    kind = type_proto(value)
    assert kind is not None, "a sequence of tensors"
    all_of_them = onnx.ValueInfoProto(name="all", type=kind)
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    counter = _session(helper.make_node("SequenceLength", ["all"], ["length"]), all_of_them)
    taker = _session(helper.make_node("SequenceAt", ["all", "number"], ["item"]), all_of_them, number)
    (length,) = counter.run_with_ort_values(None, {"all": value})
    for index in range(int(length.numpy())):
        wanted = ort.OrtValue.ortvalue_from_numpy(np.array(index, np.int64))
        yield from taker.run_with_ort_values(None, {"all": value, "number": wanted})


def _session(node: onnx.NodeProto, *inputs: onnx.ValueInfoProto) -> ort.InferenceSession:
    graph = helper.make_graph([node], "item", list(inputs), [onnx.ValueInfoProto(name=node.output[0])])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
