"""What inputs that were not compared, and operators without files, add to an allowance, computed by hand."""

from __future__ import annotations

import math

import pytest
from comparison_rows import (
    IN,
    OUT,
    PARAM,
    deviation,
    edge,
    golden_only,
    key,
    pairs_of,
    passes,
    row,
    statistics,
    statistics_measured,
    target_only,
    tensor,
)
from msgspec.structs import replace

from probe_flow.analysis.model.growth import Allowance
from probe_flow.analysis.model.unseen_inputs import HiddenInputs, Noise, with_noise
from probe_flow.analysis.model.unseen_paths import LatestGradients, UnshownSteps
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import (
    Expectation,
    FindingKind,
    Flow,
    Measurement,
    Mode,
    Node,
    NodeKey,
    Phase,
    Reason,
    Role,
    SideSummary,
)
from probe_flow.records.row import Row
from tests.support.rules import kind_of

U = 2.0**-11
ROOT12 = math.sqrt(12.0)
STEP = 1.0 / (127.0 * ROOT12)
PART = 0.1 + 2.0 / math.sqrt(100.0)
TYPES = {"quant": "AscendQuant", "conv": "Conv2D", "relu": "Relu"}


def hidden(node: str, place: int, *, role=IN, code: str = "no_golden_dump", **more) -> Row:
    found = target_only(tensor(node, role, place, **more), expected=True)
    return replace(found, pair=replace(found.pair, reason=Reason(kind_of(code), code, Expectation.EXPECTED)))


def noise_of(rows, *nodes, edges=(), known=()):
    return HiddenInputs(rows, pairs_of(rows, TYPES, edges)).noise([key(node) for node in nodes], known)


def test_weights_that_were_not_compared_are_rounded():
    rows = [row("conv", IN), hidden("conv", 1), hidden("conv", 2), row("conv")]
    found = noise_of(rows, "conv", edges=[edge("before", "conv")])
    each = 0.5 * U
    assert found.rms == pytest.approx(math.hypot(each, each))
    assert found.shared == pytest.approx(PART * math.hypot(each, each))


def test_what_something_feeds_is_no_weight_and_scalars_and_indices_are_none_either():
    rows = [
        hidden("conv", 0), hidden("conv", 1, shape=()), hidden("conv", 2, dtype="int32"), row("conv"),
        hidden("conv", 0, role=OUT),
    ]  # fmt: skip
    assert noise_of(rows, "conv", edges=[edge("before", "conv")]) == Noise(0.0, 0.0)


def test_without_edges_nobody_knows_which_inputs_are_weights():
    assert noise_of([hidden("conv", 1), row("conv")], "conv") == Noise(0.0, 0.0)


def test_int8_values_are_off_by_a_step_over_the_root_of_12():
    rows = [row("quant", IN), hidden("conv", 0, dtype="int8"), hidden("conv", 1, dtype="int8"), row("conv")]
    edges = [edge("before", "quant"), edge("quant", "conv")]
    # Values up to 4 times their size, half as much again in reserve; weights up to 5 times.
    found = noise_of(rows, "conv", "quant", edges=edges, known=[deviation(size=0.5, top=2.0)])
    assert found.rms == pytest.approx(math.hypot(6.0 * STEP, 5.0 * STEP))
    assert found.shared == pytest.approx(PART * found.rms)
    blind = noise_of(rows, "conv", "quant", edges=edges)
    assert blind.rms == pytest.approx(math.hypot(12.0 * STEP, 5.0 * STEP))


def test_int4_has_seven_steps():
    rows = [hidden("conv", 1, dtype="int4"), row("conv")]
    assert noise_of(rows, "conv").rms == pytest.approx(5.0 / (7.0 * ROOT12))


def test_a_framework_that_keeps_quantised_values_in_floats_is_known_by_the_reason():
    rows = [hidden("conv", 0, role=OUT, dtype="float32", code="quantised"), row("dequant")]
    found = noise_of(rows, "dequant", "conv", known=[deviation(size=1.0, top=4.0)])
    assert found.rms == pytest.approx(math.hypot(6.0 * STEP, 5.0 * STEP))
    assert noise_of(rows, "dequant") == Noise(0.0, 0.0)


