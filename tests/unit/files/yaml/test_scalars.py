from __future__ import annotations

import math

import pytest

from probe_flow.files.yaml.scalars import read_plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0.25", -0.25),
        ("+12", 12),
        ("012", 12),
        ("0o17", 15),
        ("0xff", 255),
        ("-.inf", -math.inf),
        (".INF", math.inf),
        ("true", True),
        ("FALSE", False),
        ("", None),
        ("~", None),
        ("Null", None),
    ],
)
def test_core_schema_values(text: str, value: object) -> None:
    assert read_plain(text) == value
    assert type(read_plain(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "yes",
        "Off",
        "y",
        "12:30",
        "1:2:3",
        "2024-01-31",
        "1_000",
        "0b101",
        "tRUE",
        "nULL",
        "-0x1",
        "1e",
        "e5",
        ".",
        "+",
        "١٢",
    ],
)
def test_everything_else_is_text(text: str) -> None:
    assert read_plain(text) == text


def test_nan() -> None:
    value = read_plain(".NaN")
    assert isinstance(value, float)
    assert math.isnan(value)


def test_numbers_longer_than_any_float_are_refused() -> None:
    with pytest.raises(OverflowError):
        read_plain("1" * 5000)
