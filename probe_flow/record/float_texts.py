"""Many numbers as JSON text at once, in the form of `repr`: result files consist of little else, and `repr` is slow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pydantic_core

from probe_flow.record.json_values import json_number, json_text, json_value

Number = float | int | bool | None

_WORDS = ((b'"NaN"', b'"nan"'), (b'"Infinity"', b'"inf"'), (b'"-Infinity"', b'"-inf"'))
_ONE_DIGIT = re.compile(rb"e-(?=\d,)")
_BARE_EXPONENT = re.compile(rb"e(?=\d)")
_SMALL = re.compile(rb"0\.0000")
_SAMPLES = (0.0, -0.0, 1.0, 0.1, 1e-4, 1.5e-5, -1e-5, 2.5e-9, 5e-324, 1e15, 1e16, 1e22, 1.7976931348623157e308, 3, True)


def number_texts(values: Sequence[Number]) -> list[str]:
    """Return each number as it stands in JSON: ``null``, ``true``, exact integers, floats as `repr` writes them.

    NaN and infinities are ``"nan"``, ``"inf"``, ``"-inf"``, quotes included.
    """
    if not values:
        return []
    texts = _by_pydantic(values) if _is_like_repr() else []
    return texts if len(texts) == len(values) else _one_by_one(values)


@cache
def _is_like_repr() -> bool:
    """Say whether pydantic's floats, put into Python's form, are those of `repr`: another version may differ."""
    return _by_pydantic(_SAMPLES) == _one_by_one(_SAMPLES)


def _one_by_one(values: Sequence[Number]) -> list[str]:
    return [json_text(json_number(value)) for value in values]


def _by_pydantic(values: Sequence[Number]) -> list[str]:
    text = pydantic_core.to_json(values, inf_nan_mode="strings", fallback=json_value)[1:-1] + b","
    if b'"' in text:
        for theirs, ours in _WORDS:
            text = text.replace(theirs, ours)
    if b"e" in text:  # 1e-7 and 1e16 are 1e-07 and 1e+16 in Python
        text = _ONE_DIGIT.sub(b"e-0", _BARE_EXPONENT.sub(b"e+", text))
    texts = text[:-1].decode("utf-8").split(",")
    place, before = 0, 0
    for found in _SMALL.finditer(text):  # and 0.00001 is 1e-05; in 10.00001 nothing changes
        place += text.count(b",", before, found.start())
        before = found.start()
        value = values[place]
        texts[place] = repr(value) if type(value) is float else json_text(json_number(value))
    return texts
