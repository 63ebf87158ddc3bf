"""The two kinds of file in a run of the TensorFlow debugger: one tensor each, and the graph that a device ran.

Each is one serialised ``Event`` (no record file). Source: the published messages Event, Summary, TensorProto,
TensorShapeProto and GraphDef; TensorFlow's debugger writes the bytes of a tensor as ``tensor_content``, and its true
name as ``node:slot:debug operation``. Nothing is copied: long values stay in the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import FormatError
from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.files.protobuf import DELIMITED, VARINT, Field, FileBytes, WireReader, signed
from probe_flow.tensors.dtypes import nbytes

IDENTITY = "DebugIdentity"
"""The debug operation that writes the tensor itself; others write figures of it."""

_EVENT_GRAPH, _EVENT_SUMMARY = 4, 5
_SUMMARY_VALUE = 1
_VALUE_TAG, _VALUE_NODE, _VALUE_TENSOR = 1, 7, 8
_TENSOR_DTYPE, _TENSOR_SHAPE, _TENSOR_CONTENT = 1, 2, 4
_SHAPE_DIM, _DIM_SIZE = 2, 1
_GRAPH_NODE, _NODE_NAME, _NODE_OP, _NODE_INPUT = 1, 1, 2, 3

_MAX_RANK = 254
"""TensorFlow's own limit."""

_MAX_NAME_BYTES = 4096
_DAMAGED = "PF3013"
RUN_AGAIN = "run the step again; a run that still writes is read when it has ended"

DTYPES = MappingProxyType(
    {
        1: ("DT_FLOAT", "float32"), 2: ("DT_DOUBLE", "float64"), 3: ("DT_INT32", "int32"), 4: ("DT_UINT8", "uint8"),
        5: ("DT_INT16", "int16"), 6: ("DT_INT8", "int8"), 7: ("DT_STRING", None), 8: ("DT_COMPLEX64", "complex64"),
        9: ("DT_INT64", "int64"), 10: ("DT_BOOL", "bool"), 11: ("DT_QINT8", "int8"), 12: ("DT_QUINT8", "uint8"),
        13: ("DT_QINT32", "int32"), 14: ("DT_BFLOAT16", "bfloat16"), 15: ("DT_QINT16", "int16"),
        16: ("DT_QUINT16", "uint16"), 17: ("DT_UINT16", "uint16"), 18: ("DT_COMPLEX128", "complex128"),
        19: ("DT_HALF", "float16"), 20: ("DT_RESOURCE", None), 21: ("DT_VARIANT", None), 22: ("DT_UINT32", "uint32"),
        23: ("DT_UINT64", "uint64"), 24: ("DT_FLOAT8_E5M2", "float8_e5m2"), 25: ("DT_FLOAT8_E4M3FN", "float8_e4m3fn"),
    }
)  # fmt: skip
"""Number of a TensorFlow data type -> its name there, and the canonical one; None where it holds no numbers."""


class TensorEvent(Struct, frozen=True):
    """What a file holds.

    Args:
        node: true name of the operator.
        slot: which of its outputs.
        dtype: TensorFlow's number.
        shape: as written.
        offset: first byte in the file; 0 where nothing was written.
        nbytes: bytes in the file.
    """

    node: str
    slot: int
    dtype: int
    shape: tuple[int, ...]
    offset: int = 0
    nbytes: int = 0

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def opaque_reason(self) -> str | None:
        """Why it holds no numbers; None if it does."""
        name, canonical = DTYPES.get(self.dtype, (f"data type {self.dtype}", None))
        if canonical is None:
            return f"`{name}` is no numeric type"
        return "it had no value yet when it was dumped" if self.count and not self.nbytes else None


class GraphNode(Struct, frozen=True):
    """One operator of a graph; ``inputs`` as written: ``name``, ``name:index`` or ``^name``."""

    name: str
    op: str
    inputs: tuple[str, ...]


def read_tensor_event(path: str) -> TensorEvent:
    """Return what a tensor file says; its elements are not read.

    Raises:
        FormatError: PF3001 and PF3002 unreadable, PF3013 damaged or cut off, PF3440 no tensor, PF3441 with a shape that
            its bytes do not fill.
    """
    try:
        return _tensor_event(path)
    except FormatError as error:
        if error.diagnostic.code != _DAMAGED:
            raise
        name, said = path.rpartition("/")[2], error.diagnostic.message.rpartition(": ")[2]
        message = f"`{name}` is cut off or damaged: {said}"
        raise FormatError(replace(error.diagnostic, message=message, help=RUN_AGAIN)) from error


def _tensor_event(path: str) -> TensorEvent:
    with BinaryFile(path) as file:
        message = Message(WireReader(FileBytes(file), path))
        value = message.last(message.last(message.whole(), _EVENT_SUMMARY), _SUMMARY_VALUE)
        tensor = message.last(value, _VALUE_TENSOR)
        if value is None or tensor is None:
            what = "another kind of event" if file.size else "nothing: the run did not end, or still writes"
            raise _no_tensor(path, f"is no tensor: it holds {what}")
        name = message.text(message.last(value, _VALUE_NODE)) or message.text(message.last(value, _VALUE_TAG))
        return checked(message.tensor(tensor, *_parsed(name, path)), path)


