"""Overflows: what a dump records of them, and how they are judged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from probe_flow.apis.overflow import ABNORMAL, ABNORMAL_BENCHMARK, NORMAL, judge_overflow, overflowed
from probe_flow.apis.side import Held, Result

INF, NAN = math.inf, math.nan


def tensor(**more: Any) -> dict[str, Any]:
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], **more}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([], False),
        ([None], False),
        ([tensor(Max=1, Min=-1, Mean=0.0, Norm=2.0)], False),
        ([tensor(Max=INF, Min=0)], True),
        ([tensor(Max=1, Min=-INF)], True),
        ([tensor(Max=NAN, Min=NAN)], True),
        ([tensor(Max=3e38, Min=0, Mean=INF)], True),
        ([tensor(Max=True, Min=False)], False),
        ([tensor()], None),
        ([tensor(Max=None, Min=None)], None),
        ([tensor(Max=None, Min=None, shape=[0, 2])], False),
        ([tensor(), tensor(Max=INF)], True),
        ([[tensor(Max=1)], {"a": tensor(Max=NAN)}], True),
        ([{"type": "float", "value": INF}], True),
        ([{"type": "int", "value": 10**400}], False),
        ([{"type": "str", "value": "inf"}], False),
        (None, False),
    ],
)
def test_what_a_dump_records(output: object, expected: bool | None) -> None:
    assert overflowed({"output": output}) is expected


def held(*values: float, dtype: str = "float32") -> Result:
    return Result((0,), Held(np.array(values, dtype), dtype))


@pytest.mark.parametrize(
    ("tested", "benchmark", "message"),
    [
        (held(1, INF), held(1, INF), NORMAL),
        # Which element overflows is no matter of this check: acc_check compares them.
        (held(NAN, 1), held(1, -INF), NORMAL),
        (held(1, NAN), held(1, 2), ABNORMAL),
        (held(1, 2), held(1, INF), ABNORMAL_BENCHMARK),
        (held(1, 2), held(5, 6), ""),
        (held(1, dtype="int64"), held(2, dtype="int64"), ""),
        (held(), held(), ""),
        (Result((0,), INF), Result((0,), NAN), NORMAL),
        (Result((0,), None), Result((0,), None), ""),
        (Result((0,), 10**400), Result((0,), "a"), ""),
    ],
)
def test_both_overflowing_is_normal(tested: Result, benchmark: Result, message: str) -> None:
    found = judge_overflow(tested, benchmark)
    assert found.message == message
    assert found.is_right is (message in ("", NORMAL))
