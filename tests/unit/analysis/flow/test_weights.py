"""Weights that begin alike on the golden: the target tells whether two calls read one tensor."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, pairs_of, passes, statistics_measured, tensor

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.flow.links import link
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Pair, Rule, SlotRole, Statistics
from probe_flow.records.row import Row


def shown(node: str, role: SlotRole, place: int, target: float, golden: float = 10.0) -> Row:
    mine, other = (Statistics(min=-1.0, max=1.0, mean=0.0, l2norm=norm) for norm in (target, golden))
    sides = [tensor(node, role, place, recorded=known) for known in (mine, other)]
    return Row(Pair(sides[0], sides[1], "g", Rule("exact")), statistics_measured(mine, other))


def layers(*norms: float, kind: str = "linear", place: int = 1) -> tuple[list[Row], dict[str, str]]:
    rows = [shown(f"layer{number}", IN, place, norm) for number, norm in enumerate(norms)]
    return rows, {f"layer{number}": kind for number in range(len(norms))}


@pytest.mark.parametrize(
    ("norms", "producers"),
    [
        ((10.0, 10.0, 10.0), {0: (), 1: (0,), 2: (1,)}),  # tied, or equal on the target too
        ((13.0, 13.0, 13.0), {0: (), 1: (0,), 2: (1,)}),
        ((13.0, 10.0, 10.0), {0: (), 1: (), 2: (1,)}),
        ((10.0, 13.0, 10.0), {0: (), 1: (), 2: ()}),
    ],
)
def test_weights_that_the_target_tells_apart_are_tensors_of_their_own(norms, producers):
    rows, kinds = layers(*norms)
    pairs = pairs_of(rows, kinds)
    assert link(rows, pairs, Calls(rows, pairs)).producers == producers


@pytest.mark.parametrize(("kind", "place"), [("linear", 0), ("add", 1)])
def test_what_is_no_weight_is_what_was_read_before(kind, place):
    rows, kinds = layers(13.0, 10.0, kind=kind, place=place)
    pairs = pairs_of(rows, kinds)
    assert link(rows, pairs, Calls(rows, pairs)).producers == {1: (0,)}


def test_a_weight_that_a_call_made_is_what_it_made():
    rows = [shown("cast", OUT, 0, 10.0), shown("layer", IN, 1, 13.0)]
    pairs = pairs_of(rows, {"layer": "linear", "cast": "to"})
    assert link(rows, pairs, Calls(rows, pairs)).producers == {1: (0,)}


def test_a_wrong_weight_accuses_no_right_one_that_began_like_it():
    rows, kinds = layers(13.0, 10.0, 10.0)
    findings, _ = conclude(rows, pairs_of(rows, kinds), passes(rows))
    assert [each.node.name for each in findings if each.fails] == ["layer0"]


@pytest.mark.parametrize(
    ("kind", "place", "is_weight"),
    [
        ("multi_head_attention_forward", 2, False), ("multi_head_attention_forward", 6, True),
        ("embedding_bag", 1, True), ("lstm_cell", 3, True), ("rnn_tanh", 2, True),
        ("bilinear", 1, False), ("bilinear", 2, True), ("matmul", 1, False),
    ],
)  # fmt: skip
def test_what_is_a_weight_by_its_place(kind, place, is_weight):
    rows, kinds = layers(13.0, kind=kind, place=place)
    pairs = pairs_of(rows, kinds)
    assert link(rows, pairs, Calls(rows, pairs)).producers == ({0: ()} if is_weight else {})
