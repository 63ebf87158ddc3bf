"""Laws of operators by arrays: inputs that are far off break none, a wrong result behind them does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from comparison_rows import IN, OUT, argument, pairs_of, row, statistics_measured, tensor
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.statistics import laws
from probe_flow.analysis.statistics.beside_golden import as_uneven
from probe_flow.analysis.statistics.dues import Made, Operands
from probe_flow.analysis.statistics.moments import Moments
from probe_flow.analysis.statistics.own_inputs import OwnInputs
from probe_flow.records import CallFacts, NodeKind, Statistics

ROWS, WIDTH = 24, 16
GRADIENT = np.linspace(-3.0, 2.0, ROWS * WIDTH).reshape(ROWS, WIDTH)


def rounded(values, dtype, chance):
    """Values as a kernel leaves them that rounds to either neighbour; each equally often."""
    if dtype == "float32":
        return values
    bits = {"bfloat16": 8, "float16": 11}[dtype]
    step = np.ldexp(1.0, np.frexp(values)[1] - bits)
    return np.where(chance.integers(0, 2, values.shape), np.floor(values / step), np.ceil(values / step)) * step


def statistics_of(values, dtype):
    """Statistics as msprobe records them: norm and mean in the tensor's own type, and extremes alone of truth."""
    if values.dtype == np.bool_:
        return Statistics(min=bool(values.min()), max=bool(values.max()))
    mean, norm = float(values.mean()), float(np.linalg.norm(values))
    if dtype == "float16":
        mean, norm = float(np.float16(mean)), float(np.float16(norm))
    elif dtype == "bfloat16":
        mean, norm = (
            float(np.ldexp(np.rint(np.ldexp(each, 8 - np.frexp(each)[1])), np.frexp(each)[1] - 8))
            for each in (mean, norm)
        )
    return Statistics(min=float(values.min()), max=float(values.max()), mean=mean, l2norm=norm, nan=0, inf=0)


def softmax(values):
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def layer_norm(values, weight, bias):
    centred = values - values.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def batch_norm(values, weight, bias):
    return layer_norm(values.T, 1.0, 0.0).T * weight + bias


def rms_norm(values, weight):
    return values / np.sqrt((values**2).mean(-1, keepdims=True) + 1e-6) * weight


def added_at(values, source):
    """Rows of ``source`` added to the rows 0, 3, 3, 7 and 7 of ``values``."""
    out = values.copy()
    np.add.at(out, [0, 3, 3, 7, 7], source)
    return out


def gelu(values):
    return values * 0.5 * (1.0 + np.vectorize(math.erf)(values / math.sqrt(2.0)))


def gelu_by_tanh(values):
    return 0.5 * values * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (values + 0.044715 * values**3)))


