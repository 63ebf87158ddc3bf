"""What a gradient may be off by: hand-made figures."""

from __future__ import annotations

import math

import pytest
from comparison_rows import IN, OUT, argument, deviation, pairs_of, passes, row
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import GATED, SINGULAR, Calls, gradient_place, is_gate_gradient
from probe_flow.analysis.limits import LIMITS
from probe_flow.analysis.model.arithmetic import Gradient
from probe_flow.analysis.model.decisions import flipped_share
from probe_flow.analysis.model.families import Family
from probe_flow.analysis.model.gradients import (
    Saved,
    coherent_gradient_error,
    gradient_allowance,
    with_flips,
)
from probe_flow.analysis.model.growth import Allowance, allowance
from probe_flow.analysis.search.conclude import conclude
from probe_flow.analysis.search.diagnosis import scores_of
from probe_flow.records import FindingKind, NodeKey, Phase
from probe_flow.testing.builders import key

U = 2.0**-11


def allowed(family, output, incoming, saved=(), **more):
    return gradient_allowance(family, output, incoming, saved, **{"is_gated": False, **more})


def test_a_sum_is_held_against_its_terms_not_against_what_is_left():
    # 400 gradients of size 1 add up to nothing: rounding of the terms leaves U * sqrt(100) each.
    zero = deviation(size=1e-9, count=4)
    found = allowed(Family.PRODUCT, zero, [deviation(count=400)], [Saved(deviation(count=100), is_result=False)])
    assert found.scale >= 10.0
    assert found.floor == pytest.approx(U * found.scale)


def test_the_gradient_of_a_divisor_is_a_sum_of_terms_that_are_as_large_as_the_quotient_over_it():
    """DeBERTa's layer norm, written out: g x / d / d with x / d of 1 and d of 0.027, over the 48 elements of a row."""
    read = [Saved(deviation(size=size, count=count), is_result=False) for size, count in ((0.027, 1536), (0.027, 32))]
    saved = [*read, Saved(deviation(size=1.0, count=1536), is_result=True)]
    found = allowed(Family.QUOTIENT, deviation(size=4e-6, count=32), [deviation(size=2.4e-6, count=1536)], saved)
    assert found.scale == pytest.approx(2.4e-6 * math.sqrt(48) / 0.027)


def test_a_product_with_what_is_zero_on_the_golden_hands_on_what_rounding_left_of_it():
    """DoRA's `(norm / norm - 1) * x`: the gradient of x is zero, and 4e-8 of what reaches it on the target."""
    left = deviation(rms=4e-8, peak=1e-7, size=0.0, top=0.0)
    saved = [Saved(left, is_result=False), Saved(deviation(size=2.0), is_result=False)]
    zero, reaching = deviation(rms=2e-11, peak=1e-9, size=0.0, top=0.0), deviation(size=5e-4, top=2e-3)
    found = allowed(Family.SCALE, zero, [reaching], saved)
    assert (found.explained, found.peak) == (pytest.approx(1.5 * 5e-4 * 4e-8), pytest.approx(1e-7 * 2e-3 + 6 * 3e-11))


@pytest.mark.parametrize(("family", "error"), [(Family.SUM, 2e-8), (Family.SCALE, 2.0 * 2e-8), (Family.MOVE, 2e-8)])
def test_an_incoming_gradient_that_is_zero_on_the_golden_hands_on_its_error(family, error):
    zero = deviation(rms=2e-8, peak=1e-7, size=0.0, top=0.0)
    found = allowed(family, zero, [zero], [Saved(deviation(size=2.0), is_result=False)])
    assert found.explained == pytest.approx(1.5 * error)


def test_differences_of_means_add_up_in_the_gradient_of_a_bias_and_of_a_weight():
    # 4608 incoming elements summed to 8: 576 each.
    incoming = [deviation(count=4608, offset=1e-3)]
    assert coherent_gradient_error(Family.NORMALISE, deviation(count=8), incoming, []) == pytest.approx(0.576)
    # The weight of (64, 10) -> (64, 5) sums 64 products with the data, whose mean is 0.6.
    data = Saved(deviation(count=640, spread=0.8), is_result=False)
    weight = coherent_gradient_error(Family.PRODUCT, deviation(count=50), [deviation(count=320, offset=1e-3)], [data])
    assert weight == pytest.approx(max(64 * 1e-3 * 0.6, 320 / 50 * 1e-3))
    assert coherent_gradient_error(Family.CONTRACT, deviation(), [deviation(offset=1e-3)], []) == 0.0


