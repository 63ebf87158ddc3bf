"""What a device dump file holds, with the place of every tensor: the result of reading one header."""

from __future__ import annotations

from msgspec import Struct

from probe_flow.errors import Diagnostic


class GeTensor(Struct, frozen=True, gc=False):
    """One input or output of a dump file.

    Args:
        data_type: element type by the numbers of the dump message; -1 - n for number n of a nano dump that the message
            has no counterpart of.
        format: storage layout by the numbers of the dump message.
        shape: stored shape; for an absent one what the slot's size implies.
        original_shape: logical shape; None when the header has none.
        sub_format: group count of grouped convolution weights (0 and 1 mean ungrouped).
        size: bytes of the slot.
        offset: first byte of the slot in the file.
        nbytes: bytes that the shape needs (the first of the slot).
        address: device address.
        original_op: name of the operator before fusion, of outputs.
        original_output: its output number.
        problem: why the tensor cannot be read; None when it can.
    """

    data_type: int
    format: int
    shape: tuple[int, ...]
    original_shape: tuple[int, ...] | None
    sub_format: int
    size: int
    offset: int
    nbytes: int
    address: int = 0
    original_op: str | None = None
    original_output: int | None = None
    problem: Diagnostic | None = None


class GeSection(Struct, frozen=True):
    """A buffer or a space: bytes without a shape. ``kind`` is the number that the header gives."""

    kind: int
    size: int
    offset: int


class GeDump(Struct, frozen=True):
    """The header of one dump file.

    Args:
        op_name: full name of the operator in its graph, with ``/`` and ``.``; empty in nano dumps.
        dump_time: microseconds since the epoch; 0 in nano dumps.
        inputs, outputs: in slot order.
        buffers, spaces: in file order.
        attrs: attributes as (name, text).
        version: 1 (bare message), 2 (container) or 3 (nano dump).
        problems: of the tensors, and of the file when it ends too early.
    """

    op_name: str
    dump_time: int
    inputs: tuple[GeTensor, ...]
    outputs: tuple[GeTensor, ...]
    buffers: tuple[GeSection, ...] = ()
    spaces: tuple[GeSection, ...] = ()
    attrs: tuple[tuple[str, str], ...] = ()
    version: int = 2
    problems: tuple[Diagnostic, ...] = ()