UNIFORM = (np.full(WIDTH, 1.5), np.zeros(WIDTH))
LEARNT = (np.linspace(0.8, 1.2, WIDTH), np.linspace(-0.1, 0.2, WIDTH))
OPERATORS = {
    "relu": (lambda x: np.maximum(x, 0.0), ()),
    "gelu": (gelu, ()),
    "silu": (lambda x: x / (1.0 + np.exp(-x)), ()),
    "tanh": (np.tanh, ()),
    "exp": (np.exp, ()),
    "leaky_relu": (lambda x: np.where(x > 0.0, x, 0.1 * x), ()),
    "softmax": (softmax, ()),
    "layer_norm": (layer_norm, UNIFORM),
    "LayerNorm": (layer_norm, LEARNT),
    "group_norm": (lambda x: layer_norm(x, 1.0, 0.0), ()),
    "batch_norm": (batch_norm, LEARNT),
    "BatchNorm2d": (batch_norm, UNIFORM),
    "rms_norm": (rms_norm, UNIFORM[:1]),
    "pow": (lambda x, exponent: x**exponent, (2,)),
    "mul": (lambda x, factor: x * factor, (-0.3,)),
    "__mul__": (np.multiply, LEARNT[:1]),
    "div": (np.divide, LEARNT[:1]),
    "add": (np.add, LEARNT[:1]),
    "__truediv__": (lambda x, by: x / by, (8.0,)),
    "__add__": (lambda x, by: x + by, (0.7,)),
    "mean": (lambda x: x.mean(-1), ()),
    "sum": (lambda x: x.sum(-1), ()),
    "amax": (lambda x: x.max(-1), ()),
    "amin": (lambda x: x.min(-1), ()),
    "maximum": (np.maximum, LEARNT[:1]),
    "abs": (np.abs, ()),
    "clamp": (np.clip, (-1, 1.5)),
    "floor": (np.floor, ()),
    "gt": (np.greater, (0.7,)),
    "__le__": (np.less_equal, (-9.0,)),
    "round": (np.rint, ()),
    "asinh": (np.arcsinh, ()),
    "normalize": (lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True), ()),
    "index_add": (added_at, (np.linspace(-1.0, 3.0, 5 * WIDTH).reshape(5, WIDTH),)),
    "stack": (lambda x: x, ()),
    "max_pool1d": (lambda x: x.reshape(ROWS, -1, 2).max(-1), ()),
    "chunk": (lambda x: x[:, :4], ()),
    "sin": (np.sin, ()),
    "cos": (np.cos, ()),
    "logsumexp": (lambda x: np.log(np.exp(x).sum(-1)), ()),
    "log_softmax": (lambda x: np.log(softmax(x)), ()),
    "linalg_vector_norm": (lambda x: np.linalg.norm(x, axis=-1), ()),
    "lerp": (lambda x, end, by: x + by * (end - x), (np.linspace(-1.0, 2.0, ROWS * WIDTH).reshape(ROWS, WIDTH), 0.1)),
    "addcmul": (lambda x, one, two, by: x + by * one * two, (GRADIENT, GRADIENT, 0.1)),
    "pad": (lambda x: np.pad(x, ((0, 0), (1, 3))), ()),
    "avg_pool1d": (lambda x: np.pad(x, ((0, 0), (2, 2))).reshape(ROWS, -1, 4).mean(-1), ()),
    "hardtanh": (lambda x: np.clip(x, -1.0, 1.0), ()),
    "hardsigmoid": (lambda x: np.clip(x / 6.0 + 0.5, 0.0, 1.0), ()),
    "softsign": (lambda x: x / (1.0 + np.abs(x)), ()),
    "tanhshrink": (lambda x: x - np.tanh(x), ()),
    "erfc": (np.vectorize(math.erfc), ()),
    "exp2": (np.exp2, ()),
    "selu": (lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1.0)), ()),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), ()),
    "hardswish": (lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0, ()),
    "pixel_shuffle": (lambda x: x.reshape(ROWS // 4, 4, WIDTH).swapaxes(1, 2).reshape(ROWS // 4, -1), ()),
}


COMPARISONS = ("gt", "__le__")

BY_NAME = {"addcmul": "value"}
"""Numbers that torch takes by name only."""


def called(kind, dtype, *, seed=0, spoil=lambda out: out, other=0.3, golden=None, begin=1.0):
    """One call of an operator whose input is off by ``other`` of its size, whatever made it so; ``begin`` scales it."""
    chance = np.random.default_rng(seed)
    function, more = OPERATORS[kind]
    right = begin * (chance.standard_normal((ROWS, WIDTH)) * 1.5 + 0.4)
    read = rounded(right + begin * other * chance.standard_normal(right.shape), dtype, chance)
    held = [each if np.ndim(each) == 0 else rounded(each, "float32", chance) for each in more]
    made, due = spoil(function(read, *held)), (golden or function)(right, *more)
    if kind not in COMPARISONS:
        made = rounded(made, dtype, chance)

    def shown(role, place, target, golden):
        sides = statistics_of(target, dtype), statistics_of(golden, "float32")
        measured = statistics_measured(*sides, count=golden.size)
        kept = (dtype, "float32") if golden.dtype != np.bool_ else ("bool", "bool")
        found = row("a", role, place, measurement=measured, dtype=kept[0], golden_dtype=kept[1])
        mine = tensor("a", role, place, dtype=kept[0], shape=golden.shape)
        return replace(found, pair=replace(found.pair, target=mine))

    rows = [shown(IN, 0, read, right)]
    for place, each in enumerate(held, 1):
        number = argument("a", each, each, BY_NAME.get(kind, place)) if np.ndim(each) == 0 else None
        rows.append(number or shown(IN, place, each, each))
    rows.append(shown(OUT, 0, made, due))
    return rows, pairs_of(rows, {"a": kind})


def gap(rows, pairs, apart=1.0):
    found = OwnInputs(rows, Calls(rows, pairs)).contradiction(len(rows) - 1, lambda: apart)
    return 0.0 if found is None else found.gap


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", OPERATORS)
def test_what_is_made_of_inputs_that_are_far_off_breaks_no_law(kind, dtype):
    for seed in range(40):
        assert gap(*called(kind, dtype, seed=seed)) == 0.0


def element(out):
    wrong = out.copy()
    wrong[3, 3] += 6.0 * np.sqrt((out**2).mean())
    return wrong


def channel(out):
    return out * np.where(np.arange(WIDTH) == 3, 0.5, 1.0)


def rows_zero(out):
    return out * np.where(np.arange(ROWS) % 8 == 0, 0.0, 1.0)[:, None]


def larger(out):
    return 1.02 * out


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        *((kind, element) for kind in ("relu", "gelu", "silu", "tanh", "leaky_relu", "layer_norm", "stack", "softmax")),
        *(
            (kind, larger)
            for kind in ("relu", "gelu", "exp", "softmax", "layer_norm", "group_norm", "batch_norm", "rms_norm", "mul")
        ),
        *((kind, channel) for kind in ("softmax", "layer_norm", "batch_norm", "rms_norm", "mul", "pow", "__truediv__")),
        *((kind, rows_zero) for kind in ("softmax", "layer_norm", "batch_norm", "rms_norm", "mul", "pow", "stack")),
        *((kind, larger) for kind in ("sum", "amax", "amin", "maximum", "abs", "clamp", "normalize", "asinh")),
        *((kind, element) for kind in ("maximum", "abs", "clamp", "floor", "round", "asinh", "__mul__", "div", "add")),
        ("__mul__", lambda out: 1.3 * out),
        *((kind, channel) for kind in ("abs", "normalize", "index_add")),
        *((kind, rows_zero) for kind in ("abs", "normalize")),
        *((kind, element) for kind in ("sin", "cos", "lerp", "pad", "hardsigmoid", "softsign", "tanhshrink", "mish")),
        *((kind, element) for kind in ("erfc", "selu", "hardswish", "hardtanh", "pixel_shuffle")),
        *((kind, larger) for kind in ("sin", "linalg_vector_norm", "pad", "lerp", "selu", "hardtanh", "pixel_shuffle")),
        ("exp2", larger),
        ("addcmul", lambda out: out + 0.05),
        ("addcmul", element),
        ("pad", rows_zero),
        ("avg_pool1d", lambda out: 4.0 * out),
        ("logsumexp", lambda out: out - 0.6),
        ("logsumexp", lambda out: out + 3.0),
        ("log_softmax", lambda out: out + 2.0),
        ("log_softmax", np.negative),
        ("gelu", lambda out: out - 0.1),
        ("silu", lambda out: out - 0.1),
        ("__add__", lambda out: out + 0.05),
        ("mean", lambda out: 1.1 * out + 0.05),
    ],
)
def test_a_wrong_result_breaks_the_law_behind_inputs_that_are_far_off(kind, spoil, dtype):
    assert gap(*called(kind, dtype, spoil=spoil)) > 1.0


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_the_first_step_of_a_second_moment_begins_with_zeros(factor):
    """Of which a result is not apart, as one in place would be."""
    rows, pairs = called("addcmul", "bfloat16", spoil=lambda out: factor * out, begin=0.0)
    assert (gap(rows, pairs) > 1.0) is (factor > 1.0)


