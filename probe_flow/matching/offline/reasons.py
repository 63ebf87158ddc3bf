"""Say why tensors of offline models are not compared, in plain words; tables with words of their own take the facts."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.records import Expectation, Reason, ReasonCode, Rule, SlotRole
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES

_NUMBERS = {name: number for number, name in DEVICE_DTYPE_NAMES.items()}

Shape = Sequence[int]


class OfflineRule:
    ONE_TO_ONE = Rule("one_to_one")
    MANY_TO_ONE = Rule("many_to_one")
    ONE_TO_MANY = Rule("one_to_many")
    MANY_TO_MANY = Rule("many_to_many")
    L1 = Rule("l1")
    INNER_INPUT = Rule("inner_input", is_inner=True)
    CAST_SKIPPED = Rule("cast_skipped")
    NETWORK_INPUT = Rule("network_input")
    NAME = Rule("name")
    NAME_PARTS = Rule("name_parts")
    SHAPE = Rule("shape")
    ORDER = Rule("order")
    ADDRESS = Rule("address")
    INPUT = Rule("input")
    FILE = Rule("file")


def expected(code: str | ReasonCode, text: str, *facts: object) -> Reason:
    """A tensor that had not to be compared."""
    return Reason(_word(code), text, Expectation.EXPECTED, tuple(map(str, facts)))


def outside(code: str | ReasonCode, text: str, *facts: object) -> Reason:
    """A tensor that was not asked for."""
    return Reason(_word(code), text, Expectation.OUTSIDE, tuple(map(str, facts)))


def missing(code: str | ReasonCode, text: str, *facts: object) -> Reason:
    """A tensor that lacks its partner: a gap of the comparison."""
    return Reason(_word(code), text, Expectation.MISSING, tuple(map(str, facts)))


def _word(code: str | ReasonCode) -> str:
    return code if isinstance(code, str) else code.value


def no_target_dump(op: str, op_type: str, *, is_gap: bool) -> Reason:
    """A golden tensor whose device operator has no file."""
    if is_gap:
        text = f"the device dump has no file of `{op}` ({op_type}), which computes it: dump that operator too"
        return missing("no_target_dump", text, op, op_type)
    text = f"the device dump has no file of `{op}`: operators of type {op_type} are not dumped"
    return expected("no_target_dump", text, op, op_type)


def no_target_node() -> Reason:
    """Without rules: an operator of the golden alone."""
    return missing("no_target_dump", f"the target has no operator of this name: {_RULES}")


def no_golden_node() -> Reason:
    """Without rules: an operator of the target alone."""
    return missing("no_golden_dump", f"the golden has no operator of this name: {_RULES}")


def unknown_producer(name: str) -> Reason:
    """An input whose producer no rule names."""
    text = f"its producer `{name}` is not in the rules: give the rules of the model that ran"
    return missing("unknown_producer", text, name)


def input_index(index: int, count: int) -> Reason:
    """An input that the rules do not list."""
    text = f"the dump has an input of index {index}, the rules list {count}: give the rules of the model that ran"
    return missing("input_index", text, index, count)


def input_malformed(text: str) -> Reason:
    """An input of which the rules do not say ``producer:index``."""
    return missing("input_malformed", f"the rules say of this input `{text}` in place of `operator:index`", text)


def shape_mismatch(target: Shape, golden: Shape) -> Reason:
    """Two tensors of other sizes."""
    text = (
        f"the target has shape {tuple(target)}, the golden {tuple(golden)}: neither padding nor another order of axes "
        "explains it; look for another batch size or other inputs of the model"
    )
    return missing(ReasonCode.SHAPE_MISMATCH, text, tuple(target), tuple(golden))


def blocks_mismatch(target: Shape, padded: Shape) -> Reason:
    """A matrix that does not fill the blocks that it is stored in."""
    text = f"a matrix of shape {tuple(target)} does not fit the blocks that were dumped, which hold {tuple(padded)}"
    return missing(ReasonCode.BLOCKS_MISMATCH, text, tuple(target), tuple(padded))


def blocks_contradict(shape: Shape, stored: Shape, layout: str, groups: int, *, fits_ungrouped: bool) -> Reason:
    """A header whose shape, or number of groups, does not belong to the blocks that it describes."""
    text = f"the header contradicts itself: {tuple(stored)} in layout `{layout}` does not hold {tuple(shape)}"
    if groups > 1:
        text += f" in the {groups} groups of its sub-format" + (
            ", but it does without groups" if fits_ungrouped else ""
        )
    return missing(ReasonCode.BLOCKS_CONTRADICT, f"{text}; dump the operator again", tuple(shape), tuple(stored))


def layout_unsupported(layout: str) -> Reason:
    """A storage layout without conversion."""
    text = f"no conversion is known of the storage layout `{layout}`"
    return missing("layout_unsupported", text, layout)


def dtype_unsupported(stored_dtype: str) -> Reason:
    """An element type that cannot be read as numbers."""
    number = _NUMBERS.get(stored_dtype, stored_dtype)
    named = f"`{stored_dtype}` (device type {number})" if number != stored_dtype else f"`{stored_dtype}`"
    return missing("dtype_unsupported", f"elements of type {named} cannot be read as numbers", number)


def slices_missing() -> Reason:
    """A tensor that several threads wrote, not all of whose files are there."""
    text = "not all slices of this tensor were dumped, there are fewer files than threads: dump it again"
    return missing("slices_missing", text)


def inner_node(op: str) -> Reason:
    """The output of an operator that gives no tensor of the originals that it is part of."""
    text = f"`{op}` is one of several operators for the same originals and gives none of their tensors"
    return expected("inner_node", text)


def empty_l1(group: str) -> Reason:
    """A golden tensor of an L1 group without any file."""
    text = f"no operator of the L1 group `{group}` has a file in the device dump: dump the last of them at least"
    return missing("empty_l1", text)


def no_rule_shape(target: Shape, golden: Shape) -> Reason:
    """Without rules: tensors of one name and other shapes."""
    shapes = _shown(target), _shown(golden)
    return missing("no_rule_shape", f"the target has shape {shapes[0]}, the golden {shapes[1]}: {_RULES}", *shapes)


def no_rule_count(role: SlotRole, target: int, golden: int) -> Reason:
    """Without rules: operators of one name that have other numbers of tensors."""
    text = f"the operator has {target} {role.value}s in the target and {golden} in the golden: {_RULES}"
    return missing("no_rule_count", text, role.value, target, golden)


_RULES = "where the models were compiled in other ways, give the rules of both"


def _shown(shape: Shape) -> str:
    """Return a shape as tables show it: ``(6)`` for one axis."""
    return f"({', '.join(map(str, shape))})"
