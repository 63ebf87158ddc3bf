"""The rules of pairs by name, and the reasons of tensors without partner."""

from __future__ import annotations

from probe_flow.records import ReasonKind, Rule


class NameRule:
    FUZZY = Rule("fuzzy")
    API_MAPPING = Rule("api_mapping")


class NameReason:
    AXES_JOINED = ReasonKind("axes_joined", is_reshaped=True)
    DTYPE_DIFFERS = ReasonKind("dtype_differs")
    DTYPE_INCOMPATIBLE = ReasonKind("dtype_incompatible")
    KIND_INCOMPATIBLE = ReasonKind("kind_incompatible")
    OTHER_AUTOGRAD_NODE = ReasonKind("other_autograd_node")
    TYPE_INCOMPATIBLE = ReasonKind("type_incompatible")
    UNDEFINED_OUTPUT = ReasonKind("undefined_output")
