"""Say why tensors of offline models are not compared, in plain words; tables with words of their own take the facts."""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Reason, ReasonKind, Rule, SlotRole
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
    FOLDED = Rule("folded")
    SHAPE = Rule("shape")
    ORDER = Rule("order")
    ADDRESS = Rule("address")
    INPUT = Rule("input")
    FILE = Rule("file")


class OfflineReason:
    AMBIGUOUS = ReasonKind("ambiguous")
    BFLOAT16 = ReasonKind("bfloat16")
    BLOCKS_CONTRADICT = ReasonKind("blocks_contradict", is_mismatch=True)
    BLOCKS_MISMATCH = ReasonKind("blocks_mismatch", is_mismatch=True)
    CAST_SKIPPED = ReasonKind("cast_skipped")
    DEVICE_ONLY = ReasonKind("device_only")
    EMPTY_L1 = ReasonKind("empty_l1")
    FURTHER_CALL = ReasonKind("further_call")
    INNER_NODE = ReasonKind("inner_node", is_inner=True)
    INPUT_INDEX = ReasonKind("input_index")
    INPUT_MALFORMED = ReasonKind("input_malformed")
    L1_INNER = ReasonKind("l1_inner")
    LAYOUT_UNSUPPORTED = ReasonKind("layout_unsupported")
    NETWORK_INPUT = ReasonKind("network_input")
    NO_GOLDEN_DUMP = ReasonKind("no_golden_dump")
    NO_RULE_COUNT = ReasonKind("no_rule_count", lacks_rule=True)
    NO_RULE_MODEL = ReasonKind("no_rule_model", lacks_rule=True)
    NO_RULE_OP = ReasonKind("no_rule_op", lacks_rule=True)
    NO_RULE_SHAPE = ReasonKind("no_rule_shape", lacks_rule=True)
    NO_RULES = ReasonKind("no_rules", lacks_rule=True)
    NO_TARGET_DUMP = ReasonKind("no_target_dump")
    NO_TARGET_TENSOR = ReasonKind("no_target_tensor")
    NOT_IN_RULES = ReasonKind("not_in_rules")
    NOT_SELECTED = ReasonKind("not_selected", is_unselected=True)
    OVERWRITTEN = ReasonKind("overwritten")
    QUANTISED = ReasonKind("quantised", is_quantised=True)
    SHAPE_MISMATCH = ReasonKind("shape_mismatch", is_mismatch=True)
    SLICES_MISSING = ReasonKind("slices_missing")
    SUBGRAPH = ReasonKind("subgraph")
    UNKNOWN_PRODUCER = ReasonKind("unknown_producer")


def no_target_dump(op: str, op_type: str, *, is_gap: bool, is_caller: bool = False) -> Reason:
    """A golden tensor whose device operator has no file."""
    if is_caller:
        text = f"`{op}` ({op_type}) leaves no file: dump its subgraphs, which compute it; each is a model of its own"
        return OfflineReason.NO_TARGET_DUMP.missing(text, op, op_type)
    if is_gap:
        text = f"the device dump has no file of `{op}` ({op_type}), which computes it: dump that operator too"
        return OfflineReason.NO_TARGET_DUMP.missing(text, op, op_type)
    text = f"the device dump has no file of `{op}`: operators of type {op_type} are not dumped"
    return OfflineReason.NO_TARGET_DUMP.expected(text, op, op_type)


def no_target_node() -> Reason:
    """Without rules: an operator of the golden alone."""
    return OfflineReason.NO_TARGET_DUMP.missing(f"the target has no operator of this name: {_RULES}")


def no_golden_node() -> Reason:
    """Without rules: an operator of the target alone."""
    return OfflineReason.NO_GOLDEN_DUMP.missing(f"the golden has no operator of this name: {_RULES}")


def unknown_producer(name: str) -> Reason:
    """An input whose producer no rule names."""
    text = f"its producer `{name}` is not in the rules: give the rules of the model that ran"
    return OfflineReason.UNKNOWN_PRODUCER.missing(text, name)


def input_index(index: int, count: int) -> Reason:
    """An input that the rules do not list."""
    text = f"the dump has an input of index {index}, the rules list {count}: give the rules of the model that ran"
    return OfflineReason.INPUT_INDEX.missing(text, index, count)


