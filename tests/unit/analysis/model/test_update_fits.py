"""What an optimizer does wrong it does to all parameters: fitted to parameters that were updated with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, pairs_of, passes, row, statistics_measured, tensor
from msgspec.structs import replace

from probe_flow.analysis.model.update_fits import fitted
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, NodeKey, Phase, Statistics
from probe_flow.testing.builders import key

RATE = 0.01


def statistics_of(values):
    return Statistics(
        min=float(values.min()), max=float(values.max()), mean=float(values.mean()),
        l2norm=float(np.linalg.norm(values)), nan=0, inf=0,
    )  # fmt: skip


def shown(node, role, place, target, golden):
    measured = statistics_measured(statistics_of(target), statistics_of(golden), count=golden.size)
    found = row(node, role, place, measurement=measured)
    sides = [
        tensor(node, role, place, dtype=dtype, shape=(20, golden.size // 20), requires_grad=True)
        for dtype in ("bfloat16", "float32")
    ]
    return replace(found, pair=replace(found.pair, target=sides[0], golden=sides[1]))


def in_bfloat16(values):
    """Values rounded to eight bits."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.rint(fraction * 256.0), exponent - 8)


def shown_in_16_bits(node, role, place, target, golden):
    """The same, with the target's mean and norm recorded in its own type."""
    found = shown(node, role, place, target, golden)
    mine = statistics_of(target)
    mine = replace(mine, mean=float(in_bfloat16(mine.mean)), l2norm=float(in_bfloat16(mine.l2norm)))
    measured = statistics_measured(mine, statistics_of(golden), count=golden.size)
    return replace(found, measurement=measured)


def network(train, *, count: int = 8, wrong: float = 0.004, seed: int = 5):
    """Products of two steps with their weights and gradients; ``train`` makes the target's weights of the second step.

    The golden's optimizer steps by the sign of each gradient, as Adam's first step does; the target's gradients are off
    by a relative error of ``wrong``.
    """
    chance = np.random.default_rng(seed)
    rows, later = [], []
    for place in range(count):
        weight, mean = 0.3 * chance.standard_normal(400), 0.3 * chance.standard_normal()
        gradient = chance.standard_normal(400) + mean
        own = gradient + wrong * chance.standard_normal(400)
        call = key(f"linear{place}", step=0)
        backward = NodeKey(call.execution, call.name, 0, Phase.BACKWARD)
        rows += [shown(call, IN, 1, weight, weight), shown(backward, OUT, 1, own, gradient)]
        sides = train(weight, own), weight - RATE * np.sign(gradient)
        later.append(shown(key(f"linear{place}", step=1), IN, 1, *sides))
    return [*rows, *later]


def origins(rows):
    types = {f"linear{place}": "linear" for place in range(len(rows))}
    found, _ = conclude(rows, pairs_of(rows, types), passes(rows))
    return [each for each in found if each.kind is FindingKind.ORIGIN and each.fails]


def adam(rate: float = RATE, decay: float = 0.0):
    return lambda weight, gradient: weight * (1.0 - decay) - rate * np.sign(gradient)


@pytest.mark.parametrize("wrong", [0.0, 0.004, 0.03])
def test_signs_that_noise_turned_are_no_other_optimizer(wrong):
    assert origins(network(adam(), wrong=wrong)) == []


@pytest.mark.parametrize(
    ("train", "told"),
    [
        (adam(rate=2.0 * RATE), "changed 2.0"),
        (adam(rate=0.5 * RATE), "changed 0.5"),
        (adam(rate=-RATE), "changed -1.0"),
        (adam(decay=0.05), "and shrank by 0.049 of themselves"),
        (lambda weight, _gradient: weight, "changed 0.00 times"),
    ],
)
def test_a_wrong_rate_and_a_wrong_decay_are_named_once_at_the_first_parameter(train, told):
    (found,) = origins(network(train))
    assert (found.node.name, found.node.execution.step) == ("linear0", 1)
    assert told in found.evidence


