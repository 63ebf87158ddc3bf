"""The rules of pairs by the graph of a model, and why tensors of it have no partner."""

from __future__ import annotations

from probe_flow.records import ReasonKind, Rule


class ModelGraphRule:
    VALUE = Rule("tensor_name")
    NODE = Rule("node_name")
    PASSED = Rule("passed_on")


class ModelGraphReason:
    QUANTISED_CODES = ReasonKind("quantised_codes", is_quantised=True)
    OF_CONSTANTS = ReasonKind("of_constants")
    OTHER_NUMBERS = ReasonKind("other_numbers")
    QUANTISED_CONSTANTS = ReasonKind("quantised_constants", is_quantised=True)