def carried_input(name: str) -> Reason:
    """An input that is another one in each turn of a loop."""
    text = f"what `{name}` reads is handed from turn to turn of a loop, and the golden has no name for it"
    return OfflineReason.FURTHER_CALL.expected(text)


def input_malformed(text: str) -> Reason:
    """An input of which the rules do not say ``producer:index``."""
    return OfflineReason.INPUT_MALFORMED.missing(
        f"the rules say of this input `{text}` in place of `operator:index`", text
    )


def shape_mismatch(target: Shape, golden: Shape) -> Reason:
    """Two tensors of other sizes."""
    text = (
        f"the target has shape {tuple(target)}, the golden {tuple(golden)}: neither padding nor another order of axes "
        "explains it; look for another batch size or other inputs of the model"
    )
    return OfflineReason.SHAPE_MISMATCH.missing(text, tuple(target), tuple(golden))


def blocks_mismatch(target: Shape, padded: Shape) -> Reason:
    """A matrix that does not fill the blocks that it is stored in."""
    text = f"a matrix of shape {tuple(target)} does not fit the blocks that were dumped, which hold {tuple(padded)}"
    return OfflineReason.BLOCKS_MISMATCH.missing(text, tuple(target), tuple(padded))


def blocks_contradict(shape: Shape, stored: Shape, layout: str, groups: int, *, fits_ungrouped: bool) -> Reason:
    """A header whose shape, or number of groups, does not belong to the blocks that it describes."""
    text = f"the header contradicts itself: {tuple(stored)} in layout `{layout}` does not hold {tuple(shape)}"
    if groups > 1:
        text += f" in the {groups} groups of its sub-format" + (
            ", but it does without groups" if fits_ungrouped else ""
        )
    return OfflineReason.BLOCKS_CONTRADICT.missing(f"{text}; dump the operator again", tuple(shape), tuple(stored))


def layout_unsupported(layout: str) -> Reason:
    """A storage layout without conversion."""
    text = f"no conversion is known of the storage layout `{layout}`"
    return OfflineReason.LAYOUT_UNSUPPORTED.missing(text, layout)


def dtype_unsupported(stored_dtype: str) -> Reason:
    """An element type that cannot be read as numbers."""
    number = _NUMBERS.get(stored_dtype, stored_dtype)
    named = f"`{stored_dtype}` (device type {number})" if number != stored_dtype else f"`{stored_dtype}`"
    return CommonReason.DTYPE_UNSUPPORTED.missing(f"elements of type {named} cannot be read as numbers", number)


def slices_missing() -> Reason:
    """A tensor that several threads wrote, not all of whose files are there."""
    text = "not all slices of this tensor were dumped, there are fewer files than threads: dump it again"
    return OfflineReason.SLICES_MISSING.missing(text)


def inner_node(op: str) -> Reason:
    """The output of an operator that gives no tensor of the originals that it is part of."""
    text = f"`{op}` is one of several operators for the same originals and gives none of their tensors"
    return OfflineReason.INNER_NODE.expected(text)


def empty_l1(group: str) -> Reason:
    """A golden tensor of an L1 group without any file."""
    text = f"no operator of the L1 group `{group}` has a file in the device dump: dump the last of them at least"
    return OfflineReason.EMPTY_L1.missing(text)


def no_rule_shape(target: Shape, golden: Shape) -> Reason:
    """Without rules: tensors of one name and other shapes."""
    shapes = _shown(target), _shown(golden)
    return OfflineReason.NO_RULE_SHAPE.missing(
        f"the target has shape {shapes[0]}, the golden {shapes[1]}: {_RULES}", *shapes
    )


def no_rule_count(role: SlotRole, target: int, golden: int) -> Reason:
    """Without rules: operators of one name that have other numbers of tensors."""
    text = f"the operator has {target} {role.value}s in the target and {golden} in the golden: {_RULES}"
    return OfflineReason.NO_RULE_COUNT.missing(text, role.value, target, golden)


_RULES = "where the models were compiled in other ways, give the rules of both"


def _shown(shape: Shape) -> str:
    """Return a shape as tables show it: ``(6)`` for one axis."""
    return f"({', '.join(map(str, shape))})"
