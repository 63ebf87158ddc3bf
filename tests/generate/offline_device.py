"""Run compiled operators as a device would, and write what it leaves: dump files and fusion rules.

Every operator computes in float32 from stored inputs and weights, then rounds to its own type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import rule_builders as rules
from ge_writer import DumpTensor
from om_writer import OmFolder, OmTensor

from generate.offline_compiler import FOLDED_KINDS, Build, DeviceOp
from generate.offline_layers import EPSILON, Array, Layer, compute, edge

Tamper = Callable[[DeviceOp, list[Array], list[Array]], list[Array]]
"""Takes an operator, its inputs and its right outputs, and returns what it gives."""

Computed = Callable[[Layer, Sequence[Array], Sequence[Array]], list[Array]]

NEVER_DUMPED = frozenset({"Data", "Const", "NetOutput"})
ROUGH = frozenset({"RealDiv", "Exp", "SwishPart", "softmax", "mul", "scale", "LayerNormScale"})
"""Operators and kinds of layers that may compute in the storage type throughout."""

FIRST_ADDRESS, ALIGNMENT = 0x100000, 0x200
NHWC = (0, 2, 3, 1)
_RULE_TYPES = {"float16": "DT_FLOAT16", "float32": "DT_FLOAT", "int8": "DT_INT8", "bfloat16": "DT_BF16"}


def stored(values: Array, dtype: str) -> Array:
    """Return values rounded to an element type, in that type."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def run_device(
    ops: Sequence[DeviceOp], x: Array, build: Build, *, tamper: Tamper | None = None, computed: Computed = compute
) -> dict[str, Array]:
    """Return every device output by ``name:index``; ``tamper`` changes what an operator gives before it is stored."""
    found: dict[str, Array] = {}
    for op in ops:
        if op.op_type == "Const":
            assert op.step is not None
            found[f"{op.name}:0"] = stored(op.step([])[0], op.dtype)
            continue
        inputs = [found[name].astype(np.float32) for name in op.inputs[: len(op.reads)]]
        outputs = [x] if op.op_type == "Data" else _outputs(op, inputs, build, computed)
        if tamper is not None:
            outputs = tamper(op, inputs, outputs)
        found.update((f"{op.name}:{n}", stored(values, op.dtype)) for n, values in enumerate(outputs))
    return found


def _outputs(op: DeviceOp, inputs: list[Array], build: Build, computed: Computed) -> list[Array]:
    storage = build.storage
    if build.is_rough and (op.op_type in ROUGH or (op.layers[-1:] and op.layers[-1].kind in ROUGH)):
        inputs = [stored(values, storage) for values in inputs]
    if op.step is not None:
        return op.step(inputs)
    if not op.layers:
        return [inputs[0]]
    known = dict(zip(op.reads, inputs, strict=True))
    values: list[Array] = []
    layers = op.layers
    if op.int8 is not None:
        layer, rest = layers[0], layers[op.int8.folded :]
        shape = (1, -1, 1, 1) if layer.kind == "conv" else (1, -1)
        summed = compute(layer, [inputs[0].astype(np.float64)], [op.int8.codes.astype(np.float64)])[0]
        scale = op.int8.scale * op.int8.weight_scale.reshape(shape)
        values = [(summed * scale + op.int8.bias.reshape(shape)).astype(np.float32)]
        known[edge(layers[op.int8.folded - 1].name)] = values[0]
        layers = rest
    for layer in layers:
        weights = [stored(weight, storage).astype(np.float32) for weight in layer.weights]
        values = computed(layer, [known[edge(name)] for name in layer.inputs], weights)
        known.update((f"{layer.name}:{n}", each) for n, each in enumerate(values))
    return values


