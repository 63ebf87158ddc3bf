"""Emulate what the device leaves of an offline model: its operators' files, and the fusion rules that ATC would print.

Each operator computes in float32 from stored inputs and weights of float16, then rounds to its own type and goes into
its own storage layout. The operators' lists are what a graph compiler makes of the sample network: with fusion on,
with fusion off, and with a quantised first convolution.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from ge_writer import DumpTensor, file_name, write_dump
from offline_golden import FIRST_US, Golden
from offline_layers import INPUT, Array, Layer, compute

Tamper = Mapping[str, Callable[[Array], Array]]

NEVER_DUMPED = ("Data", "Const", "NetOutput")
_TYPE_NAMES = {"float16": "DT_FLOAT16", "float32": "DT_FLOAT", "int8": "DT_INT8"}
_NHWC = (0, 2, 3, 1)


@dataclass(frozen=True)
class DeviceOp:
    """One operator of the device.

    Args:
        name, op_type: in the compiled graph.
        inputs: the operators it reads, output 0 of each.
        layers: the layers of the network that it computes; none for operators that the compiler added.
        layout, dtype: of its output.
        is_multiop: one of several operators of one layer; only the last of them gives what the layer gives.
        originals: names before fusion in place of those of its layers.
        step: what it computes where that is not its layers.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    layout: str = "NC1HWC0"
    dtype: str = "float16"
    is_multiop: bool = False
    originals: tuple[str, ...] | None = None
    step: Callable[[Array], Array] | None = field(default=None, compare=False)


def _sum_of_image(x: Array) -> Array:
    return x.sum(axis=(2, 3), keepdims=True)


def _mean_of_sum(x: Array) -> Array:
    return x / x.dtype.type(16)


_TAIL = (
    DeviceOp("gap_sum", "ReduceSumD", ("block/conv2relu2",), ("gap",), is_multiop=True, step=_sum_of_image),
    DeviceOp("gap", "RealDiv", ("gap_sum",), ("gap",), step=_mean_of_sum),
    DeviceOp("fc", "MatMulV2", ("gap",), ("fc",), "FRACTAL_NZ"),
    DeviceOp("trans_TransData_1", "TransData", ("fc",), (), "ND"),
    DeviceOp("trans_Cast_2", "Cast", ("trans_TransData_1",), (), "ND", "float32"),
    DeviceOp("softmax", "SoftmaxV2", ("trans_Cast_2",), ("softmax",), "ND", "float32"),
    DeviceOp("Node_Output", "NetOutput", ("softmax",), (), "ND", "float32"),
)
_BLOCK = (
    DeviceOp("pool1", "MaxPool", ("conv1relu1",), ("pool1",)),
    DeviceOp("block/shortcut", "Conv2D", ("pool1",), ("block/shortcut",)),
    DeviceOp(
        "block/conv2relu2",
        "Conv2D",
        ("pool1", "block/shortcut"),
        ("block/conv2", "block/bn2", "block/add", "block/relu2"),
    ),
)
_HEAD = (
    DeviceOp(INPUT, "Data", (), (), "NCHW", "float32"),
    DeviceOp("trans_TransData_0", "TransData", (INPUT,)),
)

FUSION_ON = (
    *_HEAD,
    DeviceOp("conv1relu1", "Conv2D", ("trans_TransData_0",), ("conv1", "bn1", "relu1")),
    *_BLOCK,
    *_TAIL,
)