def test_a_linear_operation_needs_nothing_of_the_forward_pass():
    wrong = [Saved(deviation(rms=0.5), is_result=False)]
    found = [allowed(family, deviation(), [deviation()], wrong) for family in (Family.SUM, Family.SCALE)]
    assert found[0].explained == 0.0
    assert found[1].explained > 0.5


def test_a_matrix_product_depends_on_the_other_factor():
    weight, data = deviation(rms=0.01, count=50), deviation(rms=0.3, count=100)
    saved = [Saved(data, is_result=False), Saved(weight, is_result=False)]
    of_data = allowed(Family.PRODUCT, deviation(count=100), [deviation(count=200)], saved)
    of_weight = allowed(Family.PRODUCT, deviation(count=50), [deviation(count=200)], saved)
    assert of_data.explained / of_data.scale == pytest.approx(1.5 * 2 * 0.01)
    assert of_weight.explained / of_weight.scale == pytest.approx(1.5 * 2 * 0.3)


def test_gates_may_flip_as_far_as_the_forward_error_reaches():
    saved = [Saved(deviation(rms=0.004), is_result=False)]
    output, incoming = deviation(count=10_000), [deviation(count=10_000)]
    plain = allowed(Family.CONTRACT, output, incoming, saved)
    gated = allowed(Family.CONTRACT, output, incoming, saved, is_gated=True)
    assert gated.explained - plain.explained == pytest.approx(0.2)  # 10 * 0.004 of the elements
    assert gated.peak > plain.peak + output.top


def test_the_gradient_of_a_gate_in_a_graph_may_turn_as_far_as_what_decides_is_off():
    inputs = [deviation(size=0.01, count=10_000), deviation(rms=0.004, count=10_000)]
    output = deviation(size=0.008, top=0.03, count=10_000)
    plain = allowance(Family.SLOPE, output, inputs)
    found = with_flips(plain, output, inputs, ())
    assert found.explained - plain.explained == pytest.approx(0.008 * 0.2)  # 10 * 0.004 of the elements
    assert found.peak == pytest.approx(plain.peak + 2 * output.top)
    assert found.gain > plain.gain
    assert found.floor == plain.floor
    single = [deviation(unit=2.0**-24, count=1000) for _ in range(2)]
    plain = allowance(Family.SLOPE, deviation(unit=2.0**-24, count=1000), single)
    assert with_flips(plain, deviation(unit=2.0**-24, count=1000), single, ()) is plain, "exact inputs turn nothing"


def test_the_gradient_itself_turns_no_gate():
    inputs = [deviation(rms=0.4, count=10_000), deviation(rms=0.004, count=10_000)]
    output = deviation(count=10_000)
    plain = allowance(Family.SLOPE, output, inputs)
    found = with_flips(plain, output, inputs, inputs[1:])
    assert found.explained - plain.explained == pytest.approx(0.2)  # 10 * 0.004 of the elements
    # A gradient that goes elsewhere as a whole is missing from the product of both: r**2 / 2 of an error r.
    largest = LIMITS.rms * 0.2
    assert LIMITS.gain * (found.gain - plain.gain) == pytest.approx(largest**2 / 2)


@pytest.mark.parametrize(
    ("op_type", "place"),
    [
        ("ReluGrad", 0), ("MaximumGrad", 0), ("MaxPoolGrad", 2), ("MaxPool3DGrad", 2), ("MaxPoolV3Grad", 2),
        ("MaxPoolGradWithArgmaxV1", 1), ("AbsGrad", 1), ("HardtanhGrad", 1), ("max_pool2d_with_indices_backward", 0),
    ],
)  # fmt: skip
def test_prototypes_say_which_input_is_the_gradient(op_type, place):
    assert gradient_place(op_type) == place


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("ReluGrad", True), ("ReluGradV2", True), ("MaxPoolGradWithArgmax", True), ("threshold_backward", True),
        ("TanhGrad", False), ("Relu", False), ("BiasAddGrad", False), ("ApplyGradientDescent", False),
    ],
)  # fmt: skip
def test_gradients_of_gates_are_known_by_their_types(op_type, expected):
    assert is_gate_gradient(op_type) is expected