def write_device(
    ops: Sequence[DeviceOp], found: Mapping[str, Array], folder: Path, *, images: str = "NCHW", dumped: object = None,
    first: int = 0,
) -> None:  # fmt: skip
    """Write one dump file an operator; ``images`` is the order in which the framework counts an image's axes."""
    out = OmFolder(folder)
    addresses = {name: FIRST_ADDRESS + ALIGNMENT * place for place, name in enumerate(found)}
    by_name = {op.name: op for op in ops}
    for place, op in enumerate(ops, start=1):
        if op.op_type in NEVER_DUMPED or (isinstance(dumped, frozenset) and op.name not in dumped):
            continue
        inputs = [
            tensor_of(by_name[name.rpartition(":")[0]], found[name], images, addresses[name]) for name in op.inputs
        ]
        given = [f"{op.name}:{n}" for n in range(len(op.gives))]
        outputs = [tensor_of(op, found[name], images, addresses[name]) for name in given]
        out.op(op.op_type, op.name, at=first + 1000 * place, inputs=inputs, outputs=outputs)


def tensor_of(op: DeviceOp, values: Array, images: str, address: int = 0) -> OmTensor:
    """Return a device output as it is dumped."""
    c0 = 32 if op.dtype == "int8" else 16
    layout, sub_format = op.layout, 0
    if layout == "FRACTAL_Z" and op.layers[0].number > 1:
        sub_format = int(op.layers[0].number)
    original: tuple[int, ...] = values.shape
    if images == "NHWC" and values.ndim == 4 and op.op_type != "Const":
        original = tuple(values.shape[axis] for axis in NHWC)
        layout = "NHWC" if layout == "NCHW" else layout
    given = DumpTensor(values, op.dtype, layout, c0=c0, sub_format=sub_format, address=address)
    return OmTensor(given, original_shape=original)


def rule_model(
    ops: Sequence[DeviceOp], found: Mapping[str, Array], *, images: str = "NCHW", name: str = "net"
) -> rules.Tree:
    """Return the compiled graph with the names before fusion."""
    return rules.model(*(_rule(op, number, found, images) for number, op in enumerate(ops, start=1)), name=name)


def _rule(op: DeviceOp, number: int, found: Mapping[str, Array], images: str) -> rules.Tree:
    outputs = []
    for place, given in enumerate(op.gives):
        values = found[f"{op.name}:{place}"]
        is_image = values.ndim == 4
        shape = tuple(values.shape[axis] for axis in NHWC) if images == "NHWC" and is_image else values.shape
        origin, index = (None, None) if given is None or op.op_type == "Const" else _origin(op, given)
        described = {"origin_layout": images if is_image else "ND", "origin_shape": shape}
        layout = images if op.layout == "NCHW" else op.layout
        outputs.append(rules.desc(origin, index, dtype=_RULE_TYPES[op.dtype], layout=layout, shape=shape, **described))
    return rules.op(
        op.name, op.op_type, number=number, inputs=op.inputs, originals=op.originals, outputs=outputs,
        is_multiop=True if op.is_inner else None, attrs=_attributes(op, found, images),
    )  # fmt: skip


