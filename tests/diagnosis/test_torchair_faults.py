"""How well the origin is named: generated GE/FX pairs with one known fault each, and healthy ones.

The generator (`tests/generate`) knows the truth from its own arrays and shares no code with the analysis. The limits
here are what docs/explanation/diagnosis.md states.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from generate.torchair import (
    EXTRA_FAULTS,
    EXTRA_HEALTHY,
    HEALTHY,
    PLACED_FAULTS,
    PLACED_HEALTHY,
    SINGLE_FAULTS,
    Fault,
    Spec,
)
from named_origins import compare, is_truth, origins

from probe_flow.record.run_json import comparison_summary
from probe_flow.records import Role, Status


def misses(specs, folder: Path) -> list[str]:
    """Return the faults whose origin is not named first, with what is named instead."""
    missed = []
    for spec in specs:
        case = spec.generate(folder / spec.name)
        named = origins(compare(case.target, case.golden, case.golden_kind))
        if not named or not is_truth(named[0], case.truth):
            missed.append(f"{spec.name}: {case.truth.node}, named {[f.node.name for f in named[:3] if f.node]}")
    return missed


def test_at_least_19_of_20_single_faults_are_named_first(tmp_path):
    assert len(SINGLE_FAULTS) == 20
    assert len(misses(SINGLE_FAULTS, tmp_path)) <= 1


def test_at_least_13_of_14_held_out_faults_are_named_first(tmp_path):
    assert len(EXTRA_FAULTS) == 14
    assert len(misses(EXTRA_FAULTS, tmp_path)) <= 1


def test_at_least_19_of_20_faults_by_place_are_named_first(tmp_path):
    assert len(PLACED_FAULTS) == 20
    assert len(misses(PLACED_FAULTS, tmp_path)) <= 1


@pytest.mark.parametrize("spec", [*HEALTHY, *EXTRA_HEALTHY, *PLACED_HEALTHY], ids=lambda spec: spec.name)
def test_no_healthy_pair_raises_an_alarm(spec, tmp_path):
    case = spec.generate(tmp_path)
    comparison = compare(case.target, case.golden, case.golden_kind)
    assert comparison.findings == ()
    assert comparison.gate_passed
    assert comparison.incomplete == ()
    # The row rule alone would have failed the run: that it fails rows of healthy runs is why the gate exists.
    assert {row.verdict.role for row in comparison.rows} <= {Role.CLEAN, Role.UNKNOWN}


def test_a_large_factor_inside_a_fused_operator_hides_no_fault(tmp_path):
    """``x + 1000 * tiny`` as one operator: the factor is an input of it, and no term of the sum."""
    fault = Fault("flip_row", "Add_18")
    spec = Spec(
        "beside_a_factor", "mixer", "bfloat16", fault=fault, fused=True, private=True, seed=573982024, golden="ge"
    )
    assert misses([spec], tmp_path) == []


EARLY, LATE = Fault("scale", "Mul", 0.2), Fault("wrong_gelu", "Gelu_1", 0.0147)
OVER_TIME = [
    Spec("a_later_token_only", "transformer", "float16", fault=replace(LATE, token=2), tokens=3, fused=True),
    Spec("one_rank_only", "transformer", "float16", fault=replace(LATE, rank=1), tokens=2, ranks=2),
    Spec("an_earlier_operator_at_a_later_token", "transformer", "float16", fault=replace(LATE, token=0), tokens=2,
         also=replace(EARLY, token=1)),
    Spec("a_later_token_on_an_earlier_rank", "transformer", "float16", fault=replace(LATE, token=0, rank=1), tokens=2,
         ranks=2, also=replace(EARLY, token=1, rank=0)),
    Spec("an_earlier_operator_on_a_later_rank", "transformer", "float16", fault=replace(EARLY, rank=2), ranks=3,
         also=replace(LATE, rank=0)),
]  # fmt: skip


@pytest.mark.parametrize("spec", OVER_TIME, ids=lambda spec: spec.name)
def test_the_first_divergence_is_first_in_time_and_then_in_order(spec, tmp_path):
    case = spec.generate(tmp_path)
    said, findings = comparison_summary(compare(case.target, case.golden))
    first = findings[said.first_divergence]
    assert first.node in {case.truth.node, *case.truth.accept}
    assert (first.step, first.rank) == (case.truth.token, case.truth.rank)
    # A fault at a later time is an origin of its own.
    steps = [findings[position].step for position in said.suspects]
    assert steps == sorted(steps)
    assert len(steps) >= 1 + (spec.also is not None)


def test_the_row_rule_fails_rows_of_healthy_runs(tmp_path):
    case = HEALTHY[0].generate(tmp_path)
    comparison = compare(case.target, case.golden, case.golden_kind)
    assert any(row.verdict.status is Status.FAIL for row in comparison.rows)
    assert comparison.gate_passed


PARTIAL = [
    Spec("mixer_few", "mixer", "bfloat16", "7.1.0", tokens=2, seed=361),
    Spec("transformer_few", "transformer", "float16", fused=True, private=True, seed=32),
    Spec("deep_few", "deep", "bfloat16", seed=33),
]


@pytest.mark.parametrize("spec", PARTIAL, ids=lambda spec: spec.name)
def test_no_partial_dump_of_a_healthy_run_raises_an_alarm(spec, tmp_path):
    """One operator in five left a file; what the others rounded is in what they gave."""
    case = spec.generate(tmp_path)
    chance = random.Random(spec.seed)
    for path in sorted(path for path in case.target.rglob("*.*.*.*") if path.is_file() and path.suffix != ".txt"):
        if chance.random() > 0.2:
            path.unlink()
    comparison = compare(case.target, case.golden, case.golden_kind)
    assert [finding.evidence for finding in comparison.findings if finding.fails] == []
    assert any(row.verdict.excess is not None for row in comparison.rows)
