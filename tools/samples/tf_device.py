"""Emulate what a device leaves of one TensorFlow training step: operators' files, and the texts of its graphs.

The step is that of `tf_step`: three dense layers, a loss, their gradients, and an update of the weights. Each operator
computes in float32 from stored inputs, then rounds to its own type and goes into its own storage layout. The operators
are what a graph compiler makes of the step: fused matrix products in private layouts, casts and changes of layout of
its own, and the update in a graph of its own. Nothing here needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import graph_text_writer
import numpy as np
from ge_writer import DumpTensor, file_name, write_dump
from numpy.typing import NDArray

Array = NDArray[Any]
Compute = Callable[..., Any]
Tamper = Mapping[str, Callable[[Array], Array]]

TIME = "20260101000000"
STEP_GRAPH, UPDATE_GRAPH = f"ge_default_{TIME}_11", f"ge_default_{TIME}_21"
FIRST_US = 1_700_000_000_000_000
BATCH, RATE = 8, 0.1
LAYERS = ("dense1", "dense2", "logits")
FEEDS = ("input/x", "input/labels", *(f"{layer}/{part}" for layer in LAYERS for part in ("kernel", "bias")))
NEVER_DUMPED = ("Data", "Variable", "NetOutput")
_NAMES = {"float16": "DT_FLOAT16", "float32": "DT_FLOAT"}


@dataclass(frozen=True)
class DeviceOp:
    """One operator of the device.

    Args:
        name, op_type: in the compiled graph.
        inputs: ``operator:output``.
        compute: of the inputs in float32; several outputs as a tuple.
        originals: operators of the user's graph that it was made of, the last one giving its outputs.
        dtype, layout: of its outputs.
        passes: compiler passes that made it.
        outputs: how many it gives.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    compute: Compute = field(default=lambda x: x, compare=False)
    originals: tuple[str, ...] = ()
    dtype: str = "float16"
    layout: str = "ND"
    passes: tuple[str, ...] = ()
    outputs: int = 1


def _dense(layer: str, source: str, *more: str, act: Compute = lambda x: x) -> DeviceOp:
    parts = (f"{layer}/MatMul", f"{layer}/BiasAdd", *more)
    return DeviceOp(
        "".join(parts), "MatMulV2", (source, f"{layer}/kernel:0", f"{layer}/bias:0"),
        lambda x, w, b: act(x @ w + b), parts, layout="FRACTAL_NZ", passes=("MatMulBiasAddFusionPass",),
    )  # fmt: skip


def _xent(x: Array, labels: Array) -> tuple[Array, Array]:
    shifted = x - x.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    return (labels * (np.log(total) - shifted)).sum(axis=1), np.exp(shifted) / total - labels


def _alone(
    name: str, op_type: str, inputs: Sequence[str], compute: Compute, dtype: str = "float16", **more: Any
) -> DeviceOp:
    return DeviceOp(name, op_type, tuple(inputs), compute, (name,), dtype, **more)


def _bias_grad(layer: str, source: str) -> DeviceOp:
    name = f"gradients/{layer}/BiasAdd_grad/BiasAddGrad"
    return _alone(name, "BiasAddGrad", [source], lambda g: g.sum(axis=0), "float32")


def _product_grad(layer: str, source: str) -> DeviceOp:
    name = f"gradients/{layer}/MatMul_grad/MatMul"
    return _alone(name, "MatMulV2", [source, f"{layer}/kernel:0"], lambda g, w: g @ w.T, layout="FRACTAL_NZ")


def _weight_grad(layer: str, read: str, source: str) -> DeviceOp:
    name = f"gradients/{layer}/MatMul_grad/MatMul_1"
    return _alone(name, "MatMulV2", [read, source], lambda x, g: x.T @ g, "float32")


XENT = "loss/xent"
RELU, TANH, PREDICTED = "dense1/MatMuldense1/BiasAdddense1/Relu", "dense2/Tanh", "logits/MatMullogits/BiasAdd"
MUL, TANH_GRAD, RELU_GRAD = (
    "gradients/loss/xent_grad/mul", "gradients/dense2/Tanh_grad/TanhGrad", "gradients/dense1/Relu_grad/ReluGrad"
)  # fmt: skip

