"""A result whose statistics contradict those of its own inputs is wrong, whatever error these have; by arrays."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, argument, pairs_of, passes, row, statistics_measured, tensor
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.search.conclude import conclude
from probe_flow.analysis.statistics.own_inputs import OwnInputs
from probe_flow.records import CallFacts, FindingKind, NodeKind, Phase, Statistics
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


@pytest.mark.parametrize(("kind", "weights"), [("add_", (1.0, -0.5)), ("sub", (1.0, 0.5)), ("add", (1.0, 3.0))])
def test_the_second_addend_may_have_a_factor(kind, weights):
    """As an optimizer's step has it, which takes a share of the gradient off."""
    alpha = weights[1] if kind.startswith("add") else -weights[1]
    given = argument("a", alpha, alpha, "alpha")
    for spoil, is_named in ((lambda out: out, False), (larger, True)):
        rows, _ = summed(spoil, kind=kind, weights=weights)
        rows.insert(2, given)
        assert (gap(rows, pairs_of(rows, {"a": kind})) > 1.0) is is_named


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


def chained(steps, *, dtype="float16", seed=3, other=0.3):
    """Calls one after another, each a name, a type, names of what it reads (``x`` comes in), and what it computes.

    The last function of each is what the target's call does. What comes in is off by ``other`` of its size.
    """
    chance = np.random.default_rng(seed)
    golden = {"x": np.abs(chance.standard_normal((24, 16))) + 0.1}
    target = {"x": rounded(golden["x"] + other * np.abs(chance.standard_normal((24, 16))), dtype)}
    rows, types = [], {}
    for name, kind, reads, *functions in steps:
        for place, read in enumerate(reads):
            rows.append(shown(name, IN, place, target[read], golden[read], dtype))
        for side, function in ((golden, functions[0]), (target, functions[-1])):
            side[name] = function(*(side[read] for read in reads))
        target[name] = rounded(target[name], dtype)
        rows.append(shown(name, OUT, 0, target[name], golden[name], dtype))
        types[name] = kind
    return rows, pairs_of(rows, types)


def root(x):
    return 1.0 / np.sqrt(x)


def mean_square(x):
    return (x * x).mean(-1, keepdims=True) + 1e-6


def over(spoil=lambda out: out, summed=lambda x: x.sum(-1, keepdims=True)):
    right = lambda x: x.sum(-1, keepdims=True)  # noqa: E731
    return [("s", "sum", "x", right, summed), ("a", "div", "xs", np.divide, lambda x, by: spoil(x / by))]


def normed(spoil=lambda out: out, square=mean_square, rooted=root):
    return [
        ("v", "mean", "x", mean_square, square), ("r", "rsqrt", "v", root, rooted),
        ("a", "mul", "xr", np.multiply, lambda x, by: spoil(x * by)),
    ]  # fmt: skip


def averaged(spoil=lambda out: out, shared=lambda share: share):
    share = lambda x: np.exp(x[:16]) / np.exp(x[:16]).sum(-1, keepdims=True)  # noqa: E731
    values = lambda x: x[:16]  # noqa: E731
    return [
        ("p", "softmax", "x", share, lambda x: shared(share(x))), ("y", "slice", "x", values),
        ("a", "matmul", "py", np.matmul, lambda p, v: spoil(p @ v)),
    ]  # fmt: skip


