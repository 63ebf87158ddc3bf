"""A result whose statistics contradict those of its own inputs is wrong, whatever error these have; by arrays."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, pairs_of, passes, row, statistics_measured
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.model.own_inputs import OwnInputs
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, Statistics
from probe_flow.testing.builders import key


def rounded(values, dtype):
    """Values as a type stores them."""
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32).astype(float)
    return values.astype(dtype).astype(float)


def statistics_of(values):
    return Statistics(
        min=float(values.min()), max=float(values.max()), mean=float(values.mean()),
        l2norm=float(np.linalg.norm(values)), nan=0, inf=0,
    )  # fmt: skip


def shown(name, role, place, target, golden, dtype):
    """A row of two arrays of which statistics were recorded, the target in another type."""
    sides = statistics_of(rounded(target, dtype)), statistics_of(golden)
    found = row(name, role, place, measurement=statistics_measured(*sides, count=golden.size), dtype=dtype)
    return replace(found, pair=replace(found.pair, golden=replace(found.pair.golden)))


def summed(spoil=lambda out: out, *, kind="add", dtype="bfloat16", other=0.3, weights=(1.0, 1.0), seed=4, mean=0.4):
    """A sum behind inputs that are off by ``other`` of their size, whatever made them so."""
    chance = np.random.default_rng(seed)
    golden = [chance.standard_normal((24, 16)) + mean for _ in range(2)]
    target = [rounded(each + other * chance.standard_normal((24, 16)), dtype) for each in golden]
    made = [weights[0] * each[0] + weights[1] * each[1] for each in (target, golden)]
    rows = [shown("a", IN, place, *each, dtype) for place, each in enumerate(zip(target, golden, strict=True))]
    rows.append(shown("a", OUT, 0, spoil(made[0]), made[1], dtype))
    return rows, pairs_of(rows, {"a": kind})


def gap(rows, pairs):
    found = OwnInputs(rows, Calls(rows, pairs)).contradiction(len(rows) - 1)
    return 0.0 if found is None else found.gap


def larger(out):
    return 1.1 * out


def channel(out):
    return out * np.where(np.arange(16) == 3, 0.0, 1.0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(("kind", "weights"), [("add", (1, 1)), ("__rsub__", (-1, 1)), ("sub", (1, -1))])
def test_a_sum_of_inputs_that_are_far_off_contradicts_nothing(kind, weights, dtype):
    for seed in range(20):
        assert gap(*summed(kind=kind, weights=weights, dtype=dtype, seed=seed)) == 0.0


@pytest.mark.parametrize("spoil", [larger, channel, lambda out: out + 0.05])
def test_a_wrong_sum_does_behind_inputs_that_are_far_off(spoil):
    assert gap(*summed(spoil)) > 1.0


def test_where_the_golden_has_no_such_rule_the_target_breaks_none():
    """``torch.add(a, b, alpha=2)``, whose argument a dump shows beside the tensors; and another operator."""
    assert gap(*summed(weights=(1.0, 2.0))) == 0.0
    assert gap(*summed(larger, kind="maximum")) == 0.0


@pytest.mark.parametrize(("kind", "is_wrong"), [("add_", False), ("__iadd__", False), ("add", True)])
def test_a_call_in_place_may_be_recorded_with_what_it_became(kind, is_wrong):
    """Of a call that writes a new tensor the same is a fault: nothing was added."""
    rows, pairs = summed(kind=kind)
    before, after = (rows[place].measurement for place in (0, 2))
    sides = after.target.statistics, before.golden.statistics
    rows[0] = replace(rows[0], measurement=statistics_measured(*sides, count=24 * 16))
    assert (gap(rows, pairs) > 1.0) is is_wrong


@pytest.mark.parametrize(("spoil", "is_wrong"), [(lambda out: out, False), (channel, True), (np.flip, False)])
def test_elements_put_elsewhere_have_the_same_statistics(spoil, is_wrong):
    chance = np.random.default_rng(9)
    golden = chance.standard_normal((24, 16))
    target = rounded(golden + 0.3 * chance.standard_normal((24, 16)), "float16")
    rows = [shown("a", IN, 0, target, golden, "float16"), shown("a", OUT, 0, spoil(target), golden, "float16")]
    assert (gap(rows, pairs_of(rows, {"a": "transpose"})) > 1.0) is is_wrong
    assert gap(rows, pairs_of(rows, {"a": "index_select"})) == 0.0


@pytest.mark.parametrize(("spoil", "named"), [(lambda out: out, []), (channel, ["a"])])
def test_behind_a_dropout_that_is_drawn_otherwise_a_wrong_sum_is_named_and_a_right_one_is_not(spoil, named):
    rows, _ = summed(spoil)
    drawn = shown("drop", OUT, 0, np.ones((24, 16)), np.linspace(0.0, 2.0, 384), "bfloat16")
    rows = [drawn, *rows]
    pairs = pairs_of(rows, {"drop": "dropout", "a": "add"})
    found, _ = conclude(rows, pairs, passes(rows))
    origins = [each for each in found if each.kind is FindingKind.ORIGIN and each.fails]
    assert [each.node for each in origins if each.slot.role is OUT] == [key(name) for name in named]
    if named:
        assert "is not what its own inputs make, as the golden's is: its mean is" in origins[-1].evidence
