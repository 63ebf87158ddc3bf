"""A pair whose sides count their axes in other orders is measured, shown and judged element by element."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from raw_pairs import context, pairs_of, raw

from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import Catalog, Framework, Node, Pair, Pairs
from probe_flow.stages.compare import Options

EXACT = np.random.default_rng(7).normal(size=(2, 3, 4, 5))


def compare(pairs: Pairs):
    return compare_pairs(pairs, Options.model_validate({"uses": "compare", "pairs": "pairs"}).asked(), context(), None)


def turned(pairs: Pairs, *words: str) -> Pairs:
    found = (Pair.on_terms(pair.target, pair.golden, pair.group, pair.rule, transform=words) for pair in pairs.pairs)
    return replace(pairs, pairs=tuple(found))


def test_a_golden_with_channels_last_is_compared_channels_first(tmp_path):
    target = EXACT.astype(np.float32)
    golden = np.ascontiguousarray(target.transpose(0, 2, 3, 1))
    pairs = pairs_of([(raw(tmp_path, "target", "a", target), raw(tmp_path, "golden", "a", golden))])
    (flat,) = compare(pairs).rows
    (row,) = compare(turned(pairs, "golden:nhwc_to_nchw")).rows
    assert flat.measurement.metrics["cosine"] < 0.5
    assert row.measurement.metrics["max_abs_err"] == 0.0
    assert row.verdict.status.value == "pass"


def test_the_worst_element_is_looked_up_in_the_same_order(tmp_path):
    target = EXACT.astype(np.float32)
    golden = np.ascontiguousarray(target.transpose(0, 2, 3, 1))
    target[1, 2, 3, 4] += 100.0
    pairs = pairs_of([(raw(tmp_path, "target", "a", target), raw(tmp_path, "golden", "a", golden))])
    comparison = compare(turned(pairs, "golden:nhwc_to_nchw"))
    (row,) = comparison.rows
    assert row.measurement.worst_index == target.size - 1
    detail = comparison.details[row.order]
    assert detail.target[-1] - detail.golden[-1] == pytest.approx(100.0, rel=1e-6)


def test_both_sides_may_have_channels_last(tmp_path):
    data = EXACT.astype(np.float32)
    private = np.zeros((2, 1, 4, 5, 16), np.float32)
    private[:, 0, :, :, :3] = data.transpose(0, 2, 3, 1)
    target = raw(tmp_path, "target", "a", private, layout="NC1HWC0", logical_shape=(2, 4, 5, 3))
    golden = raw(tmp_path, "golden", "a", data.transpose(0, 2, 3, 1))
    (row,) = compare(turned(pairs_of([(target, golden)]), "target:nhwc_to_nchw", "golden:nhwc_to_nchw")).rows
    assert row.measurement.metrics["max_abs_err"] == 0.0


def test_a_reference_has_the_axes_of_the_golden(tmp_path):
    target = EXACT.astype(np.float32)
    last = np.ascontiguousarray(EXACT.transpose(0, 2, 3, 1))
    third = raw(tmp_path, "reference", "a", last)
    two = raw(tmp_path, "target", "a", target), raw(tmp_path, "golden", "a", last.astype(np.float32))
    pairs = turned(pairs_of([two]), "golden:nhwc_to_nchw")
    catalog = Catalog("exact", Framework("test"), "tensor", "", {third.node: Node(third.node, "Relu")}, (third,))
    pairs = replace(pairs, pairs=(pairs.pairs[0].judged_by(third),), reference=catalog)
    (row,) = compare(pairs).rows
    assert row.measurement.metrics["reference.max_abs_err"] == np.abs(target - EXACT).max()
