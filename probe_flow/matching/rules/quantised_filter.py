"""Which operators of a quantised model have nothing to compare: those between quantisation and dequantisation."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.rules.records import CONSTANTS, FusionOp

_QUANT = re.compile(r"_quant_layer|/AscendQuant|/AscendWeightQuant|\.quant|\.weight_quant")
_DEQUANT = re.compile(r"_dequant_layer|_anti_quant_layer|/AscendDequant|/AntiQuant|\.dequant|\.anti_quant")
_QUANTISED = frozenset({"DT_INT8", "DT_INT4"})
_DEQUANTISED = frozenset({"DT_FLOAT16", "DT_FLOAT", "DT_BF16"})
_SHOWN = 5


class _State(enum.Enum):
    """What an output holds: values of the originals, quantised ones, something computed from these, or values again."""

    NORMAL = "normal"
    QUANT = "quant"
    MIDDLE = "middle"
    DEQUANT = "dequant"


def marked(ops: Sequence[FusionOp]) -> list[FusionOp]:
    """Return the operators, which are in order of their ids, with `is_filtered` set."""
    states: dict[str, tuple[_State, ...]] = {}
    result = []
    for op in ops:
        is_within = any(_state(reference, states) in (_State.QUANT, _State.MIDDLE) for reference in op.inputs)
        states[op.name] = _outputs(op, is_within=is_within)
        is_filtered = is_within and any(state is not _State.DEQUANT for state in states[op.name])
        result.append(replace(op, is_filtered=is_filtered))
    return result


def unexpected_types(ops: Sequence[FusionOp], file: str) -> tuple[Diagnostic, ...]:
    """Return the warning about outputs of quantising operators that are neither quantised nor dequantised."""
    odd = [
        (op.name, number, output.dtype)
        for op in ops
        # Scales and offsets are named after the operators that they belong to.
        if op.op_type not in CONSTANTS and (kinds := _kinds(op)) != (False, False)
        for number, output in enumerate(op.outputs)
        if output.dtype and _quantising(kinds, output.dtype) is None
    ]
    if not odd:
        return ()
    name, number, dtype = odd[0]
    others = f", and {len(odd) - 1} more" if len(odd) > 1 else ""
    return (
        Diagnostic(
            "PF4310",
            f"output {number} of `{name}` is {dtype}: neither quantised nor dequantised{others}",
            severity=Severity.WARNING,
            path=file,
            help="integers may be compared with floats after such an operator; `select.nodes` excludes it",
            notes=tuple(f"output {number} of `{name}` is {dtype}" for name, number, dtype in odd[1:_SHOWN]),
        ),
    )


def _state(reference: str, states: Mapping[str, tuple[_State, ...]]) -> _State:
    """Return what a referenced output holds; producers that come later, or are not there, count as normal."""
    name, _, number = reference.rpartition(":")
    outputs = states.get(name, ())
    if not number.isascii() or not number.isdigit() or int(number[:9]) >= len(outputs):
        return _State.NORMAL
    return outputs[int(number[:9])]


def _outputs(op: FusionOp, *, is_within: bool) -> tuple[_State, ...]:
    kinds = _kinds(op)
    plain = _State.MIDDLE if is_within else _State.NORMAL
    return tuple(_quantising(kinds, output.dtype) or plain for output in op.outputs)


def _quantising(kinds: tuple[bool, bool], dtype: str) -> _State | None:
    """Return what an output of this type holds when its operator quantises, dequantises, or both; else None."""
    is_quant, is_dequant = kinds
    if is_quant and dtype in _QUANTISED:
        return _State.QUANT
    if is_dequant and dtype in _DEQUANTISED:
        return _State.DEQUANT
    return None


def _kinds(op: FusionOp) -> tuple[bool, bool]:
    """Return whether an operator quantises and whether it dequantises, by its name, else by its originals'."""
    kinds = (False, False)
    for text in (op.name, ",".join(op.originals)):
        kinds = (_QUANT.search(text) is not None, _DEQUANT.search(text) is not None)
        if any(kinds):
            break
    return kinds
