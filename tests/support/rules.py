"""The rules of pairs by the names that they are published under."""

from __future__ import annotations

from probe_flow.matching.offline.reasons import OfflineRule
from probe_flow.records import SELF, Rule


def rule_of(name: str) -> Rule:
    return next((rule for rule in (SELF, OfflineRule.INNER_INPUT) if rule.name == name), Rule(name))
