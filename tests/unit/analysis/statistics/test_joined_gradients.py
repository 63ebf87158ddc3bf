"""Gradients of what was put together are what came back of the whole, or one of them is wrong; by arrays."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, RUN, pairs_of, passes
from msgspec.structs import replace

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import NodeKey, Phase
from probe_flow.testing import builders
from tests.unit.analysis.statistics.test_own_inputs import rounded, shown

PARTS = ("first", "second", "third")
SIZES = (1.0, 0.7, 1.5)


def joined(spoil=lambda part: part, *, wrong=(1,), dtype="bfloat16", other=0.05, kind="stack", seed=3, golden=None):
    """Three calls whose results are stacked, and the gradients that come back: off by ``other`` whatever made them so.

    ``spoil`` is what happens to some of them on the way, ``golden`` what happens to the golden's.
    """
    chance = np.random.default_rng(seed)
    made = [chance.standard_normal((20, 12)) + 0.1 * place for place in range(3)]
    right = [size * chance.standard_normal((20, 12)) for size in SIZES]
    off = [other * size * chance.standard_normal((20, 12)) for size in SIZES]
    reached = [rounded(each + error, dtype) for each, error in zip(right, off, strict=True)]
    whole = [np.stack(each, axis=1) for each in (made, reached, right)]
    rows = []
    for name, each in zip(PARTS, made, strict=True):
        rows += [
            shown(call(name), IN, 0, each + 1.0, each + 1.0, "float32"),
            shown(call(name), OUT, 0, each, each, "float32"),
        ]
    rows += [of_list(shown(call("all"), IN, 0, each, each, "float32"), place) for place, each in enumerate(made)]
    rows.append(shown(call("all"), OUT, 0, whole[0], whole[0], "float32"))
    rows.append(shown(call("all", Phase.BACKWARD), IN, 0, whole[1], whole[2], dtype))
    for place in reversed(range(3)):
        target, theirs = (spoil(reached[place]), right[place]) if place in wrong else (reached[place], right[place])
        theirs = golden(theirs) if golden and place in wrong else theirs
        rows.append(shown(call(PARTS[place], Phase.BACKWARD), IN, 0, target, theirs, dtype))
    return rows, pairs_of(rows, {**dict.fromkeys(PARTS, "linear"), "all": kind})


def of_list(row, place):
    """A row of a list that a call takes as its first argument."""
    shape = row.pair.golden.shape
    sides = [builders.tensor(call("all"), IN, (0, place), dtype="float32", shape=shape) for _ in range(2)]
    return replace(row, pair=replace(row.pair, target=sides[0], golden=sides[1]))


def call(name, phase=Phase.FORWARD):
    return NodeKey(RUN, name, 0, phase)


def proven(rows, pairs):
    found, _ = conclude(rows, pairs, passes(rows))
    return [each.node.name for each in found if each.fails and "is not the part of" in each.evidence]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("kind", ["stack", "cat"])
def test_parts_that_are_far_off_but_make_the_whole_are_right(kind, dtype):
    for seed in range(10):
        assert proven(*joined(dtype=dtype, kind=kind, seed=seed, other=0.3)) == []


@pytest.mark.parametrize("wrong", range(3))
@pytest.mark.parametrize(
    "spoil",
    [lambda part: 1.3 * part, lambda part: part + 0.3 * np.sqrt((part**2).mean()), lambda part: 0.0 * part],
    ids=["factor", "offset", "lost"],
)
def test_the_one_is_named_without_which_all_are_near_to_the_golden_s(spoil, wrong):
    assert proven(*joined(spoil, wrong=(wrong,))) == [PARTS[wrong]]


def test_none_is_named_where_it_may_be_several_nor_where_the_golden_does_not_add_up_either():
    assert proven(*joined(lambda part: 1.3 * part, wrong=(0, 1))) == []
    assert proven(*joined(lambda part: 1.3 * part, golden=lambda part: 2.0 * part)) == []
    assert proven(*joined(lambda part: 1.3 * part, kind="linear")) == []
