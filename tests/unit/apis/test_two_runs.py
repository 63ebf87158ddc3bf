"""Results judged by the standard of their API, with another device."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy_side import NumpySide

from probe_flow.apis.calls import Call, TensorSpec
from probe_flow.apis.check import judge_by_standards
from probe_flow.apis.run import How, Runner
from probe_flow.apis.side import Held, Result
from probe_flow.apis.two_runs import judge_by_standard
from probe_flow.apis.values import per_slot


def of(values: Any, dtype: str) -> Result:
    return Result((0,), Held(np.array(values, "float32" if dtype == "bfloat16" else dtype), dtype))


def judged(api: str, tested: Result, exact: Result, other: Result | None = None) -> tuple[bool, str]:
    found = judge_by_standard(api, 1e-4, tested, exact, other)
    return found.is_right, found.message


def test_an_error_of_one_unit_of_large_values_passes_by_the_standard_of_its_api() -> None:
    exact = np.array([1e15, -3e17, 5e18])
    tested = exact.astype(np.float32)
    tested[1] = np.nextafter(tested[1], np.float32(0))
    assert judged("matmul", of(tested, "float32"), of(exact, "float64")) == (True, "")
    # 1 % off is 80,000 units and more.
    wrong, message = judged("matmul", of(exact * 1.01, "float32"), of(exact, "float64"))
    assert not wrong
    assert message.startswith("ulp standard: ")


def test_limits_of_one_run_hold_for_the_benchmark_rounded_to_the_type() -> None:
    """1e-4 lies between two numbers of bfloat16, 2e-7 off; msprobe's limit for values this small is 1e-16."""
    exact = np.array([1e-4, 1.0])
    tested = exact.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert judged("mul", of(tested, "bfloat16"), of(exact.astype(np.float32), "float32")) == (True, "")
    right, message = judged("mul", of(tested * 1.02, "bfloat16"), of(exact.astype(np.float32), "float32"))
    assert not right
    assert message == (
        "absolute threshold standard: share of relative errors beyond the limit 1 is above 0; "
        "share of absolute errors beyond the limit 1 is above 0"
    )


def test_benchmark_errors_may_be_twice_those_of_the_other_device() -> None:
    """Of 1, the other device is off by 2**-10, the tested one by twice and by 2.5 times as much."""
    exact, other = of([1.0, 1.0], "float64"), of([1 + 2**-10, 1 - 2**-10], "float32")
    assert judged("softmax", of([1 + 2**-9, 1 - 2**-9], "float32"), exact, other)[0]
    right, message = judged("softmax", of([1 + 5 * 2**-11, 1 - 5 * 2**-11], "float32"), exact, other)
    assert not right
    assert "root mean square error is 2.5 times that of the other device, more than 2" in message
    # Without the other device its errors count as 2**-14, the least of float32.
    right, message = judged("softmax", of([1 + 2**-9, 1 - 2**-9], "float32"), exact)
    assert not right
    assert "is 32 times" in message


def test_what_no_standard_judges_goes_by_cosine_and_absolute_error() -> None:
    assert judged("exp", of([1.0], "float64"), of([1.00001], "float64")) == (True, "")
    right, message = judged("exp", of([1.0], "float64"), of([1.001], "float64"))
    assert not right
    assert "largest absolute error" in message
    assert judged("item", Result((0,), 3), Result((0,), 3)) == (True, "")


@pytest.mark.parametrize(
    ("tested", "exact", "is_right"),
    [
        ([np.nan, 1], [np.nan, 1], True),
        ([np.nan, 1], [2, 1], False),
        ([np.inf], [1e39], True),  # beyond float32, whatever computes it
        ([1], [np.inf], False),
        ([], [], True),
        ([1, 2], [1], False),
    ],
)
def test_what_is_not_finite_or_of_another_shape(tested: Any, exact: Any, is_right: bool) -> None:
    assert judged("exp", of(tested, "float32"), of(exact, "float64"))[0] is is_right


def test_integers_are_compared_exactly() -> None:
    assert judged("add", of([2**62], "int64"), of([2**62], "int64")) == (True, "")
    assert judged("add", of([2**62 + 1], "int64"), of([2**62], "int64"))[1].startswith("binary standard")


def test_the_other_device_gets_the_same_values_in_the_recorded_types() -> None:
    spec = TensorSpec("float32", (100,), 1.0, 2.0)
    call = Call("Mint", "exp", (spec,), {}, ())

    def run(other: NumpySide | None, factor: float) -> Any:
        how = How("raise_one", judge_of_two=judge_by_standards("exp", 1e-4))
        tested = NumpySide("tested", {"exp": factor})
        return Runner(tested, NumpySide("benchmark"), per_slot("a"), how, other).run(call)

    assert run(NumpySide("other"), 1.0).is_right
    assert not run(NumpySide("other"), 1.01).is_right
    assert run(NumpySide("other", {"exp": 1.01}), 1.01).is_right, "no worse than the other"
    assert not run(NumpySide("other", without=["exp"]), 1.01).is_right
