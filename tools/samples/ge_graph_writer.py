"""Write the graph text that TorchAir leaves beside a device dump: the protobuf text print of a ``ge.proto.GraphDef``.

Only what the dump uses is written: operators with their edges, and output descriptors with element type, shape, the
FX tensor that the output belongs to (``_fx_tensor_name``) and the torch type and shape (``_meta``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

TORCH_TYPES = {
    "DT_FLOAT": "float32",
    "DT_FLOAT16": "float16",
    "DT_BF16": "bfloat16",
    "DT_INT64": "int64",
    "DT_INT32": "int32",
    "DT_BOOL": "bool",
}
"""Torch names of the element types as the graph text spells them."""

INDENT = "  "

_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("'"): "\\'", 10: "\\n", 13: "\\r", 9: "\\t"}


@dataclass(frozen=True, slots=True)
class OutputDesc:
    """One output: element type (``DT_...``), logical shape, FX name ``{node}-{target}.OUTPUT.{k}`` if it has one."""

    dtype: str
    shape: tuple[int, ...]
    fx_name: str | None = None


@dataclass(frozen=True, slots=True)
class GraphOp:
    """One operator. ``inputs`` are edges, ``producer:index``; ``value`` holds the bytes of a Const."""

    name: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[OutputDesc, ...]
    value: bytes | None = None


def graph_text(name: str, ops: Iterable[GraphOp]) -> str:
    """Return the whole file for the graph ``name`` (``graph_1``) with its operators in the given order."""
    lines = [f"name: {quoted(name)}"]
    for op in ops:
        lines += _block("op", _op_lines(op))
    return "\n".join(lines) + "\n"


def quoted(text: str | bytes) -> str:
    """Return a string with C escapes: quotes, backslashes and line ends escaped, other bytes beyond ASCII as octal."""
    content = text.encode() if isinstance(text, str) else text
    return '"' + "".join(_ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in content) + '"'


def _op_lines(op: GraphOp) -> Iterator[str]:
    yield f"name: {quoted(op.name)}"
    yield f"type: {quoted(op.type)}"
    for edge in op.inputs:
        yield f"input: {quoted(edge)}"
    names = [f"s: {quoted(f'x{index}')}" for index in range(len(op.inputs))]
    yield from _attribute("_input_name_key", _block("list", names))
    if op.value is not None:
        desc = op.outputs[0]
        tensor = [*_block("desc", [f"dtype: {desc.dtype}", *_shape_lines(desc.shape)]), f"data: {quoted(op.value)}"]
        yield from _attribute("value", _block("t", tensor))
    for output in op.outputs:
        yield from _block("output_desc", _output_lines(output))


def _output_lines(output: OutputDesc) -> Iterator[str]:
    yield 'name: "y"'
    yield f"dtype: {output.dtype}"
    yield from _shape_lines(output.shape)
    yield 'layout: "ND"'
    if output.fx_name is not None:
        yield from _attribute("_fx_tensor_name", [f"s: {quoted(output.fx_name)}"])
    meta = f"Tensor(dtype=torch.{TORCH_TYPES[output.dtype]}, shape=torch.Size({list(output.shape)}))"
    yield from _attribute("_meta", [f"s: {quoted(meta)}"])
    yield 'device_type: "NPU"'


def _shape_lines(shape: Sequence[int]) -> list[str]:
    return _block("shape", [f"dim: {dim}" for dim in shape])


def _attribute(key: str, value: Iterable[str]) -> list[str]:
    return _block("attr", [f"key: {quoted(key)}", *_block("value", value)])


def _block(name: str, lines: Iterable[str]) -> list[str]:
    return [f"{name} {{", *(INDENT + line for line in lines), "}"]