def test_noise_raises_every_figure():
    allowed = Allowance(floor=0.001, explained=0.01, peak=0.1, gain=0.0001, scale=2.0)
    found = with_noise(allowed, Noise(0.01, 0.003), deviation(size=1.0, top=3.0))
    assert found.floor == pytest.approx(0.001 + 0.02)
    assert found.explained == 0.01
    assert found.peak == pytest.approx(0.1 + 6.0 * 0.02 + 2.0 * 0.01 * 3.0)
    assert found.gain == pytest.approx(0.0001 + 0.003 * 2.0)
    assert with_noise(allowed, Noise(0.0, 0.0), deviation()) is allowed
    assert with_noise(allowed, Noise(0.01, 0.003), deviation(unit=0.0)) is allowed


def int8_rows(error: float):
    rows = [
        row("quant", IN), hidden("quant", 0, role=OUT, dtype="int8", code="quantised"),
        hidden("conv", 0, dtype="int8", code="quantised"), hidden("conv", 1, dtype="int8"),
        row("conv", relative=error), row("relu", IN, relative=error), row("relu", relative=error),
    ]  # fmt: skip
    return rows, pairs_of(rows, TYPES, [edge("quant", "conv"), edge("conv", "relu")])


def findings_of(rows, pairs):
    return conclude(rows, pairs, passes(rows))[0]


def test_an_int8_product_is_not_blamed_for_its_steps():
    assert findings_of(*int8_rows(0.02)) == ()


def test_an_int8_product_is_blamed_for_more():
    (found,) = findings_of(*int8_rows(0.08))
    assert (found.kind, found.node.name) == (FindingKind.ORIGIN, "conv")


def test_outputs_of_a_network_with_int8_inside_drift_later():
    rows, pairs = int8_rows(0.03)
    rows += [row("last", IN, dtype="float32", relative=0.03), row("last", dtype="float32", relative=0.03)]
    pairs = pairs_of(rows, TYPES, [*pairs.target.edges, edge("relu", "last")])
    assert findings_of(rows, pairs) == ()


def measured_int8_rows(error: float):
    """The same network where the golden side has what the device holds in int8, as floats of another scale."""
    far = {"dtype": "int8", "golden_dtype": "float32", "relative": 40.0}
    rows = [
        row("quant", IN), row("quant", **far), row("conv", IN, **far), hidden("conv", 1, dtype="int8"),
        row("conv", relative=error), row("relu", IN, relative=error), row("relu", relative=error),
    ]  # fmt: skip
    return rows, pairs_of(rows, TYPES, [edge("quant", "conv"), edge("conv", "relu")])


@pytest.mark.parametrize(("error", "origins"), [(0.02, []), (0.08, ["conv"])])
def test_values_of_an_unknown_scale_accuse_nobody_and_excuse_as_int8_does(error, origins):
    assert [found.node.name for found in findings_of(*measured_int8_rows(error))] == origins


@pytest.mark.parametrize(("error", "blamed"), [(0.0062, []), (0.3, ["pool"])])
def test_an_input_behind_operators_without_file_carries_what_they_computed(error, blamed):
    # quant (int8, not compared) -> conv -> relu -> pool: of conv and relu the device has no file.
    rows = [row("quant", IN), hidden("quant", 0, role=OUT, dtype="int8"), row("pool", IN, relative=error)]
    edges = [edge("x", "quant"), edge("quant", "conv"), edge("conv", "relu"), edge("relu", "pool")]
    pairs = pairs_of(rows, {**TYPES, "pool": "MaxPool"}, edges)
    missing = {key(name): Node(key(name), op_type) for name, op_type in TYPES.items() if name != "quant"}
    pairs = replace(pairs, target=replace(pairs.target, nodes={**pairs.target.nodes, **missing}))
    findings, _ = conclude(rows, pairs, passes(rows))
    assert [found.node.name for found in findings if found.kind is FindingKind.ORIGIN] == blamed