FUSION_OFF = (
    *_HEAD,
    DeviceOp("conv1", "Conv2D", ("trans_TransData_0",), ("conv1",)),
    DeviceOp("bn1", "BNInference", ("conv1",), ("bn1",)),
    DeviceOp("relu1", "Relu", ("bn1",), ("relu1",)),
    DeviceOp("pool1", "MaxPool", ("relu1",), ("pool1",)),
    DeviceOp("block/shortcut", "Conv2D", ("pool1",), ("block/shortcut",)),
    DeviceOp("block/conv2", "Conv2D", ("pool1",), ("block/conv2",)),
    DeviceOp("block/bn2", "BNInference", ("block/conv2",), ("block/bn2",)),
    DeviceOp("block/add", "Add", ("block/bn2", "block/shortcut"), ("block/add",)),
    DeviceOp("block/relu2", "Relu", ("block/add",), ("block/relu2",)),
    DeviceOp("gap", "ReduceMeanD", ("block/relu2",), ("gap",)),
    DeviceOp("fc", "MatMulV2", ("gap",), ("fc",), "ND"),
    DeviceOp("trans_Cast_9", "Cast", ("fc",), (), "ND", "float32"),
    DeviceOp("softmax", "SoftmaxV2", ("trans_Cast_9",), ("softmax",), "ND", "float32"),
    DeviceOp("Node_Output", "NetOutput", ("softmax",), (), "ND", "float32"),
)

INT8_SCALE = 4.0 / 127


def _quantise(x: Array) -> Array:
    return np.clip(np.rint(x / x.dtype.type(INT8_SCALE)), -128, 127)


_QUANTISED_NAMES = {"conv1relu1": "conv1conv1_dequant_layerrelu1"}

QUANTISED = (
    _HEAD[0],
    DeviceOp(
        "conv1_quant_layer", "AscendQuant", (INPUT,), (), "NC1HWC0", "int8",
        originals=("conv1_quant_layer",), step=_quantise,
    ),
    DeviceOp(
        "conv1conv1_dequant_layerrelu1", "Conv2D", ("conv1_quant_layer",), ("conv1", "bn1", "relu1"),
        originals=("conv1", "conv1_dequant_layer", "relu1"),
    ),
    *(
        replace(op, inputs=tuple(_QUANTISED_NAMES.get(name, name) for name in op.inputs)) for op in (*_BLOCK, *_TAIL)
    ),
)  # fmt: skip


def with_weights(ops: Sequence[DeviceOp], layers: Sequence[Layer]) -> tuple[DeviceOp, ...]:
    """Return the operators with one more, of type Const, before each that reads a weight."""
    kernels = {layer.name: layer.kind for layer in layers if layer.kind in ("conv", "fc")}
    found: list[DeviceOp] = []
    for op in ops:
        weights = [name for name in op.layers if name in kernels]
        for name in weights:
            layout = "FRACTAL_Z" if kernels[name] == "conv" else "ND"
            found += [DeviceOp(f"{name}/weight", "Const", layout=layout)]
        found.append(replace(op, inputs=(*op.inputs, *(f"{name}/weight" for name in weights))))
    return tuple(found)


def run_device(
    ops: Sequence[DeviceOp], layers: Sequence[Layer], x: Array, tamper: Tamper | None = None
) -> dict[str, Array]:
    """Return the output of each operator, NCHW; ``tamper`` changes what an operator gives before it is stored."""
    by_name = {layer.name: layer for layer in layers}
    found: dict[str, Array] = {}
    for op in ops:
        if op.op_type == "Const":
            found[op.name] = by_name[op.name.removesuffix("/weight")].weights[0].astype(op.dtype)
            continue
        inputs = [found[name].astype(np.float32) for name in op.inputs if not name.endswith("/weight")]
        value = x if op.op_type == "Data" else _result(op, inputs, by_name)
        value = (tamper or {}).get(op.name, np.asarray)(value)
        found[op.name] = value.astype(op.dtype)
    return found


def _result(op: DeviceOp, inputs: list[Array], layers: Mapping[str, Layer]) -> Array:
    if op.step is not None:
        return op.step(inputs[0])
    if op.inputs[0].endswith("quant_layer"):
        inputs[0] = inputs[0] * np.float32(INT8_SCALE)
    value, inner = inputs[0], {}
    for name in op.layers:
        layer = layers[name]
        weights = [weight.astype(np.float16).astype(np.float32) for weight in layer.weights]
        others = [inner.get(source) for source in layer.inputs]
        taken = [inputs[min(place, len(inputs) - 1)] if other is None else other for place, other in enumerate(others)]
        value = inner[name] = compute(layer.kind, taken, weights)
    return value


