"""Read the files of TensorFlow 2's debugger (`enable_dump_debug_info`): one record behind the other in one file.

`tfdbg_events.{time}.{host}.graph_execution_traces` holds a ``DebugEvent`` for each tensor that a function's graph gave,
`....graphs` one for each operator. Source: the published record format (length, its checksum, data, their checksum, all
little endian) and the message DebugEvent. Checksums are not verified; every length is checked against the file. Names
are those inside of functions.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.tfdbg.event import RUN_AGAIN, GraphNode, Message, TensorEvent, checked
from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.files.binary_file import BinaryFile, malformed
from probe_flow.files.protobuf import DELIMITED, FIXED64, VARINT, Field, FileBytes, WireReader
from probe_flow.records import Problem

TRACES, GRAPHS = "graph_execution_traces", "graphs"
_NAME = re.compile(rf"(tfdbg_events\.(\d{{1,20}})\..*)\.{TRACES}")
_LENGTH = struct.Struct("<Q")
_HEAD_BYTES, _TAIL_BYTES = 12, 4
_TIME, _GRAPH_OP, _TRACE = 1, 7, 10
_CONTEXT, _OP_NAME, _SLOT, _MODE, _TENSOR = 1, 2, 3, 4, 5
_NODE_TYPE, _NODE_NAME, _NODE_GRAPH, _NODE_INPUT = 1, 2, 4, 6
FULL_TENSOR = 7
"""The mode that writes tensors; the others write figures of them."""


class Trace(Struct, frozen=True):
    """One tensor: when it was written (microseconds), by which graph, and what it is."""

    time: int
    context: str
    event: TensorEvent


def event_sets(folder: Path) -> list[str]:
    """Return the beginnings of names of the runs in a folder, in order of time."""
    try:
        found = [match for each in folder.iterdir() if (match := _NAME.fullmatch(each.name)) is not None]
    except OSError:
        return []
    return [match[1] for match in sorted(found, key=lambda match: (int(match[2]), match[1]))]


def read_traces(path: str, problems: list[Problem]) -> list[Trace]:
    """Return the tensors of a file in its order; what comes behind a damaged record is lost, which a problem says."""
    found: list[Trace] = []
    figures = 0
    for message, event in _records(path, problems):
        body = message.last(event, _TRACE)
        if body is None:
            continue
        facts = _facts(message, body)
        if facts.mode != FULL_TENSOR or facts.tensor is None:
            figures += 1
            continue
        tensor = message.tensor(facts.tensor, facts.name, facts.slot)
        try:
            found.append(Trace(_time(message, event), facts.context, checked(tensor, path)))
        except FormatError as error:
            problems.append(replace(error.diagnostic, path=path))
    if figures:
        problems.append(
            Diagnostic(
                "PF3445",
                f"{figures} records of `{Path(path).name}` hold figures of tensors, not the tensors",
                severity=Severity.WARNING,
                help='dump with `tensor_debug_mode="FULL_TENSOR"` and `circular_buffer_size=-1`',
                path=path,
            )
        )
    return found


def read_graphs(path: str, problems: list[Problem]) -> dict[str, dict[str, GraphNode]]:
    """Return the operators of each graph, by its id."""
    found: dict[str, dict[str, GraphNode]] = defaultdict(dict)
    for message, event in _records(path, problems):
        op = message.last(event, _GRAPH_OP)
        if op is None:
            continue
        name, graph = message.text(message.last(op, _NODE_NAME)), message.text(message.last(op, _NODE_GRAPH))
        inputs = tuple(message.text(each) for each in message.all(op, _NODE_INPUT))
        found[graph][name] = GraphNode(name, message.text(message.last(op, _NODE_TYPE)), inputs)
    return found


class _TraceFacts(Struct):
    context: str = ""
    name: str = ""
    slot: int = 0
    mode: int = 0
    tensor: Field | None = None


def _facts(message: Message, body: Field) -> _TraceFacts:
    facts = _TraceFacts()
    for field in message.wire.fields(body.start, body.stop):
        if field.wire == VARINT and field.number == _SLOT:
            facts.slot = field.value
        elif field.wire == VARINT and field.number == _MODE:
            facts.mode = field.value
        elif field.wire == DELIMITED and field.number == _CONTEXT:
            facts.context = message.text(field)
        elif field.wire == DELIMITED and field.number == _OP_NAME:
            facts.name = message.text(field)
        elif field.wire == DELIMITED and field.number == _TENSOR:
            facts.tensor = field
    return facts


def _time(message: Message, event: Field) -> int:
    for field in message.wire.fields(event.start, event.stop):
        if field.number == _TIME and field.wire == FIXED64:
            seconds = struct.unpack("<d", field.value.to_bytes(8, "little"))[0]
            return int(seconds * 1e6) if 0 <= seconds < 1e12 else 0
    return 0


def _records(path: str, problems: list[Problem]) -> Iterator[tuple[Message, Field]]:
    """Yield every record of a file, as a message in the file's own bytes."""
    with BinaryFile(path) as file:
        wire = WireReader(
            FileBytes(file), path, fields_left=4 * file.size + 16, what=f"`{Path(path).name}`", cure=RUN_AGAIN
        )
        message, place = Message(wire), 0
        try:
            while place < file.size:
                head = file.read_at(place, _HEAD_BYTES)
                begin = place + _HEAD_BYTES
                stop = begin + _LENGTH.unpack(head[:8])[0] if len(head) == _HEAD_BYTES else file.size + 1
                if stop + _TAIL_BYTES > file.size:
                    raise _cut_off(path, place)
                yield message, Field(0, DELIMITED, 0, begin, stop)
                place = stop + _TAIL_BYTES
        except FormatError as error:
            problems.append(replace(error.diagnostic, path=path))


def _cut_off(path: str, place: int) -> FormatError:
    return malformed(
        "PF3448",
        path,
        f"`{Path(path).name}` ends inside a record: the run still writes, or was stopped",
        help_text="let the run end (`tf.debugging.experimental.disable_dump_debug_info()` writes the rest), then read",
        offset=place,
    )
