"""Policies: rules that turn the measurements of a node into verdicts with reasons."""

from probe_flow.analysis.policies.base import Policy, judge_all
from probe_flow.analysis.policies.bounds import Bound, parse_bound
from probe_flow.analysis.policies.registry import policy_named, policy_names
from probe_flow.analysis.policies.rules import Rule, RulePolicy

__all__ = ["Bound", "Policy", "Rule", "RulePolicy", "judge_all", "parse_bound", "policy_named", "policy_names"]
