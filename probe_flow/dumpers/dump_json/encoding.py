"""Turn arguments and results of a call into what a dump.json says of them.

Lists and tuples become lists; mappings, named tuples and dataclasses objects; numbers, texts and slices objects with
``type`` and ``value``; arrays of numpy their statistics. What only the framework knows (tensors, dtypes, devices) its
`Leaves` encode; anything else is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import EllipsisType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

MAX_DEPTH = 400
"""Of lists in lists, as msprobe has it."""

UNKNOWN = object()
"""What `Leaves.leaf` returns for a value that it does not know."""

_PLAIN = (bool, int, float, str)


class Leaves(Protocol):
    """The values that only a framework knows."""

    def leaf(self, value: Any, item: str, key: object) -> object:
        """Return what the dump says of a value, `UNKNOWN` if it is none of the framework.

        Args:
            value: what is recorded.
            item: name of the value, under which its elements are written.
            key: name of the argument or number in the list that the value is in.
        """
        ...

    def array(self, array: NDArray[Any], item: str) -> dict[str, Any]:
        """Return what the dump says of an array of numpy."""
        ...


def encoded(value: Any, item: str, leaves: Leaves, key: object = None, depth: int = 0) -> Any:
    """Return what the dump says of a value; `item` is its name."""
    found = leaves.leaf(value, item, key)
    if found is not UNKNOWN:
        return found
    if isinstance(value, _PLAIN):
        return {"type": type(value).__name__, "value": value}
    if value is None or depth > MAX_DEPTH:
        return None
    if isinstance(value, slice):
        return {"type": "slice", "value": [_number(each) for each in (value.start, value.stop, value.step)]}
    if isinstance(value, EllipsisType):
        return {"type": "ellipsis", "value": "..."}
    if isinstance(value, np.generic):
        return {"type": type(value).__name__, "value": value.item()}
    if isinstance(value, np.ndarray):
        return leaves.array(value, item)
    named = as_mapping(value)
    if named is not None:
        return {name: encoded(each, f"{item}.{name}", leaves, name, depth + 1) for name, each in named.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(each, f"{item}.{n}", leaves, n, depth + 1) for n, each in enumerate(value)]
    return None


def as_mapping(value: Any) -> Mapping[Any, Any] | None:
    """Return mappings, named tuples and dataclasses as a mapping; None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name, None) for each in fields(value)}
    return value if isinstance(value, dict) else None


def leaves_in(value: Any, is_wanted: Callable[[Any], bool], depth: int = 0) -> Iterator[Any]:
    """Yield the wanted values in lists, tuples and mappings."""
    if is_wanted(value):
        yield value
    elif depth > MAX_DEPTH:
        return
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves_in(each, is_wanted, depth + 1)
    elif isinstance(value, dict):
        for each in value.values():
            yield from leaves_in(each, is_wanted, depth + 1)


def array_statistics(array: NDArray[Any]) -> dict[str, Any]:
    """Return Max, Min, Mean and Norm of an array of any numbers, in float64; null where it has none."""
    if not array.size or array.dtype.kind not in "biufc":
        return dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    values = np.abs(array) if array.dtype.kind == "c" else array
    return {
        "Max": values.max().item(),
        "Min": values.min().item(),
        "Mean": float(values.mean(dtype=np.float64)),
        "Norm": float(np.linalg.norm(values.reshape(-1).astype(np.float64))),
    }


def _number(value: object) -> int | None:
    try:
        return None if value is None else int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
