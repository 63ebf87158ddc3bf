"""A user's own statistics: functions by import path that turn one tensor into a vector of a fixed length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.errors import Diagnostic, FormatError, UsageError

MAX_FUNCTION_BYTES = 2**30
"""A function sees a tensor as a whole; larger ones are not given to it, so that memory stays bounded."""

MAX_LENGTH = 1024
Function = Callable[[NDArray[Any]], Any]


class UserFunction(Struct, frozen=True):
    """A function that passed its trial.

    Args:
        path: ``module:function``.
        length: figures that it returns for every tensor.
    """

    path: str
    length: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its figures in reduced files."""
        return (self.path,) if self.length == 1 else tuple(f"{self.path}[{index}]" for index in range(self.length))

    def figures(self, values: NDArray[Any]) -> tuple[float, ...]:
        """Call the function.

        Raises:
            FormatError: PF3233 when it fails or returns something else than it did at its trial.
        """
        try:
            found = _vector(_import(self.path)(values))
        except (Exception, SystemExit) as exc:  # a user's function may raise anything; it costs the file
            raise _failed(f"`{self.path}` failed: {type(exc).__name__}: {exc}") from exc
        if len(found) != self.length:
            raise _failed(f"`{self.path}` returned {len(found)} figures, {self.length} at its trial")
        return found


def load_functions(paths: Sequence[str]) -> tuple[UserFunction, ...]:
    """Import functions and try each on a small float32 tensor.

    Raises:
        UsageError: PF6303 with every function that cannot be imported or does not return a vector of numbers.
    """
    tried = [_try(path) for path in paths]
    problems = [each for each in tried if isinstance(each, Diagnostic)]
    if problems:
        raise UsageError(problems)
    return tuple(each for each in tried if isinstance(each, UserFunction))


def _try(path: str) -> UserFunction | Diagnostic:
    try:
        return UserFunction(path, len(_vector(_import(path)(np.ones((2, 3), np.float32)))))
    except (Exception, SystemExit) as exc:  # whatever the user's module raises
        return Diagnostic(
            "PF6303",
            f"`{path}` cannot be used: {type(exc).__name__}: {exc}",
            help="name it as `module:function`, importable here; it takes an array and returns 1 to "
            f"{MAX_LENGTH} numbers",
        )


def check_room(nbytes: int) -> None:
    """Raise PF3233 (FormatError) for a tensor that is too large to be given to a function."""
    if nbytes > MAX_FUNCTION_BYTES:
        raise _failed(f"a tensor of {nbytes} bytes is too large for functions (at most {MAX_FUNCTION_BYTES})")


@cache
def _import(path: str) -> Function:
    module, _, name = path.partition(":")
    found: object = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError("it is no function")
    return found


def _vector(found: Any) -> tuple[float, ...]:
    values = np.asarray(found)
    if values.dtype.kind not in "biuf" or values.ndim > 1 or not 0 < values.size <= MAX_LENGTH:
        raise TypeError(f"it returns {values.dtype} of shape {list(values.shape)}, not 1 to {MAX_LENGTH} numbers")
    return tuple(float(value) for value in values.reshape(-1))


def _failed(message: str) -> FormatError:
    return FormatError(
        Diagnostic("PF3233", message, help="correct the function; the dumped file is kept as it is, reduce it again")
    )


def nothing(count: int) -> tuple[float, ...]:
    """Return the figures of a tensor that has none."""
    return (math.nan,) * count