@pytest.mark.parametrize("off", [0.0, 0.05])
def test_squares_that_are_lost_in_all_elements_alike_are_no_wrong_step(off):
    """A second moment in bfloat16, which rounds to the nearest: none of its elements moves by 1e-6 of gradients."""
    right = {"golden": lambda x, one, two, _by: x + 1e-6 * one * two}
    rows, pairs = called("addcmul", "bfloat16", spoil=lambda out: out - 0.1 * GRADIENT**2 + off, **right)
    rows[-2] = argument("a", 1e-6, 1e-6, "value")
    assert (gap(rows, pairs) > 1.0) is (off > 0.0)


def turned(out):
    out = out.copy()
    out[3, 3] = ~out[3, 3]
    return out


@pytest.mark.parametrize(
    ("kind", "spoil", "is_wrong"),
    [
        ("__le__", turned, True),  # nothing is below -9
        ("__le__", np.copy, False),
        ("gt", turned, False),  # some are, and some are not
        ("gt", np.ones_like, True),
    ],
)
def test_a_comparison_with_a_number_is_true_of_an_element_where_it_is_of_an_extreme(kind, spoil, is_wrong):
    assert (gap(*called(kind, "bfloat16", spoil=spoil)) > 1.0) is is_wrong


def test_a_number_that_the_largest_element_is_a_step_from_may_be_rounded_to_it():
    """2.3 is 2.296875 in bfloat16, which the comparison may be made with or not."""
    read = Moments(-1.0, 2.296875, 0.0, 8.0, 64, 2.0**-8, 2.0**-10, 8)
    dues = [laws._LAWS["ge"](read, [read], Operands((8, 8), (number,), lambda _: None)) for number in (2.3, 2.4)]
    assert [[(due.figure, due.high) for due in each] for each in dues] == [
        [("low", 0.0)],
        [("low", 0.0), ("high", 0.0)],
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_no_element_of_a_row_is_larger_than_the_row_is_long(dtype):
    """By its extremes: where weights differ, root mean square and mean say nothing of one element."""

    def spoil(out):
        out = out.copy()
        out[3, 3] = -6.5
        return out

    assert gap(*called("LayerNorm", dtype, spoil=spoil)) > 1.0


def test_the_other_form_of_gelu_is_no_fault():
    for seed in range(20):
        rows, pairs = called("gelu", "float32", seed=seed, spoil=lambda out: out, golden=gelu)
        wrong = called("gelu", "float32", seed=seed, golden=gelu_by_tanh)
        assert gap(rows, pairs) == gap(*wrong) == 0.0
    assert abs(gelu_by_tanh(np.linspace(0.0, 6.0, 6001)) - gelu(np.linspace(0.0, 6.0, 6001))).max() < 2.0**-10


def test_where_the_golden_breaks_the_law_as_well_nothing_is_concluded():
    assert gap(*called("layer_norm", "float32", spoil=larger, golden=lambda *given: 1.02 * layer_norm(*given))) == 0.0
    assert gap(*called("stack", "float32", spoil=larger, golden=lambda x: x * 2.0)) == 0.0


VALUES = st.sampled_from((0.0, -0.0, 1.0, -1.0, 1e-30, -3e38, 3e38, 1e4)) | st.floats(-1e3, 1e3)


@st.composite
def moments(draw):
    low, high = sorted((draw(VALUES), draw(VALUES)))
    count = draw(st.sampled_from((1, 2, 6, 24)))
    norm = max(abs(low), abs(high)) * draw(st.floats(0.0, 1.0)) * math.sqrt(count)
    mean = low + draw(st.floats(0.0, 1.0)) * (high - low)
    return Moments(low, high, mean, norm, count, 2.0**-8, 2.0**-20, draw(st.sampled_from((0, 8))))


@given(st.sampled_from(sorted(laws._LAWS)), moments(), st.lists(moments(), min_size=1, max_size=7), st.data())
def test_a_law_says_something_or_nothing_of_whatever_a_call_reads(kind, whole, parts, data):
    numbers = tuple(data.draw(st.lists(VALUES, max_size=3)))
    shape = data.draw(st.sampled_from(((), (0,), (whole.count,), (1, whole.count))))
    made = data.draw(st.none() | st.builds(Made, st.sampled_from(("sum", "rsqrt", "softmax")), st.none() | moments()))
    for due in laws._LAWS[kind](whole, parts, Operands(shape, numbers, lambda _place: made)):
        assert due.gap(whole) >= 0.0


@given(
    moments(), st.lists(moments(), min_size=1, max_size=4), moments(), st.lists(moments(), min_size=1, max_size=4),
    st.booleans(),
)  # fmt: skip
def test_what_the_golden_says_of_a_norm_is_something_or_nothing(whole, parts, golden, golden_parts, is_centred):
    for due in as_uneven(whole, parts, golden, golden_parts, is_centred=is_centred):
        assert due.gap(whole) >= 0.0


def softmax_of_masked(spoil=lambda out: out):
    """Scores of which a causal mask left a half: their statistics are infinite."""
    chance = np.random.default_rng(5)
    mask = np.where(np.triu(np.ones((WIDTH, WIDTH)), 1) > 0.0, -np.inf, 0.0)
    target, golden = (chance.standard_normal((WIDTH, WIDTH)) + mask for _ in range(2))
    rows = []
    for role, sides in ((IN, (target, golden)), (OUT, (spoil(softmax(target)), softmax(golden)))):
        measured = statistics_measured(*(statistics_of(each, "float32") for each in sides), count=golden.size)
        found = row("a", role, 0, measurement=measured)
        rows.append(replace(found, pair=replace(found.pair, target=tensor("a", role, 0, shape=golden.shape))))
    return rows, pairs_of(rows, {"a": "softmax"})


def test_what_a_softmax_adds_up_to_needs_no_statistics_of_its_scores():
    assert gap(*softmax_of_masked()) == 0.0
    assert gap(*softmax_of_masked(element)) > 1.0
    assert gap(*softmax_of_masked(larger)) > 1.0


UNEVEN = (np.random.default_rng(1).normal(1.0, 0.1, 4 * WIDTH), np.random.default_rng(2).normal(0.0, 0.1, 4 * WIDTH))


def normed(
    dtype, *, seed, spoil=lambda out: out, channels=None, rows=4 * ROWS, constant=0, weights=UNEVEN, other=1.0,
    factor=1.0,
):  # fmt: skip
    """A layer norm of learnt weights, of data that differ from the golden's by ``other`` of their size.

    Args:
        dtype, seed, spoil: as in `called`.
        channels: how large each channel is, of both sides.
        rows: how many.
        constant: rows of the target's input that are constant.
        weights: and bias.
        other: by how much, in their size.
        factor: of the target's input, by what was wrong before.
    """
    chance = np.random.default_rng(seed)
    wide = np.ones(len(weights[0])) if channels is None else channels
    right = chance.standard_normal((rows, len(wide))) * wide
    read = factor * (right + other * chance.standard_normal(right.shape) * wide)
    read[:constant] = 0.0
    read = rounded(read, dtype, chance)
    made, due = rounded(spoil(layer_norm(read, *weights)), dtype, chance), layer_norm(right, *weights)

    def shown(role, place, target, golden):
        sides = statistics_of(target, dtype), statistics_of(golden, "float32")
        measured = statistics_measured(*sides, count=golden.size)
        return row("a", role, place, measurement=measured, dtype=dtype, golden_dtype="float32")

    held = [shown(IN, place, rounded(each, dtype, chance), each) for place, each in enumerate(weights, 1)]
    rows = [shown(IN, 0, read, right), *held, shown(OUT, 0, made, due)]
    return rows, pairs_of(rows, {"a": "layer_norm"})


def cast_inside(spoil=lambda out: out, *, kind=NodeKind.MODULE, seed=0):
    """A norm in float32 of what was float16, whose parameters were cast to float16 before, as no dump shows."""
    chance = np.random.default_rng(seed)
    right = chance.standard_normal((4 * ROWS, 4 * WIDTH)) + chance.standard_normal(4 * WIDTH)
    read = rounded(right + 1e-3 * chance.standard_normal(right.shape), "float16", chance)
    held = [rounded(each, "float16", chance) for each in UNEVEN]
    sides = [
        (read, right),
        *((each, each) for each in UNEVEN),
        (spoil(layer_norm(read, *held)), layer_norm(right, *UNEVEN)),
    ]
    rows = []
    for place, (target, golden) in enumerate(sides):
        dtype = "float16" if place == 0 else "float32"
        measured = statistics_measured(
            statistics_of(target, dtype), statistics_of(golden, "float32"), count=golden.size
        )
        slot = (OUT, 0) if place == 3 else (IN, place)
        rows.append(row("a", *slot, measurement=measured, dtype=dtype, golden_dtype="float32"))
    pairs = pairs_of(rows, {"a": "LayerNorm"})
    nodes = {at: replace(node, facts=CallFacts(kind, None)) for at, node in pairs.target.nodes.items()}
    return rows, replace(pairs, target=replace(pairs.target, nodes=nodes))


def test_a_module_may_have_cast_its_weights_to_what_it_reads():
    """Mixed precision records parameters as they are stored; an API is given what it computes with."""
    for seed in range(40):
        assert gap(*cast_inside(seed=seed), apart=0.001) == 0.0
    assert any(gap(*cast_inside(seed=seed, kind=NodeKind.API), apart=0.001) > 1.0 for seed in range(40))
    for spoil in (larger, lambda out: out + 0.02, quarter_zero):
        assert gap(*cast_inside(spoil), apart=0.001) > 1.0


def quarter_zero(out):
    return out * np.where(np.arange(len(out)) % 4 == 0, 0.0, 1.0)[:, None]


OUTLIERS = np.where(np.arange(4 * WIDTH) % 31 == 7, 12.0, 1.0)
FOLLOWING = 0.5 + UNEVEN[0] * np.where(np.arange(4 * WIDTH) % 2, 3.0, 0.2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"rows": 3},
        {"channels": OUTLIERS},
        {"channels": FOLLOWING},
        {"constant": 30, "other": 0.1},
        {"other": 0.1},
        {"other": 8.0},
    ],
)
def test_other_data_are_as_uneven_behind_learnt_weights(given, dtype):
    """Independent rows, few of them, channels that hold most, weights that follow the data, and rows of zeros."""
    for seed in range(40):
        assert gap(*normed(dtype, seed=seed, **given)) == 0.0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("spoil", [lambda out: 1.05 * out, lambda out: out + 0.05, quarter_zero])
