"""Read a plain YAML scalar by the YAML 1.2 core schema, not by PyYAML's YAML 1.1.

So ``1e-3`` is a number, ``no`` and ``on`` are text, ``012`` is 12, ``12:30`` and ``2024-01-01`` are text.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Scalar: TypeAlias = "bool | int | float | str | None"

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INF = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})

MAX_DIGITS = 400
"""Longest number that is read; a float64 needs no more than 309 digits before the point."""


def read_plain(text: str) -> Scalar:
    """Return the value of an unquoted, untagged scalar.

    Raises:
        OverflowError: a number of more than `MAX_DIGITS` characters.
    """
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    number = read_number(text)
    return text if number is None else number


def read_number(text: str) -> int | float | None:
    """Return the number that a text is, or None where it is not one.

    Raises:
        OverflowError: a number of more than `MAX_DIGITS` characters.
    """
    for pattern, base in ((_INT, 10), (_OCTAL, 8), (_HEX, 16)):
        if pattern.fullmatch(text):
            return int(_short(text), base)
    if _FLOAT.fullmatch(text):
        return float(_short(text))
    if _INF.fullmatch(text):
        return float(text.replace(".", "").lower())
    return float("nan") if text in _NAN else None


def _short(text: str) -> str:
    if len(text) > MAX_DIGITS:
        raise OverflowError(f"a number of {len(text)} characters; {MAX_DIGITS} are the most")
    return text


def tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar that carries a core tag such as ``!!str``.

    Raises:
        ValueError: the text is no value of that tag.
        OverflowError: a number of more than `MAX_DIGITS` characters.
        KeyError: the tag is not one of the core schema's scalars.
    """
    kind = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}[tag]
    if kind is str:
        return text
    value = read_plain(text)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"`{text}` is not a value of `!!{tag}`")
    return value