STEP = (
    *(DeviceOp(name, "Data", originals=(name,), dtype="float32") for name in FEEDS[:2]),
    *(DeviceOp(name, "Variable", originals=(name,), dtype="float32") for name in FEEDS[2:]),
    DeviceOp("trans_Cast_0", "Cast", ("input/x:0",)),
    DeviceOp("trans_TransData_1", "TransData", ("trans_Cast_0:0",), layout="FRACTAL_NZ"),
    _dense("dense1", "trans_TransData_1:0", "dense1/Relu", act=lambda x: np.maximum(x, 0)),
    _dense("dense2", f"{RELU}:0"),
    _alone(TANH, "Tanh", ["dense2/MatMuldense2/BiasAdd:0"], np.tanh, layout="FRACTAL_NZ"),
    _dense("logits", f"{TANH}:0"),
    DeviceOp("trans_TransData_2", "TransData", (f"{PREDICTED}:0",)),
    DeviceOp("trans_Cast_3", "Cast", ("trans_TransData_2:0",), dtype="float32"),
    _alone(XENT, "SoftmaxCrossEntropyWithLogits", ["trans_Cast_3:0", "input/labels:0"], _xent, "float32", outputs=2),
    _alone("loss/mean", "ReduceMeanD", ["loss/xent:0"], lambda x: x.mean(), "float32"),
    _alone(MUL, "Mul", ["loss/xent:1"], lambda g: g / BATCH, "float32"),
    _bias_grad("logits", f"{MUL}:0"),
    DeviceOp("trans_Cast_4", "Cast", (f"{MUL}:0",)),
    _product_grad("logits", "trans_Cast_4:0"),
    _weight_grad("logits", f"{TANH}:0", "trans_Cast_4:0"),
    _alone(TANH_GRAD, "TanhGrad", [f"{TANH}:0", "gradients/logits/MatMul_grad/MatMul:0"], lambda y, g: g * (1 - y * y)),
    _bias_grad("dense2", f"{TANH_GRAD}:0"),
    _product_grad("dense2", f"{TANH_GRAD}:0"),
    _weight_grad("dense2", f"{RELU}:0", f"{TANH_GRAD}:0"),
    _alone(RELU_GRAD, "ReluGrad", ["gradients/dense2/MatMul_grad/MatMul:0", f"{RELU}:0"], lambda g, y: g * (y > 0)),
    _bias_grad("dense1", f"{RELU_GRAD}:0"),
    _weight_grad("dense1", "trans_TransData_1:0", f"{RELU_GRAD}:0"),
    DeviceOp("Node_Output", "NetOutput", ("loss/mean:0",), dtype="float32"),
)  # fmt: skip


def _update(layer: str, part: str) -> DeviceOp:
    name = f"GradientDescent/update_{layer}/{part}/ApplyGradientDescent"
    read = [f"{layer}/{part}:0", f"grad/{layer}/{part}:0"]
    return _alone(name, "ApplyGradientDescent", read, lambda w, g: w - RATE * g, "float32")


GRADIENT = {"kernel": "MatMul_grad/MatMul_1", "bias": "BiasAdd_grad/BiasAddGrad"}
_WEIGHTS = [(layer, part) for layer in LAYERS for part in ("kernel", "bias")]
UPDATE = (
    *(DeviceOp(name, "Variable", originals=(name,), dtype="float32") for name in FEEDS[2:]),
    *(
        DeviceOp(f"grad/{layer}/{part}", "Data", originals=(f"gradients/{layer}/{GRADIENT[part]}",), dtype="float32")
        for layer, part in _WEIGHTS
    ),
    *(_update(layer, part) for layer, part in _WEIGHTS),
)  # fmt: skip

Found = dict[str, list[Array]]


def unfused(ops: Sequence[DeviceOp]) -> tuple[DeviceOp, ...]:
    """Return the step as a compiler leaves it with fusion off: each operator of the user's graph by itself."""
    renamed, found = {}, []
    for op in ops:
        inputs = tuple(renamed.get(text, text) for text in op.inputs)
        if len(op.originals) < 2:
            found.append(replace(op, inputs=inputs))
            continue
        x, w, b = inputs
        product, added, *act = op.originals
        found.append(_alone(product, "MatMulV2", [x, w], lambda x, w: x @ w, layout="FRACTAL_NZ"))
        found.append(_alone(added, "BiasAdd", [f"{product}:0", b], lambda x, b: x + b, layout="FRACTAL_NZ"))
        found += [_alone(name, "Relu", [f"{added}:0"], lambda x: np.maximum(x, 0), layout="FRACTAL_NZ") for name in act]
        renamed[f"{op.name}:0"] = f"{op.originals[-1]}:0"
    return tuple(found)


def run_device(
    feeds: Mapping[str, Array], tamper: Tamper | None = None, step_ops: Sequence[DeviceOp] = ()
) -> tuple[Found, Found]:
    """Return the outputs of each operator of both graphs; ``tamper`` changes what an operator gives, by its name."""
    step = _run(step_ops or STEP, feeds, tamper or {})
    grads = {f"grad/{layer}/{part}": step[f"gradients/{layer}/{GRADIENT[part]}"][0] for layer, part in _WEIGHTS}
    return step, _run(UPDATE, {**feeds, **grads}, tamper or {})


