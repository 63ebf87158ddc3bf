"""Values as strict JSON: NaN and infinities as words, numbers exact, any dump value made harmless.

Many numbers become text at once, in the form of `repr`: result files consist of little else, and `repr` is slow.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from json.encoder import encode_basestring as quoted
from typing import Any

from msgspec.json import Encoder as JsonEncoder

from probe_flow.record.types.values import Figure

WORDS = frozenset({"nan", "inf", "-inf"})
"""How JSON texts of ours spell the numbers that JSON lacks."""

_MAX_DEPTH = 32
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Characters that JSON allows inside a text and that many line readers split at."""


Number = float | int | bool | None

_ONE_DIGIT = re.compile(rb"e-(?=\d,)")
_BARE_EXPONENT = re.compile(rb"e(?=\d)")
_SMALL = re.compile(rb"0\.0000")
_SAMPLES = (
    0.0, -0.0, 1.0, 0.1, 1e-4, 9.9e-5, 1.5e-5, -1e-5, 10.00001, 9.5e-6, 2.5e-9, 5e-324, 1e15, 1e16, 1e22,
    1.7976931348623157e308, 3, True,
)  # fmt: skip


def json_number(value: float | None) -> Figure:
    """Return a number that JSON can hold: ``"nan"``, ``"inf"`` and ``"-inf"`` in words, everything else unchanged."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def number(value: object) -> float | None:
    """Return a number of a record, whose NaN and infinities are words; None for everything else."""
    if isinstance(value, (bool, int, float)):
        try:
            return float(value)
        except OverflowError:  # integers have no bounds in JSON
            return float("inf") if value > 0 else float("-inf")
    return float(value) if isinstance(value, str) and value in WORDS else None


def json_value(value: object, *, depth: int = 0) -> Any:
    """Return any value of a dump as JSON: scalars, texts, lists and mappings as they are, the rest as its text.

    Complex numbers become ``{"real", "imag"}``, numpy scalars plain ones. Nesting beyond 32 levels is cut to text, so
    that a hostile file cannot exhaust the stack.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return json_number(value)
    if isinstance(value, complex):
        return {"real": json_number(value.real), "imag": json_number(value.imag)}
    if depth >= _MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return {str(key): json_value(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item, depth=depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((json_value(item, depth=depth + 1) for item in value), key=repr)
    plain = getattr(value, "item", None)  # numpy scalars, without importing numpy
    if callable(plain) and getattr(value, "shape", None) == ():
        return json_value(plain(), depth=depth + 1)
    return str(value)


# Numpy scalars that slipped into a record become plain numbers; nothing else reaches `default`.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=json_value)


def json_text(value: object) -> str:
    """Return a value of JSON as text, a part of a line that passes `unsplit`."""
    if type(value) is str:
        return quoted(value)
    if type(value) is int:
        return str(value)
    if value is None:
        return "null"
    if value is False or value is True:
        return "true" if value else "false"
    return _ENCODER.encode(value)


def any_json_text(value: object) -> str:
    """Return any value as text, made harmless by `json_value` where JSON cannot hold it as it is."""
    try:
        return _ENCODER.encode(value)
    except (ValueError, TypeError, RecursionError):
        return _ENCODER.encode(json_value(value))


def unsplit(text: str) -> str:
    """Return JSON with nothing in it that line readers split at, but for its line ends."""
    return text if text.isascii() else text.translate(_LINE_ENDS)


def number_texts(values: Sequence[Number]) -> list[str]:
    """Return each number as it stands in JSON: ``null``, ``true``, exact integers, floats as `repr` writes them.

    NaN and infinities are ``"nan"``, ``"inf"``, ``"-inf"``, quotes included.
    """
    if values.count(None) == len(values):  # as counts of NaN are, where a dump records none
        return ["null"] * len(values)
    texts = _together(values) if _is_like_repr() else []
    return texts if len(texts) == len(values) else _one_by_one(values)


@cache
def _is_like_repr() -> bool:
    """Say whether msgspec's floats, put into Python's form, are those of `repr`: another version may differ."""
    return _together(_SAMPLES) == _one_by_one(_SAMPLES)


def _one_by_one(values: Sequence[Number]) -> list[str]:
    return [json_text(json_number(value)) for value in values]


def _plain_number(value: object) -> object:
    """Return a scalar of numpy, of which some are floats to Python, as a plain number."""
    plain = getattr(value, "item", None)
    return plain() if callable(plain) else json_value(value)


_TOGETHER = JsonEncoder(enc_hook=_plain_number)


def _together(values: Sequence[Number]) -> list[str]:
    text = _TOGETHER.encode(values)[1:-1] + b","
    if b"e" in text:  # 1e-7 and 1e16 are 1e-07 and 1e+16 in Python
        text = _ONE_DIGIT.sub(b"e-0", _BARE_EXPONENT.sub(b"e+", text))
    texts = text[:-1].decode("utf-8").split(",")
    place, before = 0, 0
    for found in _SMALL.finditer(text):  # and 0.000015 is 1.5e-05; in 10.00001 nothing changes
        place += text.count(b",", before, found.start())
        before = found.start()
        texts[place] = _with_exponent(texts[place])
    if b"null" in text:  # NaN and infinities too
        for place, value in enumerate(values):
            if value is not None and texts[place] == "null":
                texts[place] = _one_text(value)
    return texts


def _with_exponent(text: str) -> str:
    """Return a number with four zeros behind the point as `repr` writes it, by its digits."""
    sign, _, digits = text.partition("0.0000")
    return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e-05" if sign in ("", "-") else text


def _one_text(value: Number) -> str:
    return repr(value) if type(value) is float and math.isfinite(value) else json_text(json_number(value))
