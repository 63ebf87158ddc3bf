"""Gradients of a dump held against those computed again: by hand, turned, flattened, and left alone."""

from __future__ import annotations

import numpy as np
import pytest
from api_calls import Form, arrays_in, call_of

from probe_flow.apis.calls import Gradients, TensorSpec, UnusableError
from probe_flow.apis.numpy_core import names
from probe_flow.apis.numpy_core.gradients.errors import own_gradient_errors
from probe_flow.apis.numpy_core.gradients.rules import rule_of
from probe_flow.apis.values import hf32

UNITS = {"float32": 2.0**-20, "float16": 2.0**-11}
RANDOM = np.random.default_rng(3)
X, W, B, G = (RANDOM.standard_normal(shape) for shape in ((6, 4), (5, 4), (5,), (6, 5)))


def errors(form: Form, result: np.ndarray, incoming: list, dumped: list, floats: str = "float32") -> list:
    def named(array):
        return floats if array.dtype.kind == "f" else str(array.dtype)

    def spec(array):
        return TensorSpec(named(array), array.shape)

    call = call_of(form, [result], named)
    gradients = Gradients(tuple(map(spec, incoming)), tuple(map(spec, dumped)))
    arrays = arrays_in(tuple(form.args))
    found = own_gradient_errors(
        names.find(form.kind, form.api), call, gradients, lambda place, _: arrays[place],
        lambda end, place, _: {"input": incoming, "output": dumped, "result": [result]}[end][place[0]], UNITS,
        limit_bytes=2**30,
    )  # fmt: skip
    return [own.worst[3] for own in found]


LINEAR = Form("Functional", "linear", [X, W, B])


def test_the_gradients_of_a_linear_layer_are_known_in_any_order_and_turned():
    due = [G.sum(axis=0), G @ W, (G.T @ X).T]
    assert max(errors(LINEAR, X @ W.T + B, [G], due)) < 0.1
    assert max(errors(LINEAR, X @ W.T + B, [G], due[::-1])) < 0.1
    wrong = errors(LINEAR, X @ W.T + B, [G], [due[0], due[1] * 1.01, due[2]])
    assert wrong[0] < 0.1
    assert wrong[1] > 10
    assert wrong[2] < 0.1


@pytest.mark.parametrize("turned", [np.copy, np.transpose])
def test_the_gradient_of_square_weights_is_known_as_it_is_and_turned(turned):
    weights = RANDOM.standard_normal((4, 4))
    gradient = RANDOM.standard_normal(X.shape)
    layer, due = Form("Functional", "linear", [X, weights]), turned(gradient.T @ X)
    assert max(errors(layer, X @ weights.T, [gradient], [gradient @ weights, due])) < 0.1
    assert errors(layer, X @ weights.T, [gradient], [gradient @ weights, 1.01 * due])[1] > 10


def test_gradients_of_products_in_hf32_are_right_and_wrong_ones_are_not():
    x, w, g = (RANDOM.standard_normal((64, 64)) for _ in range(3))
    layer, result = Form("Functional", "linear", [x, w]), x @ w.T
    narrow = [hf32(each).astype("f8") for each in (x, w, g)]
    due = [narrow[2] @ narrow[1], narrow[2].T @ narrow[0]]
    exact = [g @ w, g.T @ x]
    assert min(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(due, exact, strict=True)) > 1e-4
    assert max(errors(layer, result, [g], due)) < 1.0
    assert errors(layer, result, [g], [due[0] * 1.001, due[1]])[0] > 10
    assert errors(layer, result, [g], [due[0], np.roll(due[1], 1, axis=0)])[1] > 10


def test_a_gate_lets_through_what_its_input_says():
    form = Form("Functional", "relu", [X])
    given = RANDOM.standard_normal(X.shape)
    assert errors(form, np.maximum(X, 0), [given], [given * (X > 0)]) == [0.0]
    assert errors(form, np.maximum(X, 0), [given], [given])[0] > 10


@pytest.mark.parametrize(
    ("api", "slope"), [("rsqrt", lambda y: -0.5 * y**3), ("reciprocal", lambda y: -y * y), ("sqrt", lambda y: 0.5 / y)]
)
def test_a_gradient_that_is_made_of_the_stored_result_is_right_however_that_was_rounded(api, slope):
    """Three roundings down to nine bits are one factor, which the result explains and the input does not."""
    form = Form("Torch", api, [np.abs(X) + 0.5])
    exact = {"rsqrt": lambda x: x**-0.5, "reciprocal": lambda x: 1 / x, "sqrt": np.sqrt}[api](form.args[0])
    mantissa, exponent = np.frexp(exact)
    stored = np.ldexp(np.floor(mantissa * 512) / 512, exponent)
    given = RANDOM.standard_normal(X.shape)
    assert errors(form, stored, [given], [given * slope(stored)]) == [0.0]
    assert errors(form, exact, [given], [given * slope(stored)])[0] > 10
    assert errors(form, stored, [given], [given * slope(stored) * 1.02])[0] > 10


def test_the_gradient_of_a_cross_entropy_may_be_that_of_the_picking_behind_its_log_softmax():
    """Which torch records: its last node picks. A third at each class that is due, whatever the scores are."""
    form, place = Form("Functional", "cross_entropy", [X, np.array([0, 2, 1, 3, 2, 0])]), np.arange(6)
    due, given = np.zeros(X.shape), np.array(1.5)
    due[place, form.args[1]] = -1.5 / 6
    assert errors(form, np.array(1.0), [given], [due])[0] < 0.1
    assert errors(form, np.array(1.0), [given], [1.02 * due])[0] > 10