def test_an_input_behind_views_alone_holds_what_was_there_before():
    rows = [row("a", IN), row("a", relative=U), row("b", IN, relative=20 * U)]
    pairs = pairs_of(rows, {"a": "Relu", "b": "Relu"}, [edge("x", "a"), edge("a", "view"), edge("view", "b")])
    view = {key("view"): Node(key("view"), "Reshape")}
    pairs = replace(pairs, target=replace(pairs.target, nodes={**pairs.target.nodes, **view}))
    findings, _ = conclude(rows, pairs, passes(rows))
    assert [found.node.name for found in findings] == ["b"]


def accused(rows):
    """Names of the nodes that are called the origin."""
    found, _ = conclude(rows, pairs_of(rows), passes(rows))
    return [each.node.name for each in found if each.kind is FindingKind.ORIGIN and each.fails]


def behind_nothing_known(error: float, *, dtype="float16", top=3.0, others="float16", role=IN, peak=None):
    """The nodes accused where an input is off by ``error`` that nothing in the dump is known to have made."""
    rows = [row("first", dtype=others, relative=0.0, mark=5.0)]
    found = row("last", role, dtype=dtype, relative=error, mark=1.0001, peak=peak)
    known = found.measurement
    ends = replace(known.target.statistics, min=-4.0 if top == 3.0 else -2.046875, max=top)
    measured = Measurement.of(Mode.TENSOR, dict(known.metrics), SideSummary(ends), known.golden, count=known.count)
    rows.append(replace(found, measurement=measured))
    return accused(rows)


@pytest.mark.parametrize(("steps", "named"), [(2.7, []), (7.0, []), (8.0, ["last"])])
def test_what_the_dump_does_not_show_may_round_more_than_once(steps, named):
    """A recurrence and a slice of it: 2.5 times one step for storing it and two for its making."""
    assert behind_nothing_known(steps * U) == named


@pytest.mark.parametrize(
    ("top", "others", "named"),
    [(3.578125, "bfloat16", []), (3.5712, "bfloat16", ["last"]), (3.578125, "float32", ["last"])],
)
def test_an_input_in_float32_may_have_been_in_16_bits_on_one_side(top, others, named):
    """3.578125 is 229 / 64, eight bits. In a network without 16 bits it is no accident either."""
    assert behind_nothing_known(1.6e-3, dtype="float32", top=top, others=others) == named


@pytest.mark.parametrize(
    ("top", "others", "peak", "named"),
    [
        (3.578125, "bfloat16", 0.0078, []),
        (3.578125, "bfloat16", 0.05, ["last"]),
        (3.5712, "bfloat16", 0.0078, ["last"]),
        (3.578125, "float32", 0.0078, ["last"]),
    ],
)
def test_a_parameter_in_float32_may_be_one_of_16_bits_by_a_cast(top, others, peak, named):
    """Half a step of bfloat16 between 2 and 4 is 2**-7: more at one element is not storage."""
    assert behind_nothing_known(1.6e-3, dtype="float32", top=top, others=others, role=PARAM, peak=peak) == named


@pytest.mark.parametrize(("turned", "named"), [(0.2, []), (0.0, ["last"])])
def test_what_nothing_known_made_may_hold_rows_that_were_chosen_otherwise(turned, named):
    index = {"dtype": "int64", "size": 2.0, "relative": turned}
    rows = [row("pick", IN, relative=2e-4), row("pick", **index), row("take", IN, 1, **index)]
    rows.append(row("take", relative=0.25 * turned))
    rows += [row(f"n{number}", relative=0.0, mark=10.0 + number) for number in range(33)]
    rows.append(row("last", IN, relative=0.09, mark=1.0))
    origins, _ = conclude(rows, pairs_of(rows, {"pick": "topk", "take": "index_select"}), passes(rows))
    assert [each.node.name for each in origins if each.kind is FindingKind.ORIGIN and each.fails] == named


