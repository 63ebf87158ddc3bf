"""Write small offline dumps for tests: device files, op-debug records, golden arrays and `mapping.csv`.

Everything is built from the published descriptions, never from our readers. Times are given as a place in time
(``at``, microseconds after `FIRST_US`), so that names sort as the operators ran.

>>> device = OmFolder(tmp_path / "target")                                    # doctest: +SKIP
>>> device.op("Conv2D", "conv1", at=1, inputs=[x], outputs=[tensor(y, "float16", "NC1HWC0")])
>>> golden = GoldenFolder(tmp_path / "golden")
>>> golden.output("conv1", 0, y)
"""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import ge_writer
import nano_writer
import numpy as np
from ge_writer import DATA_TYPES, FORMATS, DumpTensor, field_bytes, field_varint

FIRST_US = 1_700_000_000_000_000
"""Time of ``at=0``: 16 digits, microseconds."""

TASK_TYPES = {"aicore": 0, "aicpu": 1, "debug": 2, "hccl": 3, "fftsplus": 4}
MAGIC = 0x5A5A5A5A
_SAME = (-1,)


@dataclass(frozen=True)
class OmTensor:
    """One tensor of a device file.

    Args:
        tensor: values, element type, layout, padding (see `ge_writer.DumpTensor`).
        shape: stored shape as the header gives it, default: the true one; None leaves it out.
        original_shape: logical shape of the header, default: that of the values; None leaves it out.
        origin: (name, output index) of the operator before fusion; outputs only.
        data_type, format: numbers in place of those of the tensor's words.
        size: bytes of the slot as the header gives them, default: the true ones.
    """

    tensor: DumpTensor
    shape: tuple[int, ...] | None = _SAME
    original_shape: tuple[int, ...] | None = _SAME
    origin: tuple[str, int] | None = None
    data_type: int | None = None
    format: int | None = None
    size: int | None = None

    def stored(self) -> tuple[tuple[int, ...], bytes]:
        """Return the true stored shape and the bytes of the slot."""
        given = self.tensor
        array = ge_writer.to_layout(np.asarray(given.data), given.layout, c0=given.c0, groups=max(1, given.sub_format))
        return array.shape, ge_writer.encode(array, given.dtype) + b"\xab" * given.surplus

    def message(self, *, is_output: bool, is_inline: bool) -> bytes:
        shape, payload = self.stored()
        shape_given = shape if self.shape == _SAME else self.shape
        original = self.tensor.data.shape if self.original_shape == _SAME else self.original_shape
        first = 5 if is_output else 4
        encoded = field_varint(1, DATA_TYPES[self.tensor.dtype] if self.data_type is None else self.data_type)
        encoded += field_varint(2, FORMATS[self.tensor.layout] if self.format is None else self.format)
        if shape_given is not None:
            encoded += field_bytes(3, ge_writer.shape_message(shape_given))
        if is_output and self.origin is not None:
            name, index = self.origin
            encoded += field_bytes(4, field_bytes(1, name.encode()) + field_varint(2, index))
        if is_inline:
            encoded += field_bytes(first, payload)
        encoded += field_varint(first + 1, len(payload) if self.size is None else self.size)
        if original is not None:
            encoded += field_bytes(first + 2, ge_writer.shape_message(original))
        return encoded + field_varint(first + 3, self.tensor.sub_format) + field_varint(first + 4, self.tensor.address)


def tensor(
    values: object,
    dtype: str = "float32",
    layout: str = "ND",
    *,
    c0: int = 16,
    address: int = 0,
    surplus: int = 0,
    sub_format: int = 0,
    **header: object,
) -> OmTensor:
    """Return a tensor; ``header`` are further fields of `OmTensor` (what the header says, true or not)."""
    data = np.asarray(values, dtype=dtype if dtype in np.sctypeDict else None)
    given = DumpTensor(data, dtype, layout, c0=c0, surplus=surplus, address=address, sub_format=sub_format)
    return replace(OmTensor(given), **header)  # type: ignore[arg-type]


def as_tensor(item: object) -> OmTensor:
    """Return what stands for a tensor as one: an `OmTensor`, a `DumpTensor`, or values (float32, ND)."""
    if isinstance(item, OmTensor):
        return item
    return OmTensor(item) if isinstance(item, DumpTensor) else tensor(item)


