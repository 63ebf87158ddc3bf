"""The rules of pairs by mapping files, and the reasons of tensors without partner."""

from __future__ import annotations

from probe_flow.records import ReasonKind, Rule


class MappingRule:
    CELL = Rule("cell_mapping")
    LAYER = Rule("layer_mapping")
    DATA = Rule("data_mapping")


class MappingReason:
    MAPPED_AWAY = ReasonKind("mapped_away")
    NO_GOLDEN_ITEM = ReasonKind("no_golden_item")
    NO_TARGET_ITEM = ReasonKind("no_target_item")
