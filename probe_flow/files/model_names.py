"""The forms of a model's name: ``module:attribute``, or a path with or without ``:attribute``. Touches no file."""

from __future__ import annotations

import re
from pathlib import Path

DEFAULT_ATTRIBUTE = "model"
"""What is taken from a Python file or package that is named without an attribute."""

_MODULE = r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*"
MODULE_ATTRIBUTE = rf"^{_MODULE}$"
"""Pattern of ``module:attribute``."""

MODEL = rf"^({_MODULE}|.*/.*|[^:]*\.[A-Za-z0-9]+)$"
"""Pattern of a model: one that is no ``module:attribute`` has a slash or an ending."""

_CODE = ".py"
_PATH = re.compile(r"(?P<path>.*?)(:(?P<attribute>[A-Za-z_][A-Za-z0-9_.]*))?", re.DOTALL)


def split_model(name: str) -> tuple[Path | None, str | None]:
    """Return path and attribute of a model: no path for ``module:attribute``, no attribute where none is given.

    >>> split_model("net:build"), split_model("nets/small.py:build"), split_model("small.model")
    ((None, 'build'), (PosixPath('nets/small.py'), 'build'), (PosixPath('small.model'), None))
    """
    path = path_in(name)
    if path is None:
        return None, name.partition(":")[2]
    return Path(path), name[len(path) + 1 :] or None


def path_in(name: str) -> str | None:
    """Return the part of a model's name that is a path; None for ``module:attribute`` and for what names no model."""
    is_module = re.match(MODULE_ATTRIBUTE, name) and not name.partition(":")[0].endswith(_CODE)
    if is_module or not re.match(MODEL, name, re.DOTALL):
        return None
    found = _PATH.fullmatch(name)
    return found["path"] if found is not None else None