def _attributes(op: DeviceOp, found: Mapping[str, Array], images: str) -> list[rules.Tree]:
    """Return what the compiler says of how an operator computes; of products that go on with other layers, little."""

    def ints(key: str, *values: int) -> rules.Tree:
        return rules.attr(key, list={"val_type": "VT_LIST_INT", **({"i": list(values)} if values else {})})

    layer = op.layers[0] if op.layers else None
    x = found[op.inputs[0]] if op.inputs else None
    if layer is None and op.op_type == "ReduceMeanD":
        return [ints("axes", -1), rules.attr("keep_dims", b=True)]
    if layer is None or x is None:
        return []
    is_image = x.ndim == 4
    axes = (0, 2, 3, 1) if images == "NHWC" and is_image else range(x.ndim)  # places of the framework's axes in ours
    if op.op_type == "Conv2D":
        size = layer.weights[0].shape[2]
        return [
            ints("strides", 1, 1, 1, 1), ints("pads", *[size // 2] * 4), ints("dilations", 1, 1, 1, 1),
            rules.attr("groups", i=int(layer.number)), rules.attr("data_format", s=images),
        ]  # fmt: skip
    if op.op_type == "MaxPool":
        size = (1, 1, 2, 2) if images == "NCHW" else (1, 2, 2, 1)
        return [ints("ksize", *size), ints("strides", *size), rules.attr("padding", s="VALID"),
                rules.attr("data_format", s=images)]  # fmt: skip
    if op.op_type == "ReduceMeanD":
        return [ints("axes", *(list(axes).index(axis) for axis in (2, 3))), rules.attr("keep_dims", b=True)]
    if op.op_type == "ConcatD":
        return [rules.attr("concat_dim", i=list(axes).index(int(layer.number)))]
    if op.op_type == "SplitD":
        split = list(axes).index(1) if is_image else x.ndim - 1
        return [rules.attr("split_dim", i=split), rules.attr("num_split", i=int(layer.number))]
    if op.op_type == "BatchMatMulV2":
        return [rules.attr("adj_x1", b=False), rules.attr("adj_x2", b=False)]
    if op.op_type == "LayerNorm":
        return [rules.attr("begin_norm_axis", i=-1), rules.attr("epsilon", f=str(EPSILON))]
    if op.op_type == "Muls":
        return [rules.attr("value", f=str(layer.number))]
    if op.op_type == "SoftmaxV2":
        return [ints("axes", -1)]
    if op.op_type == "TransposeD":
        return [ints("perm", *range(x.ndim - 2), x.ndim - 1, x.ndim - 2)]
    return []


def _origin(op: DeviceOp, given: str) -> tuple[str, int]:
    name, _, index = given.rpartition(":")
    if op.int8 is not None and op.originals[-1].endswith("_dequant_layer"):
        name = op.originals[-1]
    return name, int(index)


def quantisation_model(layers: Sequence[Layer], int8: frozenset[str], golden: Mapping[str, Array]) -> rules.Tree:
    """Return the rules of the quantisation tool: the quantised network with the names before it."""
    ops: list[rules.Tree] = []
    renamed: dict[str, str] = {}
    folded: dict[str, str] = {}
    readers: dict[str, list[Layer]] = {}
    for layer in layers:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer)

    def add(name: str, kind: str, inputs: Sequence[str], originals: Sequence[str], *outputs: rules.Tree) -> None:
        several = True if len(originals) > 1 else None
        ops.append(
            rules.op(name, kind, number=len(ops) + 1, inputs=[edge(renamed.get(n, n)) for n in inputs],
                     originals=originals, outputs=outputs, is_multiop=several)
        )  # fmt: skip

    def described(origin: str | None, values: Array, dtype: str = "DT_FLOAT", index: int = 0) -> rules.Tree:
        layout = "NCHW" if values.ndim == 4 else "ND"
        return rules.desc(origin, None if origin is None else index, dtype=dtype, layout=layout, shape=values.shape,
                          origin_layout=layout, origin_shape=values.shape)  # fmt: skip

    add("x", "Input", (), ("x",), described("x", golden["x:0"]))
    for layer in layers:
        if layer.name in folded.values():
            continue
        values = golden[edge(layer.name)]
        if layer.name not in int8:
            outputs = [
                described(layer.name, golden[key], index=n) for n in range(9) if (key := f"{layer.name}:{n}") in golden
            ]
            add(layer.name, layer.kind, layer.inputs, (layer.name,), *outputs)
            continue
        behind = readers.get(layer.name, [])
        last = behind[0] if len(behind) == 1 and behind[0].kind in FOLDED_KINDS else layer
        both = [layer.name] if last is layer else [layer.name, last.name]
        if last is not layer:
            folded[layer.name] = last.name
        quant, dequant = f"{layer.name}_quant_layer", f"{layer.name}_dequant_layer"
        add(quant, "Quant", layer.inputs, both, described(None, golden[edge(layer.inputs[0])], "DT_INT8"))
        add(layer.name, "Convolution", (quant,), both, described(None, values, "DT_INT32"))
        add(dequant, "DeQuant", (layer.name,), both, described(last.name, golden[edge(last.name)], "DT_FLOAT16"))
        renamed[last.name] = dequant
    return rules.model(*ops)


def replaced(layers: Sequence[Layer], name: str, **changes: object) -> tuple[Layer, ...]:
    """Return the layers with one of them changed."""
    return tuple(replace(layer, **changes) if layer.name == name else layer for layer in layers)
