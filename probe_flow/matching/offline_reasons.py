"""Word the reasons of offline models: the texts that users of such comparisons know, and whether they are gaps."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.records import Expectation, Reason, SlotRole
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES

SHOWN_CODES = frozenset(
    {
        "no_target_dump", "no_golden_dump", "unknown_producer", "input_index", "input_malformed", "shape_mismatch",
        "layout_unsupported", "dtype_unsupported", "slices_missing", "inner_node", "empty_l1", "no_rule_shape",
        "no_rule_count",
    }
)  # fmt: skip
"""Codes of rows that a table of offline models shows with their text; rows with other codes are further detail."""

_NUMBERS = {name: number for number, name in DEVICE_DTYPE_NAMES.items()}

Shape = Sequence[int]


def expected(code: str, text: str) -> Reason:
    """A tensor that had not to be compared."""
    return Reason(code, text, Expectation.EXPECTED)


def missing(code: str, text: str) -> Reason:
    """A tensor that lacks its partner: a gap of the comparison."""
    return Reason(code, text, Expectation.MISSING)


def tensor_index(op: str, role: SlotRole, index: object) -> str:
    """Return the id of a tensor in such texts, e.g. ``conv1:output:0``."""
    return f"{op}:{role.value}:{index}"


def no_target_dump(op: str, op_type: str) -> str:
    """Say that a device operator has no file."""
    return f'[{op}] There is no dump file for my output operator "{op}". The type is {op_type}.'


def no_golden_dump(op: str, role: SlotRole, index: object) -> str:
    """Say that a device tensor has no golden one."""
    return f"[{op}] There is no the ground truth dump file for {tensor_index(op, role, index)}."


def unknown_producer(name: str) -> Reason:
    """An input whose producer no rule names."""
    return missing("unknown_producer", f'There is no "{name}" in the fusion rule file.')


def input_index(index: int, count: int) -> Reason:
    """An input that the rules do not list."""
    text = f"The input index ({index}) is out of range ({count}) for the operator list."
    return missing("input_index", text)


def input_malformed(text: str) -> Reason:
    """An input of which the rules do not say ``producer:index``."""
    return missing("input_malformed", f"The input information ({text}) is invalid. It only supports op_name:index.")


def shape_mismatch(op: str, target: Shape, golden: Shape) -> Reason:
    """Two tensors of other sizes."""
    return missing(
        "shape_mismatch",
        f"[{op}] Due to the different shapes on the left and right,the left dump data{tuple(target)} can not be "
        f"compared to the right dump data{tuple(golden)}. Please check the batch of the dump data or the shape may be "
        "changed due to optimization.",
    )


def blocks_mismatch(op: str, target: Shape, padded: Shape) -> Reason:
    """A matrix that does not fill the blocks that it is stored in."""
    return missing(
        "shape_mismatch",
        f"[{op}] The target shape {tuple(target)} is invalid. The recommended shape is {tuple(padded)}.",
    )


def layout_unsupported(layout: str) -> Reason:
    """A storage layout without conversion."""
    return missing("layout_unsupported", f'The format " {layout} " is not supported.')


def dtype_unsupported(stored_dtype: str) -> Reason:
    """An element type that cannot be read as numbers."""
    number = _NUMBERS.get(stored_dtype, stored_dtype)
    return missing("dtype_unsupported", f"The output data type ({number}) does not support.")


def inner_node(op: str) -> str:
    """Say that an operator is inside of several that stand for the same originals."""
    return f"[{op}] The op is inner node for multi to multi relation.Skip the op."


SLICES_MISSING = "This is a FFTS+ mode dump data, The number of files does not match the number of thread"
EMPTY_L1 = "The fusion operator list is empty"


def no_rule_shape(op: str, role: SlotRole, index: object, target: Shape, golden: Shape) -> Reason:
    """Without rules: tensors of one name and other shapes."""
    where = tensor_index(op, role, index)
    shapes = f"{_shown(target)} vs {_shown(golden)}"
    return missing("no_rule_shape", f"[{op}] The shape does not match ({shapes}) for {where}.")


def no_rule_count(op: str, role: SlotRole, target: int, golden: int) -> Reason:
    """Without rules: operators of one name that have other numbers of tensors."""
    text = f"[{op}] The number of {role.value} does not match ({target} vs {golden})."
    return missing("no_rule_count", text)


def _shown(shape: Shape) -> str:
    """Return a shape as the table shows it: ``(6)`` for one axis."""
    return f"({', '.join(map(str, shape))})"
