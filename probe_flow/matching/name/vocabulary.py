"""The rules of pairs by name."""

from __future__ import annotations

from probe_flow.records import Rule


class NameRule:
    FUZZY = Rule("fuzzy")
    API_MAPPING = Rule("api_mapping")
