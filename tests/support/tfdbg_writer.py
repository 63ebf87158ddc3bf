"""Write runs of TensorFlow's debugger from the published messages alone; shares no code with the reader."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from model_file_writer import block, text, varint, whole

NUMBERS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8, "int64": 9, "bool": 10,
    "bfloat16": 14, "uint16": 17, "complex128": 18, "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip
CPU = "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
FIRST_US = 1_700_000_000_000_000


def shape_message(shape: Sequence[int]) -> bytes:
    return b"".join(block(2, whole(1, size)) for size in shape)


def tensor_message(array: np.ndarray, dtype: int | None = None) -> bytes:
    number = NUMBERS[array.dtype.name] if dtype is None else dtype
    content = array.tobytes()
    return whole(1, number) + block(2, shape_message(array.shape)) + (block(4, content) if content else b"")


def event(summary: bytes) -> bytes:
    return varint(1 << 3 | 1) + struct.pack("<d", 1.7e15) + block(5, summary)


def tensor_event(name: str, slot: int, tensor: bytes, op: str = "DebugIdentity") -> bytes:
    metadata = block(1, text(1, "debugger") + text(2, '{"device":"CPU:0"}'))
    return event(block(1, text(1, name) + text(7, f"{name}:{slot}:{op}") + block(8, tensor) + block(9, metadata)))


def graph_event(nodes: Sequence[tuple[str, str, Sequence[str]]]) -> bytes:
    graph = b"".join(
        block(1, text(1, name) + text(2, op) + b"".join(text(3, each) for each in inputs)) for name, op, inputs in nodes
    )
    return varint(1 << 3 | 1) + struct.pack("<d", 1.7e15) + block(4, graph)


class TfdbgRun:
    """One run folder; every tensor that is added is a microsecond younger than the one before it."""

    def __init__(self, root: Path, number: int = 0, *, time: int | None = None) -> None:
        self.time = FIRST_US + number * 1000 if time is None else time
        self.folder = root / f"run_{self.time}_{number}"
        self.folder.mkdir(parents=True)
        (self.folder / "_tfdbg_fetches_info_").write_bytes(b"\n\x00[<tf.Tensor 'loss:0' shape=() dtype=float32>]")

    def add(self, name: str, array: np.ndarray, slot: int = 0, *, device: str = CPU, dtype: int | None = None) -> Path:
        return self.write(name, slot, tensor_event(name, slot, tensor_message(array, dtype)), device=device)

    def write(self, name: str, slot: int, raw: bytes, *, device: str = CPU, op: str = "DebugIdentity") -> Path:
        self.time += 1
        path = self.folder / device / f"{name}_{slot}_{op}_{self.time}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        return path

    def graph(self, nodes: Sequence[tuple[str, str, Sequence[str]]], *, device: str = CPU) -> None:
        path = self.folder / device / f"_tfdbg_graph_hash1_{FIRST_US}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(graph_event(nodes))


def record(data: bytes) -> bytes:
    """Return one record of a file of them; nobody looks at the checksums."""
    return struct.pack("<Q", len(data)) + b"\0" * 4 + data + b"\0" * 4


def trace_record(
    name: str, tensor: bytes, *, slot: int = 0, context: str = "g1", mode: int = 7, at: float = 1.0
) -> bytes:
    body = text(1, context) + text(2, name) + whole(3, slot) + whole(4, mode) + block(5, tensor)
    return record(varint(1 << 3 | 1) + struct.pack("<d", at) + block(10, body))


def graph_record(name: str, op: str, inputs: Sequence[str] = (), *, graph: str = "g1") -> bytes:
    body = text(1, op) + text(2, name) + text(3, "f") + text(4, graph) + b"".join(text(6, each) for each in inputs)
    return record(block(7, body))


def write_events(root: Path, traces: Sequence[bytes], graphs: Sequence[bytes] = (), *, time: int = 1795878871) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    path = root / f"tfdbg_events.{time}.host.graph_execution_traces"
    path.write_bytes(b"".join(traces))
    (root / f"tfdbg_events.{time}.host.graphs").write_bytes(b"".join(graphs))
    (root / f"tfdbg_events.{time}.host.metadata").write_bytes(record(b""))
    return path
