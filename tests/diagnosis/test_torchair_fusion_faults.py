"""How well the origin is named between two device dumps, fusion on against fusion off, and what the rows then say."""

from __future__ import annotations

from pathlib import Path

import pytest
from generate.torchair_fusion import FUSION_FAULTS, FUSION_HEALTHY, FusionCase

from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Comparison, Expectation, Finding, FindingKind, Role
from probe_flow.stages.compare import Options
from probe_flow.work import Context, Settings

VISIBLE = 4.0
"""How many times the healthy difference a fault must be at the tensor where it first shows."""


def compare(case: FusionCase) -> Comparison:
    def in_order(function, batches, **_):
        return ((number, function(batch)) for number, batch in enumerate(batches))

    context = Context(
        "result", Path(), in_order, lambda _event, **_fields: None, lambda _problems: None, Settings(), {}
    )
    catalogs = read_torchair_ge(case.target, side="target"), read_torchair_ge(case.golden, side="golden")
    return compare_pairs(match_torchair(*catalogs), Options(uses="compare", pairs="pairs").asked(), context, None)


def first_origin(comparison: Comparison) -> Finding | None:
    return next((found for found in comparison.findings if found.kind is FindingKind.ORIGIN), None)


def check_nothing_is_missing(comparison: Comparison) -> None:
    gaps = [
        (row.pair.shown.id, row.pair.reason.text)
        for row in comparison.rows
        if row.pair.reason is not None and row.pair.reason.expectation is Expectation.MISSING
    ]
    assert gaps == []


@pytest.mark.parametrize("spec", FUSION_FAULTS, ids=lambda spec: spec.name)
def test_the_fault_is_named_first(spec, tmp_path):
    case = spec.generate(tmp_path)
    comparison = compare(case)
    check_nothing_is_missing(comparison)
    named = first_origin(comparison)
    assert named is not None
    assert named.node is not None
    assert case.truth is not None
    assert case.truth.clearance > VISIBLE
    run = named.node.execution
    truth = case.truth
    assert (named.node.name, run.step, run.rank) == (truth.node, truth.token, truth.rank)
    node = comparison.pairs.target.nodes[named.node]
    if len(node.originals) > 1:
        assert named.evidence.endswith("fused of " + " + ".join(f"`{part}`" for part in node.originals))


@pytest.mark.parametrize("spec", FUSION_HEALTHY, ids=lambda spec: spec.name)
def test_no_healthy_pair_raises_an_alarm(spec, tmp_path):
    comparison = compare(spec.generate(tmp_path))
    check_nothing_is_missing(comparison)
    assert comparison.findings == ()
    assert comparison.gate_passed
    assert comparison.incomplete == ()
    assert {row.verdict.role for row in comparison.rows} <= {Role.CLEAN, Role.UNKNOWN}
