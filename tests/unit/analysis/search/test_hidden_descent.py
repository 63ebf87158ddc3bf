"""What descends from a suspect through tensors whose statistics hide the error: the shares of causal attention."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, pairs_of, passes, statistics, statistics_measured, tensor

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Pair, Rule
from probe_flow.records.row import Row

LATER = np.triu(np.full((16, 16), -np.inf, "float32"), 1)
"""What hides later tokens: the first row of shares is 1 and zeros, whatever the scores are."""


def recorded(values):
    finite = values[np.isfinite(values)].astype(float)
    return statistics(
        min=float(finite.min()), max=float(finite.max()), mean=float(np.float32(finite.mean())),
        l2norm=float(np.float32(np.linalg.norm(finite))),
    )  # fmt: skip


def attention(given, lost, factor, mask):
    """Attention of scores that hardly differ, as of a model that begins; a channel of the queries may be lost."""
    x, weights, k, v = given
    q = (x @ weights).astype("float32")
    q[..., lost] = 0.0
    scores = (q @ k.swapaxes(-1, -2)).astype("float32") + mask
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = (shares / shares.sum(axis=-1, keepdims=True)).astype("float32")
    return q, scores, shares, (shares @ v * np.float32(factor)).astype("float32")


def shown(node, role, place, mine, other):
    sides = [tensor(node, role, place, dtype="float32", shape=each.shape) for each in (mine, other)]
    known = [recorded(each) for each in (mine, other)]
    return Row(Pair(sides[0], sides[1], "g", Rule("exact")), statistics_measured(*known, count=mine.size))


def named(seed, *, size=0.005, batch=16, factor=1.0, lost=(3,), mask=LATER):
    random = np.random.default_rng(seed)
    x, k, v = (random.standard_normal((batch, 16, 8)).astype("float32") for _ in range(3))
    weights, k = (size * random.standard_normal((8, 8))).astype("float32"), np.float32(0.02) * k
    given = x, weights, k, v
    golden = attention(given, [], 1.0, mask)
    q, scores, shares, result = attention(given, [*lost], factor, mask)
    result = (result * (1 + 6e-8 * random.standard_normal(result.shape))).astype("float32")
    rows = [
        shown("query", IN, 0, x, x), shown("query", IN, 1, weights, weights), shown("query", OUT, 0, q, golden[0]),
        shown("scores", IN, 0, q, golden[0]), shown("scores", IN, 1, k, k),
        shown("scores", OUT, 0, scores, golden[1]),
        shown("softmax", IN, 0, scores, golden[1]), shown("softmax", OUT, 0, shares, golden[2]),
        shown("mix", IN, 0, shares, golden[2]), shown("mix", IN, 1, v, v), shown("mix", OUT, 0, result, golden[3]),
    ]  # fmt: skip
    kinds = {"query": "linear", "scores": "matmul", "softmax": "softmax", "mix": "matmul"}
    found, _ = conclude(rows, pairs_of(rows, kinds), passes(rows))
    return [each.node.name for each in found if each.fails]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [0.02, 0.005, 0.0005])
@pytest.mark.parametrize("batch", [4, 16])
def test_what_is_made_of_shares_that_seem_to_agree_is_no_origin_of_its_own(seed, size, batch):
    assert named(seed, size=size, batch=batch) == ["query"]


@pytest.mark.parametrize("mask", [LATER, np.float32(0.0)])
def test_a_wrong_product_behind_them_is_one(mask):
    assert named(1, factor=1.1, mask=mask) == ["query", "mix"]
    assert named(1, lost=(), factor=1.01, mask=mask) == ["mix"]
    assert named(1, lost=(), mask=mask) == []
