"""What earlier rows leave to later ones where statistics do not show it."""

from __future__ import annotations

import pytest
from comparison_rows import IN, edge, key, pairs_of, passes, row, statistics_measured, tensor
from msgspec.structs import replace

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, Statistics


def origins(rows, pairs):
    found, _ = conclude(rows, pairs, passes(rows))
    return [each.node for each in found if each.kind is FindingKind.ORIGIN and each.fails]


def shown(error: float, *, size: float = 30.0):
    """Statistics of 100 whole numbers and what is made of them, of which the norm alone is off, in its size."""
    golden = Statistics(min=-90.0, max=100.0, mean=0.5, l2norm=10.0 * size)
    return statistics_measured(replace(golden, l2norm=10.0 * size * (1.0 + error), max=100.0 * (1.0 + error)), golden)


@pytest.mark.parametrize(("kind", "named"), [("round", []), ("relu", ["product"])])
def test_values_rounded_to_whole_numbers_may_be_a_step_apart_though_statistics_agree(kind, named):
    parts = [("whole", IN, 1e-3), ("whole", "out", 0.0), ("product", IN, 0.0), ("product", "out", 0.012)]
    rows = [
        row(name, *([role] if role is IN else []), measurement=shown(error), dtype="bfloat16")
        for name, role, error in parts
    ]
    edges = [edge("nowhere", "whole", 9), edge("whole", "product")]
    assert [node.name for node in origins(rows, pairs_of(rows, {"whole": kind, "product": "linear"}, edges))] == named


@pytest.mark.parametrize(("before", "named"), [(0.05, []), (0.0, ["norm"])])
def test_a_running_mean_may_be_off_by_what_its_norm_read_in_the_step_before(before, named):
    rows = []
    for step, (read, kept) in enumerate([(before, 0.0), (0.0, 0.02)]):
        node = key("norm", step=step)
        for place, error in enumerate((read, kept)):
            each = row(node, IN, place, relative=error, dtype="float32", mark=10.0 * step + place)
            golden = tensor(node, IN, place, dtype="float32", requires_grad=False)
            rows.append(replace(each, pair=replace(each.pair, golden=golden)))
    pairs = pairs_of(rows, {"norm": "batch_norm"})
    assert [node.name for node in origins(rows, pairs) if node.execution.step == 1] == named