def test_what_is_wrong_behind_learnt_weights_is_not(spoil, dtype):
    rows, pairs = normed(dtype, seed=0, spoil=spoil)
    assert gap(rows, pairs) > 1.0
    assert law_gap(rows, pairs) == 0.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("given", [{}, {"rows": 3}, {"channels": OUTLIERS}, {"channels": FOLLOWING}])
def test_data_that_are_nearly_the_golden_s_are_nearly_as_uneven(given, dtype):
    """A channel of 64 that lost 70 % of itself is within what chance does to other data, not to nearly the same."""
    for seed in range(40):
        assert gap(*normed(dtype, seed=seed, other=0.005, **given), apart=0.04) == 0.0
    wrong = normed(dtype, seed=0, other=0.005, spoil=lambda out: out * np.where(np.arange(4 * WIDTH) == 7, 0.3, 1.0))
    assert gap(*wrong) == 0.0
    assert gap(*wrong, apart=0.04) > 1.0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("factor", [0.6, 1.3])
def test_what_a_factor_makes_smaller_has_no_constant_rows(factor, dtype):
    """A norm takes it off, so what is wrong behind it still shows; rows that are constant explain as much as before."""
    for seed in range(10):
        assert gap(*normed(dtype, seed=seed, factor=factor, other=0.1)) == 0.0
        assert gap(*normed(dtype, seed=seed, constant=ROWS, other=0.1)) == 0.0
    for spoil in (lambda out: 0.9 * out, quarter_zero):
        assert gap(*normed(dtype, seed=0, factor=factor, other=0.1, spoil=spoil)) > 1.0


