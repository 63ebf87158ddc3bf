"""Put the arguments of a call where a function takes them: by place, and by the names that frameworks have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from probe_flow.apis.calls import UnusableError

OTHER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "axis": ("dim", "dims"),
        "dim": ("dims", "axis"),
        "dims": ("dim", "sizes"),
        "keepdims": ("keepdim",),
        "keep_dims": ("keepdim",),
        "self": ("input",),
        "x": ("input",),
        "input_x": ("input",),
        "a": ("input",),
        "tensor": ("input",),
        "logits": ("input",),
        "labels": ("target",),
        "y": ("other",),
        "size": ("shape", "sizes", "output_size"),
        "shape": ("sizes",),
        "repeats": ("sizes",),
        "value": ("other",),
        "min_value": ("min",),
        "max_value": ("max",),
        "exponent": ("other",),
        "split_size": ("split_size_or_sections",),
        "sections": ("split_size_or_sections",),
    }
)
"""Further names of parameters, where a function has none of the name that a call uses."""

_Parameters = Mapping[str, inspect.Parameter]


def bound(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """Return the arguments as a function takes them.

    Raises:
        UnusableError: it takes none of that name, or another number.
    """
    parameters = _parameters(function)
    placed, named = list(args), dict[str, Any]()
    rest = next((name for name, each in parameters.items() if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    for name, value in kwargs.items():
        if name == "out" and value is not None:
            raise UnusableError("it writes into a tensor that it was given")
        known = next((each for each in (name, *OTHER_NAMES.get(name, ())) if each in parameters), None)
        if known is None and name == "out":
            continue
        if known is None and not takes_any:
            raise UnusableError(f"argument `{name}` is not computed")
        if known is not None and known == rest:
            placed.append(value)
        else:
            named[known or name] = value
    try:
        return inspect.signature(function).bind(*placed, **named)
    except TypeError as error:
        raise UnusableError(f"its arguments are not those that are computed: {error}") from error


@dataclass(frozen=True)
class Named:
    """What a function takes by name only, and what of that it must be given."""

    all: frozenset[str]
    required: frozenset[str]


def keyword_only(function: Callable[..., Any]) -> Named:
    """Return the parameters that a function takes by name only."""
    named = [each for each in _parameters(function).values() if each.kind is inspect.Parameter.KEYWORD_ONLY]
    return Named(
        frozenset(each.name for each in named),
        frozenset(each.name for each in named if each.default is inspect.Parameter.empty),
    )


@lru_cache(maxsize=512)
def _parameters(function: Callable[..., Any]) -> _Parameters:
    return MappingProxyType(dict(inspect.signature(function).parameters))
