"""Leaves of dump.json that are no tensors (scalars, opaque things), and the canonical names of dtypes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from probe_flow.dumps.dump_json.numbers import MAX_BITS, BadNumberError

Scalar: TypeAlias = bool | int | float | str

_SCALAR_TYPES = re.compile(r"bool_?|int|float|complex|str_?|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
_DTYPE_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "float8_e8m0fnu": "float8_e8m0",
}

_TRUTH = {"True": True, "true": True, "False": False, "false": False}


@lru_cache(maxsize=1024)
def is_scalar_type(word: str) -> bool:
    """Say whether a leaf of this type is a Python or numpy scalar."""
    return _SCALAR_TYPES.fullmatch(word) is not None


def canonical_dtype(stored: str) -> str:
    """Return the canonical name of a torch, MindSpore or numpy dtype: ``float16`` for ``torch.half`` or ``Float16``."""
    if stored.startswith("torch."):
        word = stored.removeprefix("torch.")
        return _DTYPE_ALIASES.get(word, word)
    return stored.lower()


def typed_scalar(held: Scalar, word: str) -> Scalar:
    """Return a scalar as the Python value that its type says, for dumps that hold numbers as strings.

    Raises:
        BadNumberError: it is an integer beyond the range of float64.
    """
    if isinstance(held, str) and not word.startswith("str"):
        if word.startswith("bool"):
            return _TRUTH.get(held, held)
        try:
            held = float(held) if "float" in word else int(held)
        except ValueError:
            return held
    if isinstance(held, int) and held.bit_length() > MAX_BITS:
        raise BadNumberError(f"the value is an integer of {held.bit_length()} bits")
    return held


def opaque_text(value: Mapping[str, object]) -> str:
    """Return what people see of a thing without numeric meaning."""
    for key in ("value", "group_ranks", "format"):
        if key in value:
            return str(value[key])
    return ", ".join(f"{key}: {part}" for key, part in value.items() if key != "type")
