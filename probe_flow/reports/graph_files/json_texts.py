"""Compact JSON in ASCII, which every reader takes whatever it thinks the encoding is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

import msgspec

json_name = encode_basestring_ascii
"""Return a text as JSON."""


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON."""
    try:
        found = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()
    return found if found.isascii() else json.dumps(value, separators=(",", ":")).encode()


def json_string(value: Any) -> str:
    """Return the same as text."""
    return json_bytes(value).decode("ascii")


def inside_strings(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as they stand between the quotes of JSON."""
    return texts if _PLAIN.fullmatch("".join(texts)) else [json_string(text)[1:-1] for text in texts]


_PLAIN = re.compile(r"[ !#-\[\]-~]*")


def members(values: dict[str, str]) -> str:
    """Return members of an object that follow others."""
    return f",{json_string(values)[1:-1]}" if values else ""
