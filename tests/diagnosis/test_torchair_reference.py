"""A reference clears what the golden is to blame for, and hides no fault: generated pairs with a third side."""

from __future__ import annotations

from pathlib import Path

import pytest
from generate.torchair import HEALTHY, SINGLE_FAULTS
from msgspec.structs import replace

from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.shared.third_side import with_reference
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Comparison, FindingKind
from probe_flow.stages.compare import Options
from probe_flow.work import Context, Settings


def compare(target: Path, golden: Path) -> Comparison:
    """Compare with the golden as its own reference: one without any error of its own."""

    def in_order(function, batches, **_):
        return ((number, function(batch)) for number, batch in enumerate(batches))

    def ignore(*_, **__) -> None:
        return None

    catalogs = read_torchair_ge(str(target), side="target"), read_torchair_fx(str(golden), side="golden")
    exact = replace(catalogs[1], side="reference", root="/exact")
    context = Context("result", Path(), in_order, ignore, ignore, Settings(), {})
    pairs = with_reference(match_torchair(*catalogs), exact)
    return compare_pairs(pairs, Options(uses="compare", pairs="pairs").asked(), context, None)


@pytest.mark.parametrize("spec", SINGLE_FAULTS[::2], ids=lambda spec: spec.name)
def test_an_exact_golden_hides_no_fault(spec, tmp_path):
    case = spec.generate(tmp_path)
    first = next(
        finding for finding in compare(case.target, case.golden).findings if finding.kind is FindingKind.ORIGIN
    )
    assert first.node is not None
    assert first.node.name in {case.truth.node, *case.truth.accept}
    assert "against the reference" in first.evidence or "nan" in first.evidence


@pytest.mark.parametrize("spec", HEALTHY[:2], ids=lambda spec: spec.name)
def test_a_healthy_pair_raises_no_alarm_with_a_reference_either(spec, tmp_path):
    case = spec.generate(tmp_path)
    found = compare(case.target, case.golden)
    assert found.findings == ()
    assert found.gate_passed
