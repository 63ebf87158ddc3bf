"""What lies at a path that somebody typed, as far as one may look: a name that no file can have holds nothing.

`pathlib` raises for names that are too long and for folders that may not be searched.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path

from probe_flow.errors import did_you_mean


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


def exists(path: Path) -> bool:
    """Say whether something is there, as far as one may look."""
    try:
        path.stat()
    except PermissionError:
        return True  # what stops the look is there
    except (OSError, ValueError):
        return False
    return True


def is_readable(path: Path) -> bool:
    """Say whether a file is there and can be read, or a folder listed."""
    try:
        mode = os.R_OK | (os.X_OK if path.is_dir() else 0)
        return os.access(path, mode)
    except (OSError, ValueError):
        return False


def first_names(folder: Path, *, limit: int = 1000) -> list[str]:
    """Return the names in a folder, for suggestions: none when it cannot be listed, `limit` at most."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in itertools.islice(entries, limit)]
    except OSError:
        return []


def why_missing(path: Path) -> tuple[str, str]:
    """Return what is wrong with a path at which nothing is, as its sentence goes on, and the next step."""
    link = next((part for part in (path, *path.parents) if _leads_nowhere(part)), None)
    if link is not None:
        which = "it" if link == path else f"`{link}`"
        return f"does not exist: {which} is a link to `{link.readlink()}`, where nothing is", "mend the link"
    parent = next(folder for folder in path.absolute().parents if exists(folder))
    missing = path.absolute().relative_to(parent).parts
    home = os.path.expanduser(os.path.join(*missing))  # noqa: PTH111, PTH118 (`Path` fails for unknown users)
    if missing[0].startswith("~") and is_there(home):
        return "does not exist", f"`~` means a folder to shells only: write `{home}`"
    near = did_you_mean(missing[0], first_names(parent))
    return "does not exist", f"{near} (in `{parent}`)" if near else f"`{parent}` is there, `{missing[0]}` is not in it"


def _leads_nowhere(path: Path) -> bool:
    return os.path.islink(path) and not is_there(path)  # noqa: PTH114 (`Path` fails for names that are too long)


def files_below(folder: Path, names: Collection[str], *, max_entries: int = 20_000) -> Iterator[Path]:
    """Yield files of such names, for suggestions, folder by folder in the order of names; looks at `max_entries`."""
    looked_at = 0
    for place, below, files in os.walk(folder):
        below.sort()
        yield from (Path(place, name) for name in sorted(files) if name in names)
        looked_at += len(below) + len(files)
        if looked_at > max_entries:
            return


def holds(path: Path, pattern: str, *, max_entries: int = 200_000) -> bool:
    """Say whether a file of that name pattern is `path` itself or lies below it; looks at `max_entries` names."""
    if is_file(path):
        return fnmatch(path.name, pattern)
    names = (name for _, _, files in os.walk(path) for name in files)
    return any(fnmatch(name, pattern) for name in itertools.islice(names, max_entries))
