"""The rules that pairs of several matcher families have."""

from __future__ import annotations

from probe_flow.records import Rule


class CommonRule:
    EXACT = Rule("exact")
    ALIGNED = Rule("aligned")
    NONE = Rule("none")
