"""Parse the file names of MindSpore's graph-mode kernel dumps.

``{op_type}.{op_name}.{task}.{stream}.{timestamp}.{input|output}.{slot}.{format}[.{dtype}].npy``, where ``op_name`` is
the full scope with ``/`` and ``.`` written as ``_`` and ends in ``-op{n}`` (parameters and constants have no number).
Source: files written by MindSpore 2.10 on a CPU.
"""

from __future__ import annotations

import re

from msgspec import Struct

from probe_flow.records import Phase, Slot, SlotRole, shared_slot

PARAMETER = "Parameter"
"""Type under which the values of parameters, network inputs and constants are dumped."""

_GRADIENTS = "Gradients_"
_NAME = re.compile(
    r"(?P<type>[^.]+)\.(?P<op>.+)\.(?P<task>\d{1,19})\.(?P<stream>\d{1,19})\.(?P<time>\d{1,19})"
    r"\.(?P<role>input|output)\.(?P<slot>\d{1,6})\.(?P<format>[^.]+)(?:\.(?P<dtype>[^.]+))?\.npy"
)
_NUMBERED = re.compile(r"(?P<base>.+)-op(?P<number>\d{1,9})")


class OpName(Struct, frozen=True):
    """The name of an operator, taken apart.

    Args:
        full: as dumped.
        base: without the number, equal in two runs of one model even where an operator was inserted.
        number: which of the operators of that base it is; -1 without a number.
    """

    full: str
    base: str
    number: int = -1

    @property
    def phase(self) -> Phase:
        """Return whether the compiler made the operator for a gradient."""
        return Phase.BACKWARD if self.base.startswith(_GRADIENTS) else Phase.FORWARD


class TensorFileName(Struct, frozen=True):
    """The fields of one file name; ``dtype`` is empty where the writer left it out."""

    op_type: str
    op: OpName
    slot: Slot
    timestamp: int
    layout: str
    dtype: str = ""


def op_name(text: str) -> OpName:
    """Take the name of an operator apart; a full scope and its flattened form give the same.

    >>> op_name("Default/net-Net/fc-Dense/MatMul-op3").base
    'Default_net-Net_fc-Dense_MatMul'
    """
    flat = text.replace("/", "_").replace(".", "_")
    found = _NUMBERED.fullmatch(flat)
    return OpName(flat, flat) if found is None else OpName(flat, found["base"], int(found["number"]))


def slot_of(role: str, index: int) -> Slot:
    """Return the slot behind the words ``input`` or ``output`` and a number."""
    return shared_slot(SlotRole.INPUT if role == "input" else SlotRole.OUTPUT, (index,))


def parse_tensor_file_name(name: str) -> TensorFileName | None:
    """Return the fields of a tensor file's name, None when it is not one.

    >>> parse_tensor_file_name("Add.Default_Add-op1.0.0.1795176694509867.input.0.DefaultFormat.Float32.npy").dtype
    'Float32'
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return TensorFileName(
        found["type"],
        op_name(found["op"]),
        slot_of(found["role"], int(found["slot"])),
        int(found["time"]),
        found["format"],
        found["dtype"] or "",
    )
