"""What lies at a path that somebody typed, as far as one may look: a name that no file can have holds nothing.

`pathlib` raises for names that are too long and for folders that may not be searched.
"""

from __future__ import annotations

import os
from pathlib import Path


def is_file(path: str | os.PathLike[str]) -> bool:
    r"""Say whether a regular file is there.

    >>> is_file("a" * 5000), is_file("a\0b")
    (False, False)
    """
    return os.path.isfile(path)  # noqa: PTH113


def real_path(path: Path) -> Path:
    """Return where a path leads, all links followed; a link to itself leads to itself.

    `Path.resolve` fails at such a link, with a `RuntimeError` before Python 3.13.
    """
    return Path(os.path.realpath(path))


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Say whether a folder is there."""
    return os.path.isdir(path)  # noqa: PTH112


def is_there(path: str | os.PathLike[str]) -> bool:
    """Say whether anything is there."""
    return os.path.exists(path)  # noqa: PTH110
