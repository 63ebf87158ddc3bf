"""Bounds such as ``>= 0.99`` that own policies and `only.where` state about metrics."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

from msgspec import Struct

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_BOUND = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf))\s*")


class Bound(Struct, frozen=True):
    """One comparison with a number. A missing or NaN value meets no bound."""

    symbol: str
    limit: float

    def holds(self, value: float | None) -> bool:
        """Say whether ``value`` meets the bound."""
        if value is None or math.isnan(value):
            return False
        return _OPERATORS[self.symbol](float(value), self.limit)

    def __str__(self) -> str:
        return f"{self.symbol} {self.limit:g}"


def parse_bound(text: str) -> Bound | None:
    """Return the bound that ``text`` states (``>= 0.99``, ``< 1e-3``, ``== 1``), or None when it states none."""
    match = _BOUND.fullmatch(text)
    return Bound(match.group(1), float(match.group(2))) if match else None


def checked_bound(text: str) -> str:
    """Return the text of a bound as it is.

    Raises:
        ValueError: it states none.
    """
    if parse_bound(text) is None:
        raise ValueError(f"`{text}` is no bound; write an operator and a number, e.g. `>= 0.99` or `< 1e-3`")
    return text