def test_no_gate_flips_where_none_is_expected():
    assert flipped_share(1e-7, 1000) == 0.0
    assert flipped_share(1e-2, 1000) == pytest.approx(0.1**0.5)


@pytest.mark.parametrize(
    ("op_type", "is_gated"),
    [
        ("relu", True), ("max_pool2d", True), ("ReLU", True), ("max", True), ("selu", True), ("fmin", True),
        ("hinge_embedding_loss", True), ("triplet_margin_loss", True), ("margin_ranking_loss", True),
        ("gelu", False), ("elu", False), ("smooth_l1_loss", False), ("soft_margin_loss", False),
        ("kthvalue", True), ("cummax", True), ("quantile", True), ("cumsum", False),
    ],
)  # fmt: skip
def test_gates_are_known_by_name(op_type, is_gated):
    assert (GATED.search(op_type) is not None) is is_gated


def test_gates_may_have_turned_where_records_of_16_bits_leave_what_they_decide_by_open():
    """Ten times 2**-11 of the elements: 0.07 of the size, of values that no record shows to differ."""
    for blind, share in ((0.0, 10.0 * 0.25 * 2.0**-11), (2.0**-11, 10.0 * 2.0**-11)):
        saved = [Saved(deviation(blind=blind, count=100_000), False)]
        gate = gradient_allowance(
            Family.CONTRACT, deviation(count=100_000), [deviation(count=100_000)], saved, is_gated=True
        )
        assert gate.explained == pytest.approx(math.sqrt(share))


FORWARD, BACKWARD = (NodeKey(key("op").execution, "op", phase=phase) for phase in (Phase.FORWARD, Phase.BACKWARD))


@pytest.mark.parametrize(
    ("divisor", "is_named"),
    [
        (row(FORWARD, IN, 1, count=1, relative=2e-3, peak=2e-3, dtype="bfloat16"), False),
        (row(FORWARD, IN, 1, count=1, relative=0.0, peak=0.0, dtype="float32"), True),
        (argument(FORWARD, 20.0, 20.0), True),
    ],
)
def test_a_computed_divisor_takes_its_error_into_the_gradient_a_plain_number_has_none(divisor, is_named):
    """As where costs are divided by their largest: the gradient is off by as much as that is."""
    wide = {"dtype": "float32", "relative": 0.0}
    rows = [row(FORWARD, IN, **wide), divisor, row(FORWARD, mark=1.0, **wide)]
    rows += [row(BACKWARD, IN, mark=2.0, **wide), row(BACKWARD, dtype="float32", relative=2e-3, mark=3.0)]
    found, _ = conclude(rows, pairs_of(rows, {"op": "__truediv__"}), passes(rows))
    assert (BACKWARD in [each.node for each in found if each.kind is FindingKind.ORIGIN and each.fails]) is is_named


def test_a_bias_of_few_rows_is_a_sum_too():
    # Three gradients of 2.4e-6 that cancel to 4.8e-7: 1.7e-7 of that was lost in bfloat16.
    incoming = deviation(size=2.39e-6, rms=6e-8, count=3, unit=2.0**-8)
    read = [Saved(deviation(size=0.1, count=count), is_result=False) for count in (96, 32, 1)]
    found = allowed(Family.PRODUCT, deviation(size=4.84e-7, count=1), [incoming], read)
    assert found.scale == pytest.approx(2.39e-6 * math.sqrt(3))
    assert found.rms > 0.5 * 1.7e-7


@pytest.mark.parametrize(("least", "share"), [(1e-6, 1.0), (4e-4, 0.5), (1e-1, 0.002)])
def test_where_a_root_comes_near_to_zero_the_largest_gradients_follow_the_error_there(least, share):
    # y = sqrt(x) for x from 1e-6 on, off by 2e-4: dy/dx is 500 there, whatever x was.
    read = [Saved(deviation(size=0.34, rms=2e-4, least=least, count=3456, unit=2.0**-20), is_result=False)]
    output = deviation(size=7e-3, top=0.14, count=3456, unit=2.0**-20)
    incoming = [deviation(size=3e-4, unit=2.0**-20)]
    found, without = (allowed(Family.SCALE, output, incoming, read, is_singular=each) for each in (True, False))
    assert found.peak - without.peak == pytest.approx(share * output.top)
    assert found.rms - without.rms == pytest.approx(share * output.top / math.sqrt(3456))
    assert found.gain - without.gain == pytest.approx(share * 20.0**2 / 3456)


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-160, 1.0])
@pytest.mark.parametrize("least", [0.0, 1e-300, 1.0])
def test_gradients_of_any_size_have_finite_allowances(size, least):
    read = [Saved(deviation(rms=1e-3, least=least), is_result=False)]
    for family in Family:
        output = deviation(size=size, top=3.0 * size)
        found = allowed(family, output, [deviation(size=size)], read, is_singular=True)
        assert all(math.isfinite(each) and each >= 0.0 for each in (found.rms, found.peak, found.gain, found.scale))


