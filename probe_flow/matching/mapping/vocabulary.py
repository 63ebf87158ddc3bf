"""The rules of pairs by mapping files."""

from __future__ import annotations

from probe_flow.records import Rule


class MappingRule:
    CELL = Rule("cell_mapping")
    LAYER = Rule("layer_mapping")
    DATA = Rule("data_mapping")
