"""Amounts of memory and disk as people write them in workflow files."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

_SIZE = re.compile(r"^([0-9]+(?:\.[0-9]+)?) ?([KMGT]i?)?B$")
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

Size = Annotated[str, Field(pattern=_SIZE.pattern)]
SIZES = ["4GiB", "500MB"]


def size_bytes(size: Size) -> int:
    """Return the bytes of a validated size: ``4GiB`` is 4 * 2**30, ``4GB`` is 4 * 10**9."""
    found = parse_size(size)
    assert found is not None
    return found


def parse_size(text: str) -> int | None:
    """Return the bytes that a text such as ``4GiB`` or ``0B`` means, None when it is no size."""
    match = _SIZE.match(text)
    return None if match is None else int(float(match[1]) * _UNITS.get(match[2], 1))