def test_the_gradient_of_a_product_of_three_axes_may_be_that_of_the_view_behind_it():
    """A linear layer of as many outputs as inputs, of which torch records what reaches it, flattened."""
    source, weights = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal((4, 4))
    form, given = Form("Functional", "linear", [source, weights]), RANDOM.standard_normal((2, 3, 4))
    for due in (given.reshape(6, 4), (given @ weights).reshape(6, 4)):
        assert errors(form, source @ weights.T, [given], [due])[0] < 0.1
        assert errors(form, source @ weights.T, [given], [1.02 * due])[0] > 10


def test_what_is_picked_gets_the_gradient_and_equal_ones_share_it():
    """By hand: the largest of each row, of which the last row has two."""
    source = np.array([[1.0, 4.0, 2.0], [3.0, -1.0, 0.5], [2.0, 0.0, 2.0]])
    form, given = Form("Torch", "amax", [source, 1]), np.array([0.5, -2.0, 3.0])
    due = np.array([[0.0, 0.5, 0.0], [-2.0, 0.0, 0.0], [1.5, 0.0, 1.5]])
    assert errors(form, source.max(axis=1), [given], [due]) == [0.0]
    wrong = due + np.array([[0.0, 0.0, 0.25], [0.0] * 3, [0.0] * 3])
    assert errors(form, source.max(axis=1), [given], [wrong])[0] > 10


@pytest.mark.parametrize(
    ("form", "incoming", "dumped", "word"),
    [
        (LINEAR, [G], [np.ones((3, 3))], "none of its arguments has the size"),
        (LINEAR, [G, G], [G @ W], "not one incoming gradient"),
        (Form("Torch", "quantile", [X, 0.5, 0]), [X[0]], [X], "its gradient is not computed"),
        (Form("Torch", "cumprod", [np.maximum(X, 0), 0]), [X], [X], "a product with a zero"),
        (Form("Torch", "topk", [np.repeat(X, 2, axis=1), 3]), [X[:, :3]], [np.repeat(X, 2, axis=1)], "which of equal"),
        (Form("Torch", "matmul", [X[0], X.T]), [X[:, 0]], [X[0]], "product with a vector"),
        (Form("Functional", "relu", [X], {"inplace": True}), [X], [X], "works in place"),
        (Form("Functional", "relu_", [X]), [X], [X], "works in place"),
        (
            Form("Functional", "max_pool1d", [np.zeros((1, 1, 4)), 2]),
            [np.ones((1, 1, 2))],
            [np.ones((1, 1, 4))],
            "which of equal elements gets a gradient",
        ),
    ],
)
def test_what_is_not_understood_is_left_alone(form, incoming, dumped, word):
    with pytest.raises(UnusableError, match=word):
        errors(form, np.ones((6, 5)), incoming, dumped)


def test_the_gradient_of_a_saturated_softmax_is_that_of_its_rounded_result():
    """The shares of 8 and 0 in float16 are 0.99951 (1 - 2**-11) and 0.00033545; the first one is 0.99966 before."""
    x, incoming = np.array([[8.0, 0.0]], np.float16), np.array([[1.0, 0.0]], np.float16)
    result = np.array([[1.0 - 2.0**-11, 0.00033545]], np.float16)
    kept = result.astype(np.float64)
    due = (kept * (incoming - (incoming * kept).sum())).astype(np.float16)  # 0.000488; the input makes 0.000335
    form = Form("Torch", "softmax", [x, -1])
    assert errors(form, result, [incoming], [due])[0] < 1.0
    assert errors(form, result, [incoming], [(20.0 * due.astype(np.float64)).astype(np.float16)])[0] > 2.0


def test_the_gradient_of_hardswish_at_its_edges_is_that_beyond_them():
    # As torch 2.13 has it on a CPU; 16-bit inputs are exactly 3 or -3 often.
    rule = rule_of(names.find("Functional", "hardswish"))
    found = rule({"input": np.array([-3.0, 3.0, -2.5, 0.0])}, np.ones(4))["input"]
    assert found == pytest.approx([0.0, 1.0, -1 / 3, 0.5])


def added_one_by_one(terms: np.ndarray) -> np.ndarray:
    """Return the sums of rows as a float16 that each row is added to holds them."""
    total = np.zeros(terms.shape[1], np.float16)
    for row in terms.astype(np.float16):
        total = total + row
    return total


TERMS = RANDOM.standard_normal((512, 48)).astype(np.float16)


@pytest.mark.parametrize(
    ("form", "unused_rows"),
    [
        (Form("Functional", "embedding", [np.zeros(512, np.int64), np.ones((3, 48))]), 2),
        (Form("Functional", "layer_norm", [TERMS, [48], np.ones(48), np.zeros(48)]), 0),
    ],
    ids=["embedding", "layer_norm"],
)
def test_a_gradient_may_be_added_up_in_its_own_type(form, unused_rows):
    """Rounding alone explains half a step of float16; 512 rows, added one by one in it, are off by 5 steps."""
    added = added_one_by_one(TERMS)
    exact = TERMS.astype(np.float64).sum(axis=0)
    assert np.sqrt(np.mean((added - exact) ** 2) / np.mean(exact**2)) > 4.0 * UNITS["float16"]

    def score(total):
        gradient = np.vstack([total, np.zeros((unused_rows, 48))]) if unused_rows else total
        return errors(form, TERMS, [TERMS], [gradient], "float16")[0]

    assert score(added) < 1.0
    assert score(added * 1.05) > 1.5
