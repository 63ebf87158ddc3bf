"""Run a lowered graph as an Ascend NPU would and write its dump: low-precision storage, fusion, private layouts.

Every executed operator reads what the device itself computed before, works in float32 and rounds its outputs to the
storage type, so rounding noise travels through the graph as in a real run. Parts of a fused operator do not round
between them, and their inner results are not dumped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import ml_dtypes
import numpy as np
from fx_writer import Array
from ge_graph_writer import GraphOp, OutputDesc, graph_text
from ge_kernels import DEVICE, Arithmetic
from ge_lowering import GeOp, Lowered
from ge_writer import DumpTensor, file_name, write_dump

STORAGE = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype(np.float32)}

SURPLUS_BYTES = 32
"""Bytes beyond the tensor that the device allocates in each slot, and dumps."""

FIRST_TASK = 10
STREAM = 7
FIRST_TIMESTAMP = 1_767_225_600_000_000
MICROSECONDS_BETWEEN_TASKS = 113

_GRAPH_TYPES = {
    "float16": "DT_FLOAT16",
    "bfloat16": "DT_BF16",
    "float32": "DT_FLOAT",
    "int64": "DT_INT64",
    "int32": "DT_INT32",
    "bool": "DT_BOOL",
}

Outputs = tuple[Array, ...]
Tamper = Callable[[GeOp, Sequence[Array], Outputs], Outputs]
"""A fault: called with an operator, its inputs and its right outputs, returns what the device computes instead."""


@dataclass(frozen=True, slots=True)
class Device:
    """What the device does beside arithmetic.

    Args:
        storage: a key of `STORAGE`.
        fused: groups of operators that run as one buffer-fused operator; inner results must have no other reader.
        fractal_nz: matrix products whose second input and output are stored in FRACTAL_NZ.
        is_image: store 4-D tensors of convolution graphs in NC1HWC0 and filters in FRACTAL_Z.
        undumped: operators that run and leave no file.
        converted: operators after whose output the device inserts a TransData and a Cast of its own.
    """

    storage: str = "float16"
    fused: tuple[tuple[str, ...], ...] = ()
    fractal_nz: frozenset[str] = frozenset()
    is_image: bool = False
    undumped: frozenset[str] = frozenset()
    converted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """One tensor of a dump file with the edge it came over."""

    edge: str
    array: Array
    dtype: str
    layout: str = "ND"


@dataclass(frozen=True, slots=True)
class Task:
    """One executed operator: what its dump file holds. ``parts`` are graph operators; none for the device's own."""

    type: str
    name: str
    parts: tuple[str, ...]
    inputs: tuple[Held, ...]
    outputs: tuple[Held, ...]


@dataclass(slots=True)
class Execution:
    """All tensors of one run by edge (in float32 or integers, already rounded), and the dumped tasks in order."""

    tensors: dict[str, Array] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)


def execute(
    lowered: Lowered,
    feeds: Mapping[str, Array],
    device: Device | None,
    *,
    arithmetic: Arithmetic = DEVICE,
    tamper: Tamper | None = None,
) -> Execution:
    """Run the graph on ``feeds`` (placeholder name to array).

    Without a device nothing is rounded and no task is recorded: a golden run.
    """
    execution = Execution()
    run = Device("float32") if device is None else device
    inner = {name for group in run.fused for name in group[:-1]}
    for op in lowered.ops:
        outputs = _outputs(op, execution, feeds, arithmetic, tamper)
        for index, output in enumerate(outputs):
            rounded = output if op.name in inner else stored(output, run.storage)
            execution.tensors[f"{op.name}:{index}"] = rounded
    if device is not None:
        execution.tasks = _tasks(lowered, execution, device)
    return execution