def _run(ops: Sequence[DeviceOp], feeds: Mapping[str, Array], tamper: Tamper) -> Found:
    found: Found = {}
    for op in ops:
        if op.op_type in ("Data", "Variable"):
            found[op.name] = [np.asarray(feeds[op.name], np.float32)]
            continue
        inputs = []
        for text in op.inputs:
            name, _, index = text.rpartition(":")
            values = found[name][int(index)]
            half = op.op_type == "MatMulV2" and name in feeds  # weights are cast on their way into the product
            inputs.append(values.astype(np.float16 if half else values.dtype).astype(np.float32))
        given = op.compute(*inputs)
        values = [tamper.get(op.name, np.asarray)(each) for each in (given if isinstance(given, tuple) else (given,))]
        found[op.name] = [np.asarray(each).astype(op.dtype) for each in values]
    return found


def write_device(ops: Sequence[DeviceOp], found: Found, folder: Path, *, first_us: int = FIRST_US) -> None:
    """Write one file an operator."""
    folder.mkdir(parents=True)
    by_name = {op.name: op for op in ops}
    place = 0
    for op in ops:
        if op.op_type in NEVER_DUMPED:
            continue
        place += 1
        time = first_us + 1000 * place
        inputs = [_tensor(by_name[text.rpartition(":")[0]], found, int(text.rpartition(":")[2])) for text in op.inputs]
        outputs = [_tensor(op, found, index) for index in range(op.outputs)]
        name = file_name(op.op_type, op.name, place, 3, time)
        write_dump(folder / name, op_name=op.name, inputs=inputs, outputs=outputs, dump_time=time)


def _tensor(op: DeviceOp, found: Found, index: int) -> DumpTensor:
    return DumpTensor(found[op.name][index], op.dtype, op.layout)


def graph(name: str, ops: Sequence[DeviceOp], found: Found) -> dict[str, Any]:
    """Return a model of one graph, as the compiler describes it."""
    return {"name": "ge_default", "graph": [{"name": name, "op": [_op(op, i, found) for i, op in enumerate(ops)]}]}


def _op(op: DeviceOp, number: int, found: Found) -> dict[str, Any]:
    listed = {"val_type": "VT_LIST_STRING", **({"s": list(op.originals)} if op.originals else {})}
    attrs = [{"key": "_datadump_original_op_names", "value": {"list": listed}}]
    if op.passes:
        attrs.append({"key": "pass_name", "value": {"list": {"val_type": "VT_LIST_STRING", "s": list(op.passes)}}})
    attrs.append({"key": f"{op.name}_kernelname", "value": {"s": f"te_{op.op_type.lower()}"}})
    tree: dict[str, Any] = {"name": op.name, "type": op.op_type}
    if op.inputs:
        tree["input"] = list(op.inputs)
    if number:
        tree["id"] = number
    return {**tree, "attr": attrs, "output_desc": [_desc(op, i, found) for i in range(op.outputs)]}


def _desc(op: DeviceOp, index: int, found: Found) -> dict[str, Any]:
    shape = list(found[op.name][index].shape) if op.name in found else []
    attrs = [
        {"key": "origin_format", "value": {"s": "ND"}},
        {"key": "origin_shape", "value": {"list": {"val_type": "VT_LIST_INT", "i": shape}}},
    ]
    if op.originals:
        attrs += [
            {"key": "_datadump_origin_name", "value": {"s": op.originals[-1]}},
            {"key": "_datadump_origin_output_index", "value": {"i": index}},
        ]
    return {"dtype": _NAMES[op.dtype], "layout": op.layout, "shape": {"dim": shape}, "attr": attrs}


def write_npu(
    root: Path,
    feeds: Mapping[str, Array],
    tamper: Tamper | None = None,
    *,
    devices: int = 1,
    steps: Sequence[int] = (0,),
    is_fused: bool = True,
) -> None:
    """Write ``dump`` and ``graph`` of one run below ``root``: both graphs, for each device and step the same values."""
    ops = STEP if is_fused else unfused(STEP)
    found = run_device(feeds, tamper, ops)
    both = ((STEP_GRAPH, ops, found[0]), (UPDATE_GRAPH, UPDATE, found[1]))
    (root / "graph").mkdir(parents=True)
    for number, (name, ops, values) in enumerate(both, start=1):
        graph_text_writer.write(root / "graph" / f"ge_proto_{37 * number:08d}_Build.txt", graph(name, ops, values))
        for device in range(devices):
            for step in steps:
                folder = root / "dump" / TIME / str(device) / name / str(number) / str(step)
                write_device(ops, values, folder, first_us=FIRST_US + 10**6 * number)
