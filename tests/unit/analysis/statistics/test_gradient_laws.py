"""Gradients are bounded by the slope of what was computed: no element and no norm comes out larger; by arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from comparison_rows import IN, OUT, pairs_of, row, statistics_measured, tensor
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.statistics.gradient_laws import STEEPEST
from probe_flow.analysis.statistics.own_inputs import OwnInputs
from probe_flow.records import Phase, Statistics
from probe_flow.testing.builders import key

ROWS, WIDTH = 24, 16


def rounded(values, dtype):
    """Values as a type stores them, and a collector's copy of them."""
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32).astype(float)
    return values.astype(dtype).astype(float)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def _selu(x):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0.0)))


FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "selu": _selu,
    "gelu": lambda x: 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0))),
    "silu": lambda x: x * _sigmoid(x),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hardswish": lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "hardsigmoid": lambda x: np.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "hardtanh": lambda x: np.clip(x, -1.0, 1.0),
    "erf": np.vectorize(math.erf),
}


def slope(kind, x):
    """By differences of the function itself: no formula that the laws share."""
    step = 1e-5
    return (FUNCTIONS[kind](x + step) - FUNCTIONS[kind](x - step)) / (2.0 * step)


def gradient(kind, x, incoming):
    if kind != "softmax":
        return slope(kind, x) * incoming
    shares = softmax(x)
    return shares * (incoming - (shares * incoming).sum(-1, keepdims=True))


def shown(role, target, golden, dtype):
    sides = [
        Statistics(min=v.min(), max=v.max(), mean=v.mean(), l2norm=float(np.linalg.norm(v)), nan=0, inf=0)
        for v in (rounded(target, dtype), golden)
    ]
    node = replace(key("a"), phase=Phase.BACKWARD)
    found = row(node, role, 0, measurement=statistics_measured(*sides, count=golden.size), dtype=dtype)
    target, other = (tensor(node, role, 0, dtype=dtype, shape=golden.shape) for _ in range(2))
    return replace(found, pair=replace(found.pair, target=target, golden=other))


def gap(kind, spoil=lambda out: out, *, dtype="bfloat16", other=0.5, seed=3, spoil_golden=lambda out: out):
    """Of a gradient whose forward input and incoming gradient are off by ``other``, so that many gates turned."""
    chance = np.random.default_rng(seed)

    def near(values):
        return values + other * chance.standard_normal(values.shape)

    x, incoming = 2.0 * chance.standard_normal((ROWS, WIDTH)), chance.standard_normal((ROWS, WIDTH)) + 0.2
    mine, came = near(x), rounded(near(incoming), dtype)
    golden = spoil_golden(gradient(kind, x, incoming))
    rows = [shown(IN, came, incoming, dtype), shown(OUT, spoil(gradient(kind, mine, came)), golden, dtype)]
    found = OwnInputs(rows, Calls(rows, pairs_of(rows, {"a": kind}))).contradiction(1)
    return 0.0 if found is None else found.gap


def element(out):
    out = out.copy()
    out.flat[np.abs(out).argmax()] *= 4.0
    return out


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", [*FUNCTIONS, "softmax"])
def test_a_gradient_behind_gates_that_turned_breaks_no_law(kind, dtype):
    assert gap(kind, dtype=dtype) <= 1.0


@pytest.mark.parametrize("kind", [*FUNCTIONS, "softmax"])
@pytest.mark.parametrize("spoil", [element, lambda out: 5.0 * out], ids=["element", "factor"])
def test_one_that_is_steeper_than_the_function_does(kind, spoil):
    assert gap(kind, spoil) > 1.0


def test_a_softmax_whose_rows_do_not_add_up_to_zero_does():
    assert gap("softmax", lambda out: out + 0.5 * out.std(), dtype="float16") > 1.0


def test_where_the_golden_is_steeper_it_is_another_function():
    assert gap("elu", lambda out: 5.0 * out, spoil_golden=lambda out: 5.0 * out) == 0.0


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_the_steepest_slope_is_that_of_the_function(kind):
    most = float(np.abs(slope(kind, np.linspace(-8.0, 8.0, 40001))).max())
    assert most <= STEEPEST[kind.replace("_", "")] * (1 + 1e-6)
    assert most >= 0.99 * STEEPEST[kind.replace("_", "")]
