"""What gates that turned leave in statistics: held against gradients with elements that are there on one side only."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from comparison_rows import (
    IN,
    OUT,
    argument,
    deviation,
    edge,
    key,
    pairs_of,
    passes,
    row,
    statistics,
    statistics_measured,
    tensor,
)
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.model.arithmetic import Forward
from probe_flow.analysis.model.budget import Allowances
from probe_flow.analysis.model.by_statistics import StatisticsAllowances, angle_noise, left_by_flips, of_all_figures
from probe_flow.analysis.model.decisions import is_decided, wavering
from probe_flow.analysis.model.families import Family
from probe_flow.analysis.model.hidden_errors import CrossedEdges, FadingNoise, LostSteps
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FigureColumn, FindingKind, Phase, Row, SlotRole, Statistics


def changes(wrong, right):
    """Relative noise, and changes of norm and mean, both in the size of what is right."""
    size = np.sqrt(np.mean(right**2))
    noise = np.sqrt(np.mean((wrong - right) ** 2)) / size
    return noise, abs(np.sqrt(np.mean(wrong**2)) / size - 1.0), abs(np.mean(wrong) - np.mean(right)) / size


@pytest.mark.parametrize("turned", [3, 40, 200])
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_what_gates_turned_averages_out_but_for_its_own_size(turned, mean):
    gradient = np.random.default_rng(turned).standard_normal(4096) + mean
    wrong = gradient.copy()
    wrong[:turned] = 0.0
    noise, norm, average = changes(wrong, gradient)
    allowed = left_by_flips(noise, 4096, 0.0)
    assert norm < allowed
    assert average < allowed
    assert allowed < 0.5 * noise  # all of it was allowed before


@pytest.mark.parametrize("mean", [0.0, 0.5, 2.0])
def test_in_products_with_data_that_have_a_mean_a_row_of_errors_has_one_sign(mean):
    """The gradient of a weight of 12 channels: each element that turned goes into one row, times data with a mean."""
    chance = np.random.default_rng(11)
    gradient, data = chance.standard_normal((12, 144)), chance.standard_normal((144, 72)) + mean
    wrong = gradient.copy()
    wrong[0, :2] = wrong[5, 7] = 0.0
    noise, norm, average = changes(wrong @ data, gradient @ data)
    aligned = mean / np.hypot(mean, 1.0)
    assert average < left_by_flips(noise, 12 * 72, aligned)
    assert norm < left_by_flips(noise, 12 * 72, aligned**2)


def test_what_decides_is_off_in_what_the_scores_differ_by():
    """Shares of four experts lie around 0.25 and differ by 0.01: half a step of float16 is 0.012 of that."""
    near_ties = deviation(size=0.25, spread=0.01, top=0.26)
    assert wavering(near_ties) == pytest.approx(0.25 * 2.0**-11 * 0.25 / 0.01)
    assert wavering(deviation(size=0.25, spread=0.01, rms=2e-5)) == pytest.approx(
        max(2e-5, 0.25 * 2.0**-11 * 0.25) / 0.01
    )
    assert wavering(deviation(unit=2.0**-20, rms=1e-7)) == pytest.approx(1e-7)


@pytest.mark.parametrize(
    ("unit", "error", "is_sure"), [(2.0**-20, 1e-7, True), (2.0**-20, 1e-3, False), (2.0**-8, 0.0, False)]
)
def test_masks_are_decided_where_what_they_were_made_of_is_off_by_too_little_to_turn_one(unit, error, is_sure):
    mask = deviation(unit=0.0, count=48)
    assert is_decided(Family.DISCRETE, mask, [deviation(unit=unit, rms=error)]) is is_sure
    assert not is_decided(Family.DISCRETE, deviation(unit=unit), [deviation(unit=unit, rms=error)])  # the values picked
    assert not is_decided(Family.SUM, mask, [deviation(unit=unit, rms=error)])
    assert not is_decided(Family.DISCRETE, mask, [])


def accused(rows, types, edges=()):
    found, _ = conclude(rows, pairs_of(rows, types, edges), passes(rows))
    return [each.node.name for each in found if each.kind is FindingKind.ORIGIN and each.fails]


def in_bfloat16(node, role=OUT, place=0, *, target, golden, count):
    """A row of which both sides have extremes of 2, and norm and mean as given."""
    sides = [statistics(min=-2.0, max=2.0, mean=mean, l2norm=norm) for mean, norm in (target, golden)]
    return row(node, role, place, dtype="bfloat16", measurement=statistics_measured(*sides, count=count))


@pytest.mark.parametrize(
    ("before", "mean", "named"),
    [("before", 0.0200195, []), ("nowhere", 0.0200195, ["last"]), ("before", 0.0249023, ["last"])],
)
def test_inputs_whose_records_agree_in_16_bits_may_be_a_step_off_in_each_element(before, mean, named):
    """12 numbers of 32 products each: 0.57 times 0.096 times the root of 32 is 0.31, and so is what they are made of.

    An input that is off by 2**-8 of itself leaves 1.5 times 2**-8 * 0.31 = 0.0018 in each number, twice that at most,
    with 0.0007 for storing it 0.0043: in the mean of 12 a third of it, 0.0014. The mean of the result moved by a step
    of 2**-10 less a step of its record, or by five more. Nothing is allowed of an input that nobody computed.
    """
    exact = {"target": (0.0908, 11.25), "golden": (0.0908, 11.25)}
    weight = {"target": (0.0023, 0.543), "golden": (0.0023, 0.543)}
    rows = [
        in_bfloat16("before", **exact, count=384),
        in_bfloat16("last", IN, 0, **exact, count=384),
        in_bfloat16("last", IN, 1, **weight, count=32),
        in_bfloat16("last", target=(mean + 0.0001220703125, 0.574), golden=(0.0190430, 0.574), count=12),
    ]
    edges = [edge("before", "last")] if before == "before" else [edge("nowhere", "last", 9)]
    assert accused(rows, {"before": "selu", "last": "linear"}, edges) == named


@pytest.mark.parametrize(("off", "named"), [(7.6e-7, []), (1e-3, ["linear"])])
def test_a_gradient_whose_records_agree_in_16_bits_may_have_changed_its_parameter_otherwise(off, named):
    """A bias of 64 that moved by 1e-4: noise in its gradient is 4 times half of that at most in its mean square."""
    rows = []
    for step in (0, 1):
        moved = 1e-4 * step
        wrong = off * step
        node = key("linear", step=step)
        golden = statistics(min=-0.197 + moved, max=0.194 - moved, mean=0.005, l2norm=0.8)
        target = replace(golden, max=golden.max + wrong, l2norm=golden.l2norm + 2.0 * wrong)
        bias = row(node, IN, 2, dtype="float32", measurement=statistics_measured(target, golden, count=64))
        known = tensor(node, IN, 2, dtype="float32", requires_grad=True, shape=(64,))
        backward = replace(node, phase=Phase.BACKWARD)
        gradient = in_bfloat16(backward, target=(0.0002, 0.015625), golden=(0.0002, 0.015625), count=64)
        rows += [replace(bias, pair=replace(bias.pair, golden=known)), gradient]
    assert accused(rows, {"linear": "linear"}) == named


def bfloat16(values):
    return values.astype(ml_dtypes.bfloat16).astype(np.float64)


def batch_norm(values, weight, bias):
    """Eight channels in bfloat16, their means and deviations too, as PyTorch keeps them."""
    mean = bfloat16(values.mean(axis=1, keepdims=True))
    scale = bfloat16(1.0 / np.sqrt(values.var(axis=1, keepdims=True) + 1e-5))
    return bfloat16((values - mean) * scale * weight + bias)


def test_means_of_channels_that_are_rounded_otherwise_are_no_offset_of_a_batch_norm():
    found = []
    for seed in range(100, 130):  # one of them alarmed
        chance = np.random.default_rng(seed)
        weight, bias = (bfloat16(chance.normal(mean, 0.1, (8, 1))) for mean in (1.0, 0.0))
        golden = bfloat16(chance.normal(chance.normal(0.0, 0.5, (8, 1)), 0.87, (8, 512)))
        target = bfloat16(golden + 1e-3 * chance.standard_normal(golden.shape))
        sides = [[values, weight, bias, batch_norm(values, weight, bias)] for values in (target, golden)]
        rows = [shown(place, *pair) for place, pair in enumerate(zip(*sides, strict=True))]
        findings, _ = conclude(rows, pairs_of(rows, {"norm": "batch_norm"}), passes(rows))
        found += [(seed, each.evidence) for each in findings if each.fails]
    assert found == []


def shown(place, target, golden):
    role = OUT if place == 3 else IN
    sides = [
        Statistics(
            min=float(values.min()), max=float(values.max()), mean=float(values.mean()),
            l2norm=float(np.linalg.norm(values)), nan=0, inf=0,
        )
        for values in (target, golden)
    ]  # fmt: skip
    of = tensor(key("norm"), role, place % 3, dtype="bfloat16", shape=target.shape)
    found = row(key("norm"), role, place % 3, measurement=statistics_measured(*sides, count=target.size))
    return replace(found, pair=replace(found.pair, target=of, golden=of))


@pytest.mark.parametrize(("is_off", "accused"), [(True, []), (False, ["exp"])])
def test_scores_that_are_masked_by_infinity_hand_on_what_they_may_be_off_by(is_off, accused):
    """Minimum, mean and norm of such are infinite on both sides, and the maximum is that of the diagonal: 0."""
    golden = statistics(min=-4.0, max=0.0, mean=-2.0, l2norm=22.0)
    target = statistics(min=-4.008, max=0.0, mean=-2.004, l2norm=22.044) if is_off else golden
    masked = statistics(min=-math.inf, max=0.0, mean=-math.inf, l2norm=math.inf)
    results = statistics(min=0.0, max=1.0, mean=0.461, l2norm=6.01), statistics(min=0.0, max=1.0, mean=0.46, l2norm=6.0)
    read = [("cumsum", OUT, (target, golden)), ("masked_fill", IN, (target, golden))]
    read += [("masked_fill", OUT, (masked, masked)), ("exp", IN, (masked, masked)), ("exp", OUT, results)]
    rows = [
        row(
            name,
            role,
            measurement=statistics_measured(*sides),
            dtype="bfloat16" if is_off and name == "cumsum" else "float32",
        )
        for name, role, sides in read
    ]
    found, _ = conclude(rows, pairs_of(rows, {each: each for each, _, _ in read}), passes(rows))
    assert [each.node.name for each in found if each.fails] == accused


@pytest.mark.parametrize(("off", "accused"), [(2.9e-8, []), (1.2e-7, ["second"])])
def test_a_mean_may_lose_half_a_step_of_float16_near_zero(off, accused):
    """Small numbers of float16 are multiples of 2**-24 (6e-8): half of one that is added to all of them is lost."""

    def seen(mean, top=2e-5):
        return statistics(min=-1e-5, max=top, mean=mean, l2norm=0.2 * top * np.sqrt(1536))

    read = statistics_measured(seen(1e-8, 1e-5), seen(1e-8, 1e-5), count=1536)
    made = statistics_measured(seen(4e-8 + off), seen(4e-8), count=1536)
    rows = [row("first", measurement=read), row("second", IN, measurement=read), row("second", OUT, measurement=made)]
    found, _ = conclude(rows, pairs_of(rows, {"first": "linear", "second": "linear"}), passes(rows))
    assert [each.node.name for each in found if each.fails] == accused


@pytest.mark.parametrize(
    ("kind", "size", "unit", "noise"),
    [("cos", 1500.0, 2.0**-8, 1.0), ("sin", 100.0, 2.0**-8, 0.39), ("sin", 3.0, 2.0**-8, 0.0),
     ("cos", 1500.0, 2.0**-20, 0.0), ("tanh", 1500.0, 2.0**-8, 0.0)],
)  # fmt: skip
def test_sine_and_cosine_hide_the_error_of_angles_beyond_a_turn(kind, size, unit, noise):
    """Time steps times 1000 in bfloat16: a step of 3000 is 16 radians."""
    rows = [row("n", IN), row("n")]
    call = Calls(rows, pairs_of(rows, {"n": kind})).of[1]
    assert angle_noise(call, [deviation(size=size, unit=unit)]) == pytest.approx(noise, abs=0.01)


@pytest.mark.parametrize(("kind", "accused"), [("cos", []), ("tanh", ["next"])])
def test_what_is_computed_from_such_a_cosine_may_be_anything(kind, accused):
    """Its statistics agree all the same."""

    def known(norm: float, size: float) -> Statistics:
        return Statistics(min=-size, max=size, mean=0.0, l2norm=norm * size)

    def shown(node: str, role: SlotRole, target: Statistics, golden: Statistics) -> Row:
        found = statistics_measured(target, golden)
        return row(node, role, measurement=found, dtype="bfloat16", golden_dtype="float32")

    angles, same, made, wrong = known(7.0, 3000.0), known(7.0, 1.0), known(5.0, 0.7), known(5.7, 0.7)
    rows = [
        shown("turn", IN, angles, angles), shown("turn", OUT, same, same),
        shown("next", IN, same, same), shown("next", OUT, wrong, made),
    ]  # fmt: skip
    found, _ = conclude(rows, pairs_of(rows, {"turn": kind, "next": "linear"}), passes(rows))
    assert [each.node.name for each in found if each.fails] == accused


def difference(seed, *, stands_out=0.0, phase=Phase.FORWARD):
    """Rows of a difference of 4,096 elements, whose inputs are off by 1 %; its largest may stand out."""
    chance, node = np.random.default_rng(seed), replace(key("sub"), phase=phase)
    golden = [chance.standard_normal((64, 64)) for _ in range(2)]
    target = [bfloat16(each + 0.01 * chance.standard_normal(each.shape)) for each in golden]
    made, due = bfloat16(target[0] - target[1]), golden[0] - golden[1]
    made[np.unravel_index(made.argmax(), made.shape)] += stands_out
    rows = []
    for place, pair in enumerate([*zip(target, golden, strict=True), (made, due)]):
        role = OUT if place == 2 else IN
        sides = [
            statistics(min=each.min(), max=each.max(), mean=each.mean(), l2norm=float(np.linalg.norm(each)))
            for each in pair
        ]
        measured = statistics_measured(*sides, count=made.size)
        rows.append(row(node, role, place % 2, measurement=measured, dtype="bfloat16", golden_dtype="float32"))
    return rows


def test_an_element_that_stands_out_of_noise_is_no_noise_that_statistics_hide():
    """A hundred times the error of the inputs; gates may turn single elements of a gradient."""
    types, edges = {"sub": "sub"}, [edge("nowhere", "sub", 9)]
    assert [seed for seed in range(40) if accused(difference(seed), types, edges)] == []
    assert accused(difference(1, stands_out=1.0), types, edges) == ["sub"]
    assert accused(difference(1, stands_out=1.0, phase=Phase.BACKWARD), types, edges) == []


@pytest.mark.parametrize(("norm", "named"), [(8.94e-7, []), (8e-6, ["linear"])])
def test_the_norm_of_a_gradient_that_is_zero_is_that_of_its_noise(norm, named):
    """A bias of the keys of attention: 24 rows in float16 that add up to nothing, of which steps near zero are left."""

    def seen(top, mean, l2norm):
        return statistics(min=-top, max=top, mean=mean, l2norm=l2norm)

    node = replace(key("linear"), phase=Phase.BACKWARD)
    given = seen(6.97e-6, 0.0, 4.3392e-5), seen(6.967e-6, -2.4e-15, 4.3395e-5)
    made = seen(norm / 3.0, 0.0, norm), seen(6.4e-12, -6.9e-14, 1.4933e-11)
    rows = [
        row(node, role, dtype="float16", golden_dtype="float32", measurement=statistics_measured(*sides, count=count))
        for role, sides, count in ((IN, given, 1536), (OUT, made, 64))
    ]
    assert accused(rows, {"linear": "linear"}) == named


def recorded(node, role, place, target, golden):
    """A row of the statistics of two arrays."""
    sides = [
        statistics(min=each.min(), max=each.max(), mean=each.mean(), l2norm=float(np.linalg.norm(each)))
        for each in (target, golden)
    ]
    measured = statistics_measured(*sides, count=golden.size)
    return row(node, role, place, measurement=measured, dtype="bfloat16", golden_dtype="float32")


@pytest.mark.parametrize(("wrong", "due"), [(0.0, []), (0.07, ["call"])])
def test_two_extremes_are_off_by_less_than_the_worst_of_all_elements_may_be(wrong, due):
    """A product of 24 terms in bfloat16, whose largest element alone is 7 % too large."""
    for seed in range(8):
        chance = np.random.default_rng(seed)
        data, weight = chance.standard_normal((40, 24)), 0.2 * chance.standard_normal((12, 24))
        result = bfloat16(bfloat16(data) @ bfloat16(weight).T)
        result[np.unravel_index(result.argmax(), result.shape)] *= 1.0 + wrong
        rows = [
            recorded("call", IN, 0, bfloat16(data), data),
            recorded("call", IN, 1, bfloat16(weight), weight),
            recorded("call", OUT, 0, bfloat16(result), data @ weight.T),
        ]
        assert accused(rows, {"call": "linear"}) == due, seed


@pytest.mark.parametrize(("wrong", "due"), [(0.0, []), (0.06, ["call"])])
def test_what_a_product_of_elements_is_added_to_is_a_sum(wrong, due):
    """``addcmul``: half of a product, a tenth of what it is added to, and a largest element that is 6 % too large."""
    for seed in range(8):
        chance = np.random.default_rng(seed)
        added, one, other = (size * chance.standard_normal((40, 24)) for size in (1.0, 0.4, 0.5))
        mine = [bfloat16(each) for each in (added, one, other)]
        result = mine[0] + 0.5 * mine[1] * mine[2]
        result[np.unravel_index(result.argmax(), result.shape)] *= 1.0 + wrong
        rows = [
            recorded("call", IN, place, *sides)
            for place, sides in enumerate(zip(mine, (added, one, other), strict=True))
        ]
        rows.append(argument("call", 0.5, 0.5, 3))
        rows.append(recorded("call", OUT, 0, bfloat16(result), added + 0.5 * one * other))
        assert accused(rows, {"call": "addcmul"}) == due, seed


def agreeing(before, by_accident, wrong):
    """Three calls one after another, each off by a relative error, as their statistics show it."""
    edges = [edge("nowhere", "a", 9), edge("a", "b"), edge("b", "c")]
    errors = ("a", IN, before), ("a", OUT, before), ("b", IN, before), ("b", OUT, by_accident), ("c", IN, by_accident)
    rows = []
    for name, role, error in (*errors, ("c", OUT, wrong)):
        golden = Statistics(min=-3.0, max=3.0, mean=0.1, l2norm=10.0)
        target = Statistics(
            min=-3.0 - error, max=3.0 + error, mean=0.1 + 0.1 * error, l2norm=10.0 * (1.0 + 0.1 * error)
        )
        rows.append(row(name, role, measurement=statistics_measured(target, golden, count=100), dtype="float32"))
    found, _ = conclude(rows, pairs_of(rows, dict.fromkeys("abc", "gelu"), edges), passes(rows))
    return [each.node.name for each in found if each.kind is FindingKind.ORIGIN and each.fails]


def test_extremes_norm_and_mean_say_together_what_noise_leaves():
    """A tenth of it is common to all: of 400 tensors with noise of 1 % none is taken for twenty times less."""
    chance = np.random.default_rng(9)
    guesses, middle = [], []
    for _ in range(400):
        right = chance.standard_normal(240)
        wrong = right + 0.01 * chance.standard_normal(240)
        size = float(np.sqrt((right**2).mean()))
        shown = deviation(
            rms=0.0, peak=float(max(abs(wrong.max() - right.max()), abs(wrong.min() - right.min()))), size=size,
            gain=float(np.linalg.norm(wrong) / np.linalg.norm(right)) - 1.0, count=240,
            offset=float(wrong.mean() - right.mean()), top=float(np.abs(right).max()),
        )  # fmt: skip
        guesses.append(of_all_figures(shown) / 0.01)
        middle.append(shown.likely / 0.01)
    assert min(guesses) > 0.05
    assert max(guesses) < 2.0
    assert min(middle) < min(guesses)
    assert max(middle) > max(guesses)


def test_statistics_that_agree_by_accident_do_not_say_that_an_input_is_right():
    """What is made of it shows the error again that it was made of."""
    assert "c" not in agreeing(0.1, 1e-3, 0.1)
    assert "c" in agreeing(1e-3, 1e-3, 0.1)
    assert "c" in agreeing(0.1, 1e-3, 3.0)


def test_how_far_figures_are_off_together_bounds_what_statistics_hide():
    """Extremes, norm and mean that agree to 1e-4 hide 25 times that at most, however much explains an error."""
    assert "c" in agreeing(0.1, 1e-4, 0.05)
    assert "c" not in agreeing(0.1, 1e-3, 0.02)


@pytest.mark.parametrize(("kind", "element"), [("chunk", 0.8e-3 * 0.6 * math.sqrt(720)), ("neg", 0.0)])
def test_a_part_may_show_the_channel_that_an_update_moved_within_the_extremes_of_the_whole(kind, element):
    """Adam moves the bias of one channel of the keys the other way: by 1e-3 of all, and 0.8 of that later.

    All of that may be in one of 720 elements of a part. What is computed of the whole has noise, 1.6 times at extremes.
    """
    rows = [row("a", IN, dtype="float32"), row("a", dtype="float32")]
    calls, steps = Calls(rows, pairs_of(rows, {"a": kind})), FadingNoise()
    steps.raise_to(0, 1e-3)
    deviations = [deviation(rms=0.0, size=0.6, top=1.8, count=count, unit=2.0**-20) for count in (2160, 720)]
    column, sources = FigureColumn(2), {1: (0,)}.get
    lost = LostSteps(rows, deviations, sources)
    subject = StatisticsAllowances(FadingNoise(), steps, CrossedEdges(rows, deviations), lost, sources, column)
    family = frozenset((Family.MOVE if kind == "chunk" else Family.SUM,))
    found = subject.of(
        1, calls.of[1], deviations[1], [(0, deviations[0])], family, Forward(rows, deviations), is_linked=True
    )
    noise = 2.0 * 1.2 * 1e-3 * 0.6 * math.sqrt(2160 / 720)
    assert found.peak - element == pytest.approx(1.6 * noise * math.sqrt(3.0), rel=0.01)


def statistics_of(values):
    ends = float(values.min()), float(values.max())
    return statistics(min=ends[0], max=ends[1], mean=float(values.mean()), l2norm=float(np.linalg.norm(values)))


def masked(spoil, *, seed):
    """Float16 scores whose upper half a causal mask hides: the largest of the others is another element."""
    chance = np.random.default_rng(seed)
    hidden = np.triu(np.ones((12, 12)), 1) > 0.0
    right = chance.standard_normal((12, 12))
    wrong = (right + 5e-3 * chance.standard_normal(right.shape)).astype(np.float16).astype(float)
    behind = [np.where(hidden, -np.inf, each) for each in (spoil(wrong), right)]
    rows = []
    for name, role, sides in (("a", OUT, (wrong, right)), ("mask", IN, (wrong, right)), ("mask", OUT, behind)):
        measured = statistics_measured(*map(statistics_of, sides), count=right.size)
        rows.append(row(name, role, measurement=measured, dtype="float16", golden_dtype="float32"))
    found, _ = conclude(rows, pairs_of(rows, {"a": "div", "mask": "masked_fill"}, [edge("a", "mask")]), passes(rows))
    return [each.node.name for each in found if each.kind is FindingKind.ORIGIN and each.fails]


def test_the_largest_score_that_a_mask_leaves_is_any_of_those_that_were_masked():
    by_accident = 132, 204, 277  # the largest of all agree, and others are all that is left
    assert not any("mask" in masked(lambda scores: scores, seed=seed) for seed in (1, *by_accident))
    assert "mask" in masked(lambda scores: scores + 0.5, seed=1)


@pytest.mark.parametrize(("phase", "grows"), [(Phase.FORWARD, True), (Phase.BACKWARD, False)])
def test_a_gradient_that_a_layer_and_its_call_show_is_no_product_of_two(phase: Phase, grows: bool) -> None:
    """What an optimizer left is common to all rows, so it adds up in a product of two computed tensors (q k^T).

    The gradient that reaches a layer is recorded of its module and of its call: 64 by 64 elements, twice.
    """
    nodes = replace(key("Module.fc.Linear"), phase=phase), replace(key("linear"), phase=phase)
    known = statistics_measured(*[statistics(min=-3.0, max=3.0, l2norm=64.0)] * 2, count=4096)
    rows = [row("relu", measurement=known), *(row(node, IN, measurement=known) for node in nodes)]
    result = statistics_measured(*[statistics(min=-2.0, max=2.0, l2norm=63.0)] * 2, count=4096)
    rows.append(row(nodes[1], OUT, 1, measurement=result))
    pairs = pairs_of(rows, {"linear": "matmul", "relu": "relu"})
    calls = Calls(rows, pairs)
    allowances = Allowances(rows, pairs, calls)
    for number in (1, 2):
        allowances._steps.raise_to(number, 1e-3)
    inputs = [(n, deviation(count=4096)) for n in (1, 2)]
    allowed = allowances.of(3, deviation(count=4096), inputs, (1, 2), (1, 2))
    assert (allowed.gain > 4e-3) is grows  # twice 1e-3 times the root of 64 there, 1e-3 here
