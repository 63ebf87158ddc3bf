"""A call that the golden alone makes, where the target hands on what that read: an error that nothing explains."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, golden_only, pairs_of, passes, statistics_measured, tensor

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.flow.links import link
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Pair, Rule, SlotRole, Statistics
from probe_flow.records.row import Row

BEFORE, DECAYED = 10.0, 9.99
"""Norms of a parameter and of what is left of it when a thousandth is taken off."""


def known(norm: float) -> Statistics:
    return Statistics(min=-norm / 8.0, max=norm / 9.0, mean=norm / 700.0, l2norm=norm)


def shown(node: str, role: SlotRole, place: int, target: float, golden: float) -> Row:
    sides = [
        tensor(node, role, place, dtype="float32", recorded=known(norm), checksum=None) for norm in (target, golden)
    ]
    return Row(Pair(sides[0], sides[1], "g", Rule("exact")), statistics_measured(known(target), known(golden)))


def alone(node: str, role: SlotRole, norm: float) -> Row:
    return golden_only(tensor(node, role, 0, dtype="float32", recorded=known(norm)))


def step(read: float, golden: float = DECAYED, *, decays: bool = True) -> list[Row]:
    """A parameter that a layer read, results that are off by 4 %, and the step that changes it."""
    rows = [shown("layer", IN, 1, BEFORE, BEFORE), shown("layer", OUT, 0, 5.0 * 1.01, 5.0)]
    rows.append(shown("step", IN, 0, read, golden))
    return [*rows, alone("decay", IN, BEFORE), alone("decay", OUT, golden)] if decays else rows


@pytest.mark.parametrize(
    ("read", "decays", "producers"),
    [
        (BEFORE, True, (0,)),
        (BEFORE, False, None),  # what made it in the golden is in no dump
        (9.995, True, None),  # the target did something else to it
        (DECAYED, True, None),  # the target did the same, in a call that no dump shows
    ],
)
def test_what_the_target_hands_on_comes_from_what_the_call_read(read, decays, producers):
    rows = step(read, decays=decays)
    pairs = pairs_of(rows, {"layer": "linear", "step": "addcdiv_", "decay": "mul_"})
    assert link(rows, pairs, Calls(rows, pairs)).producers.get(2) == producers


def test_a_decay_that_was_left_out_is_named_where_the_step_reads():
    rows = step(BEFORE)
    found, _ = conclude(rows, pairs_of(rows, {"layer": "add", "step": "addcdiv_", "decay": "mul_"}), passes(rows))
    named = [each for each in found if each.fails and each.node.name == "step"]
    assert len(named) == 1
    assert "in the golden it is `decay.output.0`, of a call that the target does not make" in named[0].evidence


@pytest.mark.parametrize("rows", [step(DECAYED), step(BEFORE, golden=BEFORE)], ids=["done elsewhere", "did nothing"])
def test_one_that_changes_nothing_accuses_nobody(rows):
    found, _ = conclude(rows, pairs_of(rows, {"layer": "add", "step": "addcdiv_", "decay": "mul_"}), passes(rows))
    assert [each.node.name for each in found if each.fails and each.node.name == "step"] == []