def device_bytes(
    op_name: str,
    inputs: Sequence[object] = (),
    outputs: Sequence[object] = (),
    *,
    form: str = "container",
    attrs: Iterable[tuple[str, str]] = (),
    buffers: Sequence[bytes] = (),
    spaces: Sequence[bytes] = (),
) -> bytes:
    """Return the content of a device file; ``form`` is ``container``, ``bare`` (old message) or ``nano``."""
    ins, outs = [as_tensor(item) for item in inputs], [as_tensor(item) for item in outputs]
    if form == "nano":
        return nano_writer.nano_bytes(*([nano_writer.NanoTensor(item.tensor) for item in side] for side in (ins, outs)))
    is_inline = form == "bare"
    header = field_bytes(1, b"1.0" if is_inline else b"2.0") + field_varint(2, FIRST_US)
    header += b"".join(field_bytes(3, item.message(is_output=True, is_inline=is_inline)) for item in outs)
    header += b"".join(field_bytes(4, item.message(is_output=False, is_inline=is_inline)) for item in ins)
    header += b"".join(field_bytes(5, field_varint(3, len(part))) for part in buffers)
    header += field_bytes(6, op_name.encode()) if op_name else b""
    header += b"".join(field_bytes(7, field_bytes(1, k.encode()) + field_bytes(2, v.encode())) for k, v in attrs)
    header += b"".join(field_bytes(8, field_varint(3, len(part))) for part in spaces)
    if is_inline:
        return header
    return ge_writer.container(header, *(item.stored()[1] for item in (*ins, *outs)), *buffers, *spaces)


@dataclass
class OmFolder:
    """A folder of device files in the making; ``task`` and ``stream`` are the ids that its files get."""

    path: Path
    task: int = 7
    stream: int | None = 3
    written: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def op(
        self,
        op_type: str,
        op_name: str,
        *,
        at: int,
        inputs: Sequence[object] = (),
        outputs: Sequence[object] = (),
        tail: Sequence[int] = (),
        header_name: str | None = None,
        **content: object,
    ) -> Path:
        """Write one operator: ``op_name`` is the true name, cleaned for the file; ``content`` is of `device_bytes`.

        ``header_name`` is what the header says in its place ("" leaves it out); ``tail`` is
        (task type, context, thread, device).
        """
        name = ge_writer.file_name(op_type, op_name, self.task, self.stream, FIRST_US + at, tail)
        shown = op_name if header_name is None else header_name
        return self.file(name, device_bytes(shown, inputs, outputs, **content))  # type: ignore[arg-type]

    def file(self, name: str, content: bytes) -> Path:
        path = self.path / name
        path.write_bytes(content)
        self.written.append(path)
        return path

    def slices(
        self,
        op_type: str,
        op_name: str,
        *,
        at: int,
        parts: Sequence[object],
        axis: int,
        is_automatic: bool = True,
        inputs: Sequence[object] = (),
        count: int | None = None,
    ) -> list[Path]:
        """Write an operator with one output cut along ``axis``: one file per part (values or tensors).

        Automatic slices (threads) are told apart by the thread id of their names, those cut by hand by
        ``_lxslice{k}`` behind the operator's name. ``count`` is the number of slices that the headers claim.
        """
        outs = [as_tensor(part) for part in parts]
        attrs = [("FFTS", json.dumps(slice_description(outs, axis, is_automatic=is_automatic, count=count)))]
        paths = []
        for number, part in enumerate(outs):
            name = op_name if is_automatic else f"{op_name}_lxslice{number}"
            tail = (TASK_TYPES["fftsplus"], 1, number if is_automatic else 0, 0)
            given = {"inputs": inputs, "outputs": [part], "tail": tail, "attrs": attrs}
            paths.append(self.op(op_type, name, at=at + number, **given))  # type: ignore[arg-type]
        return paths

    def op_debug(self, content: bytes, *, at: int, tail: Sequence[int] = ()) -> Path:
        """Write an overflow record; ``content`` is of `op_debug_record` or `op_debug_table`."""
        whole = tensor(np.frombuffer(content, np.uint8), "uint8", shape=(len(content),))
        return self.op("Opdebug", "Node_OpDebug", at=at, outputs=[whole], tail=tail)

    def hashed(self, path: Path, digits: str) -> Path:
        """Give a file a name of digits and note the true one in `mapping.csv`."""
        return hash_name(path, digits)


def slice_description(
    parts: Sequence[OmTensor], axis: int, *, is_automatic: bool, count: int | None = None
) -> Mapping[str, object]:
    """Return what each slice's header says of the cuts of its one output."""
    shapes = [part.stored()[0] for part in parts]
    cuts = [1] * len(shapes[0])
    cuts[axis] = len(parts)
    threads, start = [], 0
    for shape in shapes:
        ranges = [{"lower": 0, "higher": dim} for dim in shape]
        ranges[axis] = {"lower": start, "higher": start + shape[axis]}
        start += shape[axis]
        threads.append([ranges])
    return {
        "threadMode": is_automatic,
        "slice_instance_num": len(parts) if count is None else count,
        "outputCutList": [cuts],
        "input_tensor_slice": [],
        "output_tensor_slice": threads if is_automatic else [],
    }