def law_gap(rows, pairs):
    """The same where the golden is no layer norm at all: nothing is concluded."""
    golden = rows[-1].measurement.golden_statistics
    other = replace(golden, mean=golden.mean + 1.0, l2norm=3.0 * golden.l2norm)
    measured = statistics_measured(rows[-1].measurement.target_statistics, other, count=rows[-1].measurement.count)
    return gap([*rows[:-1], replace(rows[-1], measurement=measured)], pairs)


@pytest.mark.parametrize("at", [0, 1])
def test_no_element_of_a_product_or_sum_is_beyond_what_the_extremes_make(at):
    """From -2 to 3 times from -1 to 4 is from -8 to 12, from -3 to 7 added, and of two elements the norm is bounded."""
    first = Moments(-2.0, 3.0, 0.1, 12.0, 100, 2.0**-11, 2.0**-20, 0)
    second = Moments(-1.0, 4.0, 0.2, 7.5, 100, 2.0**-11, 2.0**-20, 0)
    parts = (first, second) if at else (second, first)
    whole = Moments(-8.0, 12.0, 0.02, 30.0, 100, 2.0**-11, 2.0**-20, 0)
    operands = Operands((100,), (), lambda _place: None)
    dues = {(due.figure, due.low, due.high) for due in laws.law_of("mul")(whole, parts, operands)}
    assert dues == {("size", 0.0, 2.25), ("low", -8.0, 12.0), ("high", -8.0, 12.0)}  # 0.75 times 3, not 1.2 times 4
    dues = [due for due in laws.law_of("add")(whole, parts, operands) if due.figure != "mean"]
    assert {(due.low, due.high) for due in dues} == {(-3.0, 7.0)}
    assert not [due for due in laws.law_of("div")(whole, parts, operands) if due.figure in ("low", "high")]
    divisor = replace(second, low=0.5)
    over = laws.law_of("div")(whole, (first, divisor), operands)
    assert {(due.low, due.high) for due in over} == {(-4.0, 6.0)}