def stored(array: Array, storage: str) -> Array:
    """Return what remains of floating values after a store in the storage type; integers are kept."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(over="ignore"):
        return array.astype(STORAGE[storage]).astype(np.float32)


def original_graph(lowered: Lowered, execution: Execution, storage: str, *, graph: int, has_constants: bool) -> str:
    """Return the text of the graph before the device optimised it.

    Args:
        lowered: the graph.
        execution: any run of it; gives the shapes.
        storage: element type of floating tensors.
        graph: number of the graph.
        has_constants: list Const operators and their edges; older releases leave edges to operators that are not there.
    """
    ops = []
    for op in lowered.ops:
        if op.type == "Const" and not has_constants:
            continue
        kept = [edge for edge in op.inputs if has_constants or op.type != "Transpose" or not edge.startswith("Const")]
        outputs = []
        for index, fx_name in enumerate(op.fx_names):
            tensor = execution.tensors[f"{op.name}:{index}"]
            outputs.append(OutputDesc(_GRAPH_TYPES[_dtype(tensor, storage)], tensor.shape, fx_name))
        value = None if op.value is None else _encoded(op.value, storage)
        ops.append(GraphOp(op.name, op.type, tuple(kept), tuple(outputs), value))
    return graph_text(f"graph_{graph}", ops)


def write_tasks(folder: Path, execution: Execution, *, start: int = FIRST_TIMESTAMP) -> None:
    """Write one dump file for each task into the token folder, which is created. ``start`` counts microseconds."""
    folder.mkdir(parents=True)
    for position, task in enumerate(execution.tasks):
        timestamp = start + position * MICROSECONDS_BETWEEN_TASKS
        write_dump(
            folder / file_name(task.type, task.name, FIRST_TASK + position, STREAM, timestamp),
            op_name=task.name,
            inputs=[_dumped(held, 4096 * (index + 1)) for index, held in enumerate(task.inputs)],
            outputs=[_dumped(held, 36864 * (index + 1)) for index, held in enumerate(task.outputs)],
            dump_time=timestamp,
        )


def _outputs(
    op: GeOp, execution: Execution, feeds: Mapping[str, Array], arithmetic: Arithmetic, tamper: Tamper | None
) -> Outputs:
    if op.type == "Data":
        return (feeds[op.name],)
    if op.value is not None:
        return (op.value,)
    inputs = [execution.tensors[edge] for edge in op.inputs]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        result = op.kernel(arithmetic, *inputs)
        outputs = result if isinstance(result, tuple) else (result,)
        return outputs if tamper is None else tamper(op, inputs, outputs)


def _tasks(lowered: Lowered, execution: Execution, device: Device) -> list[Task]:
    group_of = {name: group for group in device.fused for name in group}
    by_name = {op.name: op for op in lowered.ops}
    tasks = []
    for op in lowered.ops:
        group = group_of.get(op.name, (op.name,))
        if not op.is_executed or op.name in device.undumped or op.name != group[-1]:
            continue
        tasks.append(_task([by_name[name] for name in group], execution, device))
        if op.name in device.converted:
            tasks += _conversions(tasks[-1], len(tasks))
    return tasks


def _task(parts: Sequence[GeOp], execution: Execution, device: Device) -> Task:
    inside = {f"{part.name}:{index}" for part in parts for index in range(len(part.fx_names))}
    edges = [(part, slot, edge) for part in parts for slot, edge in enumerate(part.inputs) if edge not in inside]
    inputs = [_held(edge, execution, device, _input_layout(part, slot, device)) for part, slot, edge in edges]
    last = parts[-1]
    outputs = [
        _held(f"{last.name}:{index}", execution, device, _output_layout(last, device))
        for index in range(len(last.fx_names))
    ]
    is_fused = len(parts) > 1
    return Task(
        "AutomaticBufferFusionOp" if is_fused else last.type,
        "".join(part.name for part in parts),
        tuple(part.name for part in parts),
        tuple(inputs),
        tuple(outputs),
    )


def _input_layout(op: GeOp, slot: int, device: Device) -> str:
    if device.is_image and op.type == "Conv2D" and slot == 1:
        return "FRACTAL_Z"
    if op.name in device.fractal_nz:
        return "FRACTAL_NZ" if slot == 1 else "ND"
    return "NC1HWC0" if device.is_image else "ND"


def _output_layout(op: GeOp, device: Device) -> str:
    if op.name in device.fractal_nz:
        return "FRACTAL_NZ"
    return "NC1HWC0" if device.is_image else "ND"


def _held(edge: str, execution: Execution, device: Device, layout: str) -> Held:
    array = execution.tensors[edge]
    is_plain = layout in ("NC1HWC0", "FRACTAL_Z") and array.ndim != 4
    return Held(edge, array, _dtype(array, device.storage), "ND" if is_plain else layout)


def _conversions(task: Task, number: int) -> list[Task]:
    """Return a TransData to FRACTAL_NZ and a Cast to float32 of the task's first output, absent from the graph."""
    source = replace(task.outputs[0], layout="ND")
    blocked = replace(source, layout="FRACTAL_NZ")
    widened = replace(source, dtype="float32")
    return [
        Task("TransData", f"trans_TransData_{number}", (), (source,), (blocked,)),
        Task("Cast", f"trans_Cast_{number + 1}", (), (source,), (widened,)),
    ]


def _dumped(held: Held, address: int) -> DumpTensor:
    return DumpTensor(held.array, held.dtype, held.layout, surplus=SURPLUS_BYTES, address=address)


def _dtype(array: Array, storage: str) -> str:
    return storage if array.dtype.kind == "f" else array.dtype.name


def _encoded(value: Array, storage: str) -> bytes:
    return (value.astype(STORAGE[storage]) if value.dtype.kind == "f" else value).tobytes()