def one_element(out):
    return out + np.where(np.arange(out.size).reshape(out.shape) == 5, 6.0, 0.0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("steps", [over, normed, averaged])
def test_shares_norms_and_attention_written_out_break_no_law(steps, dtype):
    for seed in range(10):
        assert gap(*chained(steps(), dtype=dtype, seed=seed)) == 0.0


@pytest.mark.parametrize(
    ("steps", "spoil"),
    [(over, larger), (over, channel), (normed, larger), (normed, channel), (averaged, one_element)],
)
def test_wrong_shares_norms_and_attention_written_out_do(steps, spoil):
    rows, pairs = chained(steps(spoil))
    assert gap(rows, pairs) > 1.0
    others = {"s": "amax", "r": "sqrt", "p": "sigmoid"}  # the same figures of other makers say nothing
    types = {each.name: others.get(each.name, node.op_type) for each, node in pairs.target.nodes.items()}
    # but that zeros lie below all that positive numbers over, or times, others make
    assert (gap(rows, pairs_of(rows, types)) == 0.0) == (spoil is not channel)


def test_a_share_is_not_blamed_for_a_wrong_sum_nor_a_norm_for_a_wrong_mean_square():
    assert gap(*chained(over(summed=lambda x: 1.3 * x.sum(-1, keepdims=True)))) == 0.0
    assert gap(*chained(normed(square=lambda x: 1.3 * mean_square(x)))) == 0.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("factor", [0.6, 1.3])
def test_what_reads_a_wrong_root_or_softmax_carries_it_on(factor, dtype):
    rows, pairs = chained(normed(rooted=lambda x: factor * root(x)), dtype=dtype)
    assert gap(rows, pairs) == 0.0
    assert OwnInputs(rows, Calls(rows, pairs)).contradiction(3).gap > 1.0  # the root is named itself
    assert gap(*chained(averaged(shared=lambda share: factor * share), dtype=dtype)) == 0.0


def put_back(gradient):
    """The gradient of what was picked from 40 rows, some of them twice."""
    out = np.zeros((40, gradient.shape[1]))
    np.add.at(out, np.arange(len(gradient)) * 7 % 40 // 2, gradient)
    return out


GRADIENTS = {
    "linear": lambda gradient: gradient.sum(0),
    "conv2d": lambda gradient: gradient.sum(0),
    "embedding": put_back,
    "index_select": put_back,
    "__add__": lambda gradient: gradient.sum(0, keepdims=True),
    "__getitem__": put_back,
    "reshape": lambda gradient: gradient,
    "mean": lambda gradient: np.repeat(gradient, 5, axis=0) / 5.0,
    "max_pool2d": lambda gradient: np.kron(gradient, ((0.0, 1.0), (0.0, 0.0))),
}


def gradient_of(kind, spoil=lambda out: out, *, dtype="bfloat16", seed=6, other=0.3, golden=None, made_by=None):
    """What a call gives back of a gradient that is off by ``other`` of its size, whatever made it so."""
    chance = np.random.default_rng(seed)
    right = chance.standard_normal((24, 16)) + 0.2
    reached = rounded(right + other * chance.standard_normal(right.shape), dtype)
    node = replace(key("a"), phase=Phase.BACKWARD)
    function = GRADIENTS[made_by or kind]
    made = rounded(spoil(function(reached)), dtype)
    rows = [shown(node, IN, 0, reached, right, dtype), shown(node, OUT, 0, made, (golden or function)(right), dtype)]
    return rows, pairs_of(rows, {"a": kind})


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("kind", GRADIENTS)
def test_the_gradient_of_what_was_picked_added_or_moved_adds_up_to_what_reached_it(kind, dtype):
    for seed in range(20):
        assert gap(*gradient_of(kind, dtype=dtype, seed=seed)) == 0.0
    assert gap(*gradient_of(kind, lambda out: 1.3 * out, dtype=dtype)) > 1.0
    assert gap(*gradient_of(kind, lambda out: out + 0.3, dtype=dtype)) > 1.0
    assert gap(*gradient_of(kind, larger, dtype=dtype, golden=lambda x: 2.0 * GRADIENTS[kind](x))) == 0.0


@pytest.mark.parametrize(("terms", "channels", "mean", "error"), [(108, 4, 0.1, 8.0), (2048, 16, 0.15, 150.0)])
def test_the_float32_gradient_of_a_bias_may_have_been_added_up_in_16_bits(terms, channels, mean, error):
    """As norms in mixed precision do it: the sum so far is a number of bfloat16 after each row."""
    for seed in range(20):
        right = np.random.default_rng(seed).standard_normal((terms, channels)) + mean
        reached, so_far = rounded(right, "bfloat16"), np.zeros(channels)
        for each in reached:
            so_far = rounded(so_far + each, "bfloat16")
        node = replace(key("a"), phase=Phase.BACKWARD)
        for wrong, is_named in ((0.0, False), (error, True)):
            made = shown(node, OUT, 0, so_far + wrong, right.sum(0), "float32")
            rows = [shown(node, IN, 0, reached, right, "bfloat16"), made]
            assert (gap(rows, pairs_of(rows, {"a": "layer_norm"})) > 1.0) is is_named


def test_what_is_called_in_place_or_is_no_bias_has_no_such_gradient():
    for kind in ("add_", "__iadd__", "linear_"):
        assert gap(*gradient_of(kind, larger, made_by="reshape")) == 0.0


def test_a_gradient_that_a_lookup_puts_to_each_place_once_misses_those_of_places_picked_twice():
    """Rows that overwrite each other where they should add up."""

    def overwritten(gradient):
        out = np.zeros((40, gradient.shape[1]))
        out[np.arange(len(gradient)) * 7 % 40 // 2] = gradient
        return out

    rows, pairs = gradient_of("embedding")
    reached = rounded(np.random.default_rng(6).standard_normal((24, 16)) + 0.2, "bfloat16")
    rows[0] = shown(rows[0].node, IN, 0, reached, reached, "bfloat16")
    rows[1] = shown(rows[1].node, OUT, 0, overwritten(reached), put_back(reached), "bfloat16")
    assert gap(rows, pairs) > 1.0


def index_row(name, role, place, high):
    """Indices, of which collectors record the extremes only."""
    ends = Statistics(min=0.0, max=high, mean=None, l2norm=None, nan=0, inf=0)
    return row(name, role, place, measurement=statistics_measured(ends, ends, count=48), dtype="int64")


def picked(index=None, *, other=0.0, high=15.0):
    """The two largest of each row, and the same picked again by their indices, one of which ``index`` may replace."""
    chance = np.random.default_rng(2)
    golden = chance.standard_normal((24, 16))
    target = rounded(golden + other * chance.standard_normal((24, 16)), "float16")
    rows = [shown("k", IN, 0, target, golden, "float16")]
    values, made = [], []
    for side in (target, golden):
        places = np.argsort(-side, axis=-1)[:, :2]
        values.append(np.take_along_axis(side, places, -1))
        if side is target and index is not None:
            places[3, 1] = index
        made.append(np.take_along_axis(side, places, -1))
    rows += [shown("k", OUT, 0, *values, "float16"), index_row("k", OUT, 1, 15.0)]
    rows += [shown("a", IN, 0, target, golden, "float16"), index_row("a", IN, 1, high)]
    rows.append(shown("a", OUT, 0, *made, "float16"))
    return rows, pairs_of(rows, {"k": "topk", "a": "gather"})


def test_what_is_picked_by_the_indices_of_a_choice_is_what_the_choice_shows():
    """Whatever it picked: with scores that are off it takes others in the target, and both show these."""
    assert gap(*picked()) == gap(*picked(other=0.3)) == 0.0
    assert gap(*picked(7)) > 1.0
    assert gap(*picked(7, other=0.3)) > 1.0
    assert gap(*picked(7, high=14.0)) == 0.0  # by other indices


def read_as_floats(wrong=lambda hot: hot, *, kind="one_hot", right=lambda hot: hot, dtype="bfloat16"):
    """Twelve one-hot rows of seven classes, which are integers, and what a product reads of them."""
    hot = np.eye(7)[np.arange(12) * 5 % 7]
    ends = Statistics(min=0.0, max=1.0, mean=None, l2norm=None, nan=0, inf=0)
    made = row("h", OUT, 0, measurement=statistics_measured(ends, ends, count=hot.size), dtype="int64")
    rows = [made, shown("m", IN, 0, wrong(hot), right(hot), dtype), shown("m", OUT, 0, hot, hot, dtype)]
    for number, (name, role, of) in enumerate((("h", OUT, "int64"), ("m", IN, dtype))):
        sides = tensor(name, role, 0, dtype=of, shape=hot.shape), tensor(name, role, 0, dtype=of, shape=hot.shape)
        rows[number] = replace(rows[number], pair=replace(rows[number].pair, target=sides[0], golden=sides[1]))
    found, _ = conclude(rows, pairs_of(rows, {"h": kind, "m": "matmul"}), passes(rows))
    return [each for each in found if each.kind is FindingKind.ORIGIN and each.fails and each.slot.role is IN]


def two_of_one(hot):
    return np.where(np.arange(hot.size).reshape(hot.shape) == np.argmin(hot), 1.0, hot)


def other_class(hot):
    return np.roll(hot, 1, axis=0) if hot[0, 0] else np.roll(hot, 1, axis=1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_what_one_hot_gives_stays_one_hot_as_floats(dtype):
    (found,) = read_as_floats(two_of_one, dtype=dtype)
    assert found.node == key("m")
    assert "is not one-hot, as `h.output.0` is: its mean is 0.1548 in place of 0.1429" in found.evidence
    assert not read_as_floats(dtype=dtype)
    assert not read_as_floats(other_class, dtype=dtype)


def test_masks_and_what_the_golden_does_not_hold_as_one_hot_are_no_such_rows():
    spread = lambda hot: 0.9 * hot + 0.1 / 7.0  # noqa: E731
    evidence = [each.evidence for each in read_as_floats(two_of_one, kind="gt")]
    evidence += [each.evidence for each in read_as_floats(two_of_one, right=spread)]
    assert not [each for each in evidence if "one-hot" in each]


@pytest.mark.parametrize(("inner", "named"), [(channel, ["a"]), (lambda out: out, ["m"])])
def test_a_module_that_returns_what_its_call_made_is_not_wrong_beside_it(inner, named):
    """Statistics of both say the same; what the module itself does to a right result is its own."""
    chance = np.random.default_rng(9)
    golden = chance.standard_normal((24, 16))
    made, returned = inner(golden), channel(golden)
    rows = [
        shown("a", IN, 0, golden, golden, "float32"), shown("a", OUT, 0, made, golden, "float32"),
        shown("m", IN, 0, golden, golden, "float32"), shown("m", OUT, 0, returned, golden, "float32"),
    ]  # fmt: skip
    pairs = pairs_of(rows, {"a": "flatten", "m": "Flatten"})
    facts = {key("m"): CallFacts(NodeKind.MODULE), key("a"): CallFacts(NodeKind.API, caller="m.forward.0")}
    nodes = {at: replace(node, facts=facts[at]) for at, node in pairs.target.nodes.items()}
    pairs = replace(pairs, target=replace(pairs.target, nodes=nodes))
    found, _ = conclude(rows, pairs, passes(rows))
    assert [each.node for each in found if each.kind is FindingKind.ORIGIN and each.fails] == [key(*named)]


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