@pytest.mark.parametrize(("before", "off", "named"), [("bfloat16", 1e-3, []), ("float32", 1e-3, ["last"])])
def test_a_slice_in_float32_of_what_was_in_16_bits_hides_steps_of_these(before, off, named):
    """Half of 2**-8 of its size in statistics: mixed precision computes in 16 bits, and no dump shows the slice."""
    same = statistics(min=-5.0, max=5.0, l2norm=20.01, mean=0.1)
    golden = statistics(min=-2.7654321, max=2.8123457, l2norm=10.0123, mean=0.2)
    target = replace(golden, max=golden.max * (1.0 + off), l2norm=golden.l2norm * (1.0 + off))
    rows = [
        row("first", dtype=before, measurement=statistics_measured(same, same)),
        row("last", IN, dtype="float32", measurement=statistics_measured(target, golden)),
    ]
    assert accused(rows) == named


@pytest.mark.parametrize(
    ("given", "named"), [(-0.627081, []), (-0.62890625, ["last"])], ids=["cast on its way", "cast before"]
)
def test_what_others_gave_in_float32_may_have_been_in_16_bits_on_its_way(given, named):
    """The target reads numbers of bfloat16 (161 / 256 and 127 / 256), and its norm is off by 0.02 %."""
    golden = statistics(min=-0.62543, max=0.49561, mean=-0.001319, l2norm=5.9182)
    made = replace(golden, min=given, max=0.49609375, l2norm=5.9183)
    read = replace(golden, min=-0.62890625, max=0.49609375, l2norm=5.9198)
    rows = [row("first", dtype="bfloat16")]
    for name, role, each in (("middle", OUT, made), ("last", IN, read)):
        rows.append(row(name, role, dtype="float32", measurement=statistics_measured(each, golden, count=1536)))
    assert [name for name in accused(rows) if name == "last"] == named


def spikes(ones: int, zeros: int = 0):
    """Statistics of 100 elements, so many of which are one and the others zero."""
    mean = ones / 100.0
    return statistics(min=0.0, max=1.0, mean=mean, l2norm=math.sqrt(ones))


@pytest.mark.parametrize(("ones", "named"), [(20, []), (5, ["last"])])
def test_what_nothing_known_decided_may_be_decided_otherwise_as_often_as_what_went_before_is_off(ones, named):
    """A threshold of a custom function, which no collector records: 26 of 100 spikes, behind values off by 1 %."""
    rows = [row("first", relative=0.01, dtype="bfloat16")]
    rows.append(row("last", IN, dtype="bfloat16", measurement=statistics_measured(spikes(ones), spikes(26))))
    assert accused(rows) == named


@pytest.mark.parametrize(("turned", "named"), [(4, []), (40, ["last"])])
def test_with_tensors_so_many_spikes_may_be_others(turned, named):
    """Of 26 spikes some are elsewhere: each leaves one element too many and one too few, and all figures but these."""
    metrics = {"euclidean_distance": math.sqrt(turned), "max_abs_err": 1.0, "cosine": (26 - turned / 2) / 26}
    sides = [SideSummary(spikes(26))] * 2
    rows = [row("first", relative=0.001, dtype="bfloat16")]
    rows.append(row("last", IN, dtype="bfloat16", measurement=Measurement.of(Mode.TENSOR, metrics, *sides, count=100)))
    assert accused(rows) == named


@pytest.mark.parametrize(("golden", "named"), [(1e-10, []), (1e-6, ["last"])])
def test_a_gradient_that_cancels_in_the_golden_is_rounding_on_both_sides(golden, named):
    """Terms of size 1e-3 in bfloat16 leave some 1e-5 where those of float32 leave 1e-10: 2**-20 of them at most."""
    first, last = (NodeKey(key(name).execution, name, phase=Phase.BACKWARD) for name in ("first", "last"))
    types = {"dtype": "bfloat16", "golden_dtype": "float32"}
    rows = [row(first, relative=1e-3, size=1e-3, mark=1.0, **types)]
    rows.append(row(last, IN, relative=1e-5 / golden, size=golden, mark=2.0, **types))
    assert accused(rows) == named


def test_terms_are_gradients_of_as_many_elements():
    first, last = (NodeKey(key(name).execution, name, phase=Phase.BACKWARD) for name in ("first", "last"))
    latest, whole = LatestGradients(), deviation(size=1e-9, count=100)
    latest.add(first.execution, deviation(size=1.0, count=99), 0.0)
    read = row(last, IN, dtype="float32")
    assert latest.cancelled(read, whole) == 0.0
    latest.add(first.execution, deviation(size=0.01, count=100), 0.5)
    assert latest.cancelled(read, whole) == 0.5
    assert latest.cancelled(read, deviation(size=1e-6, count=100)) == 0.0