def test_steps_that_storing_and_recording_in_16_bits_takes_are_no_other_optimizer():
    """A large weight and four biases in bfloat16, whose recorded norm moves by a step of 2**-8 of itself or by none."""
    for seed in range(30):
        chance = np.random.default_rng(seed)
        rows, later = [], []
        for place, count in enumerate((1200, 20, 20, 20, 20)):
            weight, gradient = 0.07 * chance.standard_normal(count), chance.standard_normal(count)
            call = key(f"linear{place}", step=0)
            backward = NodeKey(call.execution, call.name, 0, Phase.BACKWARD)
            golden = weight - 0.003 * np.sign(gradient)
            stored = in_bfloat16(in_bfloat16(weight) - in_bfloat16(0.003 * np.sign(gradient)))
            rows += [shown_in_16_bits(call, IN, 1, in_bfloat16(weight), weight)]
            rows += [shown(backward, OUT, 1, gradient, gradient)]
            later.append(shown_in_16_bits(key(f"linear{place}", step=1), IN, 1, stored, golden))
        assert not any("changed" in each.evidence for each in origins([*rows, *later])), seed


def test_where_gradients_differ_so_may_updates():
    found = origins(network(adam(rate=1.5 * RATE), wrong=0.3))
    assert found
    assert not any("changed" in each.evidence for each in found)


def test_of_few_parameters_nothing_is_concluded():
    rows = network(adam(rate=1.5 * RATE), count=3)
    assert not any("changed" in each.evidence for each in origins(rows))


def test_the_fit_is_the_one_of_least_squares_and_scatter_makes_it_unsure():
    chance = np.random.default_rng(2)
    updates, parameters = chance.standard_normal((2, 40))
    seen = 1.8 * updates - 0.1 * parameters + 0.05 * chance.standard_normal(40)
    design = np.stack([updates, parameters], axis=1)
    (factor, grown), left, *_ = np.linalg.lstsq(design, seen, rcond=None)
    found = fitted(list(zip(updates, parameters, seen, strict=True)), tuple(range(20)))
    assert found.factor == pytest.approx(factor)
    assert found.decay == pytest.approx(-grown)
    assert found.error == pytest.approx(np.sqrt(left[0] / 18 * np.linalg.inv(design.T @ design)[0, 0]))
    assert found.score > 1.0
    noisy = seen + 2.0 * chance.standard_normal(40)
    assert fitted(list(zip(updates, parameters, noisy, strict=True)), tuple(range(20))).score < 1.0
    assert fitted([(0.0, 1.0, 1.0)] * 8, (1, 2, 3, 4)) is None


def test_parameters_that_the_target_did_not_record_are_left_out():
    rows = network(adam(rate=2.0 * RATE))
    rows[0] = replace(rows[0], pair=replace(rows[0].pair, target=None), measurement=None)
    assert [each.slot for each in origins(rows)] == [rows[2].pair.shown.slot]


def half_as_even(weight, gradient):
    """Steps of another size in each element, 1 on average: as another second moment makes them."""
    return weight - RATE * np.sign(gradient) * np.where(np.abs(gradient) > 0.67, 1.5, 0.5)


def in_float32(rows):
    """The same rows of a target in float32."""
    sides = [replace(each.pair.target, traits=each.pair.golden.traits) for each in rows]
    return [replace(each, pair=replace(each.pair, target=side)) for each, side in zip(rows, sides, strict=True)]


def test_steps_of_other_sizes_are_another_optimizer_though_they_leave_no_factor():
    """Not in bfloat16, where storing may lose as much."""
    rows = network(half_as_even, wrong=0.0)
    (found,) = origins(in_float32(rows))
    assert (found.node.name, found.node.execution.step) == ("linear0", 1)
    assert "what their gradients explain, which agree" in found.evidence
    assert not any("gradients explain" in each.evidence for each in origins(rows))
    assert origins(in_float32(network(adam(), wrong=0.0))) == []