SINGULAR_TYPES = [
    "angle",
    "atan2",
    "arctan2",
    "Log",
    "log1p",
    "log2",
    "__truediv__",
    "__rtruediv__",
    "div_",
    "RealDiv",
    "DivNoNan",
    "addcdiv",
    "sqrt",
    "Rsqrt",
    "RsqrtGrad",
    "__pow__",
    "Pow",
]


@pytest.mark.parametrize("op_type", SINGULAR_TYPES)
def test_what_has_no_bound_near_zero_is_known_by_its_whole_type(op_type):
    assert SINGULAR.fullmatch(op_type)


@pytest.mark.parametrize("op_type", ["log_softmax", "LogSoftmaxV2", "logsumexp", "logical_and", "FloorDiv", "mul"])
def test_others_whose_types_hold_such_a_word_have_one(op_type):
    assert not SINGULAR.fullmatch(op_type)


@pytest.mark.parametrize(("unit", "roundings"), [(2.0**-8, math.sqrt(1.0 + 512 / 2.0)), (2.0**-20, 1.0)])
def test_the_bias_of_a_norm_may_be_added_up_in_16_bits(unit, roundings):
    """512 rows in bfloat16: torch 2.13 on a CPU is 5.4 half steps off, where the sum is rounded once elsewhere."""
    bias, rows = deviation(size=22.0, top=60.0, count=48, unit=unit), deviation(count=48 * 512, unit=unit)
    found = allowed(Family.NORMALISE, bias, [rows], [Saved(rows, is_result=False)])
    assert found.floor == pytest.approx(unit * math.sqrt(512) * roundings)


@pytest.mark.parametrize(("explained", "is_accused"), [(6e-7, False), (2e-11, True)])
def test_what_may_be_off_by_more_than_it_is_has_the_size_of_its_errors(explained, is_accused):
    """The gradient of the keys' bias in float16: 6e-11 on the golden, 6e-7 of noise on the target."""
    noise = deviation(rms=6e-7, peak=1.5e-6, gain=1e4, size=6e-11, top=2e-10, count=32)
    may_be = Allowance(floor=0.0, explained=explained, peak=1e-5, gain=0.3 * explained / 6e-11, scale=6e-11)
    assert (max(scores_of(noise, may_be, LIMITS)) > 1.0) is is_accused


@pytest.mark.parametrize(("mean", "due"), [(0.0, 0.0), (0.6, 0.6 / math.sqrt(1.36)), (-2.0, 2.0 / math.sqrt(5.0))])
def test_the_mean_of_what_gradients_are_multiplied_with_aligns_their_errors(mean, due):
    """Data of spread 1 and a mean: so much of one element's error has one sign in a row of the weight's gradient."""
    back = replace(key("product"), phase=Phase.BACKWARD)
    rows = [row("product", IN, 0), row("product", IN, 1), row("product"), row(back, IN), row(back, OUT, 1)]
    size = math.sqrt(1.0 + mean * mean)
    data = deviation(rms=0.0, size=size, spread=1.0, top=4.0, count=480)
    weight = deviation(rms=0.0, size=0.2, spread=0.1, top=0.5, count=192)
    gradient = deviation(rms=0.0, size=0.1, spread=0.1, top=0.4, count=360)
    calls = Calls(rows, pairs_of(rows, {"product": "linear"}))
    arithmetic = Gradient(rows, [data, weight, gradient, gradient, weight], lambda _, known: known)
    call = calls.of[4]
    assert arithmetic.aligned(call, weight, frozenset((Family.PRODUCT,))) == pytest.approx(due)
    assert arithmetic.aligned(call, weight, frozenset((Family.SUM,))) == 0.0