def test_a_gradient_may_hold_the_whole_error_of_the_one_that_is_nearest_in_size():
    """Behind a layer norm whose squares are averaged next to nothing is left, and the noise of what was there."""
    first, last = (NodeKey(key(name).execution, name, phase=Phase.BACKWARD) for name in ("first", "last"))
    latest, left = LatestGradients(), deviation(size=1.46e-7, count=100)
    latest.add(first.execution, deviation(size=1e-3, rms=1e-5, count=100), 0.0)
    latest.add(first.execution, deviation(size=1.45e-7, rms=5.5e-6, count=100), 0.0)
    latest.add(first.execution, deviation(size=2e-8, rms=3e-7, count=100), 0.0)
    assert latest.carried(row(last, IN), left) == 5.5e-6
    assert latest.carried(row(last, IN), deviation(size=1.46e-7, count=99)) == 0.0
    assert latest.carried(row("last", IN), left) == 0.0


def test_a_gradient_may_be_as_wrong_as_the_last_of_about_as_many_elements():
    """What cancelled before a product whose gradient no dump shows: MBART's second linear layer, without modules."""
    first, last = (NodeKey(key(name).execution, name, phase=Phase.BACKWARD) for name in ("first", "last"))
    latest = LatestGradients()
    latest.add(first.execution, deviation(size=1e-7, rms=5e-6, count=1536), 1e-3)
    latest.add(first.execution, deviation(size=1.0, rms=0.25, count=48), 0.0)
    assert latest.last(row(last, IN), deviation(count=3072)) == pytest.approx(50.0)
    assert latest.last(row(last, IN), deviation(count=96)) == 0.25
    assert latest.last(row("last", IN), deviation(count=3072)) == 0.0


def test_what_an_optimizer_reads_may_be_off_by_what_a_gradient_of_as_many_elements_is():
    """Clipped, so that it shows nowhere else: the sum of a bias gradient that nearly cancels."""
    backward = NodeKey(key("first").execution, "first", phase=Phase.BACKWARD)
    latest = LatestGradients()
    latest.add(backward.execution, deviation(size=1e-3, rms=1.4e-4, count=100), 0.1)
    assert latest.error(row("lerp_", IN), deviation(count=100)) == pytest.approx(0.14)
    assert latest.error(row("lerp_", IN), deviation(count=99)) == 0.0
    assert latest.error(row(backward, IN), deviation(count=100)) == 0.0


@pytest.mark.parametrize(("size", "named"), [(0.0, []), (1.0, ["last"])])
def test_zeros_do_not_push_out_what_the_latest_results_were_off_by(size, named):
    """Behind the gradients of a last token, all zero, a slice comes of what was in 16 bits."""
    rows = [row("first", relative=3e-3, dtype="bfloat16", mark=1.0)]
    rows += [row(f"n{number}", relative=0.0, size=size, dtype="float32", mark=3.0 + number) for number in range(40)]
    rows.append(row("last", IN, relative=3e-3, dtype="float32", mark=2.0))
    assert accused(rows) == named


# --- operators that left no file: one rounding step each, independent of each other -----------------------------------


def network(*names: str, dumped: str, flow: Flow = Flow.GRAPH, **dtypes: str):
    """Return rows of operators that ran one after the other, and the pairs; only those in ``dumped`` left a file."""
    rows = [
        row(name, dtype=dtypes.get(name, "float16")) if name in dumped else golden_only(tensor(name)) for name in names
    ]
    pairs = pairs_of(rows)
    return {each.pair.shown.node.name: each for each in rows}, replace(pairs, target=replace(pairs.target, flow=flow))


def test_each_operator_since_the_start_rounds_once():
    rows, pairs = network(*"abcde", dumped="de")
    unshown = UnshownSteps(pairs)
    assert unshown.error(rows["d"]) == pytest.approx(math.sqrt(3) * U)
    assert unshown.error(rows["e"]) == pytest.approx(2 * U)  # d has not been judged