def read_graph_event(path: str) -> list[GraphNode]:
    """Return the operators of the graph that a device ran.

    Raises:
        FormatError: PF3001 and PF3002 unreadable, PF3013 damaged or cut off, PF3440 no graph.
    """
    with BinaryFile(path) as file:
        outer = Message(WireReader(FileBytes(file), path))
        graph = outer.last(outer.whole(), _EVENT_GRAPH)
        if graph is None:
            raise _no_tensor(path, "is no graph: it holds another kind of event")
        raw = file.read_at(graph.start, graph.stop - graph.start)
        # An operator has several bytes a field, so this refuses no graph.
        message = Message(WireReader(raw, path, base=graph.start, fields_left=4 * len(raw) + 1))
        return [message.node(each) for each in message.all(message.whole(), _GRAPH_NODE)]


def _parsed(name: str, path: str) -> tuple[str, int]:
    """Return operator and output number of ``node:slot:what was written of it``."""
    node, _, slot = name.rpartition(":")[0].rpartition(":")
    if not node or not (slot.isascii() and slot.isdigit()) or len(slot) > 6:
        raise _no_tensor(path, "does not say whose tensor it is")
    return node, int(slot)


def checked(event: TensorEvent, path: str) -> TensorEvent:
    """Return what a file says of a tensor.

    Raises:
        FormatError: PF3441 if its bytes do not fill its shape.
    """
    _, canonical = DTYPES.get(event.dtype, ("", None))
    if canonical is None or event.opaque_reason is not None:
        return event
    wanted = nbytes(canonical, event.count)
    if wanted != event.nbytes:
        raise malformed(
            "PF3441",
            path,
            f"`{event.node}:{event.slot}` has {event.nbytes} bytes where shape {list(event.shape)} of `{canonical}` "
            f"needs {wanted}",
            help_text=RUN_AGAIN,
            offset=event.offset,
        )
    return event


def _no_tensor(path: str, what: str) -> FormatError:
    cure = f"remove it from the run's folder, or {RUN_AGAIN}"
    return malformed("PF3440", path, f"`{path.rpartition('/')[2]}` {what}", help_text=cure)


class Message(Struct):
    """Looks up fields of messages in one file; None stands for a message that is not there."""

    wire: WireReader

    def whole(self) -> Field:
        """Return the file as one message."""
        return Field(0, DELIMITED, 0, 0, len(self.wire.data))

    def all(self, owner: Field | None, number: int) -> Iterator[Field]:
        """Yield the messages and texts of one number."""
        if owner is not None:
            for field in self.wire.fields(owner.start, owner.stop):
                if field.number == number and field.wire == DELIMITED:
                    yield field

    def last(self, owner: Field | None, number: int) -> Field | None:
        """Return the last of these, which counts."""
        found = None
        for field in self.all(owner, number):
            found = field
        return found

    def text(self, field: Field | None) -> str:
        """Return a short text; empty for none."""
        if field is None or field.stop - field.start > _MAX_NAME_BYTES:
            return ""
        return self.wire.text(field.start, field.stop)

    def tensor(self, tensor: Field, node: str, slot: int) -> TensorEvent:
        """Return what a TensorProto says, unchecked."""
        dtype, content = 0, (0, 0)
        shape: tuple[int, ...] = ()
        for field in self.wire.fields(tensor.start, tensor.stop):
            if field.number == _TENSOR_DTYPE and field.wire == VARINT:
                dtype = field.value
            elif field.number == _TENSOR_SHAPE and field.wire == DELIMITED:
                shape = self._shape(field)
            elif field.number == _TENSOR_CONTENT and field.wire == DELIMITED:
                content = (field.start, field.stop - field.start)
        return TensorEvent(node, slot, dtype, shape, *content)

    def _shape(self, shape: Field) -> tuple[int, ...]:
        dims: list[int] = []
        for dim in self.all(shape, _SHAPE_DIM):
            size = 0
            for field in self.wire.fields(dim.start, dim.stop):
                if field.number == _DIM_SIZE and field.wire == VARINT:
                    size = signed(field.value)
            dims.append(size)
        if len(dims) > _MAX_RANK or any(dim < 0 for dim in dims) or math.prod(max(dim, 1) for dim in dims) >= 1 << 59:
            raise malformed(
                "PF3441", self.wire.path, "its shape is none that a tensor has", help_text=RUN_AGAIN, offset=shape.start
            )
        return tuple(dims)

    def node(self, node: Field) -> GraphNode:
        """Return what a NodeDef says."""
        name = op = ""
        inputs: list[str] = []
        for field in self.wire.fields(node.start, node.stop):
            if field.wire != DELIMITED:
                continue
            if field.number == _NODE_NAME:
                name = self.text(field)
            elif field.number == _NODE_OP:
                op = self.text(field)
            elif field.number == _NODE_INPUT:
                inputs.append(self.text(field))
        return GraphNode(name, op, tuple(inputs))
