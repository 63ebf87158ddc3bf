"""The published words for reasons of the matcher: what users of such tables search for, and scripts read.

Each code has a text of its own in the tables with the columns of msprobe; all other results of a run say the same in
plain words (`Reason.text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from probe_flow.records import Pair, Reason
from probe_flow.reports.tables.offline.groups import Operators, tensor_name

NO_TARGET_DUMP = '[{op}] There is no dump file for my output operator "{op}". The type is {type}.'
NO_GOLDEN_DUMP = "[{op}] There is no the ground truth dump file for {tensor}."
ONE_SIDE = '[{op}] There is no {side} dump file for the op "{op}".'
INNER_NODE = "[{op}] The op is inner node for multi to multi relation.Skip the op."
EMPTY_L1 = "The fusion operator list is empty"
SHAPE_MISMATCH = (
    "[{op}] Due to the different shapes on the left and right,the left dump data{0} can not be compared to the right "
    "dump data{1}. Please check the batch of the dump data or the shape may be changed due to optimization."
)

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "no_target_dump": '[{0}] There is no dump file for my output operator "{0}". The type is {1}.',
        "no_golden_dump": NO_GOLDEN_DUMP,
        "unknown_producer": 'There is no "{0}" in the fusion rule file.',
        "input_index": "The input index ({0}) is out of range ({1}) for the operator list.",
        "input_malformed": "The input information ({0}) is invalid. It only supports op_name:index.",
        "shape_mismatch": SHAPE_MISMATCH,
        "blocks_mismatch": "[{op}] The target shape {0} is invalid. The recommended shape is {1}.",
        "layout_unsupported": 'The format " {0} " is not supported.',
        "dtype_unsupported": "The output data type ({0}) does not support.",
        "slices_missing": "This is a FFTS+ mode dump data, The number of files does not match the number of thread",
        "inner_node": INNER_NODE,
        "empty_l1": EMPTY_L1,
        "no_rule_shape": "[{op}] The shape does not match ({0} vs {1}) for {tensor}.",
        "no_rule_count": "[{op}] The number of {0} does not match ({1} vs {2}).",
    }
)
WITHOUT_RULES: Mapping[str, str] = MappingProxyType(
    {
        "no_target_dump": ONE_SIDE.replace("{side}", "the my output"),
        "no_golden_dump": ONE_SIDE.replace("{side}", "the ground truth"),
    }
)


def published_words(pair: Pair, operators: Operators) -> str | None:
    """Return the published text for the reason of a pair, None where there is none, or no reason."""
    reason = pair.reason
    words = None if reason is None else _words(reason, operators)
    if reason is None or words is None:
        return None
    key = pair.shown.node
    try:
        return words.format(*reason.facts, op=operators.name(key), tensor=tensor_name(pair, operators))
    except IndexError:  # a matcher that does not tell the facts
        return reason.text


def _words(reason: Reason, operators: Operators) -> str | None:
    words = WORDS.get(reason.code)
    return words if operators.is_ruled else WITHOUT_RULES.get(reason.code, words)