def write_device(
    ops: Sequence[DeviceOp], found: Mapping[str, Array], folder: Path, *, layout: str = "NCHW", first_us: int = FIRST_US
) -> None:
    """Write one dump file an operator; ``layout`` is the order in which the framework counts an image's axes."""
    folder.mkdir(parents=True)
    by_name = {op.name: op for op in ops}
    place = 0
    for op in ops:
        if op.op_type in NEVER_DUMPED:
            continue
        place += 1
        inputs = [
            _tensor(by_name[name], found[name], layout, 0x1000 * (100 + number))
            for number, name in enumerate(op.inputs)
        ]
        name = file_name(op.op_type, op.name, place, 3, first_us + 1000 * place)
        output = _tensor(op, found[op.name], layout, 0x1000 * place)
        write_dump(folder / name, op_name=op.name, inputs=inputs, outputs=[output], dump_time=first_us + 1000 * place)


def _tensor(op: DeviceOp, values: Array, layout: str, address: int) -> DumpTensor:
    if op.op_type == "Const":
        return DumpTensor(values, op.dtype, op.layout, address=address)
    original = tuple(values.shape[axis] for axis in _NHWC) if layout == "NHWC" and values.ndim == 4 else None
    if op.layout == "NCHW" and original is not None:
        return DumpTensor(values, op.dtype, "NHWC", address=address, original_shape=original)
    c0 = 32 if op.dtype == "int8" else 16
    return DumpTensor(values, op.dtype, op.layout, c0=c0, address=address, original_shape=original)


def rules(name: str, ops: Sequence[DeviceOp], found: Mapping[str, Array], golden: Golden) -> dict[str, Any]:
    """Return the fusion rules as ATC prints them: the compiled graph with the names before fusion."""
    return {
        "name": name,
        "attr": [{"key": "attr_model_out_nodes_name", "value": {"list": {"val_type": 1, "s": ["softmax:0"]}}}],
        "graph": [
            {"name": name, "op": [_rule(op, number, found[op.name], golden) for number, op in enumerate(ops, start=1)]}
        ],
    }


def _rule(op: DeviceOp, number: int, values: Array, golden: Golden) -> dict[str, Any]:
    originals = _originals(op, golden)
    listed: dict[str, Any] = {"val_type": 1, **({"s": list(originals)} if originals else {})}
    attributes: list[dict[str, Any]] = [{"key": "_datadump_original_op_names", "value": {"list": listed}}]
    if op.is_multiop or op.step is _mean_of_sum:
        attributes.append({"key": "_datadump_is_multiop", "value": {"b": True}})
    shape = [values.shape[axis] for axis in _NHWC] if golden.layout == "NHWC" and values.ndim == 4 else [*values.shape]
    words: list[dict[str, Any]] = []
    if originals and not op.is_multiop:
        label = golden.layout if values.ndim == 4 else "ND"
        words += [_text("_datadump_origin_name", originals[-1]), _number("_datadump_origin_output_index", 0)]
        words += [_text("_datadump_origin_format", label), _text("origin_format", label)]
        words.append({"key": "origin_shape", "value": {"list": {"val_type": 2, "i": shape}}})
    layout = golden.layout if op.layout == "NCHW" else op.layout
    rule: dict[str, Any] = {
        "name": op.name,
        "type": op.op_type,
        "id": number,
        "attr": attributes,
        "output_desc": [
            {
                "dtype": _TYPE_NAMES[op.dtype],
                "layout": layout,
                "shape": {"dim": shape},
                **({"attr": words} if words else {}),
            }
        ],
    }
    if op.inputs:
        rule["input"] = [f"{name}:0" for name in op.inputs]
    return rule


def _originals(op: DeviceOp, golden: Golden) -> tuple[str, ...]:
    if op.originals is not None:
        return op.originals
    if op.op_type == "Data":
        return (op.name,)
    return tuple(name for layer in op.layers for name in golden.originals[layer])


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"s": value}}


def _number(key: str, value: int) -> dict[str, Any]:
    return {"key": key, "value": {"i": value}}


def write_rules(content: Mapping[str, Any], path: Path) -> None:
    """Write rules as JSON."""
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
