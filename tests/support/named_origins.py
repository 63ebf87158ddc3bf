"""Comparison of generated TorchAir pairs in this process, and whether an origin is the truth."""

from __future__ import annotations

from pathlib import Path

from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Comparison, Finding, FindingKind
from probe_flow.stages.compare import Options
from probe_flow.work import Context, Settings


def compare(target: Path, golden: Path, golden_kind: str = "fx") -> Comparison:
    def in_order(function, batches, **_):
        return ((number, function(batch)) for number, batch in enumerate(batches))

    context = Context(
        "result", Path(), in_order, lambda _event, **_fields: None, lambda _problems: None, Settings(), {}
    )
    read_golden = read_torchair_ge if golden_kind == "ge" else read_torchair_fx
    catalogs = read_torchair_ge(str(target), side="target"), read_golden(str(golden), side="golden")
    return compare_pairs(match_torchair(*catalogs), Options(uses="compare", pairs="pairs").asked(), context, None)


def origins(comparison: Comparison) -> list[Finding]:
    return [finding for finding in comparison.findings if finding.kind is FindingKind.ORIGIN]


def is_truth(finding: Finding, truth) -> bool:
    assert finding.node is not None
    execution = finding.node.execution
    is_there = execution.step == truth.token and (execution.rank or 0) == truth.rank
    return finding.node.name in {truth.node, *truth.accept} and is_there
