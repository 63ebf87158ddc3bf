"""Numbers of dump.json, taken with care: they may be null, text, booleans, NaN, or nothing of the kind."""

from __future__ import annotations

import re
from collections.abc import Mapping

_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_NO_NUMBER = frozenset({"", "None", "null", "N/A"})
_TRUTH = {"True": True, "true": True, "False": False, "false": False}
MAX_BITS = 1023
"""Integers beyond this have no float64 counterpart to compare with."""

MAX_DIMENSION = 2**63 - 1


class BadNumberError(ValueError):
    """A value that should be a number is not one; the text says which and what stands there."""


def statistic(value: Mapping[str, object], key: str) -> float | int | bool | None:
    """Return one recorded statistic: null and absent give None, text is parsed.

    Raises:
        BadNumberError: it is no number.
    """
    raw = value.get(key)
    if raw is None or isinstance(raw, float):
        return raw
    if isinstance(raw, str):
        raw = _from_text(raw, key)
    if isinstance(raw, int) and raw.bit_length() > MAX_BITS:
        raise BadNumberError(f"`{key}` is an integer of {raw.bit_length()} bits")
    if raw is None or isinstance(raw, (bool, int, float)):
        return raw
    raise BadNumberError(f"`{key}` is a {type(raw).__name__} instead of a number")


def _from_text(text: str, key: str) -> float | int | bool | None:
    word = text.strip()
    if word in _NO_NUMBER:
        return None
    if word in _TRUTH:
        return _TRUTH[word]
    try:
        return int(word) if _INTEGER.fullmatch(word) else float(word)
    except ValueError:
        raise BadNumberError(f"`{key}` is the text `{text[:40]}` instead of a number") from None


def dimension(raw: object) -> int:
    """Return one dimension of a shape.

    Raises:
        BadNumberError: it is no integer from 0 to 2**63 - 1.
    """
    if isinstance(raw, str) and raw.isdecimal() and len(raw) < 20:
        raw = int(raw)
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= MAX_DIMENSION:
        return raw
    raise BadNumberError(f"the shape holds `{str(raw)[:40]}`")