def hash_name(path: Path, digits: str) -> Path:
    """Rename a file to ``{digits}`` (an array keeps its ``.npy``) and add it to the `mapping.csv` beside it."""
    new = path.with_name(digits + (".npy" if path.suffix == ".npy" else ""))
    path.rename(new)
    with (path.parent / "mapping.csv").open("a", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerow([new.name, path.name])
    return new


def om_tree(
    root: Path, *, device: int = 0, model: str = "net", model_id: int = 1, step: int = 0, time: str = ""
) -> Path:
    """Return the folder of one execution: ``[{time}/]{device}/{model}/{model_id}/{step}``."""
    folder = (root / time if time else root) / str(device) / model / str(model_id) / str(step)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass
class GoldenFolder:
    """A folder of golden arrays in the making: ``{op}.{index}.{timestamp}.npy``."""

    path: Path
    at: int = 0

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def output(self, op: str, index: int, values: object, *, at: int | None = None) -> Path:
        """Write output ``index`` of an operator (true name, cleaned here)."""
        path = self.path / golden_name(op, index, self._time(at))
        np.save(path, np.asarray(values))
        return path

    def input(self, op: str, index: int, values: object, *, at: int | None = None) -> Path:
        """Write the copy of input ``index`` that an ONNX run leaves: ``input_{op}.{index}.{timestamp}.npy``."""
        return self.output(f"input_{op}", index, values, at=at)

    def container(self, op: str, index: int, item: object, suffix: str, *, at: int | None = None) -> Path:
        """Write a legacy golden file (``.pb``) or one of a quantised model (``.quant``): a device container."""
        path = self.path / golden_name(op, index, self._time(at), suffix)
        path.write_bytes(device_bytes(op, outputs=[item]))
        return path

    def hashed(self, path: Path, digits: str) -> Path:
        """Give a file a name of digits and note the true one in `mapping.csv`."""
        return hash_name(path, digits)

    def _time(self, at: int | None) -> int:
        self.at = self.at + 1 if at is None else at
        return FIRST_US + self.at


def golden_name(op: str, index: int, timestamp: int, suffix: str = ".npy") -> str:
    cleaned = op.replace("/", "_").replace(".", "_")
    return f"{cleaned}.{index}.{timestamp}{suffix}"


UNIT_FIELDS = {
    "AIC": "model_id stream_id task_id task_type context_id thread_id pc_start para_base core_id block_id",
    "AIV": "model_id stream_id task_id task_type context_id thread_id pc_start para_base core_id block_id",
    "AICPU": "model_id stream_id task_id task_type context_id cpu_id thread_id status",
    "SDMA": "model_id stream_id task_id task_type context_id thread_id src_addr dst_addr channel_id status",
}
"""Fields of a record by the unit that overflowed, each 64 bits."""

UNITS = {"AIC": 0, "AIV": 1, "AICPU": 2, "SDMA": 3}


def op_debug_record(
    unit: str, fields: Mapping[str, int], *, status: Sequence[int] = (0,), version: int = 0, valid: int = 1
) -> bytes:
    """Return an overflow record of the new layout; ``status`` of AIC and AIV has four numbers in version 1."""
    values = [fields.get(name, 0) for name in UNIT_FIELDS[unit].split()]
    if unit in ("AIC", "AIV"):
        values += [*status, 0, 0, 0, 0][: 4 if version == 1 else 1]
    head = struct.pack("<6I", MAGIC, version, valid, UNITS[unit], 0, 8 * len(values))
    return head + struct.pack(f"<{len(values)}Q", *values)


INFO_FIELDS = ("model_id", "stream_id", "task_id", "task_type", "pc_start", "para_base")
TABLE_PARTS = {"dha": (0, 128), "l2": (128, 128), "ai_core": (256, 256)}


def op_debug_table(
    infos: Mapping[str, Mapping[str, int]],
    *,
    dha_status: int = 0,
    l2_status: int = 0,
    ai_core_status: tuple[int, int, int] = (0, 0, 0),
) -> bytes:
    """Return an overflow table of the old layout (2048 bytes); ``infos`` by `TABLE_PARTS`."""
    content = bytearray(2048)
    for part, (start, _) in TABLE_PARTS.items():
        struct.pack_into("<6Q", content, start, *(infos.get(part, {}).get(name, 0) for name in INFO_FIELDS))
    struct.pack_into("<Q", content, 512, dha_status)
    struct.pack_into("<Q", content, 768, l2_status)
    struct.pack_into("<3Q", content, 1024, *ai_core_status)
    return bytes(content)
