"""Compact JSON in ASCII, which every reader takes whatever it thinks the encoding is."""

from __future__ import annotations

import json
from typing import Any

import msgspec


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
