"""Fake quantisation: values near an edge cross it, and their scale takes that along to what reads them; by arrays."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, pairs_of, passes, row, statistics_measured

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Statistics

ROWS, WIDTH, OUTPUTS = 16, 20, 32


def in_16_bits(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32).astype(float)


def known(values):
    ends = float(values.min()), float(values.max())
    return Statistics(
        min=ends[0], max=ends[1], mean=float(values.mean()), l2norm=float(np.linalg.norm(values)), nan=0, inf=0
    )


def quantised(seed, spoil=lambda out: out):
    """Rounded to four bits and scaled again, both operands of a product, in bfloat16 against float32."""
    chance = np.random.default_rng(seed)
    sides = []
    for keep in (in_16_bits, lambda values: values):
        chance = np.random.default_rng(seed)
        steps, ends = [], []
        for name, shape in (("x", (ROWS, WIDTH)), ("w", (OUTPUTS, WIDTH))):
            values = keep(chance.standard_normal(shape))
            scale = np.abs(values).max() / 7.0
            scaled = keep(values / scale)
            whole = np.rint(scaled)
            back = keep(whole * scale)
            steps += [(f"div_{name}", values, scaled), (f"round_{name}", scaled, whole), (f"mul_{name}", whole, back)]
            ends.append(back)
        sides.append((steps, ends, keep(ends[0] @ ends[1].T)))
    rows = []

    def shown(node, role, place, mine, other):
        measured = statistics_measured(known(mine), known(other), count=other.size)
        rows.append(row(node, role, place, measurement=measured, dtype="bfloat16", golden_dtype="float32"))

    (mine, ends, product), (other, golden_ends, golden) = sides
    for (name, read, made), (_, golden_read, golden_made) in zip(mine, other, strict=True):
        shown(name, IN, 0, read, golden_read)
        shown(name, OUT, 0, made, golden_made)
    for place in (0, 1):
        shown("linear", IN, place, ends[place], golden_ends[place])
    shown("linear", OUT, 0, spoil(product), golden)
    types = {"linear": "linear"}
    types |= {f"{kind}_{name}": kind for kind in ("div", "round", "mul") for name in "xw"}
    found, _ = conclude(rows, pairs_of(rows, types), passes(rows))
    return [each.node.name for each in found if each.fails]


@pytest.mark.parametrize("seed", range(24))
def test_a_product_of_values_that_crossed_an_edge_accuses_nobody(seed):
    assert quantised(seed) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_wrong_one_is_named(seed):
    assert quantised(seed, lambda out: 1.3 * out) == ["linear"]
