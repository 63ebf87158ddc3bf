"""A backward pass begins with 1, or the power of two that losses are scaled by, which nothing before explains."""

from __future__ import annotations

import pytest
from comparison_rows import IN, pairs_of, passes, row, statistics_measured
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import begins_gradients
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, Measurement, Mode, NodeKey, Phase, SideSummary, Statistics
from probe_flow.testing.builders import key

LOSS = "Functional.cross_entropy"


def number(value: float, golden: float, *, mode: Mode = Mode.STATISTICS):
    """The row of one number that reaches the gradient of a loss."""
    node = NodeKey(key(LOSS).execution, LOSS, 0, Phase.BACKWARD)
    sides = [Statistics(min=each, max=each, mean=each, l2norm=abs(each), nan=0, inf=0) for each in (value, golden)]
    measured = statistics_measured(*sides, count=1)
    if mode is Mode.TENSOR:
        metrics = {"euclidean_distance": abs(value - golden), "max_abs_err": abs(value - golden)}
        measured = Measurement.of(mode, metrics, SideSummary(sides[0]), SideSummary(sides[1]), count=1)
    return row(node, IN, measurement=measured, dtype="bfloat16")


@pytest.mark.parametrize(
    ("golden", "begins"), [(1.0, True), (65536.0, True), (-1.0, False), (0.3, False), (3.0, False), (0.0, False)]
)
def test_it_is_told_by_the_golden(golden, begins):
    assert begins_gradients(number(golden, golden)) is begins


def test_an_input_of_a_forward_call_and_a_whole_tensor_begin_nothing():
    found = number(1.0, 1.0)
    forward = replace(found.pair.target, node=key(LOSS))
    assert not begins_gradients(replace(found, pair=replace(found.pair, target=forward, golden=forward)))
    tensor = row(found.node, IN, relative=0.0)
    assert not begins_gradients(tensor)


@pytest.mark.parametrize("mode", [Mode.STATISTICS, Mode.TENSOR])
@pytest.mark.parametrize(("golden", "named"), [(1.0, [LOSS]), (0.3, [])])
def test_what_the_last_results_were_off_by_excuses_it_only_where_it_was_computed(mode, golden, named):
    """2 % of it, behind results that are off by 0.8 %: the slope of a logarithm of these would be off by as much."""
    rows = [row("mix", relative=0.008, dtype="bfloat16"), number(golden * 1.02, golden, mode=mode)]
    found, _ = conclude(rows, pairs_of(rows, {LOSS: "cross_entropy"}), passes(rows))
    assert [each.node.name for each in found if each.kind is FindingKind.ORIGIN and each.fails] == named
