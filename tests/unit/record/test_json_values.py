"""Numbers as text, many at once: the same text as one by one."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.record import json_values
from probe_flow.record.json_values import number_texts


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=300, deadline=None)
def test_floats_are_written_as_repr_writes_them(values: list[float]) -> None:
    assert number_texts(values) == [repr(value) for value in values]


@pytest.mark.parametrize("value", [1e-5, -9.9e-5, 1e-4, 1.5e-10, 1e15, 1e16, -1e17, 1e100, 5e-324, -0.0, 10.00001])
def test_exponents_have_the_form_of_python(value: float) -> None:
    assert number_texts([value, 1.0]) == [repr(value), "1.0"]


def test_what_is_no_finite_float_is_a_word_or_exact() -> None:
    values = [None, True, False, math.nan, math.inf, -math.inf, 0, -7, 2**80]
    expected = ["null", "true", "false", '"nan"', '"inf"', '"-inf"', "0", "-7", str(2**80)]
    assert number_texts(values) == expected


def test_numpy_scalars_become_plain_numbers() -> None:
    values = [np.float64(1e-7), np.float32(2.5), np.int64(3), np.bool_(True)]
    assert [json.loads(text) for text in number_texts(values)] == [1e-7, 2.5, 3, True]


def test_no_numbers_give_no_texts() -> None:
    assert number_texts([]) == []


def test_another_form_of_floats_in_msgspec_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "_is_like_repr", lambda: False)
    assert number_texts([1e-5, None, math.nan, 1.5]) == ["1e-05", "null", '"nan"', "1.5"]
