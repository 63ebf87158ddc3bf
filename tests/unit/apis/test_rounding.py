"""A result that is nothing but rounding is no wrong one; one that is off by more stays wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_side import NumpySide

from probe_flow.apis import rounding
from probe_flow.apis.calls import Call, TensorSpec
from probe_flow.apis.check import by_rounding, judge_pytorch
from probe_flow.apis.run import Checked, How, Runner
from probe_flow.apis.side import Held, Result

ROWS, COLUMNS = 64, 32


def centred() -> Any:
    """Return what reaches a bias in front of a normalisation: gradients whose columns add up to zero but for rounding.

    Without that rounding, of one part in 2^24, they would be zero in mathematics.
    """
    values = np.random.default_rng(3).normal(size=(ROWS, COLUMNS))
    return (values - values.mean(0)).astype(np.float32)


def one_by_one(values: Any) -> Any:
    """Return the sums of columns as a kernel has them that adds row after row."""
    total = np.zeros(values.shape[1], values.dtype)
    for row in values:
        total += row
    return total


def checked(values: Any, kernel: Callable[[Any], Any]) -> Checked:
    """Check a call that adds up columns; the benchmark does so in float64."""
    tested = NumpySide("tested", others={"square": kernel})
    right = NumpySide("benchmark", others={"square": lambda values: values.sum(0)})
    how = How("raise_one", judge_pytorch("sum", "", "per_api"), is_pytorch=True, rounding=by_rounding())
    call = Call("Torch", "square", (TensorSpec("float32", values.shape, -9.0, 9.0),), {}, ())
    (found,) = Runner(tested, right, lambda _spec, _place: values, how).run(call).checked
    return found


def test_a_sum_that_is_nothing_but_rounding_is_no_error() -> None:
    found = checked(centred(), one_by_one)

    cosine = found.judgement.figures.cosine
    assert cosine is not None
    assert cosine < 0.99, "no check of figures lets it pass"
    assert (found.judgement.is_right, found.judgement.is_doubtful) == (False, True), "a warning of msprobe's tables"
    assert found.judgement.message.endswith(f"is not above 0.99; {rounding.WORDS}")


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(lambda values: one_by_one(values[: ROWS // 2]), id="half of the rows"),
        pytest.param(lambda values: one_by_one(values[1:]), id="all rows but one"),
        pytest.param(lambda values: one_by_one(values) + np.float32(1e-4), id="an offset"),
        pytest.param(lambda values: np.where(np.arange(COLUMNS) == 7, np.nan, one_by_one(values)), id="a NaN"),
    ],
)
def test_what_rounding_does_not_explain_stays_wrong(kernel: Callable[[Any], Any]) -> None:
    found = checked(centred(), lambda values: kernel(values).astype(np.float32))

    assert not found.judgement.is_right
    assert not found.judgement.is_doubtful
    assert rounding.WORDS not in found.judgement.message


def test_a_sum_of_some_size_may_not_be_off_by_three_per_cent() -> None:
    values = np.abs(centred())
    values[:, ::2] *= -1
    found = checked(values, lambda values: one_by_one(values) * np.float32(1.03))

    assert not found.judgement.is_right


@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8), ("float32", 2.0**-24)])
def test_floats_move_by_half_a_step_at_one(dtype: str, unit: float) -> None:
    ones, whole = Held(np.ones(1000), dtype), Held(np.arange(3), "int64")

    moved, same, nothing = by_rounding().moved([ones, whole, None], [Result((0,), ones)])

    assert moved is not None
    assert set(moved.values.tolist()) == {1.0 - unit, 1.0 + unit}
    assert same is whole
    assert nothing is None


def test_inputs_move_by_the_rounding_of_a_narrower_result() -> None:
    (moved,) = by_rounding().moved([Held(np.ones(1000), "float32")], [Result((0,), Held(np.ones(2), "bfloat16"))])

    assert moved is not None
    assert set(moved.values.tolist()) == {1.0 - 2.0**-8, 1.0 + 2.0**-8}