def test_what_a_mask_or_a_rotation_makes_of_its_input_breaks_no_bound():
    """Each element is as large as it may be: the bound is reached and not passed, rounded to either neighbour."""
    chance = np.random.default_rng(2)
    read = chance.standard_normal((ROWS, WIDTH))
    for factor in (np.ones(WIDTH), np.where(np.arange(WIDTH) % 2, 1.0, -1.0), np.full(WIDTH, 1.5)):
        made = rounded(read * factor, "bfloat16", chance)
        sides = [(statistics_of(each, "bfloat16"), each.size) for each in (read, factor, made)]
        whole, *parts = (
            Moments(each.min, each.max, each.mean, each.l2norm, count, 2.0**-8, 2.0**-10, 8)
            for each, count in (sides[2], sides[0], sides[1])
        )
        dues = laws.law_of("mul")(whole, parts, Operands((ROWS, WIDTH), (), lambda _place: None))
        assert dues
        assert max(due.gap(whole) for due in dues) <= 1.0


def test_near_zero_a_gradient_in_float16_has_no_bits_but_a_step():
    """Gradients that the scale of a loss is taken off, 6e-7 at most: each is a whole number of steps of 2**-24."""
    chance = np.random.default_rng(8)
    read, number = chance.standard_normal((ROWS, WIDTH)) * 4e-5, 128.0
    read = read.astype(np.float16).astype(float)
    step = 2.0**-24
    for spoil, is_wrong in ((lambda out: out, False), (lambda out: 2.0 * out, True), (lambda out: out + 8e-7, True)):
        out = np.rint(spoil(read / number) / step) * step
        assert (gap(*_of_arrays("div_", (read, read), (out, read / number), number)) > 1.0) is is_wrong


def _of_arrays(kind, read, result, number):
    rows = []
    for role, (mine, other) in ((IN, read), (OUT, result)):
        sides = [
            Statistics(min=v.min(), max=v.max(), mean=v.mean(), l2norm=float(np.linalg.norm(v)), nan=0, inf=0)
            for v in (mine, other)
        ]
        rows.append(row("a", role, 0, measurement=statistics_measured(*sides, count=mine.size), dtype="float16"))
    rows.insert(1, argument("a", number, number))
    return rows, pairs_of(rows, {"a": kind})