def test_those_before_a_judged_output_are_in_its_own_error():
    rows, pairs = network(*"abcdef", dumped="bef")
    unshown = UnshownSteps(pairs)
    unshown.add(rows["b"])
    assert unshown.error(rows["e"]) == pytest.approx(math.sqrt(2) * U)
    unshown.add(rows["e"])
    assert unshown.error(rows["f"]) == 0.0


def test_a_value_that_is_read_late_was_made_early():
    rows, pairs = network(*"abcdef", dumped="acf")
    unshown = UnshownSteps(pairs)
    unshown.add(rows["a"])
    unshown.add(rows["f"])
    assert unshown.error(rows["c"]) == pytest.approx(U)


def test_the_coarsest_type_of_the_device_counts():
    rows, pairs = network("a", "b", "c", dumped="bc", b="bfloat16", c="float32")
    assert UnshownSteps(pairs).error(rows["c"]) == pytest.approx(math.sqrt(2) * 2.0**-8)


def test_calls_of_a_program_hide_nothing():
    rows, pairs = network(*"abc", dumped="c", flow=Flow.ORDER)
    assert UnshownSteps(pairs).error(rows["c"]) == 0.0


def test_what_only_the_target_has_is_not_counted():
    rows, pairs = network(*"abc", dumped="c")
    alone = replace(rows["c"], pair=replace(rows["c"].pair, golden=None))
    assert UnshownSteps(pairs).error(alone) == 0.0


def test_an_input_that_nothing_wrote_was_made_by_what_left_no_file():
    rows, pairs = network(*"abcd", dumped="d")
    read = row("d", IN)
    made = replace(read, pair=replace(read.pair, golden=tensor("c")))
    unshown = UnshownSteps(pairs)
    assert unshown.of_input(made) == pytest.approx(math.sqrt(2) * U)
    assert unshown.of_input(read) == 0.0  # the golden read it, too: a weight
    assert unshown.of_input(rows["d"]) == 0.0


@pytest.mark.parametrize(("error", "accused_"), [(1e-3, []), (0.0, ["softmax"])])
def test_what_reads_scores_that_another_least_number_masks_gets_their_error(error, accused_):
    """-65504 in float16 and -3.4e38 in float32: no distance tells of the scores that are not masked."""

    def masked(name, role):
        least = -65504.0, -3.4028234663852886e38
        ends = [statistics(min=each, max=2.0, mean=each / 2.0, l2norm=-7.0 * each) for each in least]
        metrics = {"euclidean_distance": 3e38, "max_abs_err": 3.4e38, "cosine": 1.0}
        measured = Measurement.of(Mode.TENSOR, metrics, *map(SideSummary, ends), count=100)
        return row(name, role, measurement=measured, dtype="float32", mark=2.0)

    rows = [
        row("scores", relative=error, dtype="float16" if error else "float32"),
        row("add", IN, relative=error, dtype="float32"), masked("add", OUT),
        masked("softmax", IN), row("softmax", relative=1e-3, dtype="float32", mark=5.0),
    ]  # fmt: skip
    found, _ = conclude(rows, pairs_of(rows, {"scores": "linear", "add": "add", "softmax": "softmax"}), passes(rows))
    assert [each.node.name for each in found if each.fails] == accused_


@pytest.mark.parametrize(
    ("relative", "peak", "accused_"), [(1e-3, 7.9, []), (0.04, 7.9, ["softmax"]), (0.04, 9995.0, ["add"])]
)
def test_what_rounding_leaves_of_a_mask_excuses_nothing_that_reads_it(relative, peak, accused_):
    """BERT adds -1e4: in float16 that lies on steps of 8, and scores on steps of a thousandth.

    A mask that is lost at some places is no rounding of it.
    """

    def masked(name, role):
        ends = [statistics(min=each, max=6.6, mean=each / 2.0, l2norm=-7.0 * each) for each in (-10008.0, -10005.07)]
        metrics = {"euclidean_distance": 3.4 * peak, "max_abs_err": peak, "cosine": 1.0}
        measured = Measurement.of(Mode.TENSOR, metrics, *map(SideSummary, ends), count=100)
        return row(name, role, measurement=measured, golden_dtype="float32")

    rows = [
        row("scores", relative=5e-4, golden_dtype="float32"),
        row("add", IN, relative=5e-4, golden_dtype="float32"), masked("add", OUT),
        masked("softmax", IN), row("softmax", relative=relative, golden_dtype="float32", mark=5.0),
    ]  # fmt: skip
    found, _ = conclude(rows, pairs_of(rows, {"scores": "linear", "add": "add", "softmax": "softmax"}), passes(rows))
    assert [each.node.name for each in found if each.fails] == accused_


LEAST = {"float16": -65504.0, "bfloat16": -3.3895313892515355e38}


@pytest.mark.parametrize(
    ("dtype", "least", "error", "accused_"),
    [
        ("float16", LEAST["float16"], 6e-4, []),
        ("float16", LEAST["float16"], 0.05, ["add"]),
        ("bfloat16", LEAST["bfloat16"], 4e-3, []),
        ("bfloat16", LEAST["bfloat16"], 0.2, ["add"]),
        ("float16", -1e4, 0.05, []),  # steps beside it are 8, so that what it is off by may be that of the mask
    ],
)
def test_scores_that_both_sides_mask_alike_are_judged_by_themselves(dtype, least, error, accused_):
    def masked(name, role, place=0, off=error):
        ends = statistics(min=least, max=2.0, mean=least / 2.0, l2norm=-7.0 * least)
        metrics = {"euclidean_distance": 10.0 * off, "max_abs_err": 3.0 * off, "cosine": 1.0}
        measured = Measurement.of(Mode.TENSOR, metrics, SideSummary(ends), SideSummary(ends), count=100)
        return row(name, role, place, measurement=measured, dtype=dtype)

    near = U if dtype == "float16" else 2.0**-8
    rows = [
        row("scores", relative=near, dtype=dtype),
        row("add", IN, relative=near, dtype=dtype), masked("add", IN, 1, off=0.0), masked("add", OUT),
        masked("softmax", IN), row("softmax", relative=error / 4.0, dtype=dtype, mark=5.0),
    ]  # fmt: skip
    kinds = {"scores": "MatMul", "add": "Add", "softmax": "SoftmaxV2"}
    found, verdicts = conclude(
        rows, pairs_of(rows, kinds, [edge("scores", "add"), edge("add", "softmax")]), passes(rows)
    )
    assert [each.node.name for each in found if each.fails] == accused_
    assert [verdicts[n].role for n in (4, 5)] == [Role.INHERITED if accused_ else Role.CLEAN] * 2


@pytest.mark.parametrize(
    ("op_type", "error", "accused_"),
    [
        ("SelectV2", 6e-4, []),
        ("SelectV2", 0.05, ["mask"]),
        ("masked_fill", 0.05, ["mask"]),
        ("Add", 0.05, []),  # in float32 a score moves what it is added to, and in float16 it does not
    ],
)
def test_a_mask_that_is_put_in_the_place_of_scores_leaves_them_to_be_judged_in_any_type(op_type, error, accused_):
    def masked(name, role):
        ends = statistics(min=-65504.0, max=2.0, mean=-32752.0, l2norm=458528.0)
        metrics = {"euclidean_distance": 10.0 * error, "max_abs_err": 3.0 * error, "cosine": 1.0}
        measured = Measurement.of(Mode.TENSOR, metrics, SideSummary(ends), SideSummary(ends), count=100)
        return row(name, role, measurement=measured, golden_dtype="float32")

    rows = [
        row("scores", relative=U, golden_dtype="float32"), row("mask", IN, relative=U, golden_dtype="float32"),
        masked("mask", OUT), masked("softmax", IN), row("softmax", relative=error / 4.0, golden_dtype="float32"),
    ]  # fmt: skip
    kinds = {"scores": "MatMul", "mask": op_type, "softmax": "SoftmaxV2"}
    found, _ = conclude(rows, pairs_of(rows, kinds, [edge("scores", "mask"), edge("mask", "softmax")]), passes(rows))
    assert [each.node.name for each in found if each.fails] == accused_
